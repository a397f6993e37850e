use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::entry::{Source, When, seconds};
use super::records::RuleObject;
use super::*;
use crate::model::api::NodeExtendedResource;
use crate::model::node::{Interner, Node};
use crate::planner::rules::Rule;

const DONGLE: &str = "example.com/dongle";

/// Returns the lines of one node's timeline: time, source, who, and what, with the rule before it.
fn lines(node: &Value, rules: Option<&[Value]>, events: &[Value], since: Option<&str>) -> Vec<String> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let scope = Scope { node: Some(name), ..Scope::default() };
    let records = records(std::slice::from_ref(node), rules, events);
    shown(timeline(&scope, &records, since.map(|since| since.parse().unwrap()), now()))
}

fn now() -> Timestamp {
    at("12:00:00").parse().unwrap()
}

fn records(nodes: &[Value], rules: Option<&[Value]>, events: &[Value]) -> Records {
    let rule = |object: &Value| {
        let object: NodeExtendedResource = serde_json::from_value(object.clone()).unwrap();
        let rule = Rule::new(&object).ok();
        let spec = serde_json::to_value(&object.spec).unwrap().as_object().unwrap().clone();
        let name = object.metadata.name.clone().unwrap().into();
        let conditions = object.status.unwrap_or_default().conditions;
        RuleObject { name, metadata: object.metadata, spec, conditions, rule }
    };
    let node = |object: &Value| NodeRecord {
        object: serde_json::from_value(object.clone()).unwrap(),
        node: Node::new(serde_json::from_value(object.clone()).unwrap(), &mut Interner::default()),
    };
    let events = events.iter().map(|event| serde_json::from_value::<Event>(event.clone()).unwrap());
    let (on_nodes, on_rules) = events.partition(|event| event.involved_object.kind.as_deref() == Some("Node"));
    Records {
        nodes: nodes.iter().map(node).collect(),
        rules: rules.map(|rules| rules.iter().map(rule).collect()),
        on_nodes,
        on_rules,
        leases: Vec::new(),
    }
}

fn shown(entries: Vec<Entry>) -> Vec<String> {
    let line = |entry: Entry| {
        let when = match entry.when {
            When::Unknown => "unknown".to_owned(),
            When::At(time) => seconds(time)[11..19].to_owned(),
            When::Now => "now".to_owned(),
        };
        let rule = entry.rule.map(|rule| format!("{rule}: ")).unwrap_or_default();
        let nodes = entry.nodes.iter().map(|node| format!("[{node}] ")).collect::<String>();
        let warning = if entry.is_warning { "! " } else { "" };
        let who = entry.who.unwrap_or("-".to_owned());
        let owns = if entry.owns.is_empty() { String::new() } else { format!("; owns {}", entry.owns.join(", ")) };
        format!("{when} {} {who}: {warning}{nodes}{rule}{}{owns}", entry.source.as_str(), entry.what)
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
        "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true},
        "status": {"conditions": [{
            "type": "Ready", "status": "False", "reason": "Conflict", "message": "",
            "lastTransitionTime": at("00:00:08"),
        }]},
    });
    let events = [event("Node", "node-1", "00:00:08.5", "Repaired", "Repaired it")];
    let expected = [
        "00:00:01 metadata -: created",
        "00:00:03 condition kubelet: since then Ready=True (KubeletReady)",
        "00:00:03 condition -: since then Burning=Unknown",
        "00:00:04 metadata -: dongle: created; the spec is at generation 3 now",
        "00:00:05 managedFields kubectl-edit: dongle: last wrote; owns allNodes, quantity",
        "00:00:06 managedFields node-resource-advertiser: last wrote the status; owns the ledger, \
         example.com/dongle",
        "00:00:07 taint controller-manager: tainted a=b:NoExecute",
        "00:00:08 condition -: dongle: since then Ready=False (Conflict)",
        "00:00:08 Event tester: Repaired: Repaired it",
        "00:00:09 managedFields kubelet: last wrote the status; owns example.com/dongle (allocatable)",
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
        "metadata": {"name": "dongle", "creationTimestamp": at("00:00:01")}, "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true},
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
        "spec": {"resourceName": DONGLE, "quantity": 4, "allNodes": true},
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

fn rule(spec: &Value, managers: &Value, conditions: &Value) -> Value {
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle", "creationTimestamp": at("00:00:01"), "managedFields": managers},
        "spec": spec, "status": {"conditions": conditions},
    })
}

