//! What holds of every plan, and of every part of one, tried on random nodes, rules and circumstances.

use simulator::seeds;

use super::*;
use crate::model::api::FIELD_MANAGER;
use crate::model::ledger::{ANNOTATION, Ledger};
use crate::model::node::{ApiNode, FactNames, Interner, heartbeats};
use crate::model::pod::{NodeRequests, Requests};

const NAMES: [&str; 3] = ["example.com/a", "example.com/b", "example.com/c"];
const MAPS: [&str; 2] = ["capacity", "allocatable"];
const VALUES: [&str; 8] = ["0", "1", "4", "1k", "1000", "0.5", "garbage", "8Ei"];

/// A node with what it is planned by.
struct Case {
    object: Value,
    rules: Value,
    input: PlanningInput,
    requests: NodeRequests,
}

impl Case {
    fn new(random: &mut fastrand::Rng) -> Self {
        let agrees = random.bool();
        let mut object = node_object(&json!({}));
        let created = random.choice(["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"]).unwrap();
        object["metadata"]["creationTimestamp"] = json!(created);
        for map in MAPS {
            if agrees || random.u8(..8) > 0 {
                object["status"][map] = json!({"cpu": "2"});
                for name in some_names(random) {
                    object["status"][map][name] = json!(random.choice(VALUES).unwrap());
                }
            }
        }
        if random.bool()
            && let Some(capacity) = object["status"].get("capacity").cloned()
        {
            object["status"]["allocatable"] = capacity;
        }
        let mut listed = Map::new();
        for name in some_names(random) {
            let quantity = random.choice(["1", "4", "1k"]).unwrap();
            let rule = random.choice(["r0", "r1", "gone", "frozen", "frozen-2"]).unwrap();
            let mut entry = json!({"quantity": quantity, "rule": rule});
            match random.choice(["Withdraw", "WhenUnused", "Retain"]).unwrap() {
                "WhenUnused" => {
                    entry["whenUnused"] = json!(true);
                    entry["leaving"] = json!(random.bool());
                }
                policy => entry["deletionPolicy"] = json!(policy),
            }
            listed.insert(name.to_owned(), entry);
            for map in MAPS.into_iter().filter(|_| agrees) {
                object["status"][map][name] = json!(quantity);
            }
        }
        if !listed.is_empty() {
            let ledger = Value::Object(listed).to_string();
            object["metadata"]["annotations"] = json!({ ANNOTATION: ledger });
        }
        if random.u8(..8) > 0 {
            object["metadata"]["managedFields"] = managers(random);
        }

        let mut rules = json!({"frozen": "invalid", "frozen-2": random.i32(0..2)});
        for rule in 0..random.usize(..4) {
            rules[format!("r{rule}")] = json!({
                "resourceName": random.choice(NAMES).unwrap(),
                "quantity": random.choice(["1", "4", "1000"]).unwrap(),
                "priority": random.i32(0..3),
                "deletionPolicy": random.choice(["Withdraw", "WhenUnused", "Retain"]).unwrap(),
                "conflictPolicy": random.choice(["Keep", "Keep", "Overwrite"]).unwrap(),
                "shrinkPolicy": random.choice(["WhenFree", "WhenFree", "Immediate"]).unwrap(),
                "paused": random.u8(..5) == 0,
            });
        }
        let (input, requests) = input(random);
        Self { object, rules, input, requests }
    }

    fn plan(&self, object: &Value) -> NodePlan {
        plan(&decoded(object), &rule_set(&self.rules), &self.input)
    }

