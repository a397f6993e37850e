use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::entry::{Source, When, seconds};
use super::records::RuleObject;
use super::*;
use crate::model::api::NodeExtendedResource;
use crate::model::node::Interner;

const DONGLE: &str = "example.com/dongle";

/// Returns the lines of a timeline: time, source, who, and what, with the rule before it.
fn lines(node: &Value, rules: Option<&[Value]>, events: &[Value], since: Option<&str>) -> Vec<String> {
    let rule = |object: &Value| {
        let object: NodeExtendedResource = serde_json::from_value(object.clone()).unwrap();
        let conditions = object.status.unwrap_or_default().conditions;
        RuleObject { name: object.metadata.name.clone().unwrap().into(), metadata: object.metadata, conditions }
    };
    let events = events.iter().map(|event| serde_json::from_value::<Event>(event.clone()).unwrap());
    let (on_node, on_rules) = events.partition(|event| event.involved_object.kind.as_deref() == Some("Node"));
    let records = Records {
        object: serde_json::from_value(node.clone()).unwrap(),
        rules: rules.map(|rules| rules.iter().map(rule).collect()),
        on_node,
        on_rules,
    };
    let node = Node::new(serde_json::from_value(node.clone()).unwrap(), &mut Interner::default());
    let entries = timeline(&node, &records, since.map(|since| since.parse().unwrap()));
    let line = |entry: Entry| {
        let when = match entry.when {
            When::Unknown => "unknown".to_owned(),
            When::At(time) => seconds(time)[11..19].to_owned(),
            When::Now => "now".to_owned(),
        };
        let rule = entry.rule.map(|rule| format!("{rule}: ")).unwrap_or_default();
        let warning = if entry.is_warning { "! " } else { "" };
        let who = entry.who.unwrap_or("-".to_owned());
        let owns = if entry.owns.is_empty() { String::new() } else { format!("; owns {}", entry.owns.join(", ")) };
        format!("{when} {} {who}: {warning}{rule}{}{owns}", entry.source.as_str(), entry.what)
    };
    entries.into_iter().map(line).collect()
}

fn at(time: &str) -> String {
    format!("2026-01-01T{time}Z")
}

fn wrote(manager: &str, time: &str, subresource: &str, fields: &Value) -> Value {
    let fields_type = "FieldsV1";
    json!({"manager": manager, "operation": "Update", "time": at(time), "subresource": subresource,
        "apiVersion": "v1", "fieldsType": fields_type, "fieldsV1": fields})
}

fn values(resources: &[&str]) -> Value {
    let fields: serde_json::Map<_, _> = resources.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
    json!({"f:status": {"f:capacity": fields, "f:allocatable": fields}})
}

fn event(kind: &str, name: &str, time: &str, reason: &str, message: &str) -> Value {
    json!({"metadata": {"name": "e"}, "involvedObject": {"kind": kind, "name": name}, "eventTime": at(time),
        "reason": reason, "message": message, "type": "Normal", "reportingComponent": "tester"})
}

#[test]
fn timeline_orders_what_the_objects_and_events_say() {
    let mut own = values(&[DONGLE]);
    own["f:metadata"] = json!({"f:annotations": {"f:noderesource.dev/advertised": {}}});
    let node = json!({
        "metadata": {
            "name": "node-1", "uid": "u", "creationTimestamp": at("00:00:01"),
            "annotations": {"noderesource.dev/advertised": json!({DONGLE: {"quantity": "4", "rule": "dongle"}}).to_string()},
            "managedFields": [
                wrote("kubectl-label", "00:00:02", "", &json!({"f:metadata": {"f:labels": {"f:a": {}}}})),
                wrote("kubelet", "00:00:09", "status", &json!({"f:status": {
                    "f:capacity": {"f:cpu": {}}, "f:allocatable": {"f:cpu": {}, "f:example.com/dongle": {}},
                    "f:conditions": {"k:{\"type\":\"Ready\"}": {}, "k:{\"type\":\"DiskPressure\"}": {}},
                }})),
                wrote("node-resource-advertiser", "00:00:06", "status", &own),
                wrote("controller-manager", "00:00:07", "", &json!({"f:spec": {"f:taints": {}}})),
            ],
        },
        "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoExecute", "timeAdded": at("00:00:07")}]},
        "status": {
            "capacity": {DONGLE: "9"}, "allocatable": {DONGLE: "4"},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": at("00:00:03")},
                {"type": "DiskPressure", "status": "False", "lastTransitionTime": at("00:00:03")},
                {"type": "Burning", "status": "Unknown", "lastTransitionTime": at("00:00:03")},
            ],
        },
    });
    let rule = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {
            "name": "dongle", "creationTimestamp": at("00:00:04"), "generation": 3,
            "managedFields": [
                wrote("kubectl-edit", "00:00:05", "", &json!({"f:spec": {"f:quantity": {}, "f:allNodes": {}}})),
                wrote("node-resource-advertiser", "00:00:06", "status", &json!({"f:status": {"f:total": {}}})),
            ],
        },
        "spec": {"resourceName": DONGLE, "quantity": 4},
        "status": {"conditions": [{
            "type": "Ready", "status": "False", "reason": "Conflict", "message": "",
            "lastTransitionTime": at("00:00:08"),
        }]},
    });
    let events = [event("Node", "node-1", "00:00:08.5", "Repaired", "Repaired it")];
    let expected = [
        "00:00:01 metadata -: created",
        "00:00:03 condition kubelet: since then Ready=True (KubeletReady), DiskPressure=False",
        "00:00:03 condition -: since then Burning=Unknown",
        "00:00:04 metadata -: dongle: created; the spec is at generation 3 now",
        "00:00:05 managedFields kubectl-edit: dongle: last wrote (Update); owns allNodes, quantity",
        "00:00:06 managedFields node-resource-advertiser: last wrote the status (Update); owns the ledger, \
         example.com/dongle",
        "00:00:07 taint controller-manager: tainted a=b:NoExecute",
        "00:00:08 condition -: dongle: since then Ready=False (Conflict)",
        "00:00:08 Event tester: Repaired: Repaired it",
        "00:00:09 managedFields kubelet: last wrote the status (Update); owns example.com/dongle (allocatable)",
        "now ledger node-resource-advertiser: ! dongle: example.com/dongle is 4; the node has capacity 9, allocatable 4",
    ];
    assert_eq!(lines(&node, Some(std::slice::from_ref(&rule)), &events, None), expected);
    let late = lines(&node, Some(&[rule]), &events, Some("2026-01-01T00:00:08Z"));
    assert_eq!(late, expected[7..], "the start counts, and what is so now");
}

