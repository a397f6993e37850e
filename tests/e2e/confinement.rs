//! The confinement of the controller's account: what a stolen token allows, and how the controller detects that
//! nothing confines it.
//!
//! Method: send an attacker's requests with the token of the chart's ServiceAccount, and compare the rejections with
//! SECURITY.md; build overlays of deploy/, and repeat this with the account that each overlay moves.

mod attempts;
mod ledgers;
mod objects;
mod self_test;
mod statuses;

use std::fs;
use std::path::Path;

use harness::helm::{NAMESPACE, RELEASE};
use harness::objects::{DONGLE, LEDGER, ledger, quantity};
use harness::{Cluster, Controller, Output, SharedCluster, project_file};
use serde_json::{Map, Value, json};

use crate::admission_policy::{install, patch, patch_as};

const LEDGER_PATH: &str = "/metadata/annotations/noderesource.dev~1advertised";

/// A patch that sets these resources in both maps, and lists these in the ledger.
fn advertise(set: &[(&str, &str)], listed: &[(&str, &str)]) -> Value {
    let entries: Map<_, _> = listed
        .iter()
        .map(|(name, quantity)| ((*name).to_owned(), json!({"quantity": quantity, "rule": "rule"})))
        .collect();
    let annotation = Value::from(entries).to_string();
    let mut operations = vec![json!({"op": "add", "path": LEDGER_PATH, "value": annotation})];
    for (name, quantity) in set {
        for map in ["capacity", "allocatable"] {
            let path = format!("/status/{map}/{}", name.replace('/', "~1"));
            operations.push(json!({"op": "add", "path": path, "value": quantity}));
        }
    }
    Value::from(operations)
}

/// A patch that removes a resource from both maps, and lists these in the ledger.
fn withdraw(name: &str, listed: &[(&str, &str)]) -> Value {
    let mut operations = advertise(&[], listed);
    for map in ["capacity", "allocatable"] {
        let path = format!("/status/{map}/{}", name.replace('/', "~1"));
        operations.as_array_mut().unwrap().push(json!({"op": "remove", "path": path}));
    }
    operations
}

/// Asserts that the policy rejects a request, and that SECURITY.md quotes the message.
fn assert_rejected(output: &Output, because: &str) {
    let message = output.stderr.trim_end();
    assert!(output.code != 0 && message.contains("ValidatingAdmissionPolicy"), "{output:?}");
    assert!(message.ends_with(because), "{message}, not {because}");
    let security = fs::read_to_string(project_file("SECURITY.md")).unwrap();
    let security = security.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted = because.trim_start_matches("node-resource-advertiser ");
    assert!(security.contains(quoted), "SECURITY.md does not have: {quoted}");
}

#[test]
fn stolen_token_is_confined_as_security_md_documents() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    // A patch of one annotation requires that others exist.
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    cluster.write_quantity("node-1", "nvidia.com/gpu", "8");
    let try_patch = |attempt: &Value| patch(&cluster, &kubeconfig, "node-1", attempt);

    let not_listed = "node-resource-advertiser may only set a quantity that the annotation \
                      noderesource.dev/advertised records";
    let four = [(DONGLE, "4")];
    for attempt in [
        advertise(&four, &[]),
        advertise(&four, &[(DONGLE, "5")]),
        advertise(&four, &[("example.com/other", "4")]),
        // A suffix of another name, and a number with the same prefix.
        advertise(&four, &[("a.example.com/dongle", "4"), (DONGLE, "41")]),
        advertise(&[("nvidia.com/gpu", "1")], &[]),
    ] {
        assert_rejected(&try_patch(&attempt), not_listed);
    }
    let still_listed = "node-resource-advertiser may remove a quantity only together with its entry in the annotation \
                        noderesource.dev/advertised";
    let gpu = withdraw("nvidia.com/gpu", &[("nvidia.com/gpu", "8")]);
    assert_rejected(&try_patch(&gpu), still_listed);

    let names: Vec<_> = (0..600).map(|number| format!("e.com/{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_rejected(
        &try_patch(&advertise(&many, &many)),
        "node-resource-advertiser may add to a node of at most 512 resources",
    );
    let names: Vec<_> = (0..200).map(|number| format!("{}.com/{number}", "e".repeat(200))).collect();
    let long: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_rejected(
        &try_patch(&advertise(&long, &long)),
        "node-resource-advertiser may add to a node whose resources have names of at most 32768 characters",
    );
    let write = |text: &str| json!([{"op": "add", "path": LEDGER_PATH, "value": text}]);
    assert_rejected(
        &try_patch(&write(&"a".repeat(65_537))),
        "node-resource-advertiser may write an annotation of at most 65536 characters",
    );
    // Texts that CEL reads differently from a JSON parser, or that have more bytes than characters.
    for text in [r#"{"example.com/dongle":{"quant\u0069ty":"4"}}"#, "{\t}", "\u{1d11e}"] {
        assert_rejected(
            &try_patch(&write(text)),
            "node-resource-advertiser may only write an annotation of printable ASCII without a backslash",
        );
    }
    let four = advertise(&four, &four);
    assert_rejected(
        &patch_as(&cluster, &kubeconfig, "another", "node-1", &four),
        "node-resource-advertiser may patch nodes only as the field manager of that name",
    );
    // Evaluating as many resources as a ledger can list stays within CEL's cost limit.
    let fit = &many[..500];
    let output = try_patch(&advertise(fit, fit));
    assert_eq!(output.code, 0, "{output:?}");
    let mut cleared = advertise(&[], &[]);
    for (name, _) in fit {
        let operations = cleared.as_array_mut().unwrap();
        operations.extend(withdraw(name, &[]).as_array().unwrap()[1..].to_vec());
    }
    let output = try_patch(&cleared);
    assert_eq!(output.code, 0, "{output:?}");

    // Attacks that remain possible, as SECURITY.md documents.
    for attempt in [
        advertise(&[(DONGLE, "8")], &[(DONGLE, "8")]),
        advertise(&[(DONGLE, "1")], &[(DONGLE, "1")]),
        advertise(&[("nvidia.com/gpu", "1")], &[("nvidia.com/gpu", "1")]),
        withdraw("nvidia.com/gpu", &[]),
    ] {
        let output = try_patch(&attempt);
        assert_eq!(output.code, 0, "{attempt}: {output:?}");
    }
}

