//! The ledger, which the policy reads in CEL, and the program as JSON: both read the same.
//!
//! Method: write ledgers with the token of the chart's ServiceAccount: those that were once read differently, and random
//! ones. Whatever the policy accepts the program reads with the same resources and quantities, or not at all.

use std::iter;

use fastrand::Rng;
use harness::helm::RELEASE;
use harness::{Cluster, ControlPlane, Proxy};
use node_resource_advertiser::model::ledger::Ledger;
use serde_json::{Value, json};
use simulator::seeds;

use super::{LEDGER_PATH, assert_rejected};
use crate::admission_policy::{install, patch};

#[test]
fn ledger_that_the_program_would_read_differently_is_rejected() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    // The node has a capacity to add to.
    cluster.write_quantity("node-1", "example.com/other", "1");
    let write = |text: &str, resources: &[&str]| {
        let mut operations = vec![json!({"op": "add", "path": LEDGER_PATH, "value": text})];
        for resource in resources {
            for map in ["capacity", "allocatable"] {
                let path = format!("/status/{map}/{}", resource.replace('/', "~1"));
                operations.push(json!({"op": "add", "path": path, "value": "1"}));
            }
        }
        patch(&cluster, &kubeconfig, "node-1", &Value::from(operations))
    };
    for (text, resources) in [
        // A resource inside an entry: the program would not know it.
        (
            r#"{"example.com/a":{"quantity":"4","rule":"a","y":{"z":1},"nvidia.com/gpu":{"quantity":"1"}}}"#,
            &["nvidia.com/gpu"][..],
        ),
        // An entry without the quantity that the policy looks for.
        (r#"{"nvidia.com/gpu":{"x":{},"quantity":"8","rule":"r"}}"#, &[]),
        (r#"{"nvidia.com/gpu":{"x":[{}],"quantity":"8","rule":"r"}}"#, &[]),
        // Texts at which the policy would split.
        (r#"{"nvidia.com/gpu":{"x":"},","quantity":"8","rule":"r"}}"#, &[]),
        (r#"{"nvidia.com/gpu":{"x":"{},","quantity":"8","rule":"r"}}"#, &[]),
    ] {
        assert!(Ledger::parse(Some(text)).is_err(), "{text}");
        assert_rejected(
            &write(text, resources),
            "node-resource-advertiser may only write an annotation without nested objects",
        );
    }
    for text in [r#"{"example.com/a":{"quantity":"1","rule":"a","at":[1,"2"]}}"#, "{}"] {
        assert!(Ledger::parse(Some(text)).is_ok(), "{text}");
        assert_eq!(write(text, &[]).code, 0, "{text}");
    }
}

struct Random(Rng);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    fn one_of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.below(choices.len())]
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth > 2 { 4 } else { 7 }) {
            0 => self.one_of(&["1", "null", "true", "-2e3"]).to_owned(),
            1..=3 => {
                self.one_of(&[r#""x""#, r#""""#, r#""},""#, r#""{""#, r#""}""#, r#"":""#, r#""quantity""#]).to_owned()
            }
            4 => format!("[{}]", self.value(depth + 1)),
            _ => format!("{{{}}}", self.fields(depth + 1)),
        }
    }

    /// The fields of an entry, or of an object inside one: often those of an entry, once, and others.
    fn fields(&mut self, depth: usize) -> String {
        let mut fields = Vec::new();
        for _ in 0..self.below(3) {
            let key = self.one_of(&["x", "quantity", "rule", "nvidia.com/gpu", "deletionPolicy", "{"]);
            fields.push(format!(r#""{key}":{}"#, self.value(depth)));
        }
        for (key, value) in [("quantity", self.one_of(&["1", "2", "1k"])), ("rule", "r")] {
            if self.below(8) > 0 {
                let space = self.one_of(&["", "", " "]);
                fields.insert(self.below(fields.len() + 1), format!(r#""{key}"{space}:{space}"{value}""#));
            }
        }
        fields.join(",")
    }

    fn ledger(&mut self) -> String {
        let names = ["example.com/a", "example.com/b", "nvidia.com/gpu", "a.b/quantity"];
        let mut entries = Vec::new();
        for _ in 0..self.below(4) {
            let name = self.one_of(&names);
            entries.push(format!(r#""{name}":{{{}}}"#, self.fields(0)));
        }
        format!("{{{}}}", entries.join(","))
    }

    /// A ledger, and a resource and a quantity that it may have.
    fn ledger_and_value(&mut self) -> (String, &'static str, &'static str) {
        let name = self.one_of(&["example.com/a", "example.com/b", "nvidia.com/gpu"]);
        (self.ledger(), name, self.one_of(&["1", "2"]))
    }
}

/// What the policy reads, by what it lets pass: it accepts a value that its list of entries has.
fn policy_accepts(account: &Proxy, text: &str, set: Option<(&str, &str)>) -> bool {
    let mut operations = vec![json!({"op": "add", "path": LEDGER_PATH, "value": text})];
    for (map, (name, quantity)) in ["capacity", "allocatable"].into_iter().flat_map(|map| set.map(|set| (map, set))) {
        let path = format!("/status/{map}/{}", name.replace('/', "~1"));
        operations.push(json!({"op": "add", "path": path, "value": quantity}));
    }
    let path = format!("/api/v1/nodes/node-1/status?dryRun=All&fieldManager={RELEASE}");
    let operations = Value::from(operations).to_string();
    let (code, response) = account.send("PATCH", &path, "application/json-patch+json", &operations).unwrap();
    assert!(code == 200 || response.contains("ValidatingAdmissionPolicy"), "{text}: {code}: {response}");
    code == 200
}

#[test]
fn random_ledgers_are_read_alike_by_policy_and_program() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let account = cluster.control_plane.proxy_of(&install(&cluster, &[])).unwrap();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    cluster.write_quantity("node-1", "example.com/other", "1");
    let ledgers = seeds::random(9, 400).into_iter().flat_map(|(cases, random)| {
        let mut random = Random(random);
        iter::repeat_with(move || random.ledger_and_value()).take(cases)
    });
    let (mut both, mut differ) = (0, Vec::new());
    for (text, name, quantity) in ledgers {
        if !policy_accepts(&account, &text, None) {
            continue;
        }
        let Ok(ledger) = Ledger::parse(Some(&text)) else { continue };
        both += 1;
        let program = ledger.get(name).is_some_and(|entry| entry.quantity == quantity);
        if policy_accepts(&account, &text, Some((name, quantity))) != program {
            differ.push(format!(
                "{text}: {name}={quantity}, which the program {}",
                if program { "reads" } else { "does not read" }
            ));
        }
    }
    assert!(both > 50, "only {both} ledgers are accepted by both");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
