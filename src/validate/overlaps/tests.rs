use serde_json::{Value, json};

use super::*;
use crate::planner::rules::Rule;

struct Named {
    name: String,
    rule: Rule,
    selection: Selection,
    tests: LabelTests,
}

impl Named {
    fn new(name: &str, quantity: u64, nodes: &Value) -> Self {
        let mut object = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name},
            "spec": {"resourceName": "example.com/dongle", "quantity": quantity},
        });
        object["spec"].as_object_mut().unwrap().extend(nodes.as_object().unwrap().clone());
        Self::of(name, object)
    }

    fn of(name: &str, object: Value) -> Self {
        let rule = Rule::new(&serde_json::from_value(object).unwrap()).unwrap();
        let selection = rule.declares_on();
        Self { name: name.to_owned(), tests: LabelTests::of(&selection), selection, rule }
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate { name: &self.name, quantity: &self.rule.quantity, selection: &self.selection, tests: &self.tests }
    }
}

/// What is to be found, by comparing with every rule before: those that name the same node come first.
fn by_pairs(this: &Named, before: &[Named]) -> Option<(usize, Overlap)> {
    let overlap = |item: usize| {
        let other = &before[item];
        if other.rule.quantity == this.rule.quantity || other.name == this.name {
            return None;
        }
        let overlap = this.rule.selection.overlap(&other.rule.selection);
        (overlap != Overlap::Never).then_some((item, overlap))
    };
    let items = || 0..before.len();
    let mut found: Vec<_> = match &this.rule.selection {
        Selection::Names(names) => {
            let names_one = |item: &usize, name| before[*item].rule.selection.names().any(|it| it == name);
            let same = names.iter().flat_map(|name| items().filter(move |item| names_one(item, name)));
            let unnamed = items().filter(|item| before[*item].rule.selection.names().next().is_none());
            same.chain(unnamed).filter_map(overlap).collect()
        }
        Selection::Labels(_) | Selection::All => items().filter_map(overlap).collect(),
    };
    // The sort keeps the order of those that are equal.
    found.sort_by_key(|(_, overlap)| *overlap != Overlap::Certain);
    found.first().copied()
}

/// Each declares nothing on the nodes that the other's table names.
#[test]
fn tables_without_a_common_entry_do_not_conflict() {
    let from_label = |name: &str, key: &str, values: Value, otherwise: Value| {
        let mut from = json!({"nodeLabel": {"key": key, "values": values}});
        from.as_object_mut().unwrap().extend(otherwise.as_object().unwrap().clone());
        Named::of(
            name,
            json!({
                "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource", "metadata": {"name": name},
                "spec": {"resourceName": "example.com/dongle", "allNodes": true, "quantityFrom": from},
            }),
        )
    };
    let nothing = || json!({"whenMissing": "None"});
    let small = from_label("small", "size", json!({"s": 1}), nothing());
    for (other, expected) in [
        (from_label("big", "size", json!({"b": 8}), nothing()), None),
        (from_label("both", "size", json!({"s": 2, "b": 8}), nothing()), Some(Overlap::Certain)),
        (from_label("other", "zone", json!({"s": 8}), nothing()), Some(Overlap::Possible)),
        (from_label("kept", "size", json!({"b": 8}), json!({})), Some(Overlap::Certain)),
        (from_label("default", "size", json!({"b": 8}), json!({"default": 2})), Some(Overlap::Certain)),
        (Named::new("fixed", 4, &json!({"allNodes": true})), Some(Overlap::Certain)),
    ] {
        let mut group = PrecedenceGroup::default();
        group.add(small.candidate(), 0);
        assert_eq!(group.conflict(other.candidate()), expected.map(|overlap| (0, overlap)), "{}", other.name);
    }
}

