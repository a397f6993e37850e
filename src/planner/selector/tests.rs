//! Which selections are valid, and what they select.

use serde_json::{Value, json};

use super::*;
use crate::model::api::{MAX_ENTRIES, MAX_ENTRIES_LENGTH};
use crate::model::node::Interner;
use crate::model::quantity::MAX_QUANTITY_LENGTH;

fn selection(spec: Value) -> Result<Selection, InvalidSelection> {
    let selector = spec.get("nodeSelector").cloned();
    let selector: Option<LabelSelector> = selector.map(|selector| serde_json::from_value(selector).unwrap());
    let names: Option<Vec<String>> = spec.get("nodeNames").map(|names| serde_json::from_value(names.clone()).unwrap());
    let all = spec.get("allNodes").and_then(Value::as_bool);
    Selection::new(selector.as_ref(), names.as_deref(), all)
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"nodeSelector": {"matchExpressions": [
        {"key": key, "operator": operator, "values": values}
    ]}})
}

#[test]
fn selector_matches_like_kubernetes() {
    let node = serde_json::from_value(json!({
        "metadata": {"name": "node-1", "labels": {"zone": "a", "ssd": ""}}
    }));
    let node = Node::new(node.unwrap(), &mut Interner::default());
    for (spec, selects) in [
        (json!({"allNodes": true}), true),
        (json!({"nodeSelector": {"matchLabels": {"zone": "a"}}}), true),
        (json!({"nodeSelector": {"matchLabels": {"zone": "a", "ssd": "x"}}}), false),
        (expression("zone", "In", &["a", "b"]), true),
        (expression("zone", "In", &["b"]), false),
        (expression("rack", "In", &["b"]), false),
        (expression("zone", "NotIn", &["b"]), true),
        (expression("zone", "NotIn", &["a"]), false),
        (expression("rack", "NotIn", &["a"]), true),
        (expression("ssd", "Exists", &[]), true),
        (expression("rack", "Exists", &[]), false),
        (expression("rack", "DoesNotExist", &[]), true),
        (expression("ssd", "DoesNotExist", &[]), false),
        (json!({"nodeNames": ["node-1", "node-2"]}), true),
        (json!({"nodeNames": ["node-2"]}), false),
    ] {
        assert_eq!(selection(spec.clone()).unwrap().selects(&node), selects, "{spec}");
    }
}

#[test]
fn repeated_node_name_counts_once() {
    let selection = selection(json!({"nodeNames": ["a", "b", "a"]})).unwrap();
    assert!(matches!(selection, Selection::Names(names) if names.len() == 2));
}

#[test]
fn selector_rejects_what_kubernetes_rejects() {
    for (spec, says) in [
        (json!({}), "exactly one"),
        (json!({"allNodes": true, "nodeNames": ["a"]}), "exactly one"),
        (json!({"allNodes": true, "nodeSelector": {}}), "exactly one"),
        (json!({"allNodes": false}), "can only be true"),
        (json!({"nodeSelector": {}}), "replace nodeSelector: {} by allNodes: true"),
        (
            json!({"nodeSelector": {"matchLabels": {}, "matchExpressions": []}}),
            "replace nodeSelector: {} by allNodes: true",
        ),
        (json!({"nodeNames": []}), "empty"),
        (json!({"nodeNames": ["Node"]}), "not a node name"),
        (json!({"nodeNames": [""]}), "not a node name"),
        (expression("zone", "in", &["a"]), "operator \"in\""),
        (expression("zone", "In", &[]), "In on zone with 0 values"),
        (expression("zone", "Exists", &["a"]), "Exists on zone with 1 values"),
        (expression("-zone", "Exists", &[]), "not a label key"),
        (expression("zone", "In", &["a b"]), "not a label value"),
        (json!({"nodeSelector": {"matchLabels": {"a/b/c": "x"}}}), "not a label key"),
    ] {
        let error = selection(spec.clone()).unwrap_err().to_string();
        assert!(error.contains(says), "{spec}: {error}");
    }
}

#[test]
fn selector_in_requirement_is_indexable() {
    let labels = |spec| {
        let selection = selection(spec).unwrap();
        selection.indexable_labels().map(|labels| labels.map(|(key, value)| format!("{key}={value}")).collect())
    };
    let by_value = labels(expression("zone", "In", &["a", "b"]));
    assert_eq!(by_value, Some(vec!["zone=a".to_owned(), "zone=b".to_owned()]));
    assert_eq!(labels(expression("zone", "NotIn", &["a"])), None::<Vec<_>>);
    assert_eq!(labels(json!({"allNodes": true})), None);
}

/// The names and values that make the largest spec, and by how many characters it exceeds that.
fn largest(more: usize) -> [Value; 2] {
    let names = (0..MAX_NAMES).map(|number| {
        let length = MAX_NAMES_LENGTH / MAX_NAMES + usize::from(number < MAX_NAMES_LENGTH % MAX_NAMES + more);
        format!("{number:0length$}")
    });
    let value = |number: usize, more: usize| {
        let length = MAX_VALUES_LENGTH / (MAX_REQUIREMENTS * MAX_VALUES) + more;
        format!("{number:0length$}")
    };
    let key = |number: usize| format!("{number:0253}/{}", "k".repeat(63));
    let values = |expression: usize| {
        (0..MAX_VALUES).map(move |number| value(number, if number < more && expression == 0 { 1 } else { 0 }))
    };
    let expressions = (0..MAX_REQUIREMENTS)
        .map(|number| json!({"key": key(number), "operator": "NotIn", "values": values(number).collect::<Vec<_>>()}));
    let labels = (0..MAX_REQUIREMENTS).map(|number| (key(number), json!("v".repeat(63))));
    let labels: serde_json::Map<_, _> = labels.collect();
    [
        json!({"nodeNames": names.collect::<Vec<_>>()}),
        json!({"nodeSelector": {"matchLabels": labels, "matchExpressions": expressions.collect::<Vec<_>>()}}),
    ]
}

/// Beside the largest table, and 2 KiB for all other fields.
#[test]
fn largest_spec_is_less_than_64_kibibytes() {
    let table = MAX_ENTRIES_LENGTH + MAX_ENTRIES * (MAX_QUANTITY_LENGTH + "'':'',".len());
    for spec in largest(0) {
        let length = spec.to_string().len();
        assert!((40 * 1024..62 * 1024 - table).contains(&length), "{length}");
        assert!(selection(spec).is_ok());
    }
    for spec in largest(1) {
        let error = selection(spec).unwrap_err().to_string();
        assert!(error.contains("at most"), "{error}");
    }
    let names: Vec<_> = (0..=MAX_NAMES).map(|number| number.to_string()).collect();
    let labels = |count: usize| (0..count).map(|number| (format!("k{number}"), json!("v")));
    let expression = |values: usize| {
        let values: Vec<_> = (0..values).map(|number| format!("v{number}")).collect();
        json!({"key": "k", "operator": "In", "values": values})
    };
    for spec in [
        json!({"nodeNames": names}),
        json!({"nodeSelector": {"matchLabels": labels(MAX_REQUIREMENTS + 1).collect::<serde_json::Map<_, _>>()}}),
        json!({"nodeSelector": {"matchExpressions": vec![expression(1); MAX_REQUIREMENTS + 1]}}),
        json!({"nodeSelector": {"matchExpressions": [expression(MAX_VALUES + 1)]}}),
    ] {
        assert!(selection(spec.clone()).unwrap_err().to_string().contains("at most"), "{spec:.80}");
    }
}
