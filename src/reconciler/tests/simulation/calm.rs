//! The end of a run: nobody writes and nothing fails any more. Then the cluster becomes as the rules declare, and
//! falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use simulator::Kind;
use simulator::invariants::{Calm, conditions, due_status, is_derived};

use super::confinement::INTERVAL;
use super::process::{LEASE, Process};
use super::stream::Stream;
use super::world::{Due, Millis, World};
use crate::model::api::NodeExtendedResource;
use crate::model::node::{Interner, Node};
use crate::model::pod::{NodeRequests, Pod};
use crate::model::quantity::Quantity;
use crate::planner::input::{PlanningInput, PodUsage};
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::{self, Plan};
use crate::reconciler::standing::{Carries, Standing, State};

/// How long it may take: a contest pauses for five minutes, and ends ten minutes after the last repair.
const MAX_TIME: Millis = 30 * 60_000;
/// And how many requests.
const MAX_REQUESTS: u64 = 1000;
/// How often that is looked at.
const LOOK: Millis = 5_000;
/// How often it must be quiet in succession: for longer than the kubelets' interval.
const QUIET_LOOKS: u32 = 3;
/// How long an edit may take where others are rejected.
const EDIT_TIME: Millis = 10_000;
/// How long a retry takes at most that is under way then, while nothing fails.
const RETRY_TIME: Millis = 5_000;

/// How long retries are counted, and how many requests of any kind a node may cost in that time.
const RETRY_SECONDS: u64 = 120;
const MAX_RETRIES: u64 = 20;

impl World {
    /// Ends all faults and actors, but a rejection of some patches.
    pub(super) fn calm_down(&mut self) {
        (self.faults, self.queued_until) = (0, 0);
        self.record(|| "nobody writes any more, and nothing fails".to_owned());
        self.end_plugins();
        self.fix_annotations();
        let now = self.now;
        for number in 0..self.processes.len() {
            for stream in &mut self.processes[number].streams {
                stream.calm_down(now);
            }
            self.resume(number);
            self.wake_watches(number);
            // The last bookmark may have been lost in a silence.
            if !self.processes[number].is_dead {
                self.hear_of_pods(number);
            }
        }
        self.install_crd();
        if !self.processes.iter().any(|process| !process.is_dead) && !self.is_due(Due::Start) {
            self.start_process();
        }
        self.rejected.clear();
        if self.choices.percent(25) {
            let what = self.choices.one_of(&["node-1", "example.com/key"]);
            self.record(|| format!("admission goes on to reject patches of {what}"));
            self.rejected.insert(what.to_owned());
        }
        self.come_to_rest();
        self.check_rest();
    }

    /// What holds once the cluster is at rest.
    fn check_rest(&mut self) {
        if self.violation.is_some() {
            return;
        }
        self.check_events();
        if self.violation.is_none() && !self.rejected.is_empty() {
            self.check_edit();
        }
        if self.violation.is_none() && self.rejected.is_empty() && self.choices.percent(50) {
            self.check_queue();
        }
        if self.violation.is_none() {
            self.check_silence();
        }
    }