fn by_pool() -> Value {
    json!({"resourceName": DONGLE, "quantity": 4, "nodeSelector": {"matchLabels": {"pool": "usb"}}})
}

#[test]
fn label_that_a_rule_depends_on_has_its_owner_and_what_it_excludes() {
    let labelled =
        wrote("kubectl-label", "00:00:05", "", &json!({"f:metadata": {"f:labels": {"f:pool": {}, "f:x": {}}}}));
    let node = |labels: Value| {
        json!({"metadata": {"name": "node-1", "uid": "u", "creationTimestamp": at("00:00:01"), "labels": labels,
            "managedFields": [labelled]}})
    };
    let rules = [rule(&by_pool(), &json!(null), &json!([]))];
    let of = |labels| lines(&node(labels), Some(&rules), &[], Some("2026-01-01T00:00:02Z"));
    let owned = |value: &str| {
        format!("00:00:05 managedFields kubectl-label: last wrote; owns label pool={value} (rule dongle)")
    };
    assert_eq!(of(json!({"pool": "usb", "x": "1"})), [owned("usb")], "no rule depends on x");
    let excluded = "now selector -: dongle: does not select the node: it selects pool=usb, and the node has pool=infra";
    assert_eq!(of(json!({"pool": "infra"})), [owned("infra"), excluded.to_owned()]);
    // Another manager has removed it: nobody owns what is absent.
    let removed = json!({"metadata": {"name": "node-1", "creationTimestamp": at("00:00:01")}});
    let absent =
        "now selector -: dongle: does not select the node: it selects pool=usb, and the node has no label pool";
    assert_eq!(lines(&removed, Some(&rules), &[], Some("2026-01-01T00:00:02Z")), [absent]);
}

#[test]
fn label_and_annotation_of_a_quantity_have_their_owners() {
    let keys =
        json!({"f:metadata": {"f:labels": {"f:example.com/count": {}}, "f:annotations": {"f:example.com/size": {}}}});
    let node = json!({"metadata": {"name": "node-1", "labels": {"example.com/count": "4"},
        "annotations": {"example.com/size": "s3cret"}, "managedFields": [wrote("agent", "00:00:05", "", &keys)]}});
    let spec = |from: &str, key: &str| json!({"resourceName": DONGLE, "allNodes": true, "quantityFrom": {from: {"key": key}, "max": 9}});
    for (from, key, owns) in [
        ("nodeLabel", "example.com/count", "label example.com/count=4 (rule dongle)"),
        ("nodeAnnotation", "example.com/size", "annotation example.com/size (rule dongle)"),
    ] {
        let rules = [rule(&spec(from, key), &json!(null), &json!([]))];
        let lines = lines(&node, Some(&rules), &[], None);
        assert!(lines.contains(&format!("00:00:05 managedFields agent: last wrote; owns {owns}")), "{lines:#?}");
    }
}

