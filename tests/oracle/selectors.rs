use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use node_resource_advertiser::model::node::{Interner, Node};
use node_resource_advertiser::planner::selector::{InvalidSelection, Selection};
use serde_json::{Value, json};

use super::*;

const SELECTORS: usize = 50_000;

/// Few keys and values, so that they meet, and some that no label can have.
const KEYS: &[&str] =
    &["a", "b", "example.com/a", "kubernetes.io/hostname", "a", "b", "example.com/a", "A/b", "-a", ""];
const VALUES: &[&str] = &["", "x", "y", "z", "node-1", "x", "y", "z", "x y", "-"];

fn labels(rng: &mut Rng) -> Value {
    let mut labels = json!({});
    for _ in 0..rng.usize(..5) {
        // Of a node, which has valid labels only.
        labels[pick(rng, &KEYS[..4])] = json!(pick(rng, &VALUES[..5]));
    }
    labels
}

fn values(rng: &mut Rng, most: usize) -> Vec<&'static str> {
    (0..rng.usize(..=most)).map(|_| pick(rng, VALUES)).collect()
}

fn expression(rng: &mut Rng) -> Value {
    let operator = match rng.u8(..40) {
        0 => pick(rng, &["in", "", "Gt"]),
        _ => pick(rng, &["In", "NotIn", "Exists", "DoesNotExist"]),
    };
    let mut expression = json!({"key": pick(rng, KEYS), "operator": operator});
    let takes_values = operator.ends_with("In");
    if takes_values != (rng.u8(..20) == 0) {
        expression["values"] = json!(values(rng, 3));
    }
    expression
}

fn selector(rng: &mut Rng) -> Value {
    let mut selector = json!({});
    for _ in 0..rng.usize(..3) {
        selector["matchLabels"][pick(rng, KEYS)] = json!(pick(rng, VALUES));
    }
    let expressions: Vec<_> = (0..rng.usize(..3)).map(|_| expression(rng)).collect();
    if !expressions.is_empty() {
        selector["matchExpressions"] = json!(expressions);
    }
    selector
}

/// Returns whether a rule with this selector selects a node with these labels, and checks that what is derived from the
/// selection agrees; `None` if the selector is invalid.
fn selects(question: &Value) -> Option<bool> {
    let selector: LabelSelector = serde_json::from_value(question["selector"].clone()).unwrap();
    let selection = match Selection::new(Some(&selector), None, None) {
        // The CRD and the controller reject it, while Kubernetes has a meaning for it: everything.
        Err(InvalidSelection::NoRequirement) => return Some(true),
        selection => selection.ok()?,
    };
    let node = json!({"metadata": {"name": "node-1", "labels": question["labels"]}});
    let node = Node::new(serde_json::from_value(node).unwrap(), &mut Interner::default());
    let selects = selection.selects(&node);
    assert_eq!(selection.mismatch(&node).is_none(), selects, "{question}");
    if let Some(mut labels) = selection.indexable_labels() {
        let has_one = labels.any(|(key, value)| node.labels.get(key) == Some(value));
        assert!(has_one || !selects, "a rule is found by its labels: {question}");
    }
    Some(selects)
}

#[test]
fn selectors_match_kubernetes() {
    let questions = random(SELECTORS, |rng| json!({"selector": selector(rng), "labels": labels(rng)}));
    let inputs: Vec<_> = questions.iter().map(Value::to_string).collect();
    let (mut mismatches, mut counts) = (Vec::new(), [0; 3]);
    for (question, theirs) in questions.iter().zip(ask("selector", &inputs)) {
        let ours = selects(question);
        counts[ours.map_or(2, usize::from)] += 1;
        if ours != theirs.as_bool() {
            mismatches.push(format!("{question}: {ours:?} here, {theirs} there"));
        }
    }
    report(&mismatches, questions.len());
    println!("not selected, selected, invalid: {counts:?}");
    assert!(counts.iter().all(|count| *count > SELECTORS / 10), "{counts:?}");
}