    pub(super) fn come_to_rest(&mut self) {
        let end = self.now + MAX_TIME;
        let (start, first) = (self.now, self.checks.requests);
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            let before = self.checks.requests;
            self.run_until(self.now + LOOK);
            if self.violation.is_some() {
                return;
            }
            let unconverged = self.unconverged();
            quiet = if unconverged.is_none() && before == self.checks.requests { quiet + 1 } else { 0 };
            if self.checks.requests - first > MAX_REQUESTS {
                return self.violate("liveness: one request follows another".to_owned());
            }
            if self.now >= end {
                let what = unconverged.unwrap_or_else(|| "requests go on".to_owned());
                return self.violate(format!("liveness: {what}"));
            }
        }
        let minutes = (self.now - start) / 60_000;
        self.count(if minutes == 0 { "calm within a minute" } else { "calm after minutes" });
    }

    /// I9: where patches of one node or resource are rejected, an edit comes to the others.
    fn check_edit(&mut self) {
        // One node that is rejected then stops the rollout, as it should.
        if self.processes.iter().any(|process| process.leads_since.is_some() && process.max_failed_nodes == 1) {
            return;
        }
        let rules = self.objects(Kind::Rule);
        let is_other = |rule: &&Arc<serde_json::Value>| {
            let resource = rule["spec"]["resourceName"].as_str().unwrap_or_default();
            !self.rejected.contains(resource) && !is_derived(rule)
        };
        let Some(rule) = rules.iter().find(is_other) else { return };
        let name = rule["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let quantity = rule["spec"]["quantity"].as_i64().unwrap_or_default() + 10;
        self.count("edit beside a rejection");
        self.edit_rule(&name, &json!({"quantity": quantity}));
        self.run_until(self.now + EDIT_TIME);
        // What is rejected may be retried at just this moment.
        let end = self.now + RETRY_TIME;
        while self.is_any_under_way() && self.now < end {
            self.run_until(self.now + 1);
        }
        // An edit does not end the pause of a node where a field manager reverts the value.
        let rules = self.objects(Kind::Rule);
        let problems = rules.iter().flat_map(|rule| rule["status"]["problems"].as_array().into_iter().flatten());
        let contested = problems.filter(|problem| problem["reason"] == "Contested");
        let contested = contested.filter_map(|problem| problem["node"].as_str().map(str::to_owned)).collect();
        if let Err(what) = self.standings(&contested)
            && self.violation.is_none()
        {
            self.violate(format!("I9: after an edit beside a rejection, {what}"));
        }
    }

    /// I7: nothing is sent but renewals.
    fn check_silence(&mut self) {
        if !self.rejected.is_empty() {
            return self.check_retries();
        }
        let is_long = self.choices.percent(10);
        let time = if is_long { 600_000 } else { 40_000 };
        self.count(if is_long { "silence for ten minutes" } else { "silence" });
        let (requests, tests) = (self.checks.requests, self.checks.tests);
        self.run_until(self.now + time);
        self.check_tests(self.checks.tests - tests, time);
        if self.checks.requests != requests {
            self.violate("I7: a converged cluster costs requests".to_owned());
        }
        if let Some(what) = self.unconverged() {
            self.violate(format!("liveness: it had converged, and then {what}"));
        }
    }

    /// I7: what is rejected is retried after pauses that grow, also where nodes change in the meantime.
    fn check_retries(&mut self) {
        let requests = self.checks.requests;
        for second in 0..RETRY_SECONDS {
            for machine in 0..self.machines.len() {
                self.report_heartbeat(machine, second);
            }
            self.run_until(self.now + 1000);
        }
        let (requests, nodes) = (self.checks.requests - requests, self.machines.len() as u64);
        self.count("retries of what is rejected");
        if requests > nodes * MAX_RETRIES {
            self.violate(format!("I7: {requests} requests in {RETRY_SECONDS} s for what is rejected on {nodes} nodes"));
        }
    }

    /// I7: the leader has tested the confinement once a minute.
    fn check_tests(&mut self, tests: u64, time: Millis) {
        let interval = INTERVAL.as_millis() as Millis;
        let is_tested = self.processes.iter().any(|process| process.leads_since.is_some() && process.tests_confinement);
        let due = if is_tested && !self.objects(Kind::Node).is_empty() { time / interval } else { 0 };
        if tests > due + u64::from(due > 0 || is_tested) || tests + 1 < due {
            self.violate(format!("I7: {tests} tests of the confinement in {time} ms"));
        }
    }

    /// What is not as the rules declare, or is not reported like that.
    fn unconverged(&self) -> Option<String> {
        let Standings { counts, requested, missing } = match self.standings(&BTreeSet::new()) {
            Ok(standings) => standings,
            Err(what) => return Some(what),
        };
        let leaders = self.processes.iter().filter(|process| process.leads_since.is_some());
        let mut postponed = leaders.filter_map(|leader| leader.reconciler.postponed());
        if let Some(what) = postponed.next() {
            return Some(format!("{what} is postponed"));
        }
        let alive = self.processes.iter().filter(|process| !process.is_dead);
        if alive.clone().flat_map(|process| &process.streams).any(Stream::is_listing) {
            return Some("a watch has yet to list its objects".to_owned());
        }
        if let Some(what) = alive.into_iter().find_map(|process| self.wrong_confinement(process)) {
            return Some(what);
        }
        let rules = self.objects(Kind::Rule);
        let leader = self.processes.iter().find(|process| process.leads_since.is_some())?;
        let nodes = self.objects(Kind::Node);
        let is_rejected = |node: &serde_json::Value| {
            node["metadata"]["name"].as_str().is_some_and(|name| self.rejected.contains(name))
        };
        let mut open = nodes.iter().filter(|node| !is_rejected(node));
        open.find_map(|node| wrong_condition(node, &rules, leader.keeps_condition, &missing))
            .or_else(|| rules.iter().find_map(|rule| self.unconverged_status(rule, &counts)))
            .or_else(|| rules.iter().find_map(|rule| self.wrong_use(leader, rule, &requested)))
    }

    /// On how many nodes each rule stands how, where they are as the rules declare: by the planner and, apart from it,
    /// by the objects as they are. These nodes may differ.
    fn standings(&self, excused: &BTreeSet<String>) -> Result<Standings, String> {
        let leaders = self.processes.iter().filter(|process| process.leads_since.is_some());
        let leaders: Vec<_> = leaders.filter(|process| process.knows_rules).collect();
        let [leader] = leaders[..] else {
            return Err(format!("{} processes lead and know the rules of {}", leaders.len(), LEASE.1));
        };
        if self.is_any_under_way() {
            return Err("a request is under way".to_owned());
        }
        let is_delayed = |(number, process): (usize, &Process)| {
            !process.is_dead && process.reconciler.has_delayed_events(self.clock(number))
        };
        if self.processes.iter().enumerate().any(is_delayed) {
            return Err("Events are delayed".to_owned());
        }
        let objects = self.objects(Kind::Rule);
        let mut set = (Vec::new(), Vec::new());
        for object in &objects {
            let rule: NodeExtendedResource = serde_json::from_value((**object).clone()).unwrap();
            match Rule::new(&rule) {
                Ok(rule) => set.0.push(Arc::new(rule)),
                Err(_) => set.1.push((rule.metadata.name.unwrap_or_default().into(), Some(rule.spec.priority))),
            }
        }
        let resources: BTreeMap<_, _> =
            set.0.iter().map(|rule: &Arc<Rule>| (Arc::clone(&rule.name), rule.resource.as_str().to_owned())).collect();
        let rules = RuleSet::new(set.0, set.1);
        let Standings { mut counts, mut requested, mut missing } = Standings::default();
        for object in self.objects(Kind::Node) {
            let node = Node::new(serde_json::from_value((*object).clone()).unwrap(), &mut Interner::default());
            let used = self.requested(&node.name);
            let pods = PodUsage::Known(used.clone());
            let is_rejected = self.rejected.contains(&*node.name) || excused.contains(&*node.name);
            // What a ledger has lost is listed again, unless admission rejects that.
            let mut released = leader.reconciler.released(&node.name);
            released.retain(|resource| is_rejected || self.rejected.contains(&**resource));
            let input = PlanningInput { pods, released, ..PlanningInput::default() };
            let plan = planner::plan(&node, &rules, &input);
            let open = plan.changes().iter().find(|change| !is_rejected && !self.rejected.contains(change.name()));
            if let Some(change) = open {
                return Err(format!("{} is yet to be patched: {change}", node.name));
            }
            if matches!(plan.plan, Plan::Blocked(_)) {
                return Err(format!("{} has a ledger that cannot be read", node.name));
            }
            // What is rejected is not in force.
            let changes = plan.changes().iter();
            let open: BTreeSet<String> = changes.map(|change| change.name().to_owned()).collect();
            for (rule, outcome) in plan.outcomes {
                let is_open = resources.get(&rule).is_some_and(|it| open.contains(it));
                let standing = Standing::new(outcome, false, None);
                let state = match standing.state() {
                    State::Advertised | State::Held | State::QuantityUnknown if is_open => State::Failed,
                    state => state,
                };
                if let (false, Some(resource)) = (matches!(standing.carries(), Carries::Nothing), resources.get(&rule))
                    && state != State::Failed
                {
                    let sum: &mut Quantity = requested.entry(Arc::clone(&rule)).or_default();
                    *sum = sum.saturating_add(used.bound.get(resource));
                }
                let mut declaring = objects.iter().filter(|object| object["metadata"]["name"] == *rule);
                let labels = &object["metadata"]["labels"];
                if declaring.any(|rule| due_status(std::slice::from_ref(rule), &object, labels) == Some("False")) {
                    missing.entry(Arc::clone(&node.name)).or_default().push((state, Arc::clone(&rule)));
                }
                *counts.entry((rule, state)).or_default() += 1;
            }
        }
        let [nodes, pods] = [Kind::Node, Kind::Pod].map(|kind| self.objects(kind));
        let calm = Calm { rules: objects.clone(), nodes, pods };
        let is_rejected = |node: &str, resource: &str| {
            excused.contains(node) || [node, resource].iter().any(|what| self.rejected.contains(*what))
        };
        calm.check(is_rejected).map(|()| Standings { counts, requested, missing })
    }

    fn unconverged_status(
        &self,
        rule: &serde_json::Value,
        counts: &BTreeMap<(Arc<str>, State), i64>,
    ) -> Option<String> {
        let conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.into_iter().any(|condition| condition["reason"] == "PodsUnavailable") {
            return Some("pods are yet to be listed".to_owned());
        }
        let name: Arc<str> = rule["metadata"]["name"].as_str().unwrap_or_default().into();
        let count = |state: State| counts.get(&(Arc::clone(&name), state)).copied().unwrap_or(0);
        let selected = counts.iter().filter(|((other, _), _)| *other == name).map(|(_, n)| n).sum();
        let expected = [
            ("selected", selected),
            ("advertised", count(State::Advertised)),
            ("held", count(State::Held)),
            ("conflicted", count(State::Conflicted)),
            ("overridden", count(State::Overridden)),
            ("failed", count(State::Failed)),
        ];
        self.wrong_status(rule, &expected)
    }

    /// A rule whose status does not report what pods request, where the leader knows it.
    fn wrong_use(
        &self,
        leader: &Process,
        rule: &serde_json::Value,
        requested: &BTreeMap<Arc<str>, Quantity>,
    ) -> Option<String> {
        let now = self.clock(self.processes.iter().position(|process| std::ptr::eq(process, leader))?).instant;
        let name = rule["metadata"]["name"].as_str().unwrap_or_default();
        let is_known = matches!(leader.reconciler.usage_on("", now), PodUsage::Known(_));
        let is_valid = rule["status"]["total"].is_string();
        let expected = (is_known && is_valid).then(|| requested.get(name).copied().unwrap_or_default());
        let reported = rule["status"]["requested"].as_str().map(|text| text.parse::<Quantity>().unwrap());
        (reported != expected).then(|| format!("pods request {expected:?} of {name}, and its status has {reported:?}"))
    }

    /// What pods on a node request.
    fn requested(&self, node: &str) -> NodeRequests {
        let mut requests = NodeRequests::default();
        for pod in self.objects(Kind::Pod) {
            let pod: Pod = serde_json::from_value((*pod).clone()).unwrap();
            if pod.node() == Some(node) {
                requests.add_pod(&pod);
            }
        }
        requests
    }
}

