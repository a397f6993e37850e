//! The rules, and the watch that shows them.

use serde_json::json;

use super::super::world::object;
use super::world::{Open, Shown, World};
use crate::planner::tests::exploration::node::{RESOURCES, RULES};
use crate::reconciler::*;

impl World {
    pub(super) fn set_rule(&mut self, rule: usize, quantity: u8) {
        let version = self.next_version();
        let uid = self.rules.get(&rule).map_or(json!(version.to_string()), |rule| rule["metadata"]["uid"].clone());
        // The second rule takes over from the first.
        let policy = ["Keep", "Overwrite"][rule];
        let deletion = ["WhenUnused", "Withdraw"][rule];
        let object = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": RULES[rule], "uid": uid, "generation": version,
                "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"resourceName": RESOURCES[0], "quantity": quantity, "allNodes": true,
                "priority": rule, "conflictPolicy": policy, "deletionPolicy": deletion},
        });
        self.rules.insert(rule, object.clone());
        self.show(1, Shown::Apply(object));
    }

    pub(super) fn delete_rule(&mut self, rule: usize) {
        let version = self.next_version();
        if let Some(mut object) = self.rules.remove(&rule) {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            self.show(1, Shown::Delete(object));
        }
    }

    /// The watch begins anew.
    pub(super) fn watch_rules(&mut self) {
        self.behind[1] = None;
        self.open.retain(|open| !matches!(open, Open::Rules { .. }));
        self.open.push(Open::Rules { is_valid: true });
    }

    /// Whether the watch of rules is to list them before it shows anything.
    pub(super) fn is_listing_rules(&self) -> bool {
        self.open.iter().any(|open| matches!(open, Open::Rules { .. }))
    }

    pub(super) fn list_rules(&mut self) {
        self.behind[1] = None;
        self.open.retain(|open| !matches!(open, Open::Rules { .. }));
        self.observe(Observation::Rule(Ok(Event::Init)));
        for rule in self.rules.clone().into_values() {
            self.observe(Observation::Rule(Ok(Event::InitApply(object(rule)))));
        }
        self.observe(Observation::Rule(Ok(Event::InitDone)));
    }
}
