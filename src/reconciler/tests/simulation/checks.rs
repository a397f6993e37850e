//! What is checked while a run goes on, and what that takes to know.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use simulator::invariants::{NodeWrite, Right, conditions};
use simulator::pods::Usage;
use simulator::{Key, Kind};
use tokio::time::Instant;

use super::actors::RESOURCES;
use super::events::Events;
use super::process::{LEASE, PODS};
use super::world::{Millis, World};
use crate::planner::input::PodUsage;
use crate::reconciler::effect::Effect;

/// A version at which an object was written, and how; or whose object was deleted.
pub(super) type History = Vec<(u64, Result<Arc<Value>, Key>)>;

#[derive(Default)]
pub(super) struct Checks {
    nodes: History,
    rules: History,
    /// Every version of every pod.
    pods_written: History,
    /// How often each resource on a node was changed, by what Events call it.
    pub(super) changes: BTreeMap<(String, String, &'static str), u64>,
    /// The Events that there were, and those that there are to be.
    pub(super) events: Events,
    /// Requests but those for Leases and dry runs.
    pub(super) requests: u64,
    /// Dry runs.
    pub(super) tests: u64,
}

/// What a process knew when it sent a request.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) instant: Instant,
    pub(super) at: Millis,
    right: Right,
    pub(super) leads_since: Option<Millis>,
    /// The versions up to which it had seen nodes and rules; and the version by then.
    pub(super) nodes: u64,
    rules: u64,
    version: u64,
    /// What pods request on the node that a patch is for, if that is known.
    pods: Option<Usage>,
    /// The same, also if it was known only until a while ago: enough to raise a value, and not to lower one.
    last_known_pods: Option<Usage>,
}

impl Checks {
    pub(super) fn history(&mut self, kind: Kind) -> &mut History {
        match kind {
            Kind::Node => &mut self.nodes,
            Kind::Pod => &mut self.pods_written,
            _ => &mut self.rules,
        }
    }

    /// Every version of a node.
    pub(super) fn versions(&self, node: &str) -> impl Iterator<Item = &Arc<Value>> {
        let objects = self.nodes.iter().filter_map(|(_, object)| object.as_ref().ok());
        objects.filter(move |object| object["metadata"]["name"] == node)
    }

    /// Every version of every rule.
    pub(super) fn all_rules(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.rules.iter().filter_map(|(_, object)| object.as_ref().ok())
    }

    /// The rules and nodes that a process may have known when it sent a request.
    pub(super) fn states(&self, sent: &Sent) -> (States, States) {
        let rules = states(&self.rules, sent.rules, sent.version);
        (rules, states(&self.nodes, sent.nodes, sent.version))
    }
}

/// Rules, or nodes, at several moments.
type States = Vec<Vec<Arc<Value>>>;

/// The objects at a version, and after each later write up to another.
fn states(history: &History, from: u64, to: u64) -> States {
    let mut now: BTreeMap<Key, Arc<Value>> = BTreeMap::new();
    let mut states = Vec::new();
    for (version, object) in history.iter().take_while(|(version, _)| *version <= to) {
        if *version > from {
            states.push(now.values().cloned().collect());
        }
        match object {
            Ok(object) => now.insert(Key::of(object), Arc::clone(object)),
            Err(key) => now.remove(key),
        };
    }
    states.push(now.into_values().collect());
    states
}

impl World {
    /// What a process knows now.
    pub(super) fn sent(&mut self, number: usize, effect: &Effect) -> Sent {
        let instant = self.clock(number).instant;
        let [last_known_pods, pods] = match effect {
            Effect::PatchNode { node, .. } => self.known_usage(number, node),
            _ => [None, None],
        };
        let process = &self.processes[number];
        let right = match (process.leads_since, process.knows_rules) {
            (None, _) => Right::Resets,
            (Some(_), false) => Right::Repairs,
            (Some(_), true) => Right::All,
        };
        Sent {
            instant,
            at: self.now,
            right,
            leads_since: process.leads_since,
            nodes: process.streams[2].position,
            rules: process.streams[1].position,
            version: self.server.version(),
            pods,
            last_known_pods,
        }
    }

    /// I6: what a process sends that does not lead; and that no two lead.
    pub(super) fn check_right(&mut self, number: usize, effect: &Effect) {
        let process = &self.processes[number];
        let name = Arc::clone(&process.name);
        if matches!(effect, Effect::WriteLease(_) | Effect::ReleaseLease(_)) {
            return;
        }
        if process.leads_since.is_none() {
            if !matches!(effect, Effect::PatchNode { .. }) {
                self.violate(format!("I6: {name} does not lead, and sends more than a patch"));
            }
            return;
        }
        let lease = self.server.get(Kind::Lease, &Key::namespaced(LEASE.0, LEASE.1));
        let holder = lease.map(|lease| lease["spec"]["holderIdentity"].clone()).unwrap_or_default();
        if process.stood_since_renewal.is_none() && holder != *name {
            self.violate(format!("I6: {name} writes as the leader, and {holder} holds the Lease"));
        }
    }

    /// A process has renewed the Lease.
    pub(super) fn lease_is_renewed(&mut self, number: usize, sent: &Sent) {
        let stood = &mut self.processes[number].stood_since_renewal;
        *stood = stood.filter(|since| sent.at < *since);
    }

