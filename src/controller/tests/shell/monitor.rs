//! What holds at every write of a replica, told from the objects alone.

use std::collections::BTreeSet;

use simulator::{Fate, Key, Kind, Network, Write};

use super::actors::all;
use super::*;
use crate::model::ledger::ANNOTATION;

const MAPS: [&str; 2] = ["capacity", "allocatable"];

/// Looks at writes.
#[derive(Clone, Default)]
pub(super) struct Monitor(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    violation: Option<String>,
    /// The resources that a rule with `Overwrite` has ever declared.
    overwritten: BTreeSet<String>,
}

impl Monitor {
    pub(super) fn new(network: &Network) -> Self {
        let monitor = Self::default();
        let state = Arc::clone(&monitor.0);
        network.on_write(move |write| {
            let mut state = state.lock().unwrap();
            state.look_at_rules(write);
            if write.call.kind == Kind::Node
                && let Err(violation) = state.check(write)
            {
                let violation = format!("{} {}: {violation}", write.client, write.call);
                state.violation.get_or_insert(violation);
            }
        });
        monitor
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap().violation.clone().map_or(Ok(()), Err)
    }
}

impl State {
    fn look_at_rules(&mut self, write: &Write<'_>) {
        for rule in all(write.api, Kind::Rule) {
            if rule["spec"]["conflictPolicy"] == "Overwrite" {
                let resource = rule["spec"]["resourceName"].as_str().unwrap();
                self.overwritten.insert(resource.to_owned());
            }
        }
    }

    fn check(&self, write: &Write<'_>) -> Result<(), String> {
        let after =
            write.api.get(Kind::Node, &write.call.key).map_err(|_| "the node is deleted")?;
        let before = write.before.as_ref().ok_or("the node is created")?;
        let rest = |node: &Value| {
            let mut node = node.clone();
            for map in MAPS {
                if let Some(amounts) = node["status"][map].as_object_mut() {
                    amounts.retain(|resource, _| !resource.contains('/'));
                }
            }
            if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
                annotations.remove(ANNOTATION);
            }
            if node["metadata"]["annotations"] == json!({}) {
                node["metadata"]["annotations"] = Value::Null;
            }
            node["metadata"]["managedFields"] = Value::Null;
            node["metadata"]["resourceVersion"] = Value::Null;
            node
        };
        if rest(before) != rest(&after) {
            return Err("it changes more than resources and the ledger".to_owned());
        }
        let ledgers = [&**before, &*after].map(ledger);
        let mut is_reset = ledgers[0] == ledgers[1];
        for resource in resources(before).union(&resources(&after)) {
            let values =
                [&**before, &*after].map(|node| MAPS.map(|map| amount(node, map, resource)));
            let entries = ledgers.each_ref().map(|ledger| {
                ledger[resource]["quantity"].as_str().map(|text| text.parse::<u64>().unwrap())
            });
            let agrees = |at: usize| entries[at].is_none_or(|entry| values[at] == [Some(entry); 2]);
            if agrees(0) && !agrees(1) {
                return Err(format!(
                    "I2: {resource} agreed with the ledger, and does not: {values:?}"
                ));
            }
            for (old, new) in values[0].into_iter().zip(values[1]) {
                if old == new {
                    continue;
                }
                if new == Some(0) {
                    return Err(format!("I3: it writes 0 for {resource}"));
                }
                let is_listed = entries[0].is_some() || old.is_none_or(|old| old == 0);
                if !is_listed && !self.overwritten.contains(resource) {
                    return Err(format!("I1: {resource} is not listed, and becomes {new:?}"));
                }
            }
            is_reset &= values[0] == values[1]
                || (values[0] == [Some(0); 2] && values[1] == [entries[0]; 2]);
        }
        // What lands later than its sender waits for is nobody's fault.
        let lease = write.api.get(Kind::Lease, &Key::namespaced("system", "lease")).ok();
        let holder = lease.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let leads = holder == Some(write.client) || matches!(write.fate, Fate::Late(_));
        if !is_reset && !leads {
            return Err(format!("I6: {} writes while {holder:?} holds the lease", write.client));
        }
        Ok(())
    }
}

fn ledger(node: &Value) -> Value {
    let text = node["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap_or_default()
}

fn amount(node: &Value, map: &str, resource: &str) -> Option<u64> {
    node["status"][map][resource].as_str().map(|text| text.parse().unwrap())
}

fn resources(node: &Value) -> BTreeSet<String> {
    let amounts = MAPS.into_iter().filter_map(|map| node["status"][map].as_object()).flatten();
    let listed = ledger(node);
    let listed = listed.as_object().into_iter().flatten().map(|(resource, _)| resource.clone());
    let names = amounts.map(|(resource, _)| resource.clone()).chain(listed);
    names.filter(|resource| resource.contains('/')).collect()
}
