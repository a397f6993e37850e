//! Quantities that are read from the node. What is advertised stays while they are unknown.

use super::*;

const DONGLE: &str = "example.com/dongle";
const KEY: &str = "example.com/slots";

fn from_label(more: Value) -> Value {
    let mut from = json!({"nodeLabel": {"key": KEY}, "max": 10});
    from.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "quantityFrom": from })
}

/// A node with this label, or without.
fn labelled(fields: Value, slots: Option<&str>) -> Value {
    let mut fields = fields;
    fields["labels"] = slots.map_or_else(|| json!({}), |slots| json!({ KEY: slots }));
    fields
}

#[test]
fn quantity_is_what_the_node_says() {
    let gi = json!({"memory": "62Gi", "hugepages-2Mi": "0"});
    let capacity = |mut node: Value| {
        node["capacity"].as_object_mut().unwrap().extend(gi.as_object().unwrap().clone());
        node
    };
    let annotated = |mut node: Value| {
        node["annotations"] = json!({ KEY: "3" });
        node
    };
    let resource =
        |name, divisor| json!({"quantityFrom": {"resource": {"name": name, "divisor": divisor}, "max": 100}});
    for (node, rule, quantity) in [
        (labelled(bare(), Some("4")), from_label(json!({})), "4"),
        (labelled(bare(), Some("0.01k")), from_label(json!({})), "10"),
        (labelled(bare(), None), from_label(json!({"default": 2})), "2"),
        (labelled(bare(), Some("1")), from_label(json!({"min": 2, "default": 3})), "3"),
        (annotated(bare()), json!({"quantityFrom": {"nodeAnnotation": {"key": KEY}, "max": 10}}), "3"),
        (capacity(bare()), resource("memory", json!("4Gi")), "15"),
        (capacity(bare()), resource("memory", json!("62Gi")), "1"),
    ] {
        let mut after = owned(dongles(quantity, quantity), quantity, "r");
        for name in ["memory", "hugepages-2Mi"] {
            if !node["capacity"][name].is_null() {
                after["capacity"][name] = node["capacity"][name].clone();
            }
        }
        let changes = [format!("advertised example.com/dongle={quantity} (rule r)")];
        let changes: Vec<_> = changes.iter().map(String::as_str).collect();
        Case { node, rules: json!({ "r": rule }), outcomes: &[("r", "advertised")], changes: &changes, after }.check();
    }
}

