//! What a status says, for every kind of count.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::*;
use crate::model::api::{MAX_MESSAGE, Reason};
use crate::planner::Outcome;
use crate::planner::rules::{InvalidRule, Rule};
use crate::reconciler::rules::Stalled;
use crate::reconciler::standing::Standing;

fn state(spec: serde_json::Value) -> RuleState {
    let mut object = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle"},
        "spec": {"resourceName": "example.com/dongle", "quantity": 4},
    });
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let rule = Rule::new(&serde_json::from_value(object).unwrap()).map(Arc::new).map_err(Stalled::from);
    let (uid, generation) = (Some("uid".to_owned()), Some(3));
    RuleState { uid, generation, version: None, priority: None, created: None, status: None, rule, waits_for: None }
}

/// So many nodes in each of these states.
fn nodes(states: &[(State, usize)]) -> Counts {
    Counts::for_test(states)
}

/// The status of a rule with these nodes, none of which is named.
fn status(
    state: &RuleState,
    counts: Option<&Counts>,
    used: Used,
    mapping: &Mapping,
    now: Timestamp,
) -> NodeExtendedResourceStatus {
    super::status(state, &Coverage { counts, ..Coverage::default() }, used, mapping, now)
}

fn everywhere() -> RuleState {
    state(json!({"allNodes": true}))
}

/// Each condition as `type=status reason`.
fn reported(status: &NodeExtendedResourceStatus) -> Vec<String> {
    let report_text = |condition: &Condition| {
        let Condition { type_, status, reason, .. } = condition;
        format!("{type_}={status} {reason}")
    };
    let conditions =
        status.conditions.iter().filter(|said| matches!(said.type_.as_str(), "Ready" | "Reconciling" | "Stalled"));
    conditions.map(report_text).collect()
}

fn ready_message(status: &NodeExtendedResourceStatus) -> &str {
    &status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap().message
}