#[test]
fn condition_that_says_nothing_is_left_out_unless_it_has_ended_since() {
    let condition = |kind: &str, status: &str, time: &str| json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": at(time)});
    for (conditions, expected) in [
        // As it was created.
        (
            json!([condition("Ready", "True", "00:00:02"), condition("Stalled", "False", "00:00:02")]),
            vec!["02 Ready=True (R)"],
        ),
        (
            json!([condition("Ready", "True", "00:00:05"), condition("Stalled", "False", "00:00:02")]),
            vec!["05 Ready=True (R)"],
        ),
        (
            json!([condition("Ready", "False", "00:00:05"), condition("Contested", "True", "00:00:04")]),
            vec!["04 Contested=True (R)", "05 Ready=False (R)"],
        ),
        // It ended while the rule was ready.
        (
            json!([condition("Ready", "True", "00:00:02"), condition("Contested", "False", "00:00:09")]),
            vec!["02 Ready=True (R)", "09 Contested=False (R)"],
        ),
        (json!([condition("Stalled", "False", "00:00:02")]), vec![]),
    ] {
        let rules = [rule(&by_pool(), &json!(null), &conditions)];
        let node = json!({"metadata": {"name": "node-1", "labels": {"pool": "usb"}}});
        let lines = lines(&node, Some(&rules), &[], Some("2026-01-01T00:00:02Z"));
        let shown = lines.iter().filter_map(|line| {
            let (time, what) = line.strip_prefix("00:00:")?.split_once(" condition -: dongle: since then ")?;
            Some(format!("{time} {what}"))
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{conditions:#}");
    }
}

#[test]
fn default_of_a_rule_is_named_only_where_its_manager_owns_nothing_else() {
    let created = json!({"f:spec": {"f:resourceName": {}, "f:priority": {}, "f:conflictPolicy": {}, "f:deletionPolicy": {},
        "f:shrinkPolicy": {}, "f:paused": {}}});
    let unpaused = json!({"f:spec": {"f:paused": {}}});
    let managers =
        json!([wrote("kubectl-create", "00:00:02", "", &created), wrote("resumer", "00:00:03", "", &unpaused)]);
    let mut spec = by_pool();
    let owners = |spec: &Value| -> Vec<_> {
        let node = json!({"metadata": {"name": "node-1", "labels": {"pool": "usb"}}});
        let lines = lines(&node, Some(&[rule(spec, &managers, &json!([]))]), &[], Some("2026-01-01T00:00:02Z"));
        lines.iter().filter_map(|line| Some(line.split_once("last wrote; owns ")?.1.to_owned())).collect()
    };
    assert_eq!(owners(&spec), ["resourceName", "paused"]);
    spec["priority"] = json!(7);
    assert_eq!(owners(&spec), ["priority, resourceName", "paused"]);
}

#[test]
fn event_in_the_name_of_the_controller_names_who_wrote_it() {
    let node = json!({"metadata": {"name": "node-1", "uid": "u"}});
    let event = |component: &str, managers: &Value| {
        let mut event = event("Node", "node-1", "00:00:03", "Repaired", "it");
        event["reportingComponent"] = json!(component);
        event["metadata"]["managedFields"] = managers.clone();
        lines(&node, Some(&[]), &[event], None).remove(1)
    };
    let controller = "noderesource.dev/node-resource-advertiser";
    let by = |manager: &str| json!([{"manager": manager, "operation": "Update"}]);
    let own = format!("00:00:03 Event {controller}: Repaired: it");
    assert_eq!(event(controller, &by("node-resource-advertiser")), own);
    assert_eq!(event(controller, &json!(null)), own, "nothing is known of it");
    let borrowed = "00:00:03 Event kubectl-create: ! Repaired: it (not from the controller: it only names \
                    noderesource.dev/node-resource-advertiser)";
    assert_eq!(event(controller, &by("kubectl-create")), borrowed);
    assert_eq!(event("tester", &by("kubectl-create")), "00:00:03 Event tester: Repaired: it");
}

#[test]
fn rule_over_its_nodes_has_what_is_about_it_and_equal_entries_once() {
    let node = |name: &str, quantity: &str, other: &str| {
        let ledger = json!({DONGLE: {"quantity": quantity, "rule": "dongle"}, "example.com/other": {"quantity": other, "rule": "other"}});
        let values = json!({DONGLE: quantity, "example.com/other": other});
        json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": at("00:00:01"), "labels": {"pool": "usb"},
                "annotations": {"noderesource.dev/advertised": ledger.to_string()},
                "managedFields": [wrote("agent", "00:00:07", "status", &super::tests::values(&[DONGLE, "example.com/other"]))]},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"capacity": values, "allocatable": values,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at("00:00:03")}]},
        })
    };
    let nodes = [node("n1", "4", "1"), node("n2", "4", "2"), node("n3", "5", "3")];
    let rules = [rule(&by_pool(), &json!(null), &json!([]))];
    let mut related = event("Node", "n2", "00:00:08", "Repaired", "about dongle");
    related["related"] = json!({"kind": "NodeExtendedResource", "name": "dongle"});
    let events = [
        related,
        event("Node", "n1", "00:00:08", "NodeReady", "about no rule"),
        event("NodeExtendedResource", "dongle", "00:00:09", "Ready", "the rule"),
        event("NodeExtendedResource", "other", "00:00:09", "Ready", "another rule"),
    ];
    let scope = Scope { rule: Some("dongle".to_owned()), ..Scope::default() };
    let lines = shown(timeline(&scope, &records(&nodes, Some(&rules), &events), None, now()));
    let expected = [
        "00:00:01 metadata -: [n1] [n2] [n3] created",
        "00:00:01 metadata -: dongle: created",
        "00:00:07 managedFields agent: [n1] [n2] [n3] last wrote the status; owns example.com/dongle",
        "00:00:08 Event tester: [n2] Repaired: about dongle",
        "00:00:09 Event tester: dongle: Ready: the rule",
        "now ledger -: [n1] [n2] dongle: example.com/dongle is 4",
        "now ledger -: [n3] dongle: example.com/dongle is 5",
    ];
    assert_eq!(lines, expected);
    let of_resource = Scope { resource: Some("example.com/other".to_owned()), ..Scope::default() };
    let lines = shown(timeline(&of_resource, &records(&nodes, Some(&[]), &events), None, now()));
    assert!(lines.iter().all(|line| !line.contains("dongle") && !line.contains("NodeReady")), "{lines:#?}");
    assert!(lines.contains(&"now ledger -: ! [n3] other: example.com/other is 3; the rule does not exist".to_owned()));
}