#[test]
fn event_has_the_times_that_its_client_gives() {
    let node = json!({"metadata": {"name": "node-1", "uid": "u"}});
    let base = event("Node", "node-1", "00:00:03", "Starting", " several\nlines\n");
    let with = |fields: Value| {
        let mut event = base.clone();
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        lines(&node, Some(&[]), &[event], None).remove(1)
    };
    for (fields, expected) in [
        (json!({}), "00:00:03 Event tester: Starting: several\nlines"),
        (json!({"eventTime": null}), "unknown Event tester: Starting: several\nlines"),
        (
            json!({"eventTime": null, "metadata": {"creationTimestamp": at("00:00:05")}, "message": null, "reason": null}),
            "00:00:05 Event tester: <unknown>",
        ),
        (
            json!({"eventTime": null, "firstTimestamp": at("00:00:01"), "lastTimestamp": at("00:00:07"), "count": 3,
                "reportingComponent": "", "source": {"component": "kubelet"}, "message": "x", "type": "Warning"}),
            "00:00:07 Event kubelet: ! Starting: x (3 times since 2026-01-01T00:00:01Z)",
        ),
        (
            json!({"series": {"count": 8, "lastObservedTime": at("00:00:09.25")}, "message": "x",
                "reportingComponent": null}),
            "00:00:09 Event -: Starting: x (8 times since 2026-01-01T00:00:03Z)",
        ),
        (json!({"count": 2, "message": ""}), "00:00:03 Event tester: Starting (2 times)"),
        (json!({"count": -1, "message": ""}), "00:00:03 Event tester: Starting"),
        (
            json!({"involvedObject": {"kind": "Node", "name": "node-1", "uid": "v"}, "message": ""}),
            "00:00:03 Event tester: Starting (an earlier node of this name)",
        ),
        (
            json!({"involvedObject": {"kind": "Node", "name": "node-1", "uid": "node-1"}, "message": ""}),
            "00:00:03 Event tester: Starting",
        ),
    ] {
        assert_eq!(with(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn event_on_a_rule_counts_if_it_is_about_the_node_or_all_nodes_of_its_rules() {
    let node = json!({"metadata": {"name": "node-1", "uid": "u", "creationTimestamp": at("00:00:01")}});
    let rule = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle", "creationTimestamp": at("00:00:01")}, "spec": {"resourceName": DONGLE, "quantity": 4},
    });
    let on_rule = |name: &str, related: Value, time: &str, message: &str| {
        let mut event = event("NodeExtendedResource", name, time, "Repaired", message);
        event["related"] = related;
        event
    };
    let this = json!({"kind": "Node", "name": "node-1"});
    let events = [
        event("Node", "node-1", "00:00:02", "Repaired", "reported twice (and 7 more like this since the last one)"),
        on_rule("dongle", this.clone(), "00:00:02", "reported twice"),
        on_rule("dongle", this.clone(), "00:00:03", "on the rule only"),
        on_rule("deleted", this, "00:00:04", "of a deleted rule"),
        on_rule("dongle", json!({"kind": "Node", "name": "node-2"}), "00:00:05", "another node"),
        on_rule("dongle", json!(null), "00:00:06", "the rule"),
        on_rule("other", json!(null), "00:00:07", "another rule"),
    ];
    let expected = [
        "00:00:02 Event tester: Repaired: reported twice (and 7 more like this since the last one)",
        "00:00:03 Event tester: dongle: Repaired: on the rule only",
        "00:00:04 Event tester: deleted: Repaired: of a deleted rule",
        "00:00:06 Event tester: dongle: Repaired: the rule",
    ];
    assert_eq!(lines(&node, Some(&[rule]), &events, None)[2..], expected);
}

#[test]
fn event_about_an_earlier_rule_or_node_of_the_same_name_says_so() {
    let node = json!({"metadata": {"name": "node-1", "uid": "u", "creationTimestamp": at("00:00:01")}});
    let rule = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle", "uid": "r", "creationTimestamp": at("00:00:01")},
        "spec": {"resourceName": DONGLE, "quantity": 4},
    });
    let on_rule = |uid: &str, related: Value| {
        let mut event = event("NodeExtendedResource", "dongle", "00:00:02", "Repaired", "it");
        event["involvedObject"]["uid"] = json!(uid);
        event["related"] = related;
        lines(&node, Some(std::slice::from_ref(&rule)), &[event], None).pop().unwrap()
    };
    let related = |uid: &str| json!({"kind": "Node", "name": "node-1", "uid": uid});
    for (uid, related, earlier) in [
        ("r", json!(null), ""),
        ("r", related("u"), ""),
        ("r", related("node-1"), ""),
        ("q", related("u"), " (an earlier rule of this name)"),
        ("q", json!(null), " (an earlier rule of this name)"),
        ("r", related("t"), " (an earlier node of this name)"),
    ] {
        assert_eq!(on_rule(uid, related.clone()), format!("00:00:02 Event tester: dongle: Repaired: it{earlier}"));
    }
}

