//! A world of one node and two rules that can be copied, and every request in it that is unanswered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use json_patch::Patch;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};

use super::super::world::object;
use super::reached::request;
use crate::election::Written;
use crate::model::api::{ConflictPolicy, DeletionPolicy, ShrinkPolicy};
use crate::model::ledger::Ledger;
use crate::model::pod::Requests;
use crate::planner::input::PodUsage;
use crate::planner::tests::exploration::checks::{Floor, Grant, License, check};
use crate::planner::tests::exploration::node::{RESOURCES, SmallNode};
use crate::planner::tests::exploration::planning::Kind as Planned;
use crate::planner::tests::try_apply;
use crate::reconciler::effect::WrittenStatus;
use crate::reconciler::limiter::Slot;
use crate::reconciler::rules::ObservedStatus;
use crate::reconciler::*;
use crate::response::reply::Reply;

/// The second is there where two share one slot.
pub(super) const NODES: [&str; 2] = ["node-1", "node-2"];
const NODE_CREATED: &str = "2026-01-01T00:00:00Z";
/// Longer than anything takes: renewals are none of what is explored.
const LEASE_DURATION: Duration = Duration::from_secs(100_000);

/// A request that is unanswered.
#[derive(Clone, Debug)]
pub(super) enum Open {
    Patch {
        slot: Slot,
        node: usize,
        patch: Patch,
        license: License,
    },
    /// The list with which the watch of pods begins.
    Pods,
    /// The list with which the watch of rules begins, and whether this process has led since.
    Rules {
        is_valid: bool,
    },
}

/// So long the API server works on a request at most.
pub(super) const MAX_LATENCY: Duration = Duration::from_secs(60);

/// A patch whose response is lost, and which may be applied yet.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) node: usize,
    pub(super) patch: Patch,
    pub(super) license: License,
    /// When the API server has given up on it.
    pub(super) until: Instant,
}

/// Something that a watch shows.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    Apply(Value),
    Delete(Value),
}

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Two of them share one slot.
    pub(super) nodes: usize,
    pub(super) actions: u8,
    pub(super) faults: u8,
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) reconciler: Reconciler,
    pub(super) now: Now,
    pub(super) nodes: Vec<Option<SmallNode>>,
    /// Of the nodes.
    pub(super) versions: Vec<u64>,
    pub(super) uids: u8,
    pub(super) version: u64,
    pub(super) rules: BTreeMap<usize, Value>,
    /// What the pod on the node requests, and whether it has started; 0 for none.
    pub(super) pods: u8,
    pub(super) has_started: bool,
    /// Whether pods are to be watched, and whether the watch has listed them.
    pub(super) watches_pods: [bool; 2],
    /// What the watch of pods has shown: what is bound, and what has started.
    pub(super) shown_pods: [u8; 2],
    pub(super) open: Vec<Open>,
    pub(super) late: Vec<Late>,
    /// What the watches of nodes, rules and pods have not shown yet, where they are behind.
    pub(super) behind: [Option<VecDeque<Shown>>; 3],
    /// Whether another process holds the Lease.
    pub(super) is_deposed: bool,
    /// Whether the rules have been listed by a watch that began since this process leads (I4).
    pub(super) has_rules: bool,
    pub(super) actions_left: u8,
    pub(super) faults_left: u8,
    /// How many patches have been sent.
    pub(super) patches: usize,
    /// What has been sent since it was last asked.
    pub(super) sent: BTreeSet<&'static str>,
}

impl World {
    /// A leader with both rules at 1 and 2, the second of higher priority on the other resource.
    pub(super) fn new(Size { nodes, actions, faults }: Size) -> Self {
        let mut world = Self {
            reconciler: reconciler(nodes),
            now: Now { instant: Instant::now(), wall: "2026-02-01T00:00:30Z".parse().unwrap() },
            nodes: (1..=nodes).map(|uid| Some(SmallNode::new(uid as u8))).collect(),
            versions: vec![1_000_000; nodes],
            uids: nodes as u8,
            version: 1_000_000,
            rules: BTreeMap::new(),
            pods: 0,
            has_started: false,
            watches_pods: [false; 2],
            shown_pods: [0; 2],
            open: Vec::new(),
            late: Vec::new(),
            behind: [None, None, None],
            is_deposed: false,
            has_rules: false,
            actions_left: actions,
            faults_left: faults,
            patches: 0,
            sent: BTreeSet::new(),
        };
        world.set_rule(0, 2);
        world.restart();
        world
    }

    /// A new process, which lists everything and leads.
    pub(super) fn restart(&mut self) {
        self.reconciler = reconciler(self.nodes.len());
        self.is_deposed = false;
        self.has_rules = false;
        self.watches_pods = [false; 2];
        self.behind[2] = None;
        self.list_nodes();
        self.list_rules();
        self.observe(Observation::Lease(Ok(Event::Init)));
        self.observe(Observation::Lease(Ok(Event::InitDone)));
    }

