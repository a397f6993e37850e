//! What holds of every cluster: applying the output changes no value, and it covers each value once or says why not.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::inspect::adopt::survey::Survey;
use crate::model::node::{Node, heartbeats};
use crate::model::quantity::Quantity;
use crate::planner::input::PlanningInput;
use crate::planner::rules::RuleSet;
use crate::planner::tests::apply;
use crate::planner::{patch, plan};

const RESOURCES: [&str; 3] = [DONGLE, "example.com/Key_1", "other.org/dongle"];
const QUANTITIES: [&str; 9] = ["4", "4", "1k", "1024", "1Ki", "800Gi", "0", "500m", "9223372036854775807"];
const MANAGERS: [&str; 7] =
    ["kubectl-patch", "kubectl-patch", "script", "nfd-master", "k3s", FIELD_MANAGER, "machine-controller"];

fn pick<T: Copy>(random: &mut fastrand::Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

/// Returns a node whose values follow from its labels, mostly.
fn random_node(random: &mut fastrand::Rng, name: &str, by_pool: &[[&str; 3]], noise: u8) -> Value {
    let pool = random.usize(..by_pool.len());
    let mut object = node(name, json!({}), "x", json!({}));
    let labels = &mut object["metadata"]["labels"];
    for (key, values) in [
        ("pool", &["a", "b", "c"][pool..=pool]),
        ("topology.kubernetes.io/zone", &["x", "y"]),
        ("disk", &["ssd", "hdd", "yes"]),
        ("example.com/dongle", &["true", "1e3"]),
        ("node.kubernetes.io/instance-type", &["m1", "m2"]),
    ] {
        if random.u8(..6) > 0 {
            labels[key] = json!(pick(random, values));
        }
    }
    let mut entries = Vec::new();
    let mut listed = Map::new();
    for (at, resource) in RESOURCES.into_iter().enumerate() {
        let mut quantity = by_pool[pool][at];
        if random.u8(..10) < noise {
            quantity = pick(random, &QUANTITIES);
        }
        if quantity.is_empty() {
            continue;
        }
        let other = if random.u8(..12) < noise { pick(random, &QUANTITIES) } else { quantity };
        object["status"]["capacity"][resource] = json!(quantity);
        if random.u8(..20) >= noise {
            object["status"]["allocatable"][resource] = json!(other);
        }
        let manager = if random.u8(..10) < noise { pick(random, &MANAGERS) } else { "kubectl-patch" };
        let copier = pick(random, &[manager, "k3s"]);
        for (map, manager) in [("f:capacity", manager), ("f:allocatable", copier)] {
            let fields = json!({map: {format!("f:{resource}"): {}}});
            if random.u8(..40) >= noise {
                entries.push(json!({"manager": manager, "fieldsV1": {"f:status": fields}}));
            }
        }
        if random.u8(..20) < noise && quantity == "4" {
            listed.insert(resource.to_owned(), json!({"quantity": "4", "rule": pick(random, &["r0", "dongle"])}));
        }
    }
    entries.push(heartbeats("k3s"));
    object["metadata"]["managedFields"] = json!(entries);
    if random.u8(..40) < noise {
        object["metadata"]["annotations"][ledger::ANNOTATION] = json!("{");
    } else if !listed.is_empty() {
        object["metadata"]["annotations"][ledger::ANNOTATION] = json!(Value::Object(listed).to_string());
    }
    object
}

fn random_rules(random: &mut fastrand::Rng) -> Vec<Value> {
    let rules = (0..random.usize(..3)).map(|at| {
        let mut spec = json!({
            "resourceName": pick(random, &RESOURCES),
            "quantity": pick(random, &["4", "1k", "2", "0.5"]),
            "priority": pick(random, &[0, -1, 1]),
            "paused": random.u8(..4) == 0,
            "conflictPolicy": pick(random, &["Keep", "Overwrite"]),
        });
        match random.bool() {
            true => spec["nodeSelector"] = json!({"matchLabels": {"pool": pick(random, &["a", "b"])}}),
            false => spec["nodeNames"] = json!(["node-0", "node-3"]),
        }
        rule(pick(random, &[&*format!("r{at}"), "dongle", "key-1-4"]), spec)
    });
    // Each name once.
    let mut names = BTreeSet::new();
    rules.filter(|rule| names.insert(rule["metadata"]["name"].to_string())).collect()
}

fn decoded(object: &Value) -> Node {
    Node::new(serde_json::from_value(object.clone()).unwrap(), &mut Interner::default())
}

/// Returns the rules; the invalid ones are frozen.
fn rule_set(present: &[Value], adopted: &[Rule]) -> RuleSet {
    let compiled = present.iter().filter_map(|object| Rule::new(&serde_json::from_value(object.clone()).unwrap()).ok());
    let all = compiled.chain(adopted.iter().cloned()).map(Arc::new);
    RuleSet::new(all, snapshot(&[], present).rules.names.into_iter().map(|name| (name, None)))
}

/// Returns the node after the controller has done all that these rules require.
fn converged(object: &Value, rules: &RuleSet) -> Value {
    let mut object = object.clone();
    for _ in 0..3 {
        let node = decoded(&object);
        let planned = plan(&node, rules, &PlanningInput::default());
        if !planned.changes().is_empty() {
            apply(&mut object, &patch(&node, planned.changes()).unwrap());
        }
    }
    object
}

fn values(object: &Value) -> Vec<Option<Quantity>> {
    let maps = MAPS.into_iter().flat_map(|map| RESOURCES.map(|resource| &object["status"][map][resource]));
    maps.map(|text| text.as_str().and_then(|text| text.parse().ok())).collect()
}

/// Returns the values that have to be adopted, by another reading of the objects than that of the code.
fn is_adoptable(object: &Value, resource: &str, rules: &RuleSet) -> bool {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let writes = |entry: &&Value| !entry["fieldsV1"]["f:status"]["f:capacity"][format!("f:{resource}")].is_null();
    let manager = entries.iter().find(writes).map(|entry| entry["manager"].as_str().unwrap());
    let [capacity, allocatable] = MAPS.map(|map| object["status"][map][resource].as_str().unwrap_or_default());
    let ledger = object["metadata"]["annotations"][ledger::ANNOTATION].as_str().unwrap_or_default();
    let is_declared = rules.selecting(&decoded(object)).iter().any(|rule| rule.resource.as_str() == resource);
    let is_whole = |text: &str| ["4", "1k", "1024", "1Ki", "800Gi"].contains(&text);
    manager.is_some_and(|manager| manager != "k3s")
        && is_whole(capacity)
        && is_whole(allocatable)
        && capacity.parse::<Quantity>() == allocatable.parse()
        && ledger != "{"
        && !ledger.contains(&format!("{resource:?}"))
        && !is_declared
}

#[test]
fn random_adoptions_change_no_value_and_cover_each_once() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut adopted_values, mut by_labels, mut by_names) = (0, 0, 0);
    for _ in 0..250 {
        let noise = random.u8(..5);
        let by_pool: Vec<_> =
            (0..3).map(|_| [0; 3].map(|_| pick(&mut random, &["", "", "4", "1k", "800Gi"]))).collect();
        let nodes: Vec<_> = (0..random.usize(1..15))
            .map(|at| random_node(&mut random, &format!("node-{at}"), &by_pool, noise))
            .collect();
        let present = random_rules(&mut random);
        let before = snapshot(&nodes, &present);
        let filter = match random.u8(..4) {
            0 => Filter { managers: vec!["kubectl-patch".to_owned()], ..Filter::default() },
            1 => Filter { labels: "pool=a".parse().unwrap(), ..Filter::default() },
            _ => Filter::default(),
        };
        let is_all = filter.managers.is_empty() && filter.labels.is_empty();
        let Output { yaml, .. } = Output::new(&before, &filter);
        assert_eq!(yaml, Output::new(&before, &filter).yaml);
        let adopted = rules(&yaml);
        let names: BTreeSet<_> = adopted.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names.len(), adopted.len(), "{yaml}");
        assert!(names.iter().all(|name| !before.rules.names.contains(*name)), "{yaml}");
        let survey = Survey::new(&before, &filter);
        let (without, with) = (rule_set(&present, &[]), rule_set(&present, &adopted));
        let mut after = Vec::new();
        for object in &nodes {
            let what = || format!("{object:#}\n{present:?}\n{yaml}");
            let node = decoded(object);
            let (one, other) = (converged(object, &without), converged(object, &with));
            assert_eq!(values(&one), values(&other), "{}", what());
            for resource in RESOURCES {
                let selecting = adopted.iter().filter(|rule| rule.resource.as_str() == resource);
                let selecting: Vec<_> = selecting.filter(|rule| rule.selection.selects(&node)).collect();
                let place = before.nodes.iter().position(|entry| entry.node.name == node.name).unwrap();
                let is_explained =
                    survey.left_out.iter().any(|((name, _), places)| name == resource && places.contains(&place));
                assert!(selecting.len() + usize::from(is_explained) <= 1, "{resource} {}", what());
                if is_all {
                    let is_present = node.values(resource) != [None, None];
                    assert_eq!(
                        selecting.len() + usize::from(is_explained),
                        usize::from(is_present),
                        "{resource} {}",
                        what()
                    );
                    assert_eq!(selecting.len() == 1, is_adoptable(object, resource, &without), "{resource} {}", what());
                }
                let listed = other["metadata"]["annotations"][ledger::ANNOTATION].as_str().unwrap_or_default();
                let is_listed = listed.contains(&format!("{resource:?}"));
                assert!(selecting.is_empty() || is_listed, "{resource} {}", what());
                adopted_values += selecting.len();
            }
            after.push(other);
        }
        let all = rule_set(&present, &adopted);
        let mut again = snapshot(&after, &present);
        again.rules.set = all;
        let again = Output::new(&again, &filter);
        assert_eq!(again.yaml, "", "{yaml}\n{:?}", again.notes);
        by_labels += yaml.matches("nodeSelector:").count();
        by_names += yaml.matches("nodeNames:\n").count();
    }
    let counts = [adopted_values, by_labels, by_names];
    assert!(counts.into_iter().all(|count| count > 100), "{counts:?}");
}