#[test]
fn incomplete_objects_have_a_timeline() {
    let entry = json!({"manager": null, "time": null, "operation": null, "fieldsV1": values(&["example.com/a"])});
    let managed = json!([{}, {"fieldsV1": null}, {"fieldsV1": {"f:status": null}}, entry]);
    for (node, expected) in [
        (json!({"metadata": {}}), vec!["unknown metadata -: created"]),
        (json!({"metadata": {"managedFields": null}, "spec": null, "status": {}}), vec!["unknown metadata -: created"]),
        (
            json!({"metadata": {"managedFields": managed}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null}]}}),
            vec![
                "unknown metadata -: created",
                "unknown managedFields an unknown field manager: last wrote; owns example.com/a",
                "unknown taint -: tainted a:NoSchedule",
                "unknown condition -: since then Ready=True",
            ],
        ),
        (
            json!({"metadata": {"annotations": {"noderesource.dev/advertised": "[]"}}}),
            vec![
                "unknown metadata -: created",
                "now ledger -: ! annotation noderesource.dev/advertised cannot be read: invalid type: sequence, expected a \
                 map at line 1 column 0",
            ],
        ),
    ] {
        assert_eq!(lines(&node, Some(&[]), &[], Some("2026-01-01T00:00:00Z")), expected, "{node}");
    }
}

#[test]
fn ledger_entry_of_a_missing_rule_is_marked_only_where_rules_are_known() {
    let ledger = json!({DONGLE: {"quantity": "1k", "rule": "gone", "deletionPolicy": "Retain"}});
    let node = json!({
        "metadata": {"annotations": {"noderesource.dev/advertised": ledger.to_string()}},
        "status": {"capacity": {DONGLE: "1000"}, "allocatable": {DONGLE: "1000"}},
    });
    let ledger = |rules| lines(&node, rules, &[], None).pop().unwrap();
    assert_eq!(ledger(None), "now ledger -: gone: example.com/dongle is 1k, to be retained");
    let gone = "now ledger -: ! gone: example.com/dongle is 1k, to be retained; the rule does not exist";
    assert_eq!(ledger(Some(&[])), gone);
}

#[test]
fn thousands_of_entries_at_one_time_keep_their_order() {
    let names: Vec<_> = (0..600).map(|number| format!("example.com/r{number:03}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let managers = (0..300).map(|number| wrote(&format!("m{number:03}"), "00:00:05", "status", &values(&names)));
    let node = json!({"metadata": {"name": "node-1", "creationTimestamp": at("00:00:05"),
        "managedFields": managers.collect::<Vec<_>>()}});
    let events: Vec<_> =
        (0..3000).map(|number| event("Node", "node-1", "00:00:05", "Odd", &format!("{number:04}"))).collect();
    let lines = lines(&node, Some(&[]), &events, None);
    assert_eq!(lines.len(), 1 + 300 + 3000);
    assert!(lines[1].ends_with("example.com/r598, example.com/r599"), "{}", lines[1]);
    assert!(lines[1..301].is_sorted() && lines[301..].is_sorted(), "as they were read");
    assert!(Source::Metadata < Source::ManagedFields && Source::Condition < Source::Event);
}