#[test]
fn lease_says_who_leads_and_until_when() {
    let lease = |holder: &str, renewed: &str| {
        let micro = |time: &str| format!("2026-01-01T{time}.000000Z");
        json!({"metadata": {"name": "nra", "namespace": "nra"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
            "acquireTime": micro("00:00:05"), "renewTime": micro(renewed), "leaseTransitions": 3}})
    };
    let prune = format!("prune_{}", "1".repeat(19));
    for (lease, expected) in [
        (
            lease("pod-a", "11:59:58"),
            vec!["00:00:05 lease pod-a: became the leader by transition 3 of the Lease nra/nra"],
        ),
        (
            lease("pod-a", "03:00:00"),
            vec![
                "00:00:05 lease pod-a: became the leader by transition 3 of the Lease nra/nra",
                "03:00:15 lease pod-a: ! stopped leading without a release of the Lease nra/nra",
            ],
        ),
        (
            lease("", "03:00:00"),
            vec!["03:00:00 lease -: ! last renewal of the Lease nra/nra, before its release: no controller leads"],
        ),
        (
            lease(&prune, "11:59:58"),
            vec!["00:00:05 lease PRUNE: kept controllers from writing by transition 3 of the Lease nra/nra"],
        ),
        (json!({"metadata": {"name": "nra"}}), vec![]),
    ] {
        let lease = serde_json::from_value(lease).unwrap();
        let lines = shown(leases::entries(&lease, now()));
        assert_eq!(lines, expected.iter().map(|line| line.replace("PRUNE", &prune)).collect::<Vec<_>>());
    }
}
