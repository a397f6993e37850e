//! A node that has no room for more: in its ledger, or in the bounds of the policy.

use super::*;
use crate::model::ledger::MAX_BYTES;
use crate::model::pod::{NodeRequests, Requests};

/// A rule name that takes most of the room of two hundred entries.
fn long(number: usize) -> String {
    format!("{}{number:03}", "long".repeat(60))
}

fn name(number: usize) -> String {
    format!("example.com/{number:03}")
}

/// How many such entries a ledger has room for.
fn capacity() -> usize {
    let entry = |number| json!({"quantity": "4", "rule": long(number)}).to_string();
    (MAX_BYTES - 1) / format!("\"{}\":{},", name(0), entry(0)).len()
}

/// A node with some values, and a ledger that lists them by rules with long names.
fn full_node(entries: usize, quantity: &str) -> Value {
    let names = || (0..entries).map(name);
    let amounts: Map<_, _> = names().map(|name| (name, json!(quantity))).collect();
    let ledger: Map<_, _> =
        (0..entries).map(|number| (name(number), json!({"quantity": "4", "rule": long(number)}))).collect();
    json!({"capacity": amounts, "allocatable": amounts, "ledger": ledger})
}

fn rules(range: std::ops::Range<usize>) -> RuleSet {
    let rules = range.map(|number| (long(number), json!({"resourceName": name(number)})));
    rule_set(&Value::Object(rules.collect()))
}

fn planned(object: &mut Value, rules: &RuleSet) -> NodePlan {
    let node = decoded(object);
    let planned = plan(&node, rules, &free());
    apply(object, &patch(&node, planned.changes()).unwrap());
    let ledger = object["metadata"]["annotations"][crate::model::ledger::ANNOTATION].as_str();
    assert!(ledger.is_none_or(|ledger| ledger.len() <= MAX_BYTES));
    planned
}

#[test]
fn entries_beyond_the_size_limit_are_refused_alone() {
    let mut object = node_object(&bare());
    let first = planned(&mut object, &rules(0..300));
    let full = outcome_texts(&first.outcomes).values().filter(|it| *it == "ledger full").count();
    assert!(full > 0 && first.changes().len() == 300 - full, "{full}");
    assert_eq!(plan(&decoded(&object), &rules(0..300), &free()).plan, Plan::InSync);
    let ledger = &object["metadata"]["annotations"][crate::model::ledger::ANNOTATION];
    assert!(ledger.as_str().unwrap().len() > MAX_BYTES - 400, "no room is wasted");
}

#[test]
fn full_ledger_lets_repairs_updates_and_withdrawals_go_on() {
    let entries = capacity();
    let mut object = node_object(&full_node(entries, "0"));
    // Number 0 is gone, and there is one more than fits.
    let rules = rules(1..entries + 2);
    let first = planned(&mut object, &rules);
    let texts = outcome_texts(&first.outcomes);
    assert_eq!(texts[&*long(entries + 1)], "ledger full");
    assert_eq!(texts[&*long(1)], "advertised");
    let count = |name| first.changes().iter().filter(|it| it.action_name() == name).count();
    assert_eq!((count("repair"), count("withdraw")), (entries - 1, 1));
    // There is room now.
    let second = planned(&mut object, &rules);
    assert_eq!(second.changes().len(), 1);
    assert_eq!(plan(&decoded(&object), &rules, &free()).plan, Plan::InSync);
}

#[test]
fn update_that_does_not_fit_leaves_the_entry_repaired() {
    let entries = capacity();
    let mut object = node_object(&full_node(entries, "0"));
    let mut all = Map::new();
    for number in 0..entries {
        let longer = format!("{}{}", long(number), "x".repeat(10));
        all.insert(longer, json!({"resourceName": name(number)}));
    }
    let rules = rule_set(&Value::Object(all));
    let first = planned(&mut object, &rules);
    assert_eq!(first.changes().len(), entries, "every value is repaired");
    let texts = outcome_texts(&first.outcomes);
    let full = texts.values().filter(|it| *it == "ledger full").count();
    assert!(full > 0 && full < entries, "{full}");
}