/// A node may already have more resources than the controller may add.
#[test]
fn node_with_many_resources_still_allows_repairs_and_withdrawals() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    let four = [(DONGLE, "4")];
    for (node, length, count) in [("many", 1, 600), ("long", 200, 200)] {
        cluster.create_nodes([node], &json!({}));
        cluster.kubectl(&["annotate", "node", node, "example.com/owner=platform"]);
        cluster.write_quantity(node, DONGLE, "7");
        let names: Vec<_> = (0..count).map(|number| format!("{}.com/{number}", "e".repeat(length))).collect();
        let mut present: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        present.push((DONGLE, "7"));
        let admin = cluster.control_plane.kubeconfig();
        let output = patch(&cluster, &admin, node, &advertise(&present, &four));
        assert_eq!(output.code, 0, "{output:?}");
        for attempt in [advertise(&four, &four), withdraw(DONGLE, &[])] {
            let output = patch(&cluster, &kubeconfig, node, &attempt);
            assert_eq!(output.code, 0, "{node}: {attempt}: {output:?}");
        }
        // A withdrawn resource does not make room for another.
        let output = patch(&cluster, &kubeconfig, node, &advertise(&four, &four));
        assert!(output.code != 0 && output.stderr.contains("may add to a node"), "{output:?}");
    }
}

/// A client may send managedFields, which the API server does not store.
#[test]
fn managed_fields_sent_by_a_client_are_not_stored() {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    let managers = || {
        let node = cluster.get(&["node", "node-1"]);
        let fields = node["metadata"]["managedFields"].as_array().unwrap().clone();
        fields.iter().map(|entry| (entry["manager"].to_string(), entry["fieldsV1"].to_string())).collect::<Vec<_>>()
    };
    let set = |quantity| advertise(&[(DONGLE, quantity)], &[(DONGLE, quantity)]);
    let output = patch(&cluster, &kubeconfig, "node-1", &set("1"));
    assert_eq!(output.code, 0, "{output:?}");
    let before = managers();

    let large: Map<_, _> = (0..500).map(|it| (format!("f:{it}-{}", "a".repeat(200)), json!({}))).collect();
    let entry = |manager: &str, fields: Value| {
        json!({"op": "add", "path": "/metadata/managedFields/-", "value": {
            "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": manager,
            "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:00Z",
        }})
    };
    let manager = "/metadata/managedFields/0/manager";
    for (attempt, quantity) in [
        (entry("another", json!({"f:status": {"f:capacity": large}})), "2"),
        (entry(RELEASE, json!({"f:status": large})), "3"),
        (entry("another", json!({"f:status": {"f:capacity": {"f:example.com/dongle": {}}}})), "4"),
        (json!({"op": "replace", "path": manager, "value": "another"}), "5"),
    ] {
        let mut operations = set(quantity);
        operations.as_array_mut().unwrap().push(attempt);
        let output = patch(&cluster, &kubeconfig, "node-1", &operations);
        assert_eq!(output.code, 0, "{output:?}");
        assert_eq!(managers(), before, "with {quantity}");
    }
}

