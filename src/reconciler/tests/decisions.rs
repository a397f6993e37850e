//! What a node needs next, case by case, without a world: its state, and what is known, decide.

use super::world::DONGLE;
use super::*;
use crate::model::node::{Interner, Node};
use crate::planner::input::{Lost, PodUsage};
use crate::planner::rules::RuleSet;
use crate::planner::{Action, Change, Memo};
use crate::reconciler::nodes::{Attempt, Cause, NodeState};
use crate::reconciler::rollouts::Rollouts;
use crate::reconciler::rules::Rules;
use decide::{Authority, Next, Question, decide};

const KEY: &str = "example.com/key";

/// A node as it is, and all that decides what it needs.
struct Case {
    state: NodeState,
    rules: Rules,
    rule_set: Arc<RuleSet>,
    authority: Authority,
    pods: PodUsage,
    rollouts: Rollouts,
    has_condition: bool,
    now: Now,
}

impl Case {
    /// A node with these dongles and keys, which its ledger records, and a leader with these rules.
    fn new(amounts: [Option<u64>; 2], specs: &[Value]) -> Self {
        let recorded = [(DONGLE, "r0", amounts[0]), (KEY, "r1", amounts[1])];
        let recorded = recorded.into_iter().filter_map(|(resource, rule, amount)| Some((resource, rule, amount?)));
        let ledger: serde_json::Map<_, _> = recorded
            .clone()
            .map(|(resource, rule, amount)| {
                (resource.to_owned(), json!({"quantity": amount.to_string(), "rule": rule}))
            })
            .collect();
        let values: serde_json::Map<_, _> =
            recorded.map(|(resource, _, amount)| (resource.to_owned(), json!(amount.to_string()))).collect();
        let annotations = json!({crate::model::ledger::ANNOTATION: Value::Object(ledger).to_string()});
        let node = json!({
            "metadata": {"name": "node-0", "uid": "u", "resourceVersion": "1", "annotations": annotations,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"capacity": values, "allocatable": values},
        });
        let mut rules = Rules::new(usize::MAX);
        for (number, spec) in specs.iter().enumerate() {
            let mut rule = json!({
                "metadata": {"name": format!("r{number}"), "uid": "u", "generation": 1, "resourceVersion": "1",
                    "creationTimestamp": "2026-01-02T00:00:00Z"},
                "spec": {"resourceName": ([DONGLE, KEY][number]), "quantity": 4, "allNodes": true},
            });
            rule["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            rules.observe(Event::Apply(object(rule)));
        }
        Self {
            state: NodeState::new(decoded(node)),
            rule_set: Arc::clone(rules.set()),
            rules,
            authority: Authority::Rules,
            pods: PodUsage::NotFetched,
            rollouts: Rollouts::new(1),
            has_condition: false,
            now: Now { instant: Instant::now(), wall: "2026-02-01T00:00:00Z".parse().unwrap() },
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The same node with this many dongles in both maps.
    fn losing_dongles(self, left: u64) -> Self {
        self.with(|case| {
            let mut node = json!({"metadata": {"name": "node-0", "uid": "u", "resourceVersion": "2", "annotations": {}},
                "status": {"capacity": {DONGLE: left.to_string()}, "allocatable": {DONGLE: left.to_string()}}});
            node["metadata"]["annotations"][crate::model::ledger::ANNOTATION] = json!(case.state.node.ledger.as_deref());
            node["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            let fields = json!({"f:status": {"f:capacity": {format!("f:{DONGLE}"): {}}, "f:allocatable": {format!("f:{DONGLE}"): {}}}});
            node["metadata"]["managedFields"] =
                json!([crate::model::node::heartbeats("kubelet"), {"manager": "kubelet", "fieldsV1": fields}]);
            case.state.node = decoded(node);
        })
    }

    fn using(self, dongles: u64) -> Self {
        self.with(|case| case.pods = PodUsage::Known(responses::requests(dongles)))
    }

    fn in_rollout(self) -> Self {
        self.with(|case| case.state.is_rollout = true)
    }

    /// A patch of these changes has failed.
    fn failed(self, cause: Cause, resources: &[&str]) -> Self {
        self.with(|case| {
            let changes = case.changes();
            let of = |change: &&Change| resources.contains(&change.name());
            let failed: Vec<_> = changes.iter().filter(of).cloned().collect();
            let attempt = Attempt { ended: case.now.instant, retry_after: Some(Duration::from_secs(7)), seed: 0 };
            case.state.work_mut().failures.fail(cause, &"no".into(), &failed, attempt);
        })
    }

    /// The rollout of the rule of the dongles is stopped, for 30 seconds.
    fn stopped(self) -> Self {
        self.with(|case| {
            let action = Action::Advertise { quantity: "4".to_owned(), rule: "r0".into() };
            let (changes, now) = ([Change::for_test(DONGLE, action)], case.now.instant);
            assert_eq!(case.rollouts.patch_failed(&"node-1".into(), &changes, now, now).len(), 1);
        })
    }

    fn changes(&self) -> Vec<Change> {
        decide(&self.question(), &mut Memo::default()).changes
    }

    fn question(&self) -> Question<'_> {
        Question {
            state: &self.state,
            authority: self.authority,
            rules: &self.rules,
            rule_set: &self.rule_set,
            pods: self.pods.clone(),
            rollouts: &self.rollouts,
            has_condition: self.has_condition,
            now: self.now,
        }
    }

    fn expect(self, what: &str, expected: &str) {
        let decision = decide(&self.question(), &mut Memo::default());
        let mut text = match &decision.next {
            Next::Rest => "rest".to_owned(),
            Next::AwaitUsage => "await usage".to_owned(),
            Next::Send { rank, changes } => {
                let changes: Vec<_> =
                    changes.iter().map(|change| format!("{} {}", change.action_name(), change.name())).collect();
                format!("{rank:?}: {}", changes.join(", ").replace("example.com/", ""))
            }
        };
        if let Some(until) = decision.until {
            text += &format!(", until {:?}", until.duration_since(self.now.instant));
        }
        if decision.next != Next::AwaitUsage && decision.awaits_usage {
            text += ", and usage";
        }
        if decision.is_in_sync() {
            text += ", in sync";
        }
        assert_eq!(text, expected, "{what}");
    }
}

fn decoded(node: Value) -> Node {
    Node::new(object(node), &mut Interner::keeping_conditions(true))
}

const NONE: [Option<u64>; 2] = [None, None];

fn at_once(quantity: u64) -> Value {
    json!({"quantity": quantity, "shrinkPolicy": "Immediate"})
}

#[tokio::test(start_paused = true)]
async fn node_needs_what_its_rules_declare_and_pods_allow() {
    let four = [Some(4), None];
    Case::new(NONE, &[]).expect("no rule", "rest, in sync");
    Case::new(four, &[json!({})]).expect("as declared", "rest, in sync");
    Case::new(NONE, &[at_once(4)]).expect("a new value", "Changed: advertise dongle");
    Case::new(NONE, &[at_once(4)]).in_rollout().expect("a new value", "Replan: advertise dongle");
    Case::new(NONE, &[json!({})]).expect("a new value on an older node", "await usage");
    Case::new(NONE, &[json!({})]).using(0).expect("a new value, with no pods", "Changed: advertise dongle");
    let two = json!({"quantity": 2});
    Case::new(four, std::slice::from_ref(&two)).expect("a lower one", "await usage");
    Case::new(four, std::slice::from_ref(&two)).using(3).expect("a lower one", "Changed: hold dongle");
    Case::new(four, std::slice::from_ref(&two)).using(4).expect("all used", "rest, in sync");
    Case::new(four, &[two.clone(), at_once(1)]).expect("the other needs no pods", "Changed: advertise key, and usage");
    Case::new(four, &[]).expect("no longer declared", "Changed: withdraw dongle");
}

#[tokio::test(start_paused = true)]
async fn lost_value_is_repaired_before_all_else() {
    let four = || Case::new([Some(4), None], &[json!({}), at_once(1)]);
    four().losing_dongles(0).expect("with all else", "Repair: repair dongle, advertise key");
    four().losing_dongles(0).in_rollout().expect("the rest has its turn", "Repair: repair dongle");
    let repairs = |case: &mut Case| case.authority = Authority::Repairs;
    four().with(repairs).expect("I4: what is recorded is there", "rest, in sync");
    four().losing_dongles(0).with(repairs).expect("I4: nothing else", "Repair: repair dongle");
    let four = four().losing_dongles(0).in_rollout().stopped();
    four.expect("also in a stopped rollout", "Repair: repair dongle");
}

#[tokio::test(start_paused = true)]
async fn standby_leaves_a_reset_to_the_leader_for_a_moment() {
    let reset = |left: u64, ago: u64| {
        Case::new([Some(4), None], &[json!({}), at_once(1)]).losing_dongles(left).with(|case| {
            case.authority = Authority::Resets;
            let since = case.now.instant;
            case.now.instant += Duration::from_millis(ago);
            case.state.pending_since = Some(since);
        })
    };
    reset(0, 0).expect("I6", "rest, until 100ms");
    reset(0, 99).expect("I6", "rest, until 1ms");
    reset(0, 100).expect("I6", "Repair: repair dongle");
    reset(2, 100).expect("no reset", "rest, in sync");
    let twice = reset(0, 100).with(|case| {
        let now = case.now.instant;
        (0..2).for_each(|_| case.state.work_mut().resets.repaired(DONGLE, now));
    });
    twice.expect("the leader decides about more", "rest, until 600s");
}

/// I9
#[tokio::test(start_paused = true)]
async fn what_failed_waits_and_holds_up_nothing_else() {
    let both = || Case::new(NONE, &[at_once(4), at_once(1)]);
    both().expect("together", "Changed: advertise dongle, advertise key");
    both().failed(Cause::Rejected, &[DONGLE, KEY]).expect("one by one", "Changed: advertise dongle");
    let one = || both().failed(Cause::Rejected, &[DONGLE, KEY]).failed(Cause::Rejected, &[DONGLE]);
    one().expect("the other", "Changed: advertise key");
    one().failed(Cause::Rejected, &[KEY]).expect("both wait", "rest, until 7s");
    both().failed(Cause::Overload, &[DONGLE, KEY]).expect("the API server", "rest, until 7s");
    let lost = Case::new([Some(4), None], &[json!({}), at_once(1)]).failed(Cause::Overload, &[KEY]);
    lost.losing_dongles(0).expect("a repair that has not failed", "Repair: repair dongle");
    let rejected = Case::new([Some(4), None], &[json!({}), at_once(1)]).losing_dongles(0).in_rollout();
    let rejected = rejected.failed(Cause::Rejected, &[DONGLE]);
    rejected.expect("a rollout, while a repair waits", "Replan: advertise key, until 7s");
}

#[tokio::test(start_paused = true)]
async fn stopped_rollout_withholds_what_it_would_change() {
    let four = || Case::new([Some(4), None], &[at_once(5), at_once(1)]).stopped();
    four().expect("a change of the node is none of the rollout's", "Changed: advertise dongle, advertise key");
    four().in_rollout().expect("the other rule goes on", "Replan: advertise key, until 30s");
    Case::new(NONE, &[at_once(4)]).stopped().in_rollout().expect("all is withheld", "rest, until 30s");
    let lost = four().in_rollout().losing_dongles(0);
    let quantity = lost.changes()[0].quantity().map(str::to_owned);
    assert_eq!(quantity.as_deref(), Some("4"), "what is lost is repaired as it was recorded");
}

#[tokio::test(start_paused = true)]
async fn contested_value_is_repaired_after_its_pause() {
    let contested = |later: u64| {
        Case::new([Some(4), None], &[json!({})]).losing_dongles(2).with(|case| {
            let now = case.now.instant;
            let conflicts = &mut case.state.work_mut().conflicts;
            (0..5).filter(|_| conflicts.add(DONGLE, "2", None, Lost::Value, now)).count();
            case.now.instant += Duration::from_secs(later);
        })
    };
    contested(0).expect("five times", "rest, until 30s, in sync");
    contested(30).expect("after the pause", "Repair: repair dongle, until 570s");
}

#[tokio::test(start_paused = true)]
async fn condition_goes_along_or_alone_at_the_rate_of_a_rollout() {
    let keeps = |case: &mut Case| case.has_condition = true;
    let alone = Case::new([Some(4), None], &[json!({})]).with(keeps);
    alone.expect("alone", "Replan: setCondition condition/noderesource.dev/Advertised");
    let along = Case::new(NONE, &[at_once(4)]).with(keeps);
    along.expect("along", "Changed: advertise dongle, setCondition condition/noderesource.dev/Advertised");
    Case::new([Some(4), None], &[json!({"quantity": 2})])
        .with(keeps)
        .expect("not before usage is known", "await usage");
    let failed = |case: &mut Case| case.pods = PodUsage::Unavailable("no right".into());
    let unavailable = Case::new([Some(4), None], &[json!({"quantity": 2})]).with(keeps).with(failed);
    unavailable
        .expect("held without knowledge", "Replan: setCondition condition/noderesource.dev/Advertised, and usage");
}

#[tokio::test(start_paused = true)]
async fn node_whose_ledger_cannot_be_read_is_left_alone() {
    let case = Case::new([Some(4), None], &[at_once(5)]).with(|case| case.state.node.ledger = Some("{".into()));
    assert!(decide(&case.question(), &mut Memo::default()).unreadable.is_some());
    case.expect("I1", "rest, in sync");
}