    /// Everything beside the reconciler that decides what happens next, but for how much more may happen.
    pub(super) fn facts(&self) -> impl Debug {
        let term = (self.is_deposed, self.has_rules);
        let objects = (&self.nodes, &self.versions, &self.rules, self.pods, self.has_started);
        let pods = (self.watches_pods, self.shown_pods);
        (term, objects, pods, self.open.clone(), self.late.clone(), &self.behind)
    }

    pub(super) fn observe(&mut self, observation: Observation) {
        self.reconciler.observe(observation, self.now);
    }

    pub(super) fn list_nodes(&mut self) {
        self.behind[0] = None;
        self.observe(Observation::Node(Ok(Event::Init)));
        for place in 0..self.nodes.len() {
            if let Some(node) = self.node_object(place) {
                self.observe(Observation::Node(Ok(Event::InitApply(object(node)))));
            }
        }
        self.observe(Observation::Node(Ok(Event::InitDone)));
    }

    pub(super) fn node_object(&self, place: usize) -> Option<Value> {
        let mut node = self.nodes[place]?.object(NODE_CREATED);
        node["metadata"]["name"] = json!(NODES[place]);
        node["metadata"]["resourceVersion"] = json!(self.versions[place].to_string());
        Some(node)
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// A node has changed.
    pub(super) fn show_node(&mut self, place: usize) {
        self.versions[place] = self.next_version();
        if let Some(node) = self.node_object(place) {
            self.show(0, Shown::Apply(node));
        }
    }

    /// What a watch shows at once, unless it is behind.
    pub(super) fn show(&mut self, watch: usize, shown: Shown) {
        if watch == 1 && self.is_listing_rules() {
            return;
        }
        match &mut self.behind[watch] {
            Some(behind) => behind.push_back(shown),
            None => self.show_now(watch, shown),
        }
    }

    pub(super) fn show_now(&mut self, watch: usize, shown: Shown) {
        if watch == 2 {
            return self.show_pods_now(shown);
        }
        self.observe(match (watch, shown) {
            (0, Shown::Apply(node)) => Observation::Node(Ok(Event::Apply(object(node)))),
            (0, Shown::Delete(node)) => Observation::Node(Ok(Event::Delete(object(node)))),
            (_, Shown::Apply(rule)) => Observation::Rule(Ok(Event::Apply(object(rule)))),
            (_, Shown::Delete(rule)) => Observation::Rule(Ok(Event::Delete(object(rule)))),
        });
    }

    /// Another process takes the Lease, or gives it back.
    pub(super) fn depose(&mut self, is_deposed: bool) {
        let holder = if is_deposed { "pod-2" } else { "" };
        let version = self.next_version();
        let lease: Lease = object(json!({
            "metadata": {"name": "lease", "namespace": "system", "resourceVersion": version.to_string()},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": LEASE_DURATION.as_secs(),
                "renewTime": "2026-02-01T00:00:30.000000Z"},
        }));
        self.begin_term(is_deposed);
        self.observe(Observation::Lease(Ok(Event::Apply(lease))));
    }

    /// Another process leads, or this one again: what it has asked for before does not count.
    fn begin_term(&mut self, is_deposed: bool) {
        (self.is_deposed, self.has_rules) = (is_deposed, false);
        for open in &mut self.open {
            if let Open::Rules { is_valid } = open {
                *is_valid = false;
            }
        }
    }

    pub(super) fn schedulable(&self) -> u8 {
        self.nodes[0].and_then(|node| node.amounts[0].values[1]).unwrap_or_default()
    }

    /// Lets the reconciler do all that it can at this moment. Returns when it has more to do.
    pub(super) fn run(&mut self) -> Result<Option<Instant>, String> {
        for _ in 0..1000 {
            let step = self.reconciler.next(self.now);
            self.reconciler.take_happenings();
            if let Some(what) = self.reconciler.missed_wake(&step, self.now) {
                return Err(format!("I8: it sleeps through {what}"));
            }
            let wake = step.wake.filter(|wake| *wake > self.now.instant);
            let turns = step.watches_pods != self.watches_pods[0];
            if turns {
                self.watch_pods(step.watches_pods);
            }
            if step.relists_rules {
                self.watch_rules();
            }
            if step.requests.is_empty() && wake == step.wake && !turns && !step.relists_rules {
                return Ok(wake);
            }
            for request in step.requests {
                self.take(request.effect)?;
            }
        }
        Err("it never comes to rest".to_owned())
    }