    /// The watch of rules has listed them all, since this moment.
    pub(super) fn rules_are_listed(&mut self, number: usize, since: Millis) {
        let process = &mut self.processes[number];
        process.knows_rules |= process.leads_since.is_some_and(|leads_since| leads_since <= since);
    }

    /// A patch has been applied.
    pub(super) fn check_node_write(&mut self, number: usize, before: &Arc<Value>, after: &Arc<Value>, sent: &Sent) {
        let name = before["metadata"]["name"].as_str().unwrap_or_default();
        let known = states(&self.checks.rules, sent.rules, sent.version);
        let mut labels: Vec<_> = states(&self.checks.nodes, sent.nodes, u64::MAX)
            .into_iter()
            .flatten()
            .filter(|node| node["metadata"]["uid"] == before["metadata"]["uid"])
            .map(|node| node["metadata"]["labels"].clone())
            .collect();
        labels.dedup();
        let history: Vec<_> = self.checks.versions(name).cloned().collect();
        let write = NodeWrite {
            before,
            after,
            right: sent.right,
            known: &known,
            labels: &labels,
            was_seen: {
                let version = before["metadata"]["resourceVersion"].as_str();
                version.and_then(|version| version.parse().ok()) <= Some(sent.nodes)
            },
            history: &history,
            keeps_condition: self.processes[number].keeps_condition,
            pods: sent.pods.as_ref(),
            most_pods: sent.last_known_pods.as_ref(),
        };
        let checked = write.check();
        let who = Arc::clone(&self.processes[number].name);
        if self.story.is_recorded {
            let text = show_node(after);
            self.record(|| format!("{name} is {text} by {who}"));
        }
        if let Err(what) = checked {
            return self.violate(format!("{what} on {name} by {who}, sent at {} ms", sent.at));
        }
        let [had, has] = [before, after].map(|node| conditions(node).first().map(|own| own["status"].clone()));
        if had != has {
            self.count(match has {
                Some(status) if status == "True" => "condition true",
                Some(_) => "condition false",
                None => "condition removed",
            });
        }
        for change in write.changes() {
            self.count(change.name);
            self.expect_event(number, after, &change, sent);
            let held = change.may_be_held.then_some("held");
            let names = [Some(change.name), held, (!write.was_seen).then_some("unseen")];
            for what in names.into_iter().flatten() {
                let key = (name.to_owned(), change.resource.clone(), what);
                *self.checks.changes.entry(key).or_default() += 1;
            }
        }
    }

    /// What pods request on a node, as the watch of a process has shown it last; and the same if it is what they request
    /// now.
    fn known_usage(&self, number: usize, node: &str) -> [Option<Usage>; 2] {
        let process = &self.processes[number];
        let known = process.reconciler.usage_on(node, self.clock(number).instant);
        let shown = || self.usage_at(process.streams[PODS].position, node);
        match known {
            PodUsage::Known(_) => [Some(shown()), Some(shown())],
            PodUsage::LastKnown { .. } => [Some(shown()), None],
            PodUsage::NotFetched | PodUsage::Unavailable(_) => [None, None],
        }
    }

    fn usage_at(&self, version: u64, node: &str) -> Usage {
        let pods = states(&self.checks.pods_written, version, version).pop().unwrap_or_default();
        pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node).map(|pod| &**pod).collect()
    }

    /// What a process knows of pods is what there was at the version up to which its watch has shown everything.
    pub(super) fn check_usage(&mut self, number: usize) {
        let process = &self.processes[number];
        let now = self.clock(number).instant;
        let position = process.streams[PODS].position;
        let (mut wrong, mut known) = (None, "pods not known");
        for machine in &self.machines {
            let requests = match process.reconciler.usage_on(&machine.name, now) {
                PodUsage::Known(requests) => {
                    known = "pods known";
                    requests
                }
                PodUsage::LastKnown { requests, .. } => {
                    known = "pods known until a while ago";
                    requests
                }
                PodUsage::NotFetched | PodUsage::Unavailable(_) => continue,
            };
            let expected = self.usage_at(position, &machine.name);
            let pairs = [(&requests.bound, &expected.bound), (&requests.started, &expected.started)];
            let is_right = |resource: &&str| {
                pairs.iter().all(|(found, expected)| {
                    let expected = expected.get(*resource).copied().unwrap_or_default();
                    found.get(resource) == i64::try_from(expected).unwrap().into()
                })
            };
            if !RESOURCES.iter().all(is_right) {
                let (who, node) = (&process.name, &machine.name);
                wrong =
                    Some(format!("I5: {who} knows {requests:?} of {node}, at {position} pods request {expected:?}"));
            }
        }
        self.count(known);
        if let Some(wrong) = wrong {
            self.violate(wrong);
        }
    }
}

/// A node's extended resources and its ledger, for a story.
pub(super) fn show_node(node: &Value) -> String {
    let extended = |map: &str| {
        let members = node["status"][map].as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| name.contains('/'));
        let members = members.map(|(name, value)| {
            format!("{}={}", name.rsplit('/').next().unwrap_or_default(), value.as_str().unwrap_or_default())
        });
        members.collect::<Vec<_>>().join(" ")
    };
    let ledger = node["metadata"]["annotations"]["noderesource.dev/advertised"].as_str();
    format!("[{}] / [{}], ledger {}", extended("capacity"), extended("allocatable"), ledger.unwrap_or("none"))
}
