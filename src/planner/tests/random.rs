//! What holds of every plan, tried on random nodes and rules.

use super::*;

/// Whatever the node and the rules: one patch is enough, it writes no 0, touches no native
/// resource, changes no value that is neither vacant nor listed, withdraws nothing unlisted, and adopts
/// only what no other manager wrote.
#[test]
fn random_plans_converge_in_one_patch_within_invariants() {
    let mut random = fastrand::Rng::with_seed(1);
    let names = ["example.com/a", "example.com/b", "example.com/c"];
    let values = ["0", "1", "4", "1k", "1000", "0.5", "garbage", "8Ei"];
    let mut adoptions = 0;
    for _ in 0..10_000 {
        let mut object = node_object(&json!({}));
        for map in ["capacity", "allocatable"] {
            if random.u8(..8) > 0 {
                let mut amounts = json!({"cpu": "2"});
                for name in names {
                    if random.bool() {
                        amounts[name] = json!(random.choice(values).unwrap());
                    }
                }
                object["status"][map] = amounts;
            }
        }
        if random.bool()
            && let Some(capacity) = object["status"].get("capacity").cloned()
        {
            object["status"]["allocatable"] = capacity;
        }
        let managers = ["kubelet", "kubectl-patch", crate::model::api::FIELD_MANAGER];
        let mut own = BTreeMap::from(names.map(|name| (name, 0)));
        let mut entries = managers.map(|manager| json!({"manager": manager, "fieldsV1": {}}));
        let all_own = random.bool();
        for map in ["capacity", "allocatable"] {
            for name in names {
                let any = random.usize(..managers.len() + 1);
                let written_by = if all_own { 2 } else { any };
                if let Some(entry) = entries.get_mut(written_by) {
                    entry["fieldsV1"]["f:status"][format!("f:{map}")][format!("f:{name}")] =
                        json!({});
                }
                *own.get_mut(name).unwrap() += u8::from(written_by == 2);
            }
        }
        if random.u8(..8) > 0 {
            object["metadata"]["managedFields"] = json!(entries);
        } else {
            own.clear();
        }
        let mut listed = Map::new();
        for name in names {
            if random.bool() {
                let quantity = random.choice(["1", "4", "1k"]).unwrap();
                let rule = random.choice(["r0", "r1", "gone", "frozen"]).unwrap();
                listed.insert(name.to_owned(), json!({"quantity": quantity, "rule": rule}));
            }
        }
        let ledger = Value::Object(listed.clone()).to_string();
        if !listed.is_empty() {
            object["metadata"]["annotations"] = json!({ crate::model::ledger::ANNOTATION: ledger });
        }
        let mut rules = json!({"frozen": "invalid"});
        for rule in 0..random.usize(..4) {
            rules[format!("r{rule}")] = json!({
                "resourceName": random.choice(names).unwrap(),
                "quantity": random.choice(["1", "4", "1000"]).unwrap(),
                "priority": random.i32(..2).abs(),
                "deletionPolicy": random.choice(["Withdraw", "Retain"]).unwrap(),
            });
        }

        let set = rule_set(&rules);
        let mut after = object.clone();
        let node = decoded(&object);
        let planned = plan(&node, &set, &free());
        apply(&mut after, &patch(&node, planned.changes()).unwrap());
        assert_eq!(plan(&decoded(&after), &set, &free()).plan, Plan::InSync, "{object} {rules}");
        let after_ledger = fields(&after)["ledger"].clone();
        for name in names.into_iter().filter(|name| !listed.contains_key(*name)) {
            let same =
                |map: &str| object["status"][map].get(name) == after["status"][map].get(name);
            let adopted = after_ledger[name].is_object() && same("capacity") && same("allocatable");
            adoptions += u32::from(adopted);
            assert!(!adopted || own.get(name) == Some(&2), "{object} {rules}");
        }
        for map in ["capacity", "allocatable"] {
            let (old, new) = (&object["status"][map], &after["status"][map]);
            assert_eq!(old.get("cpu"), new.get("cpu"));
            for name in names {
                let (old, new) = (old.get(name), new.get(name));
                let vacant = old.is_none_or(|old| old == "0");
                let changed = old != new;
                assert!(!changed || vacant || listed.contains_key(name), "{object} {rules}");
                assert!(!changed || new.is_none_or(|new| new != "0"), "{object} {rules}");
            }
        }
    }
    assert!(adoptions > 100, "{adoptions}");
}