/// A controller with the chart's account, confined by its policy, and a node.
fn start_confined() -> (SharedCluster, Controller) {
    let cluster = Cluster::shared_without_crd();
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = start_as(&cluster, &kubeconfig);
    (cluster, controller)
}

fn start_as(cluster: &Cluster, kubeconfig: &Path) -> Controller {
    Controller::start_unready(cluster, kubeconfig, &["--leader-elect-resource-namespace", NAMESPACE])
}

/// The policy compares quantities as text.
#[test]
fn value_in_another_notation_than_the_rule_is_repaired() {
    let (cluster, controller) = start_confined();
    cluster.apply_rule("dongle", &json!({"quantity": 1024, "nodeNames": ["node-1"]}));
    cluster.wait_advertised("node-1", DONGLE, "1024");
    let text = r#"{"example.com/dongle":{"quantity":"1Ki","rule":"dongle"}}"#;
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &format!("{LEDGER}={text}")]);
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "1024");
    controller.stop();
}

/// Manual edits of the annotation's format do not prevent repairs.
#[test]
fn reformatted_annotation_still_allows_repairs() {
    let (cluster, controller) = start_confined();
    let spec = json!({"deletionPolicy": "Retain", "nodeNames": ["node-1"]});
    cluster.apply_rule("dongle", &spec);
    cluster.wait_advertised("node-1", DONGLE, "4");
    let text = "{\r\n\t\"example.com/dongle\" : { \"rule\": \"dongle\", \"deletionPolicy\": \"Retain\",\n \
                \"quantity\": \"4\" }\n}";
    let edit = json!({"metadata": {"annotations": {LEDGER: text}}});
    cluster.kubectl(&["patch", "node", "node-1", "--type=merge", "-p", &edit.to_string()]);
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "4");
    // A retained value that was reset is restored in the patch that removes its entry.
    controller.signal(harness::Signal::STOP);
    cluster.write_quantity("node-1", DONGLE, "0");
    cluster.kubectl(&["delete", "ner", "dongle"]);
    controller.signal(harness::Signal::CONT);
    cluster.wait_for("the value to be left behind", &["node", "node-1"], |node| {
        ledger(node).is_none() && quantity(node, "capacity", DONGLE) == Some("4")
    });
    controller.stop();
}

#[test]
fn allowed_resources_confine_the_controller_and_existing_rules() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let spec = json!({"resourceName": "nvidia.com/gpu", "nodeNames": ["node-1", "node-2", "node-3"]});
    let controller = Controller::start(&cluster);
    cluster.apply_rule("old", &json!({"resourceName": "nvidia.com/gpu", "nodeNames": ["node-1"]}));
    cluster.wait_advertised("node-1", "nvidia.com/gpu", "4");
    cluster.apply_rule("old", &spec);
    cluster.wait_advertised("node-2", "nvidia.com/gpu", "4");
    controller.stop();

    let kubeconfig = install(&cluster, &["--set", "policy.allowedResources={example.com/*,example.org/license}"]);
    let because = "node-resource-advertiser may advertise in this cluster only example.com/*, example.org/license \
                   (policy.allowedResources of the chart)";
    let try_patch = |attempt: &Value| patch(&cluster, &kubeconfig, "node-1", attempt);
    let gpu = ("nvidia.com/gpu", "8");
    for attempt in [
        advertise(&[gpu], &[gpu]),
        // List it first, then remove it.
        advertise(&[], &[("nvidia.com/gpu", "4"), ("nvidia.com/other", "4")]),
        advertise(&[("example.community/a", "4")], &[("example.community/a", "4")]),
    ] {
        let output = try_patch(&attempt);
        assert!(output.code != 0 && output.stderr.trim_end().ends_with(because), "{output:?}");
    }
    cluster.write_quantity("node-1", "nvidia.com/gpu", "7");
    let controller = start_as(&cluster, &kubeconfig);
    // Values listed before are restored; on other nodes the resource is no longer advertised.
    cluster.wait_advertised("node-1", "nvidia.com/gpu", "4");
    cluster.create_nodes(["node-3"], &json!({}));
    cluster.wait_status("old", "the policy's words", |status| {
        status["problems"].to_string().contains("policy.allowedResources of the chart")
    });
    // Allowed resources are advertised, on the same node too; others can still be withdrawn.
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1"]}));
    cluster.wait_ready("dongle", "1/1");
    cluster.kubectl(&["delete", "ner", "old"]);
    cluster.wait_withdrawn("node-2", "nvidia.com/gpu");
    controller.stop();
}