    /// Returns the node after some changes, and checks what holds of them.
    fn apply(&self, before: &Value, changes: &[Change]) -> Value {
        let mut after = before.clone();
        apply(&mut after, &patch(&decoded(before), changes).unwrap());
        let what = || format!("{before} {} {:?} {changes:?}", self.rules, self.input);
        assert!(!agrees(before) || agrees(&after), "I2: {}", what());
        let [old, new] = [before, &after].map(|node| serde_json::from_value::<ApiNode>(node.clone()).unwrap());
        let shows = |change: &Change| change.is_in(&new) && !change.is_in(&old);
        assert!(changes.iter().all(shows), "I10: the response shows what a patch has done: {}", what());
        let listed = ledger(before);
        for map in MAPS {
            assert_eq!(before["status"][map].get("cpu"), after["status"][map].get("cpu"));
            for name in NAMES {
                let value = |object: &Value| object["status"][map].get(name).cloned();
                let (old, new) = (value(before), value(&after));
                if old == new {
                    continue;
                }
                let is_vacant = old.as_ref().is_none_or(|old| old == "0");
                let takes_over =
                    changes.iter().any(|it| it.is_of(name) && it.action_name() == "takeOver") && self.overwrites(name);
                let is_own = listed.get(name).is_some_and(|entry| {
                    // Repaired or replaced while it is desired; removed only as listed.
                    new.is_some() || old.as_ref().is_none_or(|old| same(old, &entry["quantity"]))
                });
                assert!(is_vacant || is_own || takes_over, "I1: {name} {}", what());
                assert!(new.is_none_or(|new| !same(&new, &json!("0"))), "I3: {name} {}", what());
            }
        }
        after
    }

    fn overwrites(&self, resource: &str) -> bool {
        let mut rules = self.rules.as_object().unwrap().values();
        rules.any(|it| it["resourceName"] == resource && it["conflictPolicy"] == "Overwrite" && it["paused"] == false)
    }

    /// Under `WhenFree`, no value is lowered below what pods request, nor does one appear below what those request that have
    /// started (I5).
    fn assert_pods_are_safe(&self, before: &Value, after: &Value) {
        // The rule that the value is written for decides.
        let entries = ledger(after);
        let immediate = |name: &str| {
            let rule = entries.get(name).and_then(|entry| self.rules.get(entry["rule"].as_str()?));
            rule.is_some_and(|rule| rule["shrinkPolicy"] == "Immediate")
        };
        for name in NAMES.into_iter().filter(|name| !immediate(name)) {
            let is_vacant = |map: &str| before["status"][map].get(name).is_none_or(|value| value == "0");
            let appears = !ledger(before).contains_key(name) && MAPS.iter().all(|map| is_vacant(map));
            let quantity =
                |object: &Value, map: &str| object["status"][map].get(name)?.as_str()?.parse::<Quantity>().ok();
            for map in MAPS {
                let (old, new) = (quantity(before, map), quantity(after, map));
                let is_less = old.is_some_and(|old| new.is_some_and(|new| new < old));
                let NodeRequests { bound, started } = &self.requests;
                let (requested, started) = (bound.get(name), started.get(name));
                let is_new = appears && new.is_some_and(|new| !new.is_zero());
                let is_safe = new.is_none_or(|new| new >= requested.min(old.unwrap_or(requested)));
                let is_known = matches!(self.input.pods, PodUsage::Known(_));
                assert!(!is_less || (is_known && is_safe), "{name} {before} {after} {}", self.rules);
                let leaves = new.is_none() && !agrees_to_go(before, name) && old.is_some_and(|old| !old.is_zero());
                assert!(!leaves || (is_known && requested.is_zero()), "{name} {before} {after} {}", self.rules);
                let is_high_enough = new.is_some_and(|new| new >= started);
                assert!(!(is_new && is_known) || is_high_enough, "{name} {before} {after}");
            }
        }
    }
}

/// Returns whether a value may be removed whatever pods request.
fn agrees_to_go(object: &Value, resource: &str) -> bool {
    ledger(object).get(resource).is_none_or(|entry| entry["whenUnused"] != true)
}