#[test]
fn value_is_repaired_as_it_is_listed_where_another_spelling_has_no_room() {
    let entries = capacity();
    let mut before = full_node(entries, "0");
    before["ledger"][name(0)]["quantity"] = json!("1Ki");
    let length = before["ledger"].to_string().len();
    let filled = format!("{}{}", long(1), "x".repeat(MAX_BYTES - length));
    before["ledger"][name(1)]["rule"] = json!(filled);
    let mut all: Map<_, _> = (2..entries).map(|number| (long(number), json!({"resourceName": name(number)}))).collect();
    all.insert(filled, json!({"resourceName": name(1)}));
    all.insert(long(0), json!({"resourceName": name(0), "quantity": 1024}));
    let rules = rule_set(&Value::Object(all));
    let mut object = node_object(&before);
    let first = planned(&mut object, &rules);
    assert_eq!(outcome_texts(&first.outcomes)[&*long(0)], "advertised");
    assert_eq!(first.changes().len(), entries);
    assert_eq!(object["status"]["capacity"][name(0)], "1Ki");
    assert_eq!(plan(&decoded(&object), &rules, &free()).plan, Plan::InSync);
}

/// That a value leaves is recorded where there is room. It goes down in any case.
#[test]
fn leaving_value_goes_down_where_the_ledger_is_full() {
    let entries = capacity();
    let mut before = full_node(entries, "4");
    before["ledger"][name(0)] = json!({"quantity": "4", "rule": "gone", "whenUnused": true});
    let length = before["ledger"].to_string().len();
    let filled = format!("{}{}", long(1), "x".repeat(MAX_BYTES - length));
    before["ledger"][name(1)]["rule"] = json!(filled);
    let mut all: Map<_, _> = (2..entries).map(|number| (long(number), json!({"resourceName": name(number)}))).collect();
    all.insert(filled, json!({"resourceName": name(1)}));
    let rules = rule_set(&Value::Object(all));
    let mut object = node_object(&before);
    for (pods, action) in [(3, Some("hold")), (3, None), (2, Some("hold")), (0, Some("withdraw"))] {
        let mut requests = Requests::default();
        requests.add_amount(&name(0), pods.into());
        let pods = PodUsage::Known(NodeRequests { bound: requests.clone(), started: requests });
        let node = decoded(&object);
        let planned = plan(&node, &rules, &PlanningInput { pods, ..PlanningInput::default() });
        let actions: Vec<_> = planned.changes().iter().map(Change::action_name).collect();
        assert_eq!(actions, action.into_iter().collect::<Vec<_>>());
        apply(&mut object, &patch(&node, planned.changes()).unwrap());
    }
}

/// Rules that each declare a resource of this length, the first of the lowest precedence.
fn declared(count: usize, length: usize) -> RuleSet {
    let rules = (0..count).map(|number| {
        let name = format!("{number:04}");
        let prefix = "e".repeat(length - 5);
        (name.clone(), json!({"resourceName": format!("{prefix}/{name}"), "priority": number}))
    });
    rule_set(&Value::Object(rules.collect()))
}

fn full(planned: &NodePlan) -> Vec<String> {
    let texts = outcome_texts(&planned.outcomes);
    texts.into_iter().filter(|(_, text)| *text == "ledger full").map(|(rule, _)| rule.to_string()).collect()
}

/// The policy rejects a patch beyond its bounds as a whole, and so would delay every other rule.
#[test]
fn resources_beyond_the_bounds_of_the_policy_are_refused_by_precedence() {
    // 496 names, or 32,256 characters.
    for (length, most) in [(20, 496), (200, 161)] {
        let mut object = node_object(&bare());
        let rules = declared(600, length);
        let first = planned(&mut object, &rules);
        assert_eq!(first.changes().len(), most, "of {length} characters");
        let refused = full(&first);
        let expected: Vec<_> = (0..600 - most).map(|number| format!("{number:04}")).collect();
        assert_eq!(refused, expected, "those of the lowest precedence");
        assert_eq!(plan(&decoded(&object), &rules, &free()).plan, Plan::InSync);
    }
}

/// Others may have filled the node.
#[test]
fn full_node_lets_repairs_and_withdrawals_go_on() {
    let names = || (0..600).map(name);
    let amounts: Map<_, _> = names().map(|name| (name, json!("0"))).collect();
    let ledger: Map<_, _> =
        (0..3).map(|number| (name(number), json!({"quantity": "4", "rule": long(number)}))).collect();
    let mut object = node_object(&json!({"capacity": amounts, "allocatable": amounts, "ledger": ledger}));
    // Number 0 is gone, and another resource has no place.
    let mut rules: Map<_, _> = (1..3).map(|number| (long(number), json!({"resourceName": name(number)}))).collect();
    rules.insert("new".to_owned(), json!({"resourceName": "example.com/new"}));
    let first = planned(&mut object, &rule_set(&Value::Object(rules)));
    assert_eq!(full(&first), ["new"]);
    let count = |name| first.changes().iter().filter(|change| change.action_name() == name).count();
    assert_eq!((count("repair"), count("withdraw"), first.changes().len()), (2, 1, 3));
}