fn random_nodes(random: &mut fastrand::Rng) -> Value {
    let mut some = |of: &[&'static str], least: usize| {
        let mut all = of.to_vec();
        random.shuffle(&mut all);
        all.truncate(random.usize(least..=of.len()));
        all
    };
    match some(&["n", "a", "l", "l", "l", "e", "e", "e"], 1)[0] {
        "n" => json!({"nodeNames": some(&["n1", "n2", "n3", "n4", "n5"], 1)}),
        "a" => json!({"allNodes": true}),
        "l" => {
            let labels = some(&["zone", "pool", "rack", "disk"], 1);
            let label = |key| (key, some(&["x", "y", "z"], 1)[0]);
            let labels: BTreeMap<_, _> = labels.into_iter().map(label).collect();
            json!({"nodeSelector": {"matchLabels": labels}})
        }
        _ => {
            let keys = some(&["zone", "zone", "pool", "rack"], 1);
            let expression = |key| match some(&["In", "In", "NotIn", "Exists", "DoesNotExist"], 1)[0] {
                operator @ ("In" | "NotIn") => {
                    json!({"key": key, "operator": operator, "values": some(&["x", "y", "z"], 1)})
                }
                operator => json!({"key": key, "operator": operator}),
            };
            json!({"nodeSelector": {"matchExpressions": keys.into_iter().map(expression).collect::<Vec<_>>()}})
        }
    }
}

#[test]
fn overlaps_found_by_index_are_those_found_by_pairs() {
    let mut random = fastrand::Rng::with_seed(13);
    let (mut certain, mut possible, mut none) = (0, 0, 0);
    for _ in 0..1500 {
        let (names, quantities) = (random.usize(2..60), random.u64(2..6));
        let rules: Vec<_> = (0..random.usize(1..40))
            .map(|_| {
                let name = format!("rule-{}", random.usize(..names));
                let quantity = random.u64(1..quantities);
                Named::new(&name, quantity, &random_nodes(&mut random))
            })
            .collect();
        let mut group = PrecedenceGroup::default();
        for (item, rule) in rules.iter().enumerate() {
            let found = group.conflict(rule.candidate());
            assert_eq!(found, by_pairs(rule, &rules[..item]), "{:?}", rule.rule.selection);
            match found {
                Some((_, Overlap::Certain)) => certain += 1,
                Some(_) => possible += 1,
                None => none += 1,
            }
            group.add(rule.candidate(), item);
        }
    }
    assert!(certain > 5000 && possible > 500 && none > 500, "{certain} {possible} {none}");
}

/// Where each rule has a quantity and a name of its own, two are kept, and never more than a handful.
#[test]
fn overlaps_of_alike_rules_keep_few_of_them() {
    let names: Vec<_> = (0..100).map(|name| format!("rule-{name}")).collect();
    let quantities: Vec<_> = (0..100).map(|number| Declared::Fixed(number.into())).collect();
    let mut random = fastrand::Rng::with_seed(13);
    for count in [1, 2, 3, 4, 100] {
        for _ in 0..1000 {
            let mut alike = Alike::default();
            for place in 0..200 {
                let quantity = &quantities[random.usize(..usize::try_from(count).unwrap())];
                let name = &names[random.usize(..usize::try_from(count).unwrap())];
                alike.add(Peer { name, quantity, place, item: place });
            }
            assert!(alike.len() <= 4, "{count}: {}", alike.len());
        }
    }
}

/// The rules that are compared with a rule, of many that can have no node in common with it or select alike.
#[test]
fn overlaps_of_ordinary_rules_are_compared_with_few() {
    let label = |key: &str, value: &str| json!({"nodeSelector": {"matchLabels": {key: value}}});
    for nodes in [
        &(|n: usize| label("pool", &format!("pool-{n}"))) as &dyn Fn(usize) -> Value,
        &|n| json!({"nodeSelector": {"matchLabels": {"arch": "amd64", "pool": format!("pool-{n}")}}}),
        &|_| label("pool", "build"),
        &|_| json!({"allNodes": true}),
        &|n| json!({"nodeNames": [format!("node-{n}"), "node"]}),
    ] {
        let rules: Vec<_> = (0..100).map(|n| Named::new(&format!("r-{n}"), 1, &nodes(n))).collect();
        let mut group = PrecedenceGroup::default();
        for (item, rule) in rules.iter().enumerate() {
            group.add(rule.candidate(), item);
        }
        for rule in &rules {
            let compared = group.key_sets.iter().map(|key_set| key_set.compared(&rule.tests).len());
            assert!(compared.sum::<usize>() <= 1, "{:?}", rule.rule.selection);
        }
        let kept = group.by_node.values().map(Alike::len).max().unwrap_or_default();
        assert!(kept <= 2 && group.all.len() <= 2, "{kept}");
    }
}
