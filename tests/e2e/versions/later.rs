//! A rollback: what a later version may leave, under this program.
//!
//! Method: no later version exists. What it may add are fields, conditions, annotations and values of enumerations; each
//! of them is added to the objects of the newest version, and to the CRD, which outlives a rollback of the program.

use harness::objects::{DONGLE, LEDGER, condition, ledger, quantity};
use harness::{Cluster, Controller};
use node_resource_advertiser::model::api;
use serde_json::{Value, json};

use super::record::{SLOT, STORAGE};
use super::{FLAGS, assert_repaired, objects, restore, state, versions, wait_considered};

/// The name of everything that a later version adds.
const LATER: &str = "later";
/// The rules and the node with values that this version does not know.
const UNKNOWN_CONFLICT_POLICY: &str = "slot";
const UNKNOWN_SHRINK_POLICY: &str = "storage";
const UNKNOWN_LEDGER: &str = "retained";
/// The nodes that only these rules select. Which nodes those select is not known, so the nodes lose their condition.
const WITHOUT_CONDITION: [&str; 2] = ["held", "retained"];

/// The CRD of a later version, with more fields and more values of each enumeration.
fn crd() -> Value {
    let mut crd = serde_json::to_value(api::crd()).unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for policy in ["conflictPolicy", "deletionPolicy", "shrinkPolicy"] {
        schema["spec"]["properties"][policy]["enum"].as_array_mut().unwrap().push(json!(LATER));
    }
    let field = json!({"type": "string", "maxLength": 64});
    let status = "/status/properties";
    for path in [
        "/spec/properties",
        status,
        "/status/properties/nodes/properties",
        "/status/properties/problems/items/properties",
    ] {
        schema.pointer_mut(path).unwrap()[LATER] = field.clone();
    }
    crd
}

/// Returns an object as a later version would leave it.
fn later(mut object: Value) -> Value {
    object["metadata"]["annotations"]["noderesource.dev/later"] = json!(LATER);
    match object["kind"].as_str().unwrap() {
        "Node" => make_later_node(&mut object),
        "NodeExtendedResource" => make_later_rule(&mut object),
        _ => {}
    }
    object
}

fn make_later_node(node: &mut Value) {
    let is_unknown = node["metadata"]["name"] == UNKNOWN_LEDGER;
    let parsed = ledger(node).and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(mut ledger) = parsed {
        for entry in ledger.as_object_mut().unwrap().values_mut() {
            // No version puts an object into an entry.
            entry[LATER] = json!(["a", 1, null]);
            if is_unknown {
                entry["deletionPolicy"] = json!(LATER);
            }
        }
        node["metadata"]["annotations"][LEDGER] = json!(ledger.to_string());
    }
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.insert(0, json!({"type": "noderesource.dev/Later", "status": "True", "reason": "Later"}));
}

fn make_later_rule(rule: &mut Value) {
    rule["spec"][LATER] = json!(LATER);
    let name = rule["metadata"]["name"].as_str().unwrap();
    let unknown = match name {
        UNKNOWN_CONFLICT_POLICY => "conflictPolicy",
        UNKNOWN_SHRINK_POLICY => "shrinkPolicy",
        _ => LATER,
    };
    rule["spec"][unknown] = json!(LATER);
    let status = &mut rule["status"];
    status[LATER] = json!(LATER);
    status["nodes"][LATER] = json!(LATER);
    status["problems"].as_array_mut().into_iter().flatten().for_each(|problem| problem[LATER] = json!(LATER));
    let condition = json!({
        "type": "Later", "status": "Unknown", "reason": "Later", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    status["conditions"].as_array_mut().unwrap().push(condition);
}

#[test]
fn objects_of_a_later_version_are_read_and_preserved() {
    let objects: Vec<_> = objects(versions().last().unwrap()).into_iter().map(later).collect();
    let cluster = restore(&crd().to_string(), &objects);
    let before = state(&cluster);
    let controller = Controller::start_with(&cluster, &FLAGS);
    wait_considered(&cluster, 1);
    for rule in [UNKNOWN_CONFLICT_POLICY, UNKNOWN_SHRINK_POLICY] {
        cluster.wait_status(rule, "Stalled", |status| condition(status, "Stalled") == ("True", "InvalidSpec"));
    }
    cluster.wait_status("dongle", "the nodes as before", |status| status["nodes"]["summary"] == "2/4");
    for (before, after) in before.iter().zip(&state(&cluster)) {
        for kept in ["/spec", "/metadata/annotations", "/status/capacity", "/status/allocatable"] {
            assert_eq!(before.pointer(kept), after.pointer(kept), "{kept} of {before:#}");
        }
        let name = before["metadata"]["name"].as_str().unwrap();
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        assert!(WITHOUT_CONDITION.contains(&name) || version(before) == version(after), "{name} was written");
    }
    let lease = cluster.get(&["lease", "node-resource-advertiser"]);
    assert_eq!(lease["metadata"]["annotations"]["noderesource.dev/later"], LATER);

    assert_repaired(&cluster, "plain", DONGLE, "4");
    assert_repaired(&cluster, "held", SLOT, "3");
    assert_repaired(&cluster, "several", STORAGE, "800Gi");
    edit_and_delete(&cluster);
    controller.stop();
}

/// Edits a rule, and deletes all: what a later version added stays until its entry is removed.
fn edit_and_delete(cluster: &Cluster) {
    let entry = |node: &str| {
        let node = cluster.node(node);
        serde_json::from_str::<Value>(ledger(&node).unwrap()).unwrap()[DONGLE].take()
    };
    let before = entry("several");
    cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "--patch", r#"{"spec":{"quantity":5}}"#]);
    for node in ["plain", "several"] {
        cluster.wait_advertised(node, DONGLE, "5");
    }
    let mut expected = before;
    expected["quantity"] = json!("5");
    assert_eq!(entry("several"), expected);
    let rule = cluster.get(&["ner", "dongle"]);
    assert_eq!((&rule["spec"][LATER], &rule["spec"]["quantity"]), (&json!(LATER), &json!(5)));

    let unknown = cluster.node(UNKNOWN_LEDGER);
    cluster.kubectl(&["delete", "ner", "--all"]);
    cluster.wait_withdrawn("plain", DONGLE);
    cluster.wait_withdrawn("held", SLOT);
    let node = cluster.node(UNKNOWN_LEDGER);
    assert_eq!(ledger(&node), ledger(&unknown), "this version does not know what to do with the value");
    assert_eq!(quantity(&node, "capacity", STORAGE), Some("800Gi"));
}