/// Returns random numbers for each of so many cases: for most of them the same ones in every run.
fn numbers(seed: u64, count: usize) -> impl Iterator<Item = fastrand::Rng> {
    let parts = seeds::random(seed, count).into_iter();
    parts.flat_map(|(count, mut random)| (0..count).map(move |_| random.fork()))
}

fn cases(seed: u64, count: usize) -> impl Iterator<Item = (Case, fastrand::Rng)> {
    numbers(seed, count).map(|mut random| (Case::new(&mut random), random))
}

fn some_names(random: &mut fastrand::Rng) -> Vec<&'static str> {
    NAMES.into_iter().filter(|_| random.bool()).collect()
}

fn managers(random: &mut fastrand::Rng) -> Value {
    let managers = ["kubelet", "kubectl-patch", FIELD_MANAGER];
    let mut entries = managers.map(|manager| json!({"manager": manager, "fieldsV1": {}}));
    let all_own = random.bool();
    for map in MAPS {
        for name in NAMES {
            let any = random.usize(..managers.len() + 1);
            if let Some(entry) = entries.get_mut(if all_own { 2 } else { any }) {
                entry["fieldsV1"]["f:status"][format!("f:{map}")][format!("f:{name}")] = json!({});
            }
        }
    }
    json!([entries.to_vec(), vec![heartbeats("kubelet")]].concat())
}

fn input(random: &mut fastrand::Rng) -> (PlanningInput, NodeRequests) {
    let mut requests = NodeRequests::default();
    for has_started in [false, true] {
        let mut pod = Requests::default();
        NAMES.iter().for_each(|name| pod.add_amount(name, Quantity::from(random.i64(0..4))));
        requests.add(&pod, has_started);
    }
    let pods = match random.u8(..4) {
        0 => PodUsage::NotFetched,
        1 if random.bool() => PodUsage::Unavailable("no right".into()),
        1 => PodUsage::LastKnown { requests: requests.clone(), why: "no right".into() },
        _ => PodUsage::Known(requests.clone()),
    };
    let new_values = [NewValues::Write, NewValues::CheckOlderNodes, NewValues::Check];
    let mut input = PlanningInput { pods, new_values: random.choice(new_values).unwrap(), ..PlanningInput::default() };
    for name in NAMES {
        if random.u8(..4) == 0 {
            let contest = Contest { may_repair: random.bool(), manager: None, lost: Lost::Value };
            input.contested.insert(name.into(), contest);
        }
    }
    (input, requests)
}

fn same(text: &Value, other: &Value) -> bool {
    let parsed = |text: &Value| text.as_str().and_then(|text| text.parse::<Quantity>().ok());
    parsed(text).is_some_and(|quantity| parsed(other) == Some(quantity))
}

fn ledger(object: &Value) -> Map<String, Value> {
    fields(object)["ledger"].as_object().cloned().unwrap_or_default()
}

/// Returns whether both maps hold what the ledger lists.
fn agrees(object: &Value) -> bool {
    ledger(object).iter().all(|(name, entry)| {
        MAPS.iter().all(|map| {
            let value = object["status"][*map].get(name);
            value.is_some_and(|value| same(value, &entry["quantity"]))
        })
    })
}

#[test]
fn random_plans_and_their_parts_keep_the_invariants() {
    let mut actions = BTreeMap::<_, u32>::new();
    for (case, mut random) in cases(1, 6_000) {
        let mut object = case.object.clone();
        let planned = case.plan(&object);
        for change in planned.changes() {
            *actions.entry(change.action_name()).or_default() += 1;
        }
        // Whatever part of it is sent first, the rest follows.
        let part: Vec<_> = planned.changes().iter().filter(|_| random.bool()).cloned().collect();
        for changes in [&part[..], planned.changes()] {
            let after = case.apply(&object, changes);
            case.assert_pods_are_safe(&object, &after);
        }
        object = case.apply(&object, &part);
        // A value that was adopted may be raised then, since it had been lowered.
        for _ in 0..2 {
            object = case.apply(&object, case.plan(&object).changes());
        }
        let end = case.plan(&object);
        assert_eq!(end.changes(), [], "{object} {} {:?}", case.rules, case.input);
    }
    for action in ["advertise", "hold", "repair", "takeOver", "adopt", "release", "withdraw"] {
        assert!(actions.get(action).is_some_and(|count| *count > 20), "{action}: {actions:?}");
    }
}

