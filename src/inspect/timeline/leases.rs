//! Leases: which process leads, since when, or until when one led.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;

use super::entry::{Entry, Source};
use crate::election::holder::{self, Kind};

/// Returns when the holder of a Lease took it, and when leadership ended, if nobody leads by it at `now`.
pub(super) fn entries(lease: &Lease, now: Timestamp) -> Vec<Entry> {
    let metadata = &lease.metadata;
    let [namespace, name] = [&metadata.namespace, &metadata.name].map(|part| part.as_deref().unwrap_or_default());
    let who = holder::holder(lease);
    let entry = |when: Option<Timestamp>, is_warning: bool, what: String| Entry {
        when: when.into(),
        source: Source::Lease,
        nodes: Vec::new(),
        rule: None,
        who: who.map(str::to_owned),
        is_warning,
        what,
        owns: Vec::new(),
    };
    let Some(spec) = &lease.spec else { return Vec::new() };
    let named = format!("the Lease {namespace}/{name}");
    let [took, ended] = match who.map(Kind::of) {
        Some(Kind::Controller) => ["became the leader", "stopped leading without a release of"],
        Some(Kind::Prune | Kind::EndedPrune) => {
            ["kept controllers from writing", "kept controllers from writing until then, by"]
        }
        None => {
            let renewed = spec.renew_time.as_ref().map(|time| time.0);
            return vec![entry(
                renewed,
                true,
                format!("last renewal of {named}, before its release: no controller leads"),
            )];
        }
    };
    let acquired = spec.acquire_time.as_ref().map(|time| time.0);
    let transitions = spec.lease_transitions.unwrap_or_default();
    let start = entry(acquired, false, format!("{took} by transition {transitions} of {named}"));
    let is_over = !holder::is_live(lease, now);
    let end = is_over.then(|| entry(holder::expiry(lease), true, format!("{ended} {named}")));
    [start].into_iter().chain(end).collect()
}
