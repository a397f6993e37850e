//! Names and labels, compared with Kubernetes' own checks.

use std::cell::RefCell;

use harness::oracle::Oracle;
use node_resource_advertiser::model::label::{is_dns_subdomain, is_label_value, is_qualified_name};
use node_resource_advertiser::model::resource_name::{ResourceName, is_extended};

type Check = fn(&str) -> bool;

/// The oracle's mode, and the function that must agree with it.
const CHECKS: [(&str, Check); 4] = [
    ("resource-name", is_extended),
    ("label-key", is_qualified_name),
    ("label-value", is_label_value),
    // The names of rules and nodes.
    ("subdomain", is_dns_subdomain),
];

thread_local! {
    static ORACLES: RefCell<[Oracle; 4]> = RefCell::new(CHECKS.map(|(mode, _)| Oracle::start(mode)));
}

/// Kubernetes accepts and rejects the same names.
pub fn check(bytes: &[u8]) {
    let Ok(name) = str::from_utf8(bytes) else { return };
    ORACLES.with_borrow_mut(|oracles| {
        for ((mode, ours), oracle) in CHECKS.into_iter().zip(oracles) {
            assert_eq!(oracle.ask(name).as_bool(), Some(ours(name)), "{mode} {name:?}");
        }
    });
    let parsed = ResourceName::parse(name);
    assert_eq!(parsed.is_ok(), is_extended(name), "{name:?}");
    if let Err(error) = parsed {
        let message = error.to_string();
        assert!(!message.contains(char::is_control) && message.len() < 2_000, "{message:?}");
    }
}
