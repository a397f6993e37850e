//! A world of some objects, which answers the reconciler's requests, or does not.

use std::collections::BTreeMap;
use std::time::Duration;

use super::responses::error;
use crate::controller::Diagnostics;
use crate::controller::metrics::Metrics;
use crate::election::Written;
use crate::model::ledger;
use crate::model::node::heartbeats;
use crate::reconciler::limiter::Slot;
use crate::reconciler::readiness::Readiness;
use crate::reconciler::*;
use json_patch::Patch;
use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

pub(super) const DONGLE: &str = "example.com/dongle";

/// A request that is unanswered.
#[derive(Debug)]
pub(super) enum Open {
    Patch {
        slot: Slot,
        node: String,
        patch: Patch,
        deadline: Instant,
    },
    /// The list with which the watch of rules begins, by what it lists.
    Rules(Vec<Value>),
}

/// Objects, and a reconciler that watches them.
pub(super) struct World {
    pub(super) reconciler: Reconciler,
    pub(super) now: Now,
    pub(super) nodes: BTreeMap<String, Value>,
    pub(super) rules: BTreeMap<String, Value>,
    /// How many dongles pods on a node request.
    pub(super) pods: BTreeMap<String, u64>,
    /// Whether pods are watched.
    pub(super) watches_pods: bool,
    /// The code that lists and watches of pods are answered with.
    pub(super) watch_pods: u16,
    /// Whether the watch of pods shows anything, even bookmarks.
    pub(super) hears_pods: bool,
    pub(super) version: u64,
    pub(super) open: Vec<Open>,
    /// Whether the watches show what changes.
    pub(super) watching: bool,
    /// Whether the Lease can be renewed.
    pub(super) renews: bool,
    /// Whether lists of rules stay open.
    pub(super) holds_lists: bool,
    /// How many times the watch of rules began anew, and whether it is to list them once more.
    pub(super) rule_relists: usize,
    pub(super) lists_rules_again: bool,
    /// The code that Events are answered with.
    pub(super) write_event: u16,
    /// The code that lists of rules, and writes of statuses, are answered with.
    pub(super) list_rules: u16,
    pub(super) write_status: u16,
    pub(super) statuses: Vec<(String, Value)>,
    /// A status that lands late, between the next write and its response.
    pub(super) late_status: Option<Value>,
    pub(super) events: Vec<String>,
    /// The self-tests, none of which is answered: each with its number, its node and its label.
    pub(super) self_tests: Vec<(u64, String, String)>,
    /// What admission makes of a node that is written.
    pub(super) admission: fn(&mut Value),
    /// How many times the nodes were listed again for what rules read from them.
    pub(super) relists: usize,
    /// How many bytes the states of rules on nodes have taken at most.
    pub(super) most_states: usize,
    diagnostics: Diagnostics,
}

impl World {
    pub(super) fn new(concurrency: usize) -> Self {
        Self::with_limits(concurrency, RolloutLimits::NONE)
    }

    pub(super) fn with_limits(concurrency: usize, rollouts: RolloutLimits) -> Self {
        let options = Options {
            concurrency,
            rollouts,
            request_timeout: Duration::from_secs(15),
            mass_withdrawal_delay: Duration::from_secs(300),
            confinement_test: true,
            protection: crate::reconciler::ExpectedPolicy::Auto,
            node_condition: false,
            max_rules_memory: 64 << 20,
            seed: 7,
        };
        Self {
            reconciler: Reconciler::new(Candidate::for_test("pod-1"), options),
            now: Now { instant: Instant::now(), wall: "2026-02-01T00:00:30Z".parse().unwrap() },
            nodes: BTreeMap::new(),
            rules: BTreeMap::new(),
            pods: BTreeMap::new(),
            watches_pods: false,
            watch_pods: 200,
            hears_pods: true,
            version: 100,
            open: Vec::new(),
            watching: false,
            renews: true,
            holds_lists: false,
            rule_relists: 0,
            lists_rules_again: false,
            write_event: 200,
            list_rules: 200,
            write_status: 200,
            late_status: None,
            statuses: Vec::new(),
            events: Vec::new(),
            self_tests: Vec::new(),
            admission: |_| {},
            relists: 0,
            most_states: 0,
            diagnostics: Diagnostics::for_test(),
        }
    }

    /// A leader that has listed `nodes` nodes and these rules, each of all nodes.
    pub(super) fn leading(nodes: usize, rules: &[(&str, u64)]) -> Self {
        let mut world = Self::new(16);
        for number in 0..nodes {
            world.set_node(&format!("node-{number}"), json!({}));
        }
        for (name, quantity) in rules {
            world.set_rule(name, json!({ "quantity": quantity }));
        }
        world.start();
        world
    }

