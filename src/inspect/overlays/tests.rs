//! The overlays of rules, and that Karpenter decides by them as the planner decides by the rules.

use serde_json::json;

use super::*;
use crate::model::api::NodeExtendedResource;
use crate::model::node::{Interner, Node};
use crate::planner::input::PlanningInput;
use crate::planner::{Action, plan};

fn rule(name: &str, spec: Value) -> Arc<Rule> {
    let mut all = json!({"resourceName": "example.com/dongle", "quantity": 4});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = NodeExtendedResource::new(name, serde_json::from_value(all).unwrap());
    Arc::new(Rule::new(&object).unwrap())
}

fn overlays(rules: impl IntoIterator<Item = (&'static str, Value)>) -> Overlays {
    Overlays::new(&RuleSet::new(rules.into_iter().map(|(name, spec)| rule(name, spec)), []), &TemplateLabels::default())
}

fn labels(selector: Value) -> Value {
    json!({ "nodeSelector": { "matchLabels": selector } })
}

fn expressions(expressions: Value) -> Value {
    json!({ "nodeSelector": { "matchExpressions": expressions } })
}

#[test]
fn rule_becomes_an_overlay_with_its_requirements() {
    let spec = json!({
        "resourceName": "example.com/storage_pool", "quantity": "800Gi",
        "nodeSelector": {
            "matchLabels": {"example.com/pool": "big"},
            "matchExpressions": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64", "amd64"]},
                {"key": "example.com/old", "operator": "DoesNotExist"},
                {"key": "example.com/tier", "operator": "NotIn", "values": ["edge"]},
                {"key": "example.com/disk", "operator": "Exists"},
            ],
        },
    });
    let expressed = overlays([("storage", spec)]);
    assert!(expressed.unexpressed.is_empty(), "{:?}", expressed.unexpressed);
    let expected = json!([{
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {
            "name": "storage",
            "labels": {"app.kubernetes.io/managed-by": "node-resource-advertiser"},
            "annotations": {"noderesource.dev/rule": "storage"},
        },
        "spec": {
            "requirements": [
                {"key": "example.com/pool", "operator": "In", "values": ["big"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
                {"key": "example.com/old", "operator": "DoesNotExist"},
                {"key": "example.com/tier", "operator": "NotIn", "values": ["edge"]},
                {"key": "example.com/disk", "operator": "Exists"},
            ],
            "capacity": {"example.com/storage_pool": "800Gi"},
            "weight": 10_000,
        },
    }]);
    assert_eq!(serde_json::to_value(&expressed.overlays).unwrap(), expected);
    let keys = ["example.com/disk", "example.com/old", "example.com/pool", "example.com/tier"];
    let noted: Vec<_> = expressed.notes.iter().map(|note| keys.iter().position(|key| note.contains(key))).collect();
    assert_eq!(noted, [Some(0), Some(1), Some(2), Some(3)], "{:?}", expressed.notes);
}

#[test]
fn label_that_a_template_sets_needs_no_note() {
    let mut templates = TemplateLabels::default();
    let labels = json!({"metadata": {"labels": {"example.com/pool": "big"}}});
    let select = json!({"nodeSelector": {"matchLabels": {"example.com/pool": "big"}}});
    let rules = || RuleSet::new([rule("one", select.clone())], []);
    let notes = |templates: &TemplateLabels| Overlays::new(&rules(), templates).notes.len();
    for (version, kind) in [("karpenter.sh/v1", "NodeClaim"), ("other.sh/v1", "NodePool"), ("", "")] {
        templates.add(&json!({"apiVersion": version, "kind": kind, "spec": {"template": labels}}));
        assert_eq!(notes(&templates), 1);
    }
    templates.add(&json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": null}));
    templates.add(&json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": labels}}));
    assert_eq!(notes(&templates), 0);
}

#[test]
fn rule_for_all_nodes_becomes_an_overlay_without_requirements() {
    let expressed = overlays([("all", json!({"allNodes": true}))]);
    let overlay = serde_json::to_value(&expressed.overlays[0]).unwrap();
    assert_eq!(overlay["spec"]["requirements"], json!([]), "the field is required");
    assert_eq!(expressed.notes, [""; 0]);
}

#[test]
fn weights_fall_with_precedence_by_resource() {
    let key = json!({"allNodes": true, "resourceName": "example.com/key"});
    let expressed = overlays([
        ("low", json!({"allNodes": true, "priority": -1})),
        ("b", labels(json!({"pool": "b"}))),
        ("a", labels(json!({"pool": "a"}))),
        ("paused", json!({"allNodes": true, "priority": 2, "paused": true})),
        ("high", json!({"allNodes": true, "priority": 1})),
        ("key", key),
    ]);
    let weights: Vec<_> =
        expressed.overlays.iter().map(|overlay| (&*overlay.metadata.name, overlay.spec.weight.unwrap())).collect();
    assert_eq!(weights, [("high", 9999), ("a", 9998), ("b", 9997), ("low", 9996), ("key", 10_000)]);
}

#[test]
fn rule_that_karpenter_cannot_express_is_named_with_why() {
    let not_in = json!({"key": "pool", "operator": "NotIn", "values": ["a"]});
    for (spec, why) in [
        (json!({"nodeNames": ["node-1"]}), "it selects nodes by name (node-1)"),
        (labels(json!({"kubernetes.io/hostname": "a"})), "no requirement on the label kubernetes.io/hostname"),
        (labels(json!({"node-role.kubernetes.io/worker": ""})), "no requirement on the label node-role"),
        (labels(json!({"feature.node.kubernetes.io/usb": "true"})), "only after their start"),
        (expressions(json!([{"key": "pool", "operator": "Exists"}, not_in])), "the label pool exists with other than"),
    ] {
        let expressed = overlays([("odd", spec.clone()), ("fine", json!({"allNodes": true}))]);
        let [(name, reason)] = &expressed.unexpressed.into_iter().collect::<Vec<_>>()[..] else { panic!("{spec}") };
        assert!(&**name == "odd" && reason.contains(why), "{spec}: {reason}");
        assert!(reason.starts_with("rule odd cannot be expressed for Karpenter: "), "{reason}");
        assert_eq!(expressed.overlays.len(), 1);
    }
}

#[test]
fn table_becomes_an_overlay_for_each_quantity_and_one_for_the_default() {
    let table = |more: Value| {
        let label = json!({"key": "node.kubernetes.io/instance-type", "values": {"a": 1000, "b": "2", "c": "1k"}});
        let mut spec = json!({"allNodes": true, "quantity": null, "quantityFrom": {"nodeLabel": label}});
        spec["quantityFrom"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let shown = |spec: Value| {
        let expressed = overlays([("volumes", spec)]);
        assert!(expressed.unexpressed.is_empty() && expressed.notes.is_empty(), "{expressed:?}");
        let shown = expressed.overlays.iter().map(|overlay| {
            let requirements: Vec<_> = overlay
                .spec
                .requirements
                .iter()
                .map(|only| format!("{} {}", only.operator, only.values.join(",")))
                .collect();
            assert_eq!((overlay.rule(), overlay.spec.weight), ("volumes", Some(10_000)));
            let quantity = overlay.spec.capacity.iter().flatten().next().unwrap().1;
            format!("{} {}: {}", overlay.metadata.name, requirements.join(" and "), quantity.as_str().unwrap())
        });
        shown.collect::<Vec<_>>()
    };
    let named = ["volumes-2 In b: 2", "volumes-1000 In a,c: 1k"];
    assert_eq!(shown(table(json!({"whenMissing": "None"}))), named);
    assert_eq!(shown(table(json!({"default": 3}))), [named[0], named[1], "volumes-default NotIn a,b,c: 3"]);
    let mut selecting = table(json!({"default": 3}));
    let only = json!({"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a", "b"]}]});
    selecting["allNodes"] = Value::Null;
    selecting["nodeSelector"] = only;
    assert_eq!(shown(selecting), ["volumes-2 In a,b and In b: 2", "volumes-1000 In a,b and In a: 1k"]);
}

#[test]
fn table_that_karpenter_cannot_express_is_named_with_why() {
    let table = |key: &str| json!({"allNodes": true, "quantity": null, "quantityFrom": {"nodeLabel": {"key": key, "values": {"a": 1}}}});
    for (name, key, why) in [
        ("late", "feature.node.kubernetes.io/usb", "only after their start"),
        ("host", "kubernetes.io/hostname", "no requirement on the label"),
        ("zone", "topology.kubernetes.io/zone", "with every value of topology.kubernetes.io/zone"),
        ("same", "pool", "rule same-1 has the name of one of its overlays; rename one"),
    ] {
        let expressed = overlays([(name, table(key)), ("same-1", json!({"allNodes": true}))]);
        assert!(expressed.unexpressed[name].contains(why), "{expressed:?}");
        assert_eq!(expressed.overlays.len(), 1);
    }
    let expressed = overlays([("pools", table("pool"))]);
    assert!(expressed.notes[0].contains("the label pool (of pools) only from"), "{expressed:?}");
}

#[test]
fn rule_that_needs_no_overlay_is_noted() {
    let not_in = json!([
        {"key": "pool", "operator": "NotIn", "values": ["a"]}, {"key": "pool", "operator": "In", "values": ["a"]},
    ]);
    for (spec, note) in
        [(json!({"allNodes": true, "paused": true}), "paused: no new node"), (expressions(not_in), "selects no node")]
    {
        let expressed = overlays([("odd", spec)]);
        assert!(expressed.overlays.is_empty() && expressed.unexpressed.is_empty());
        assert!(expressed.notes[0].contains(note), "{:?}", expressed.notes);
    }
}

#[test]
fn zones_and_ties_are_noted() {
    let zone = labels(json!({"topology.kubernetes.io/zone": "a"}));
    let expressed = overlays([("zonal", zone)]);
    assert!(expressed.notes[0].contains("with every value of this label if one fits"), "{:?}", expressed.notes);

    let tie = |two: Value| overlays([("one", labels(json!({"karpenter.sh/nodepool": "a"}))), ("two", two)]).notes;
    let pool = |pool: &str, quantity: u8| {
        let mut spec = labels(json!({ "karpenter.sh/nodepool": pool }));
        spec["quantity"] = json!(quantity);
        spec
    };
    assert!(tie(pool("a", 5))[0].contains("rules one and two have the same priority"), "{:?}", tie(pool("a", 5)));
    assert_eq!(tie(pool("a", 4)), [""; 0], "the same quantity");
    assert_eq!(tie(pool("b", 5)), [""; 0], "other nodes");
    let mut other = pool("a", 5);
    other["priority"] = json!(1);
    assert_eq!(tie(other), [""; 0], "another priority");
}

#[test]
fn more_rules_than_weights_are_named() {
    let all = labels(json!({"pool": "all"}));
    let rules = (0..10_001).map(|number| rule(&format!("r{number:05}"), all.clone()));
    let expressed = Overlays::new(&RuleSet::new(rules, []), &TemplateLabels::default());
    assert!(expressed.notes[0].contains("(of r00000, r00001, r00002, r00003, r00004 and 9,995 more)"));
    assert_eq!(expressed.overlays.last().unwrap().spec.weight, Some(1));
    let names: Vec<_> = expressed.unexpressed.iter().collect();
    assert_eq!((expressed.overlays.len(), names.len(), &**names[0].0), (10_000, 1, "r10000"));
    assert!(names[0].1.contains("more than 10000 rules declare example.com/dongle"), "{names:?}");
}

/// A label of an instance type, or a requirement, as Karpenter has it: `pkg/scheduling/requirement.go`.
#[derive(Clone, Debug, PartialEq)]
struct Values {
    /// Everything but these.
    is_complement: bool,
    values: BTreeSet<String>,
}

impl Values {
    fn of(requirement: &OverlayRequirement) -> Self {
        let is_complement = matches!(requirement.operator.as_str(), "NotIn" | "Exists");
        Self { is_complement, values: requirement.values.iter().cloned().collect() }
    }

    fn intersection(&self, other: &Self) -> Self {
        let values = match (self.is_complement, other.is_complement) {
            (true, true) => &self.values | &other.values,
            (true, false) => &other.values - &self.values,
            (false, true) => &self.values - &other.values,
            (false, false) => &self.values & &other.values,
        };
        Self { is_complement: self.is_complement && other.is_complement, values }
    }

    /// Returns whether it is `NotIn` or `DoesNotExist`, which hold without the label.
    fn holds_without(&self) -> bool {
        self.is_complement != self.values.is_empty()
    }
}

/// Returns whether Karpenter applies an overlay to an instance type with these labels (`Compatible`).
fn applies(overlay: &NodeOverlay, labels: &BTreeMap<String, String>) -> bool {
    let mut joined = BTreeMap::<&str, Values>::new();
    for requirement in &overlay.spec.requirements {
        let values = Values::of(requirement);
        let present = joined.get(&*requirement.key).map_or(values.clone(), |present| present.intersection(&values));
        joined.insert(&requirement.key, present);
    }
    joined.into_iter().all(|(key, values)| match labels.get(key) {
        None => values.holds_without(),
        Some(value) => values.is_complement != values.values.contains(value),
    })
}

/// Returns the capacity that Karpenter expects: of the heaviest overlay with a resource.
fn expected(overlays: &[NodeOverlay], labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut applied: Vec<_> = overlays.iter().filter(|overlay| applies(overlay, labels)).collect();
    applied.sort_by_key(|overlay| overlay.spec.weight);
    let mut capacity = BTreeMap::new();
    for overlay in applied {
        let own = overlay.spec.capacity.iter().flatten();
        capacity.extend(own.map(|(name, quantity)| (name.clone(), quantity.as_str().unwrap().to_owned())));
    }
    capacity
}

/// Returns what the planner advertises on a new node.
fn planned(rules: &RuleSet, labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let node = serde_json::from_value(json!({"metadata": {"name": "new", "labels": labels}})).unwrap();
    let plan = plan(&Node::new(node, &mut Interner::default()), rules, &PlanningInput::default());
    let quantity = |action: &Action| match action {
        Action::Advertise { quantity, .. } => quantity.clone(),
        other => panic!("{other:?}"),
    };
    plan.changes().iter().map(|change| (change.name().to_owned(), quantity(&change.action))).collect()
}

const KEYS: [&str; 3] = ["example.com/a", "example.com/b", "kubernetes.io/arch"];
const VALUES: [&str; 3] = ["x", "y", "z"];

fn random_rule(random: &mut fastrand::Rng, name: &str) -> Arc<Rule> {
    let expression = |random: &mut fastrand::Rng| {
        let operator = *random.choice(&["In", "NotIn", "Exists", "DoesNotExist"]).unwrap();
        let count = if operator.ends_with("In") { random.usize(1..3) } else { 0 };
        let values: Vec<_> = (0..count).map(|_| random.choice(VALUES).unwrap()).collect();
        json!({"key": random.choice(KEYS).unwrap(), "operator": operator, "values": values})
    };
    let mut spec = json!({
        "resourceName": random.choice(["example.com/dongle", "example.com/key"]).unwrap(),
        "quantity": random.u8(1..9), "priority": random.i32(-1..2), "paused": random.u8(..6) == 0,
    });
    match random.u8(..6) {
        0 => spec["allNodes"] = json!(true),
        _ => {
            let list: Vec<_> = (0..random.usize(1..4)).map(|_| expression(random)).collect();
            spec["nodeSelector"] = json!({ "matchExpressions": list });
        }
    }
    if random.u8(..3) == 0 {
        with_table(random, &mut spec);
    }
    let created = random.choice([None, Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z")]).unwrap();
    let mut rule = (*rule(name, spec)).clone();
    rule.created = created.map(|time| time.parse().unwrap());
    Arc::new(rule)
}

/// Adds a table by a label, which the rule may select by too.
fn with_table(random: &mut fastrand::Rng, spec: &mut Value) {
    let entries = (0..random.usize(1..4)).map(|_| (random.choice(VALUES).unwrap().to_owned(), json!(random.u8(1..4))));
    let values: serde_json::Map<_, _> = entries.collect();
    spec["quantity"] = Value::Null;
    spec["quantityFrom"] = json!({"nodeLabel": {"key": random.choice(KEYS).unwrap(), "values": values}});
    match random.u8(..4) {
        0 => spec["quantityFrom"]["whenMissing"] = json!("None"),
        1 => {}
        _ => spec["quantityFrom"]["default"] = json!(random.u8(1..9)),
    }
}

/// Of random rules, without those that Karpenter cannot express, and random nodes.
#[test]
fn karpenter_expects_what_the_planner_advertises() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut compared, mut advertised) = (0, 0);
    for _ in 0..2_000 {
        let rules: Vec<_> =
            (0..random.usize(1..7)).map(|number| random_rule(&mut random, &format!("r{number}"))).collect();
        let unexpressed =
            Overlays::new(&RuleSet::new(rules.iter().cloned(), []), &TemplateLabels::default()).unexpressed;
        let rules = rules.into_iter().filter(|rule| !unexpressed.contains_key(&rule.name));
        let rules = RuleSet::new(rules, []);
        let Overlays { overlays, .. } = Overlays::new(&rules, &TemplateLabels::default());
        let mut weights = BTreeMap::new();
        for overlay in &overlays {
            let resources: Vec<_> = overlay.spec.capacity.iter().flatten().map(|(name, _)| name.clone()).collect();
            let rule = overlay.rule();
            let first = weights.entry((resources, overlay.spec.weight)).or_insert(rule);
            assert_eq!(*first, rule, "two of one weight: {overlays:#?}");
        }
        for _ in 0..10 {
            let labels = KEYS.map(|key| (key, random.choice([None, Some("x"), Some("y"), Some("w")]).unwrap()));
            let labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
            let labels = labels.collect();
            let planned = planned(&rules, &labels);
            let applied = overlays.iter().filter(|overlay| applies(overlay, &labels)).map(NodeOverlay::rule);
            assert_eq!(applied.clone().collect::<BTreeSet<_>>().len(), applied.count(), "two of a rule: {overlays:#?}");
            assert_eq!(expected(&overlays, &labels), planned, "{labels:?} {rules:#?}\n{overlays:#?}");
            (compared, advertised) = (compared + 1, advertised + planned.len());
        }
    }
    assert!(advertised > compared / 4, "{advertised} of {compared}: the rules select too few nodes to prove anything");
}
