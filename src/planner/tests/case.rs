//! Nodes, rules and plans, as the tests of the planner write them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::json_patch::{Patch, PatchOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};
use simulator::{Failure, json_patch};

use crate::model::api::NodeExtendedResource;
use crate::model::node::{FactNames, Interner, Node, heartbeats};
use crate::model::pod::{NodeRequests, Requests};
use crate::model::quantity::Quantity;
use crate::planner::input::{Lost, PlanningInput, PodUsage};
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::{NodePlan, Outcome, Plan, patch, plan};

/// When all rules were created.
pub(crate) const RULES_CREATED: &str = "2026-01-02T00:00:00Z";

/// A Node object with these fields in it.
pub(crate) fn node_object(fields: &Value) -> Value {
    let mut metadata = json!({"name": "node-1", "uid": "uid-1", "labels": {"zone": "a"}});
    if let Some(ledger) = fields.get("ledger") {
        metadata["annotations"] = json!({ crate::model::ledger::ANNOTATION: ledger.to_string() });
    }
    if let Some(text) = fields.get("ledgerText") {
        metadata["annotations"] = json!({ crate::model::ledger::ANNOTATION: text });
    }
    if let Some(labels) = fields.get("labels") {
        metadata["labels"] = labels.clone();
    }
    if let Some(annotations) = fields.get("annotations") {
        let mut all = annotations.clone();
        all.as_object_mut().unwrap().extend(metadata["annotations"].as_object().cloned().unwrap_or_default());
        metadata["annotations"] = all;
    }
    if let Some(created) = fields.get("created") {
        metadata["creationTimestamp"] = created.clone();
    }
    if let Some(managers) = fields.get("managers") {
        metadata["managedFields"] = managers.clone();
        metadata["managedFields"].as_array_mut().unwrap().insert(0, heartbeats("kubelet"));
    }
    let mut status = Map::new();
    for map in ["capacity", "allocatable"] {
        status.extend(fields.get(map).map(|amounts| (map.to_owned(), amounts.clone())));
    }
    json!({"metadata": metadata, "status": status})
}

pub(crate) fn decoded(object: &Value) -> Node {
    Node::new(serde_json::from_value(object.clone()).unwrap(), &mut Interner::keeping(FactNames::All))
}

/// `name: {...}` is a rule for every node, of 4 dongles where it does not say otherwise; a rule
/// whose spec is `"invalid"` is frozen, and one whose spec is a number has that priority.
pub(crate) fn rule_set(rules: &Value) -> RuleSet {
    let (mut valid, mut frozen) = (Vec::new(), Vec::new());
    for (name, fields) in rules.as_object().unwrap() {
        let Some(fields) = fields.as_object() else {
            let priority = fields.as_i64().map(|priority| priority.try_into().unwrap());
            frozen.push((name.as_str().into(), priority));
            continue;
        };
        let mut spec = json!({"resourceName": "example.com/dongle"});
        if !fields.contains_key("quantityFrom") {
            spec["quantity"] = json!(4);
        }
        spec.as_object_mut().unwrap().extend(fields.clone());
        if ["nodeNames", "nodeSelector"].iter().all(|field| spec.get(field).is_none()) {
            spec["allNodes"] = json!(true);
        }
        let mut object = NodeExtendedResource::new(name, serde_json::from_value(spec).unwrap());
        object.metadata.name = Some(name.clone());
        object.metadata.creation_timestamp = Some(Time(RULES_CREATED.parse().unwrap()));
        valid.push(Arc::new(Rule::new(&object).unwrap()));
    }
    RuleSet::new(valid, frozen)
}

/// Applies a patch as the API server does.
pub(crate) fn apply(object: &mut Value, patch: &Patch) {
    try_apply(object, patch).unwrap_or_else(|failure| panic!("{failure:?}: {patch} {object}"));
}

/// Applies a patch as the API server does, completely or not at all.
pub(crate) fn try_apply(object: &mut Value, patch: &Patch) -> Result<(), Failure> {
    *object = json_patch::apply(object, &json!(patch))?;
    Ok(())
}

/// The resources and the ledger of a Node object.
pub(crate) fn fields(object: &Value) -> Value {
    let mut fields = Map::new();
    for map in ["capacity", "allocatable"] {
        let amounts = object["status"].get(map).cloned();
        fields.extend(amounts.map(|amounts| (map.to_owned(), amounts)));
    }
    let ledger = object["metadata"]["annotations"].get(crate::model::ledger::ANNOTATION);
    let ledger = ledger.map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap());
    fields.extend(ledger.map(|ledger: Value| ("ledger".to_owned(), ledger)));
    Value::Object(fields)
}