    /// Lists everything, and takes the Lease.
    pub(super) fn start(&mut self) {
        self.list_all();
        self.lead();
    }

    pub(super) fn list_all(&mut self) {
        self.list_nodes();
        self.show_rules(self.rules.clone().into_values().collect());
        self.watching = true;
    }

    pub(super) fn list_nodes(&mut self) {
        self.observe(Observation::Node(Ok(Event::Init)));
        for node in self.nodes.clone().into_values() {
            self.observe(Observation::Node(Ok(Event::InitApply(object(node)))));
        }
        self.observe(Observation::Node(Ok(Event::InitDone)));
    }

    /// Shows that nobody holds the Lease, so that this process takes it.
    pub(super) fn lead(&mut self) {
        self.observe(Observation::Lease(Ok(Event::Init)));
        self.observe(Observation::Lease(Ok(Event::InitDone)));
        self.run();
    }

    pub(super) fn observe(&mut self, observation: Observation) {
        self.reconciler.observe(observation, self.now);
        self.report();
    }

    /// Reports what has happened, as the shell does.
    fn report(&mut self) {
        self.diagnostics.report(&self.reconciler.take_happenings());
    }

    pub(super) fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Writes a node with this status, as another field manager does; one that exists keeps its metadata.
    pub(super) fn set_node(&mut self, name: &str, status: Value) {
        let version = self.next_version();
        let new = json!({"metadata": {"name": name, "uid": format!("{name}-{version}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"a": "b"}}});
        let mut node = self.nodes.get(name).cloned().unwrap_or(new);
        node["metadata"]["resourceVersion"] = json!(version);
        node["metadata"]["managedFields"] = json!([]);
        let info = node["status"]["nodeInfo"].take();
        node["status"] = status;
        if !info.is_null() {
            node["status"]["nodeInfo"] = info;
        }
        self.nodes.insert(name.to_owned(), node);
        self.show(name);
    }

    /// Shows a node to the watch as it is now.
    pub(super) fn show(&mut self, name: &str) {
        if self.watching {
            self.observe(Observation::Node(Ok(Event::Apply(object(self.nodes[name].clone())))));
        }
    }

    /// Changes a node, as another field manager does.
    pub(super) fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let version = self.next_version();
        let node = self.nodes.get_mut(name).unwrap();
        edit(node);
        node["metadata"]["resourceVersion"] = json!(version);
        self.show(name);
    }

    pub(super) fn relabel(&mut self, name: &str, labels: Value) {
        self.edit_node(name, |node| node["metadata"]["labels"] = labels);
    }

    /// Writes dongles to a node, as another field manager does.
    pub(super) fn set_dongles(&mut self, name: &str, dongles: u64) {
        let amounts = json!({DONGLE: dongles.to_string()});
        self.set_node(name, json!({"capacity": amounts, "allocatable": amounts}));
    }

    /// Sets the dongles of a node to 0, as a kubelet does after a reboot.
    pub(super) fn reset(&mut self, name: &str) {
        let (watching, fields) = (self.watching, json!({format!("f:{DONGLE}"): {}}));
        self.watching = false;
        self.set_dongles(name, 0);
        self.watching = watching;
        let node = self.nodes.get_mut(name).unwrap();
        node["metadata"]["managedFields"] = json!([heartbeats("k3s"), {"manager": "k3s",
            "fieldsV1": {"f:status": {"f:capacity": fields, "f:allocatable": fields}}}]);
        self.show(name);
    }

    /// Writes a rule of all nodes; `spec` has what is not as usual.
    pub(super) fn set_rule(&mut self, name: &str, spec: Value) {
        let version = self.next_version();
        let uid = self.rules.get(name).map_or(json!(version), |rule| rule["metadata"]["uid"].clone());
        let mut rule = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name, "uid": uid, "generation": self.version, "resourceVersion": version,
                "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true},
        });
        rule["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.rules.insert(name.to_owned(), rule.clone());
        if self.watching {
            self.observe(Observation::Rule(Ok(Event::Apply(object(rule)))));
        }
    }

    pub(super) fn delete_rule(&mut self, name: &str) {
        let mut rule = self.rules.remove(name).unwrap();
        rule["metadata"]["resourceVersion"] = json!(self.next_version());
        if self.watching {
            self.observe(Observation::Rule(Ok(Event::Delete(object(rule)))));
        }
    }

    /// Lets the reconciler do all that it can at this moment. Patches and lists of pods stay open. Returns when it has
    /// more to do.
    pub(super) fn run(&mut self) -> Option<Instant> {
        for _ in 0..10_000 {
            let step = self.reconciler.next(self.now);
            self.most_states = self.most_states.max(self.reconciler.nodes().tally().size());
            self.report();
            assert_eq!(self.reconciler.missed_wake(&step, self.now), None, "it wakes too late");
            let wake = step.wake.filter(|wake| *wake > self.now.instant);
            if step.relists_nodes {
                self.relists += 1;
                self.list_nodes();
            }
            if step.relists_rules {
                self.rule_relists += 1;
                self.open.retain(|open| !matches!(open, Open::Rules(_)));
                self.list_rules();
            }
            let is_watched = step.watches_pods == self.watches_pods && !step.relists_rules;
            let idle = step.requests.is_empty() && wake == step.wake && is_watched;
            if step.watches_pods != self.watches_pods {
                self.watches_pods = step.watches_pods;
                self.list_pods();
            }
            for request in step.requests {
                self.take(request);
            }
            if idle || step.done {
                return wake;
            }
        }
        panic!("it never comes to rest");
    }

    pub(super) fn take(&mut self, request: Request) {
        let Request { effect, deadline } = request;
        let completion = match effect {
            Effect::WriteLease(write) => {
                let mut lease = *write.lease;
                lease.metadata.resource_version = Some(self.next_version());
                let lease = Box::new(lease);
                let failed = Written::Failed("no answer".to_owned());
                let written = if self.renews { Written::Done(lease) } else { failed };
                Completion::LeaseWritten { started: self.now.instant, written, found: None }
            }
            Effect::ReleaseLease(_) => {
                self.events.push("released".to_owned());
                Completion::LeaseReleased
            }
            Effect::PatchNode { slot, node, patch } => {
                if !self.reconciler.leads(self.now.instant) {
                    super::responses::check_reset(&patch);
                }
                let node = node.to_string();
                return self.open.push(Open::Patch { slot, node, patch, deadline });
            }
            Effect::PatchStatus { slot, rule, uid, status } => {
                let result = self.write_rule_status(&rule, uid.as_deref(), &status);
                Completion::StatusPatched { slot, rule, uid, result }
            }
            Effect::TestConfinement { number, node, label } => {
                return self.self_tests.push((number, node.to_string(), label));
            }
            Effect::CreateEvent { slot, event } => {
                self.events.push(event.reason.clone().unwrap_or_default());
                let is_ok = self.write_event == 200;
                let result = if is_ok { Ok(()) } else { Err(error(self.write_event)) };
                Completion::EventCreated { slot, event, result }
            }
        };
        self.reconciler.complete(completion, self.now);
    }

    /// Lets time pass, and the reconciler follow it: it does nothing at a moment that it did not ask for.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now.instant + time;
        while let Some(wake) = self.run().filter(|wake| *wake <= end) {
            self.set_time(wake);
        }
        self.set_time(end);
    }

    pub(super) fn set_time(&mut self, instant: Instant) {
        let passed = instant.duration_since(self.now.instant);
        self.now.instant = instant;
        self.now.wall += SignedDuration::try_from(passed).unwrap();
        if self.lists_rules_again {
            self.list_rules();
        }
        if self.watches_pods && self.hears_pods && self.watch_pods == 200 {
            self.observe(Observation::PodsHeard(instant));
        }
    }

    /// How many dongles a node has in both maps; -1 for none.
    pub(super) fn dongles(&self, name: &str) -> i64 {
        let status = &self.nodes[name]["status"];
        let amount = |map: &str| status[map][DONGLE].as_str().map_or(-1, |text| text.parse().unwrap());
        assert_eq!(amount("capacity"), amount("allocatable"));
        amount("capacity")
    }

    pub(super) fn ledger(&self, name: &str) -> Option<&str> {
        self.nodes[name]["metadata"]["annotations"][ledger::ANNOTATION].as_str()
    }

    /// The `Ready` condition of a rule as last written, as `True Advertised`.
    pub(super) fn ready(&self, rule: &str) -> String {
        let (_, status) = self.statuses.iter().rfind(|(name, _)| name == rule).expect("a status");
        let conditions = status["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        format!("{} {}", ready["status"].as_str().unwrap(), ready["reason"].as_str().unwrap())
    }

    pub(super) fn readiness(&self) -> Readiness {
        self.diagnostics.readiness.borrow().clone()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.diagnostics.metrics
    }

    pub(super) fn metric(&self, line: &str) -> bool {
        self.metrics().text().unwrap().lines().any(|other| other.ends_with(line))
    }
}

pub(super) fn object<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}