    fn take(&mut self, effect: Effect) -> Result<(), String> {
        self.sent.insert(request(&effect));
        let completion = match effect {
            Effect::WriteLease(write) => {
                let mut lease = write.lease;
                // The other process has not renewed it.
                if self.is_deposed {
                    self.begin_term(false);
                }
                lease.metadata.resource_version = Some(self.next_version().to_string());
                let written = Written::Done(lease);
                Completion::LeaseWritten { started: self.now.instant, written, found: None }
            }
            Effect::ReleaseLease(_) => Completion::LeaseReleased,
            Effect::PatchNode { slot, patch, node } => {
                // The first operation tests the uid: a node that was recreated is another one, and no patch of the node
                // before it applies there.
                let is_same_node = |other: &Patch| other.0.first() == patch.0.first();
                if self.open.iter().any(|open| matches!(open, Open::Patch { patch, .. } if is_same_node(patch))) {
                    return Err("I8: two patches of one node are in flight".to_owned());
                }
                let node = NODES.iter().position(|name| **name == *node).unwrap();
                let license = self.license(node)?;
                self.patches += 1;
                self.open.push(Open::Patch { slot, node, patch, license });
                return Ok(());
            }
            Effect::PatchStatus { slot, rule, uid, status } => {
                let result = Ok(WrittenStatus { status: ObservedStatus::new(&status), version: None });
                Completion::StatusPatched { slot, rule, uid, result }
            }
            Effect::CreateEvent { slot, event } => Completion::EventCreated { slot, event, result: Ok(()) },
            Effect::TestConfinement { .. } => return Err("a test that is off".to_owned()),
        };
        self.reconciler.complete(completion, self.now);
        Ok(())
    }

    /// What a patch may do that is sent now.
    fn license(&self, place: usize) -> Result<License, String> {
        let kind = match (self.is_deposed, self.has_rules) {
            (true, _) => Planned::Resets,
            (false, false) => Planned::Repairs,
            (false, true) => Planned::Plan,
        };
        let valid = self.reconciler.rules.iter().filter_map(|(_, state)| state.rule.as_ref().ok());
        let decides = valid.max_by_key(|rule| rule.priority);
        let leaves = self.reconciler.nodes().get(NODES[place]).is_some_and(|state| {
            let ledger = Ledger::parse(state.node.ledger.as_deref()).unwrap_or_default();
            ledger.get(RESOURCES[0]).is_some_and(|entry| entry.deletion_policy == DeletionPolicy::WhenUnused)
        });
        let when_free = decides.map_or(leaves, |rule| rule.shrink_policy == ShrinkPolicy::WhenFree);
        let [bound, started] = if place == 0 { self.shown_pods } else { [0; 2] };
        let known = self.reconciler.usage_on(NODES[place], self.now.instant);
        let floor = match (kind, &known) {
            (Planned::Plan, _) if !when_free => Floor::Any,
            (_, PodUsage::Known(requests)) => {
                let is_as_shown =
                    |requests: &Requests, amount: u8| requests.get(RESOURCES[0]) == i64::from(amount).into();
                if !is_as_shown(&requests.bound, bound) || !is_as_shown(&requests.started, started) {
                    return Err(format!("I5: {known:?}, where the watch has shown {bound}, and {started} started"));
                }
                Floor::Known { bound, started }
            }
            _ => Floor::Unknown,
        };
        let overwrites =
            kind == Planned::Plan && decides.is_some_and(|rule| rule.conflict_policy == ConflictPolicy::Overwrite);
        let state = self.reconciler.nodes().get(NODES[place]);
        let seen = [0, 1].map(|map| {
            let node = state.map(|state| &state.node)?;
            let map = [&node.capacity, &node.allocatable][map].as_ref()?;
            map.get(RESOURCES[0])?.parse().ok()
        });
        let grant = Grant { overwrites, seen, floor, may_appear: false };
        Ok(License { kind, grants: [grant; 2] })
    }

    /// Applies a patch as the API server does.
    pub(super) fn apply(&mut self, place: usize, patch: &Patch, license: &License) -> Result<Reply, String> {
        let Some((mut object, before)) = self.node_object(place).zip(self.nodes[place]) else {
            return Ok(Reply::NotFound);
        };
        if try_apply(&mut object, patch).is_err() {
            let node = Box::new(super::super::world::object(self.node_object(place).unwrap()));
            return Ok(Reply::Stale { node, message: "422: a test failed".to_owned() });
        }
        let after = before.written(&object);
        check(license, &before, &after)?;
        self.nodes[place] = Some(after);
        if before != after {
            self.show_node(place);
        }
        Ok(Reply::Patched(Box::new(super::super::world::object(self.node_object(place).unwrap()))))
    }
}

/// Two nodes share one slot.
fn reconciler(nodes: usize) -> Reconciler {
    let options = Options {
        concurrency: if nodes == 1 { 16 } else { 1 },
        rollouts: RolloutLimits::NONE,
        request_timeout: Duration::from_secs(15),
        mass_withdrawal_delay: Duration::from_secs(300),
        confinement_test: false,
        protection: crate::reconciler::ExpectedPolicy::Auto,
        node_condition: false,
        max_rules_memory: 64 << 20,
        seed: 7,
    };
    let candidate = Candidate { duration: LEASE_DURATION, ..Candidate::for_test("pod-1") };
    Reconciler::new(candidate, options)
}
