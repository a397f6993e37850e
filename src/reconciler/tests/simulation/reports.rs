//! I10: statuses and Events are what happened.

use std::collections::BTreeSet;
use std::sync::Arc;

use json_patch::{Patch, PatchOperation};
use serde_json::Value;
use simulator::invariants::{declared, ledger, units};

use super::actors::RESOURCES;
use super::checks::Sent;
use super::world::World;
use crate::model::api::NodeExtendedResourceStatus;

/// Whether a patch writes a value of a resource.
fn writes(patch: &Patch, resource: &str) -> bool {
    let end = resource.replace('/', "~1");
    patch.0.iter().any(|operation| {
        let is_add = matches!(operation, PatchOperation::Add(_));
        is_add && operation.path().as_str().ends_with(&end)
    })
}

/// Whether a patch writes a ledger that lists a resource.
fn lists(patch: &Patch, resource: &str) -> bool {
    patch.0.iter().any(|operation| match operation {
        PatchOperation::Add(add) => add.value.as_str().is_some_and(|ledger| ledger.contains(resource)),
        _ => false,
    })
}

impl World {
    /// A rule is reported to be in force only on nodes that have been as it declares, at the version that was seen or
    /// since.
    pub(super) fn check_status(
        &mut self,
        process: usize,
        (rule, uid): (&Arc<str>, Option<&str>),
        status: &NodeExtendedResourceStatus,
        sent: &Sent,
    ) {
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let Some(ready) = ready else {
            return self.violate(format!("I10: the status of {rule} has no condition Ready"));
        };
        if ready.reason == "QuantityUnknown" {
            self.count("status: quantity unknown");
        }
        self.count(if ready.status == "True" { "status: ready" } else { "status: not ready" });
        let Some(nodes) = &status.nodes else { return };
        let (rules, objects) = self.checks.states(sent);
        let mut rules = rules.into_iter().flatten().filter(|object| {
            object["metadata"]["uid"].as_str() == uid
                && object["metadata"]["generation"].as_i64() == status.observed_generation
        });
        let Some(object) = rules.next() else {
            let who = Arc::clone(&self.processes[process].name);
            return self
                .violate(format!("I10: {who} reports a generation of {rule} that is not the one that it knows"));
        };
        let resource = object["spec"]["resourceName"].as_str().unwrap_or_default();
        let mut carrying = BTreeSet::new();
        for node in objects.into_iter().flatten() {
            let quantity = declared(&object, &node["metadata"]["labels"]).quantity();
            if carries(&node, rule, resource, quantity) {
                carrying.insert(node["metadata"]["name"].to_string());
            }
        }
        if nodes.advertised > i64::try_from(carrying.len()).unwrap() {
            let who = Arc::clone(&self.processes[process].name);
            let summary = &nodes.summary;
            self.violate(format!(
                "I10: {who} reports {rule} on {summary} nodes, and of the nodes that it may have seen only \
                 {carrying:?} carry it"
            ));
        }
    }

    /// A patch may write what somebody else has written in the same moment.
    pub(super) fn note_repeated(&mut self, node: &str, before: &Value, after: &Value, patch: &Patch) {
        for resource in RESOURCES {
            let values = |node: &Value| ["capacity", "allocatable"].map(|map| node["status"][map][resource].clone());
            if writes(patch, resource) && values(before) == values(after) {
                let key = (node.to_owned(), resource.to_owned(), "repeated");
                *self.checks.changes.entry(key).or_default() += 1;
            }
        }
    }

    /// Where a patch is lost, a node that is as was asked for counts as patched, whoever has done it.
    pub(super) fn note_lost(&mut self, node: &str, patch: &Patch) {
        for resource in RESOURCES {
            let lost = [(writes(patch, resource), "lost"), (lists(patch, resource), "listing lost")];
            for (_, what) in lost.into_iter().filter(|(is_lost, _)| *is_lost) {
                let key = (node.to_owned(), resource.to_owned(), what);
                *self.checks.changes.entry(key).or_default() += 1;
            }
        }
    }

    /// What the rules' statuses have to say in the end, where they do not.
    pub(super) fn wrong_status(&self, rule: &Value, expected: &[(&str, i64)]) -> Option<String> {
        let name = &rule["metadata"]["name"];
        let status = &rule["status"];
        if status["observedGeneration"] != rule["metadata"]["generation"] {
            return Some(format!("the status of {name} is of an older generation"));
        }
        let wrong =
            expected.iter().find(|(field, number)| status["nodes"][field].as_i64().unwrap_or_default() != *number);
        wrong
            .map(|(field, number)| format!("the status of {name} has {} {field}, not {number}", status["nodes"][field]))
    }
}

/// Whether a node has what a rule declares, for it.
fn carries(node: &Value, rule: &str, resource: &str, quantity: Option<i128>) -> bool {
    let entry = ledger(node).and_then(|mut ledger| ledger.remove(resource));
    let is_listed = entry.is_some_and(|(listed, by, _)| by == rule && Some(listed) == quantity);
    let value = |map: &str| units(&node["status"][map][resource]);
    is_listed && value("capacity") == quantity && value("allocatable") == quantity
}