#[test]
fn quantity_that_cannot_be_read_keeps_what_is_advertised_and_adds_nothing() {
    let long = "4".repeat(10_000);
    for (slots, why) in [
        (None, "the node has no label example.com/slots".to_owned()),
        (Some("four"), r#"the label example.com/slots is "four", which is not a quantity"#.to_owned()),
        (Some(""), r#"the label example.com/slots is "", which is not a quantity"#.to_owned()),
        (Some("-4"), r#"the label example.com/slots is "-4", which is negative"#.to_owned()),
        (Some("1500m"), r#"the label example.com/slots is "1500m", which is not a whole number"#.to_owned()),
        (Some("11"), r#"the label example.com/slots is "11", which is more than max, 10"#.to_owned()),
        (
            Some(&*long),
            format!(r#"the label example.com/slots is "{}…", which is too long for a quantity"#, &long[..10]),
        ),
        (Some("0"), r#"the label example.com/slots is "0", which is too little for min, 1"#.to_owned()),
    ] {
        let rules = json!({"r": from_label(json!({}))});
        let stays = format!("unknown, 4 stays: {why}");
        let listed = owned(dongles("4", "4"), "4", "r");
        let node = labelled(listed.clone(), slots);
        Case { node, rules: rules.clone(), outcomes: &[("r", &stays)], changes: &[], after: json!({}) }.check();
        // Of a rule that is gone, while this one may declare the resource.
        let other = labelled(owned(dongles("4", "4"), "4", "gone"), slots);
        let planned = plan(&decoded(&node_object(&other)), &rule_set(&rules), &free());
        assert!(planned.changes().iter().all(|change| !change.to_string().starts_with("withdrew")), "{planned:?}");
        let lost = labelled(owned(dongles("0", "0"), "4", "r"), slots);
        let changes = ["repaired example.com/dongle=4 (rule r; was 0)"];
        Case { node: lost, rules: rules.clone(), outcomes: &[("r", &stays)], changes: &changes, after: listed }.check();
        let unknown = format!("unknown: {why}");
        let node = labelled(bare(), slots);
        Case { node, rules, outcomes: &[("r", &unknown)], changes: &[], after: json!({}) }.check();
    }
}

/// `quantityFrom` with a table by the label.
fn from_table(more: Value) -> Value {
    let mut from = json!({"nodeLabel": {"key": KEY, "values": {"big": 8, "Small": "2", "1k": "4000m", "": 1}}});
    from.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "quantityFrom": from })
}

#[test]
fn quantity_in_a_table_is_that_of_the_value_of_the_label() {
    for (slots, more, quantity) in [
        (Some("big"), json!({}), "8"),
        (Some("Small"), json!({"default": 3}), "2"),
        // The value of the label is a text, and no quantity.
        (Some("1k"), json!({"whenMissing": "None"}), "4"),
        (Some(""), json!({}), "1"),
        (Some("small"), json!({"default": 3}), "3"),
        (Some("1000"), json!({"default": 3}), "3"),
        // A default may exceed the table.
        (None, json!({"default": 9}), "9"),
    ] {
        let changes = [format!("advertised example.com/dongle={quantity} (rule r)")];
        let changes: Vec<_> = changes.iter().map(String::as_str).collect();
        let after = owned(dongles(quantity, quantity), quantity, "r");
        let rules = json!({"r": from_table(more)});
        Case { node: labelled(bare(), slots), rules, outcomes: &[("r", "advertised")], changes: &changes, after }
            .check();
    }
}

#[test]
fn node_with_a_value_that_is_not_in_the_table_is_as_one_without_the_label() {
    let not_named = r#"the label example.com/slots is "huge-2-and…", which is not in nodeLabel.values"#;
    for (slots, why) in [
        (None, "the node has no label example.com/slots"),
        (Some("huge-2-and-more"), not_named),
        (Some("8"), r#"the label example.com/slots is "8", which is not in nodeLabel.values"#),
    ] {
        let stays = format!("unknown, 8 stays: {why}");
        let has = owned(dongles("8", "8"), "8", "r");
        for more in [json!({}), json!({"whenMissing": "Keep"})] {
            let node = labelled(has.clone(), slots);
            let rules = json!({"r": from_table(more)});
            Case { node, rules, outcomes: &[("r", &stays)], changes: &[], after: json!({}) }.check();
        }
        let rules = json!({"r": from_table(json!({"whenMissing": "None"}))});
        let changes = ["withdrew example.com/dongle (rule r)"];
        let node = labelled(has, slots);
        Case { node, rules, outcomes: &[], changes: &changes, after: bare() }.check();
    }
}

#[test]
fn label_that_changes_moves_a_node_in_the_table() {
    let node = labelled(owned(dongles("8", "8"), "8", "r"), Some("Small"));
    let rules = json!({"r": from_table(json!({"default": 3}))});
    let (node, rules) = (decoded(&node_object(&node)), rule_set(&rules));
    let lowered = plan(&node, &rules, &free());
    assert_eq!(change_texts(&lowered), ["advertised example.com/dongle=2 (rule r)"]);
    assert!(lowered.changes().iter().all(Change::moves), "{lowered:?}");
    let held = ["held example.com/dongle at 5, which pods request (rule r declares 2)"];
    assert_eq!(change_texts(&plan(&node, &rules, &used(5))), held);
}

/// A status can be read by clients that may not read nodes.
#[test]
fn annotation_outside_the_domain_of_the_resource_is_not_quoted() {
    for (key, says) in [
        ("k3s.io/node-env", "the annotation k3s.io/node-env is not a quantity"),
        ("plain", "the annotation plain is not a quantity"),
        (KEY, r#"the annotation example.com/slots is "S3CRET-tok…", which is not a quantity"#),
    ] {
        let mut node = bare();
        node["annotations"] = json!({ key: "S3CRET-token-of-the-node" });
        let rules = json!({"r": {"quantityFrom": {"nodeAnnotation": {"key": key}, "max": 10}}});
        let outcome = format!("unknown: {says}");
        Case { node, rules, outcomes: &[("r", &outcome)], changes: &[], after: json!({}) }.check();
    }
}

#[test]
fn quantity_that_is_missing_withdraws_only_on_demand_and_errors_never_do() {
    let none = json!({"r": from_label(json!({"whenMissing": "None"}))});
    for slots in [None, Some("0")] {
        let node = labelled(owned(dongles("4", "4"), "4", "r"), slots);
        let changes = ["withdrew example.com/dongle (rule r)"];
        Case { node, rules: none.clone(), outcomes: &[], changes: &changes, after: bare() }.check();
        Case { node: labelled(bare(), slots), rules: none.clone(), outcomes: &[], changes: &[], after: json!({}) }
            .check();
    }
    for more in [json!({"whenMissing": "None"}), json!({"default": 2})] {
        let node = labelled(owned(dongles("4", "4"), "4", "r"), Some("four"));
        let outcome = r#"unknown, 4 stays: the label example.com/slots is "four", which is not a quantity"#;
        let rules = json!({ "r": from_label(more) });
        Case { node, rules, outcomes: &[("r", outcome)], changes: &[], after: json!({}) }.check();
    }
}

#[test]
fn rule_without_a_quantity_here_leaves_the_resource_to_others_unless_it_has_a_value() {
    let rules = |more: Value| {
        let mut first = from_label(more);
        first["priority"] = json!(1);
        json!({"r": first, "s": {"quantity": 9}})
    };
    let after = owned(dongles("9", "9"), "9", "s");
    let changes = ["advertised example.com/dongle=9 (rule s)"];
    let node = labelled(bare(), None);
    let outcomes = [("r", "overridden by s"), ("s", "advertised")];
    Case { node: node.clone(), rules: rules(json!({})), outcomes: &outcomes, changes: &changes, after: after.clone() }
        .check();
    let none = rules(json!({"whenMissing": "None"}));
    Case { node, rules: none, outcomes: &[("s", "advertised")], changes: &changes, after }.check();
    let node = labelled(owned(dongles("4", "4"), "4", "r"), None);
    let outcomes = [("r", "unknown, 4 stays: the node has no label example.com/slots"), ("s", "overridden by r")];
    Case { node, rules: rules(json!({})), outcomes: &outcomes, changes: &[], after: json!({}) }.check();
}

/// I5, and the pace of moves: what pods request is above both.
#[test]
fn quantity_that_has_moved_stays_for_a_while_and_still_yields_to_pods() {
    let node = labelled(owned(dongles("4", "4"), "4", "r"), Some("6"));
    let rules = json!({"r": from_label(json!({}))});
    let (node, rules) = (decoded(&node_object(&node)), rule_set(&rules));
    let moved = |input: PlanningInput| PlanningInput { moved: [DONGLE.into()].into(), ..input };
    let still = plan(&node, &rules, &moved(free()));
    assert_eq!(outcome_texts(&still.outcomes)["r"], "still 4");
    assert!(still.changes().is_empty());
    let follows = plan(&node, &rules, &free());
    assert!(follows.changes().iter().all(Change::moves), "{follows:?}");
    assert_eq!(change_texts(&follows), ["advertised example.com/dongle=6 (rule r)"]);
    let lowered = moved(used(5));
    assert_eq!(
        change_texts(&plan(&node, &rules, &lowered)),
        ["held example.com/dongle at 5, which pods request (rule r declares 4)"]
    );
}