#[test]
fn ready_condition_follows_the_node_counts() {
    for (counts, says, message) in [
        (
            nodes(&[(State::Advertised, 2)]),
            ["Ready=True Advertised", "Reconciling=False Advertised", "Stalled=False Advertised"],
            "advertised on 2/2 nodes",
        ),
        (
            nodes(&[(State::Advertised, 1), (State::Overridden, 1)]),
            ["Ready=True Advertised", "Reconciling=False Advertised", "Stalled=False Advertised"],
            "advertised on 1/2 nodes, 1 overridden by another rule",
        ),
        (
            nodes(&[(State::Overridden, 1)]),
            ["Ready=True Overridden", "Reconciling=False Overridden", "Stalled=False Overridden"],
            "advertised on 0/1 nodes, 1 overridden by another rule",
        ),
        (
            nodes(&[(State::Advertised, 1), (State::Held, 1)]),
            ["Ready=False Held", "Reconciling=True Held", "Stalled=False Held"],
            "advertised on 1/2 nodes, 1 held at what pods request",
        ),
        (
            nodes(&[(State::Held, 1), (State::PodsUnavailable, 1)]),
            ["Ready=False PodsUnavailable", "Reconciling=True PodsUnavailable", "Stalled=False PodsUnavailable"],
            "advertised on 0/2 nodes, 1 waiting for the watch of pods, \
             1 held at what pods request",
        ),
        (
            nodes(&[(State::Advertised, 1), (State::InvalidLedger, 1)]),
            ["Ready=False InvalidLedger", "Reconciling=False InvalidLedger", "Stalled=False InvalidLedger"],
            "advertised on 1/2 nodes, 1 with an unreadable ledger",
        ),
        (
            Counts::default(),
            ["Ready=True NoNodesSelected", "Reconciling=False NoNodesSelected", "Stalled=False NoNodesSelected"],
            "no node is selected",
        ),
        (
            nodes(&[(State::Advertised, 1), (State::Pending, 1), (State::Failed, 1)]),
            ["Ready=False Progressing", "Reconciling=True Progressing", "Stalled=False Progressing"],
            "advertised on 1/3 nodes, 1 being patched, 1 failed and retried",
        ),
        (
            nodes(&[(State::Failed, 1), (State::Conflicted, 1)]),
            ["Ready=False PatchFailed", "Reconciling=True PatchFailed", "Stalled=False PatchFailed"],
            "advertised on 0/2 nodes, 1 failed and retried, 1 left to another field manager",
        ),
        (
            nodes(&[(State::Advertised, 1), (State::Conflicted, 1), (State::Contested, 1)]),
            ["Ready=False Contested", "Reconciling=False Contested", "Stalled=False Contested"],
            "advertised on 1/3 nodes, 1 contested by another field manager, 1 left to another field manager",
        ),
        (
            nodes(&[(State::Advertised, 1), (State::Conflicted, 1)]),
            ["Ready=False Conflict", "Reconciling=False Conflict", "Stalled=False Conflict"],
            "advertised on 1/2 nodes, 1 left to another field manager",
        ),
    ] {
        let status = status(&everywhere(), Some(&counts), Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
        assert_eq!(reported(&status), says);
        assert_eq!(ready_message(&status), message);
        assert_eq!(status.observed_generation, Some(3));
        assert!(status.conditions.iter().all(|said| said.observed_generation == Some(3)));
    }
}

#[test]
fn invalid_rule_is_stalled() {
    let mut state = everywhere();
    state.rule = Err(Stalled::Invalid(InvalidRule::Malformed("a quantity of dongles".to_owned())));
    let status = status(&state, None, Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
    let says = ["Ready=False InvalidSpec", "Reconciling=False InvalidSpec", "Stalled=True InvalidSpec"];
    assert_eq!(reported(&status), says);
    assert!(ready_message(&status).contains("a quantity of dongles"));
}

#[test]
fn overlapping_condition_names_the_deciding_rules() {
    let overlap = |tied| {
        let overridden_by = [("a".into(), 2), ("b".into(), 1)].into();
        let counts = Counts { tied, overridden_by, ..nodes(&[(State::Overridden, 3)]) };
        let status = status(&everywhere(), Some(&counts), Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
        assert_eq!(ObservedStatus::new(&status).reports(Reason::EqualPriority), tied > 0);
        status.conditions.into_iter().find(|said| said.type_ == "Overlapping").unwrap()
    };
    let said = overlap(0);
    assert_eq!((said.status.as_str(), said.reason.as_str()), ("True", "Overridden"));
    assert_eq!(said.message, "another rule decides: rule a on 2 nodes, rule b on 1 node");
    let said = overlap(1);
    assert_eq!((said.status.as_str(), said.reason.as_str()), ("True", "EqualPriority"));
    assert!(said.message.ends_with("give one a higher priority"));
    let status = status(&everywhere(), None, Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
    let said = status.conditions.iter().find(|said| said.type_ == "Overlapping").unwrap();
    assert_eq!((said.status.as_str(), said.reason.as_str()), ("False", "NoOverlap"));
}

#[test]
fn named_node_that_does_not_exist_counts_as_missing() {
    let state = state(json!({"nodeNames": ["a", "b", "c"]}));
    let counts = nodes(&[(State::Advertised, 1)]);
    let status = status(&state, Some(&counts), Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
    assert_eq!(status.nodes.as_ref().unwrap().missing, 2);
    assert!(ready_message(&status).ends_with("; 2 named nodes do not exist"));
}

#[test]
fn condition_transition_time_follows_its_status() {
    let [first, later] = [1, 2].map(|second| Timestamp::new(second, 0).unwrap());
    let mut state = everywhere();
    let one = nodes(&[(State::Advertised, 1)]);
    let before = status(&state, Some(&one), Used::Unknown, &Mapping::None, first);
    state.status = Some(ObservedStatus::new(&before));
    assert_eq!(status(&state, Some(&one), Used::Unknown, &Mapping::None, later), before, "nothing to write");

    let pending = nodes(&[(State::Pending, 1)]);
    let after = status(&state, Some(&pending), Used::Unknown, &Mapping::None, later);
    let times: Vec<_> = after.conditions.iter().map(|said| said.last_transition_time.0).collect();
    assert_eq!(times, [later, later, first, first, first, first], "Ready and Reconciling have changed");
}

#[test]
fn problem_names_its_node_reason_and_message() {
    let counts = nodes(&[(State::Failed, 20)]);
    let failed = Standing::Failed("no".into());
    let problems = vec![Detail { node: "node-00", standing: &failed, unknown: Arc::default() }];
    let coverage = Coverage { counts: Some(&counts), problems, contested: Vec::new() };
    let status = super::status(&everywhere(), &coverage, Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
    let problem = &status.problems[0];
    assert_eq!([&problem.node, &problem.reason, &problem.message], ["node-00", "PatchFailed", "no"]);
}

/// The API server rejects a status with a longer one.
#[test]
fn message_is_cut_at_a_character_boundary() {
    let message = "é".repeat(MAX_MESSAGE + 1);
    let failed = Standing::Failed(message.as_str().into());
    let counts = nodes(&[(State::Failed, 1)]);
    let problems = vec![Detail { node: "node-1", standing: &failed, unknown: Arc::default() }];
    let coverage = Coverage { counts: Some(&counts), problems, contested: Vec::new() };
    let mapping = Mapping::Unknown(message);
    let status = super::status(&everywhere(), &coverage, Used::Unknown, &mapping, Timestamp::UNIX_EPOCH);
    assert_eq!(status.problems[0].message.chars().count(), MAX_MESSAGE);
    let longest = status.conditions.iter().map(|said| said.message.chars().count()).max();
    assert_eq!(longest, Some(MAX_MESSAGE));
}

#[test]
fn total_is_what_advertised_and_held_nodes_carry() {
    let total = |spec, counts: &Counts| {
        status(&state(spec), Some(counts), Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH).total
    };
    let everywhere = |quantity: &str| json!({"allNodes": true, "quantity": quantity});
    let counts = nodes(&[(State::Advertised, 3), (State::Conflicted, 2), (State::Pending, 1)]);
    assert_eq!(total(everywhere("4"), &counts).as_deref(), Some("12"));
    assert_eq!(total(everywhere("800Gi"), &counts).as_deref(), Some("2400Gi"));
    assert_eq!(total(everywhere("4"), &Counts::default()).as_deref(), Some("0"));

    let held = |at: &str| Standing::Planned(Outcome::Held { at: at.parse().unwrap(), pods_error: None });
    let conflict = Standing::Planned(Outcome::Conflicted { present: "100".to_owned(), manager: None });
    let mut counts = nodes(&[(State::Advertised, 3), (State::Conflicted, 1)]);
    for (node, standing) in [("a", held("7")), ("b", held("2")), ("c", conflict)] {
        counts.add(&node.into(), 0, &standing);
    }
    assert_eq!(total(everywhere("4"), &counts).as_deref(), Some("21"));

    // No sum overflows, however many nodes there are.
    let counts = nodes(&[(State::Advertised, usize::MAX / 16)]);
    assert!(total(everywhere("9223372036854775"), &counts).is_some());

    let mut invalid = self::everywhere();
    invalid.rule = Err(Stalled::Invalid(InvalidRule::Malformed("x".to_owned())));
    let status = status(&invalid, None, Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
    assert_eq!(status.total, None, "what it advertised before is not counted");
}

#[test]
fn requested_is_reported_while_it_is_known() {
    let reported = |rule: &RuleState, used| {
        let counts = nodes(&[(State::Advertised, 3)]);
        status(rule, Some(&counts), used, &Mapping::None, Timestamp::UNIX_EPOCH).requested
    };
    let mut rule = state(json!({"allNodes": true, "quantity": "4Ki"}));
    let nine = Used::Known(Quantity::from(9 * 1024));
    assert_eq!(reported(&rule, Used::Unknown), None);
    assert_eq!(reported(&rule, nine).as_deref(), Some("9Ki"), "in the notation of the total");
    assert_eq!(reported(&rule, Used::Known(Quantity::default())).as_deref(), Some("0"));
    // A new leader does not know yet what the previous one reported.
    assert_eq!(reported(&rule, Used::Listing), None);
    let before = NodeExtendedResourceStatus { requested: Some("7".to_owned()), ..Default::default() };
    rule.status = Some(ObservedStatus::new(&before));
    assert_eq!(reported(&rule, Used::Listing).as_deref(), Some("7"));
    assert_eq!(reported(&rule, Used::Unknown), None);
    rule.rule = Err(Stalled::Invalid(InvalidRule::Malformed("x".to_owned())));
    assert_eq!(reported(&rule, nine), None);
}

#[test]
fn device_class_condition_names_the_device_class() {
    for (mapping, says) in [
        (Mapping::None, ("False", "NoDeviceClass", "")),
        (Mapping::By("gpu".to_owned()), ("True", "DeviceClassFound", "DeviceClass gpu maps this resource")),
        (Mapping::Unknown("no right".to_owned()), ("Unknown", "DeviceClassesUnavailable", "no right")),
    ] {
        let status = status(&everywhere(), None, Used::Unknown, &mapping, Timestamp::UNIX_EPOCH);
        let said = status.conditions.iter().find(|said| said.type_ == "DeviceClassMapped").unwrap();
        let (holds, reason, message) = says;
        assert_eq!((said.status.as_str(), said.reason.as_str()), (holds, reason));
        assert!(said.message.starts_with(message), "{}", said.message);
        assert_eq!(reported(&status)[0], "Ready=True NoNodesSelected", "it is a warning, and no more");
    }
}

#[test]
fn rule_that_is_being_deleted_carries_nothing() {
    let mut deleting = state(json!({"nodeNames": ["a", "b"]}));
    deleting.waits_for = Some("the finalizer example.com/keep".into());
    let counts = nodes(&[(State::Advertised, 2)]);
    let status = status(&deleting, Some(&counts), Used::Unknown, &Mapping::None, Timestamp::UNIX_EPOCH);
    assert_eq!(reported(&status), ["Ready=False Deleting", "Reconciling=False Deleting", "Stalled=False Deleting"]);
    assert!(ready_message(&status).contains("it waits for the finalizer example.com/keep"), "{status:?}");
    let nodes = status.nodes.unwrap();
    assert_eq!((nodes.summary.as_str(), nodes.selected, nodes.missing), ("0/0", 0, 0));
    assert_eq!((status.total.as_deref(), status.observed_generation), (Some("0"), Some(3)));
}