/// How rules stand.
#[derive(Default)]
struct Standings {
    /// On how many nodes each does so.
    counts: BTreeMap<(Arc<str>, State), i64>,
    /// What pods request of each rule's resource on the nodes where the rule has a value.
    requested: BTreeMap<Arc<str>, Quantity>,
    missing: Missing,
}

/// The rules whose resources a node lacks.
type Missing = BTreeMap<Arc<str>, Vec<(State, Arc<str>)>>;

/// How the condition of a node is not as it should be.
fn wrong_condition(
    node: &serde_json::Value,
    rules: &[Arc<serde_json::Value>],
    is_kept: bool,
    missing: &Missing,
) -> Option<String> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let due = due_status(rules, node, &node["metadata"]["labels"]).filter(|_| is_kept).map(|status| {
        let mut missing = missing.get(name).cloned().unwrap_or_default();
        missing.sort_by_key(|(state, _)| *state);
        let worst = missing.first().map_or(State::Advertised, |(state, _)| *state);
        let named = missing.iter().map(|(state, rule)| format!("{rule}: {}", state.info().reason));
        let mut message = named.take(3).collect::<Vec<_>>().join(", ");
        match missing.len() {
            0 => message = "advertised".to_owned(),
            1..=3 => message.insert_str(0, "not advertised: "),
            all => message = format!("not advertised: {message}, and {} more", all - 3),
        }
        [status.to_owned(), worst.info().reason.to_string(), message]
    });
    let texts = |own: &serde_json::Value| {
        ["status", "reason", "message"].map(|field| own[field].as_str().unwrap_or_default().to_owned())
    };
    let own: Vec<_> = conditions(node).into_iter().map(texts).collect();
    let is_right = match (&own[..], &due) {
        ([], None) => true,
        ([own], Some(due)) => own[..2] == due[..2] && own[2].ends_with(&due[2]),
        _ => false,
    };
    (!is_right).then(|| format!("the condition of {name} is {own:?}, and {due:?} is due"))
}