pub(crate) fn outcome_texts(outcomes: &[(Arc<str>, Outcome)]) -> BTreeMap<&str, String> {
    let text = |outcome: &Outcome| match outcome {
        Outcome::Advertised => "advertised".to_owned(),
        Outcome::Held { at, pods_error: None } => format!("held at {at}"),
        Outcome::Held { at, pods_error: Some(why) } => format!("held at {at}: {why}"),
        Outcome::AwaitingPods { pods_error: None } => "awaiting pods".to_owned(),
        Outcome::AwaitingPods { pods_error: Some(why) } => format!("awaiting pods: {why}"),
        Outcome::Conflicted { present, .. } => format!("conflicted: {present}"),
        Outcome::Contested { lost: Lost::Value, .. } => "contested".to_owned(),
        Outcome::Contested { lost: Lost::OwnWrite, .. } => "contested by admission".to_owned(),
        Outcome::Contested { lost: Lost::LedgerEntry, .. } => "contested annotation".to_owned(),
        Outcome::Paused { at: Some(at) } => format!("paused at {at}"),
        Outcome::Paused { at: None } => "paused".to_owned(),
        Outcome::QuantityUnknown { at: Some(at), why } => format!("unknown, {at} stays: {why}"),
        Outcome::QuantityUnknown { at: None, why } => format!("unknown: {why}"),
        Outcome::Moving { at } => format!("still {at}"),
        Outcome::Overridden { by, tied: false } => format!("overridden by {by}"),
        Outcome::Overridden { by, tied: true } => format!("tied, overridden by {by}"),
        Outcome::LedgerFull => "ledger full".to_owned(),
        Outcome::InvalidLedger { message } => format!("unreadable: {message:.38}"),
    };
    outcomes.iter().map(|(rule, outcome)| (&**rule, text(outcome))).collect()
}

pub(crate) fn change_texts(planned: &NodePlan) -> Vec<String> {
    planned.changes().iter().map(ToString::to_string).collect()
}

/// The circumstances of a node with no pods on it.
pub(crate) fn free() -> PlanningInput {
    used(0)
}

/// The circumstances of a node whose pods use so many dongles, and have all started.
pub(crate) fn used(dongles: i64) -> PlanningInput {
    bound(dongles, dongles)
}

/// The circumstances of a node whose pods request so many dongles, and those that have started so many.
pub(crate) fn bound(bound: i64, started: i64) -> PlanningInput {
    let [bound, started] = [bound, started].map(|dongles| {
        let mut requests = Requests::default();
        requests.add_amount("example.com/dongle", Quantity::from(dongles));
        requests
    });
    PlanningInput { pods: PodUsage::Known(NodeRequests { bound, started }), ..PlanningInput::default() }
}

/// A node before and after it is planned, with no pods on it.
pub(crate) struct Case<'a> {
    pub(crate) node: Value,
    pub(crate) rules: Value,
    /// What becomes of each rule.
    pub(crate) outcomes: &'a [(&'a str, &'a str)],
    /// What is done, in words.
    pub(crate) changes: &'a [&'a str],
    /// The node afterwards, where anything is done.
    pub(crate) after: Value,
}

impl Case<'_> {
    /// Plans the node twice: the second time, nothing is left to do.
    pub(crate) fn check(self) {
        let rules = rule_set(&self.rules);
        let mut object = node_object(&self.node);
        let first = plan(&decoded(&object), &rules, &free());
        let outcomes: BTreeMap<_, _> =
            self.outcomes.iter().map(|(rule, outcome)| (*rule, (*outcome).to_owned())).collect();
        assert_eq!(outcome_texts(&first.outcomes), outcomes);
        assert_eq!(change_texts(&first), self.changes);
        if !self.changes.is_empty() {
            let patch = patch(&decoded(&object), first.changes()).unwrap();
            assert!(matches!(&patch.0[0], PatchOperation::Test(test) if test.path == "/metadata/uid"));
            apply(&mut object, &patch);
            assert_eq!(fields(&object), self.after);
            let again = plan(&decoded(&object), &rules, &free());
            assert_eq!(again.plan, Plan::InSync, "the node is as planned");
            assert_eq!(outcome_texts(&again.outcomes), outcomes, "as it was planned");
        }
    }
}

pub(crate) fn dongles(capacity: &str, allocatable: &str) -> Value {
    json!({
        "capacity": {"cpu": "2", "example.com/dongle": capacity},
        "allocatable": {"cpu": "2", "example.com/dongle": allocatable},
    })
}

pub(crate) fn owned(mut node: Value, quantity: &str, rule: &str) -> Value {
    node["ledger"] = json!({"example.com/dongle": {"quantity": quantity, "rule": rule}});
    node
}

pub(crate) fn bare() -> Value {
    json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}})
}