/// By the ledger alone nothing but lost values is written, and that as listed.
#[test]
fn random_repairs_write_what_is_listed() {
    let mut repairs = 0;
    for (case, _) in cases(3, 2_000) {
        let planned = plan_repairs(&decoded(&case.object), &case.input.contested);
        repairs += planned.changes().len();
        let after = case.apply(&case.object, planned.changes());
        assert_eq!(after["metadata"], case.object["metadata"]);
        for change in planned.changes() {
            assert!(change.is_repair() && change.was_recorded());
            for map in MAPS {
                let value = &after["status"][map][change.name()];
                assert!(same(value, &ledger(&after)[change.name()]["quantity"]));
            }
        }
        let again = plan_repairs(&decoded(&after), &case.input.contested);
        assert_eq!(again.plan, Plan::InSync);
    }
    assert!(repairs > 100, "{repairs}");
}

/// Only what the controller alone wrote is adopted, in both maps; where it was listed, also what a kubelet did.
#[test]
fn random_adoptions_are_of_own_values() {
    let mut adoptions = [0; 2];
    for (mut case, mut random) in cases(4, 8_000) {
        case.input.released = some_names(&mut random).into_iter().map(Arc::from).collect();
        let planned = case.plan(&case.object);
        let adopted = planned.changes().iter().filter(|it| it.action_name() == "adopt");
        for resource in adopted.map(Change::name) {
            let was_recorded = case.input.released.contains(resource);
            adoptions[usize::from(was_recorded)] += 1;
            let entries = case.object["metadata"]["managedFields"].as_array().unwrap();
            for map in MAPS {
                let owners = entries.iter().filter(|entry| {
                    let fields = &entry["fieldsV1"]["f:status"][format!("f:{map}")];
                    fields.get(format!("f:{resource}")).is_some()
                });
                let owners: Vec<_> = owners.map(|entry| entry["manager"].as_str()).collect();
                let is_own = owners == [Some(FIELD_MANAGER)];
                let is_kept = was_recorded && owners == [Some("kubelet")];
                assert!(is_own || is_kept, "{owners:?} {}", case.object);
            }
        }
    }
    assert!(adoptions.iter().all(|count| *count > 10), "{adoptions:?}");
}

/// Where the node states the quantity, nothing else is planned; where it does not, nothing is withdrawn or moved.
#[test]
fn random_derived_quantities_plan_like_fixed_ones_and_unknown_ones_keep_what_is_listed() {
    let (mut planned, mut kept) = (0, 0);
    for (number, (case, _)) in cases(17, 5_000).enumerate() {
        let (mut object, mut rules) = (case.object.clone(), case.rules.clone());
        let by_table = number % 2 == 0;
        for (name, rule) in rules.as_object_mut().unwrap() {
            let Some(spec) = rule.as_object_mut() else { continue };
            let quantity = spec.remove("quantity").unwrap();
            let from = match by_table {
                true => json!({"nodeLabel": {"key": name, "values": {"no": 1000, "here": quantity}}}),
                false => json!({"nodeLabel": {"key": name}, "max": 1000}),
            };
            spec.insert("quantityFrom".to_owned(), from);
            object["metadata"]["labels"][name] = if by_table { json!("here") } else { quantity };
        }
        let mut derived = plan(&decoded(&object), &rule_set(&rules), &case.input);
        if let Plan::Patch { changes, .. } = &mut derived.plan {
            changes.iter_mut().for_each(|change| change.moves = false);
        }
        let fixed = plan(&decoded(&object), &rule_set(&case.rules), &case.input);
        assert_eq!(derived, fixed, "{object:#}\n{rules:#}");
        planned += derived.changes().len();

        let names = case.rules.as_object().unwrap().keys();
        let others: Map<_, _> = names.map(|name| (name.clone(), json!("elsewhere"))).collect();
        object["metadata"]["labels"] = if by_table { Value::Object(others) } else { json!({}) };
        let node = decoded(&object);
        let unknown = plan(&node, &rule_set(&rules), &case.input);
        let Ok(ledger) = Ledger::parse(node.ledger.as_deref()) else { continue };
        let is_declared = |resource: &str| {
            let mut rules = rules.as_object().unwrap().values();
            rules.any(|rule| rule["resourceName"] == resource && rule["paused"] != true)
        };
        for change in unknown.changes().iter().filter(|change| is_declared(change.name())) {
            let listed = ledger.get(change.name()).map(|entry| entry.quantity.parse::<Quantity>().unwrap());
            let written = change.quantity().map(|text| text.parse::<Quantity>().unwrap());
            assert!(listed.is_some() && written >= listed, "{change}: {object:#}\n{rules:#}");
            kept += 1;
        }
    }
    assert!(planned > 2500 && kept > 250, "{planned} {kept}");
}

/// Nodes that share what they can, planned by two sets of rules in turn.
#[test]
fn random_plans_from_memory_are_those_without_one() {
    let (mut memo, mut remembered) = (Memo::default(), 0);
    for mut random in numbers(19, 300) {
        let mut interner = Interner::keeping(FactNames::All);
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let (alike, other) = (Case::new(&mut random).object, Case::new(&mut random).object);
            let parts =
                ["", "/metadata/annotations", "/metadata/managedFields", "/status/capacity", "/status/allocatable"];
            for (number, part) in parts.into_iter().flat_map(|part| [part; 2]).enumerate() {
                let mut object = alike.clone();
                if let (Some(mine), Some(other)) = (object.pointer_mut(part), other.pointer(part))
                    && !part.is_empty()
                {
                    mine.clone_from(other);
                }
                let zone = if number % 2 == 0 { "a" } else { "b" };
                object["metadata"]["name"] = json!(format!("node-{number}"));
                object["metadata"]["uid"] = json!(random.u64(..).to_string());
                object["metadata"]["labels"] = json!({"zone": zone, "units": number.to_string()});
                nodes.push(Node::new(serde_json::from_value(object).unwrap(), &mut interner));
            }
        }
        for _ in 0..2 {
            let Case { mut rules, input, .. } = Case::new(&mut random);
            for rule in rules.as_object_mut().unwrap().values_mut().filter(|rule| rule.is_object()) {
                match random.u8(..5) {
                    0 => rule["nodeSelector"] = json!({"matchLabels": {"zone": "a"}}),
                    1 => rule["nodeNames"] = json!(["node-0", "node-3"]),
                    2 => {
                        rule.as_object_mut().unwrap().remove("quantity");
                        rule["quantityFrom"] = match random.bool() {
                            true => json!({"nodeLabel": {"key": "units"}, "max": 1000}),
                            false => json!({"nodeLabel": {"key": "units", "values": {"0": 5, "1": 5, "3": 7}}}),
                        };
                    }
                    _ => {}
                }
            }
            let rules = Arc::new(rule_set(&rules));
            let plain = PlanningInput { new_values: NewValues::Check, ..PlanningInput::default() };
            let young = PlanningInput { new_values: NewValues::CheckOlderNodes, ..PlanningInput::default() };
            for node in &nodes {
                for input in [&plain, &young, &input] {
                    assert_eq!(memo.plan(node, &rules, input), plan(node, &rules, input), "{node:?} {rules:?}");
                }
            }
            remembered += nodes.len() - memo.len().min(nodes.len());
        }
    }
    assert!(remembered > 4_000, "{remembered}");
}
