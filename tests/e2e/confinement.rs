//! What confines the account of the controller: how far a stolen token gets, and that the controller finds out where
//! nothing confines it.
//!
//! Method: send with the token of the chart's ServiceAccount what a thief would, and compare the API server's words with
//! those in SECURITY.md; build overlays of deploy/, and try the same with the account that each has moved.

use std::fs;

use harness::helm::{NAMESPACE, RELEASE, apply_chart, kubeconfig_of, service_account_kubeconfig};
use harness::objects::{DONGLE, LEDGER, ledger, quantity};
use harness::{Cluster, ControlPlane, Controller, Output, project_file, wait_until};
use serde_json::{Map, Value, json};

use crate::admission_policy::{install, patch, patch_as};
use crate::chart::Container;

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

/// Asserts that the policy rejects a request, and that SECURITY.md has its words.
fn assert_rejected(output: &Output, because: &str) {
    let message = output.stderr.trim_end();
    assert!(output.code != 0 && message.contains("ValidatingAdmissionPolicy"), "{output:?}");
    assert!(message.ends_with(because), "{message}, not {because}");
    let security = fs::read_to_string(project_file("SECURITY.md")).unwrap();
    let security = security.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(security.contains(because), "SECURITY.md does not have: {because}");
}

#[test]
fn stolen_token_is_bounded_as_security_md_says() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    // A patch of an annotation needs others beside it.
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    cluster.write_quantity("node-1", "nvidia.com/gpu", "8");
    let try_patch = |attempt: &Value| patch(&cluster, &kubeconfig, "node-1", attempt);

    let not_listed = "node-resource-advertiser may set a quantity only to what the annotation \
                      noderesource.dev/advertised lists";
    let four = [(DONGLE, "4")];
    for attempt in [
        advertise(&four, &[]),
        advertise(&four, &[(DONGLE, "5")]),
        advertise(&four, &[("example.com/other", "4")]),
        // The end of another name, and another number that begins alike.
        advertise(&four, &[("a.example.com/dongle", "4"), (DONGLE, "41")]),
        advertise(&[("nvidia.com/gpu", "1")], &[]),
    ] {
        assert_rejected(&try_patch(&attempt), not_listed);
    }
    let still_listed = "node-resource-advertiser may remove a quantity only with its entry in the annotation \
                        noderesource.dev/advertised";
    let gpu = withdraw("nvidia.com/gpu", &[("nvidia.com/gpu", "8")]);
    assert_rejected(&try_patch(&gpu), still_listed);

    let names: Vec<_> = (0..600).map(|number| format!("e.com/{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_rejected(
        &try_patch(&advertise(&many, &many)),
        "node-resource-advertiser may add to a node of 512 resources at most",
    );
    let names: Vec<_> =
        (0..200).map(|number| format!("{}.com/{number}", "e".repeat(200))).collect();
    let long: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_rejected(
        &try_patch(&advertise(&long, &long)),
        "node-resource-advertiser may add to a node whose resources have names of 32768 characters at most",
    );
    let write = |text: &str| json!([{"op": "add", "path": LEDGER_PATH, "value": text}]);
    assert_rejected(
        &try_patch(&write(&"a".repeat(65_537))),
        "node-resource-advertiser may write an annotation of 65536 characters at most",
    );
    // What CEL reads as something else than JSON has it, and what has more bytes than characters.
    for text in [r#"{"example.com/dongle":{"quant\u0069ty":"4"}}"#, "{\t}", "\u{1d11e}"] {
        assert_rejected(
            &try_patch(&write(text)),
            "node-resource-advertiser may write an annotation of printable ASCII without a backslash only",
        );
    }
    let four = advertise(&four, &four);
    assert_rejected(
        &patch_as(&cluster, &kubeconfig, "another", "node-1", &four),
        "node-resource-advertiser may patch nodes as the field manager of that name only",
    );
    // As many at once as the program lists are not too dear to evaluate.
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

    // What remains, and SECURITY.md says so.
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

/// Other programs may have put more on a node than the controller may add to it.
#[test]
fn node_of_many_resources_is_still_repaired_and_withdrawn_from() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    let four = [(DONGLE, "4")];
    for (node, length, count) in [("many", 1, 600), ("long", 200, 200)] {
        cluster.create_nodes([node], &json!({}));
        cluster.kubectl(&["annotate", "node", node, "example.com/owner=platform"]);
        cluster.write_quantity(node, DONGLE, "7");
        let names: Vec<_> =
            (0..count).map(|number| format!("{}.com/{number}", "e".repeat(length))).collect();
        let mut present: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        present.push((DONGLE, "7"));
        let admin = cluster.control_plane.kubeconfig();
        let output = patch(&cluster, &admin, node, &advertise(&present, &four));
        assert_eq!(output.code, 0, "{output:?}");
        for attempt in [advertise(&four, &four), withdraw(DONGLE, &[])] {
            let output = patch(&cluster, &kubeconfig, node, &attempt);
            assert_eq!(output.code, 0, "{node}: {attempt}: {output:?}");
        }
        // The place that one has left is not for another.
        let output = patch(&cluster, &kubeconfig, node, &advertise(&four, &four));
        assert!(output.code != 0 && output.stderr.contains("may add to a node"), "{output:?}");
    }
}

/// A client may send managedFields of its own, which the API server does not store.
#[test]
fn managed_fields_are_not_a_store() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.kubectl(&["annotate", "node", "node-1", "example.com/owner=platform"]);
    let managers = || {
        let node = cluster.get(&["node", "node-1"]);
        let fields = node["metadata"]["managedFields"].as_array().unwrap().clone();
        fields
            .iter()
            .map(|entry| (entry["manager"].to_string(), entry["fieldsV1"].to_string()))
            .collect::<Vec<_>>()
    };
    let set = |quantity| advertise(&[(DONGLE, quantity)], &[(DONGLE, quantity)]);
    let output = patch(&cluster, &kubeconfig, "node-1", &set("1"));
    assert_eq!(output.code, 0, "{output:?}");
    let before = managers();

    let large: Map<_, _> =
        (0..500).map(|it| (format!("f:{it}-{}", "a".repeat(200)), json!({}))).collect();
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

/// The policy compares texts.
#[test]
fn value_is_repaired_that_the_annotation_spells_otherwise_than_the_rule() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    let lease = ["--leader-elect-resource-namespace", NAMESPACE];
    let controller = Controller::start_unready(&cluster, &kubeconfig, &lease);
    cluster.apply_rule("dongle", &json!({"quantity": 1024, "nodeNames": ["node-1"]}));
    cluster.wait_advertised("node-1", DONGLE, "1024");
    let text = r#"{"example.com/dongle":{"quantity":"1Ki","rule":"dongle"}}"#;
    cluster.kubectl(&["annotate", "node", "node-1", "--overwrite", &format!("{LEDGER}={text}")]);
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "1024");
    controller.stop();
}

/// What a person has made of the annotation does not keep the controller from repairs.
#[test]
fn value_is_repaired_by_an_annotation_that_somebody_has_reformatted() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    cluster.create_nodes(["node-1"], &json!({}));
    let lease = ["--leader-elect-resource-namespace", NAMESPACE];
    let controller = Controller::start_unready(&cluster, &kubeconfig, &lease);
    let spec = json!({"deletionPolicy": "Retain", "nodeNames": ["node-1"]});
    cluster.apply_rule("dongle", &spec);
    cluster.wait_advertised("node-1", DONGLE, "4");
    let text = "{\r\n\t\"example.com/dongle\" : { \"rule\": \"dongle\", \"deletionPolicy\": \"Retain\",\n \
                \"quantity\": \"4\" }\n}";
    let edit = json!({"metadata": {"annotations": {LEDGER: text}}});
    cluster.kubectl(&["patch", "node", "node-1", "--type=merge", "-p", &edit.to_string()]);
    cluster.write_quantity("node-1", DONGLE, "7");
    cluster.wait_advertised("node-1", DONGLE, "4");
    // A value that is to stay, and that was reset, is written back as it is unlisted.
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
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let spec =
        json!({"resourceName": "nvidia.com/gpu", "nodeNames": ["node-1", "node-2", "node-3"]});
    let controller = Controller::start(&cluster);
    cluster.apply_rule("old", &json!({"resourceName": "nvidia.com/gpu", "nodeNames": ["node-1"]}));
    cluster.wait_advertised("node-1", "nvidia.com/gpu", "4");
    cluster.apply_rule("old", &spec);
    cluster.wait_advertised("node-2", "nvidia.com/gpu", "4");
    controller.stop();

    let kubeconfig = install(
        &cluster,
        &["--set", "policy.allowedResources={example.com/*,example.org/licence}"],
    );
    let because = "node-resource-advertiser may advertise in this cluster only example.com/*, example.org/licence \
                   (policy.allowedResources of the chart)";
    let try_patch = |attempt: &Value| patch(&cluster, &kubeconfig, "node-1", attempt);
    let gpu = ("nvidia.com/gpu", "8");
    for attempt in [
        advertise(&[gpu], &[gpu]),
        // To list it first, and to remove it next.
        advertise(&[], &[("nvidia.com/gpu", "4"), ("nvidia.com/other", "4")]),
        advertise(&[("example.community/a", "4")], &[("example.community/a", "4")]),
    ] {
        let output = try_patch(&attempt);
        assert!(output.code != 0 && output.stderr.trim_end().ends_with(because), "{output:?}");
    }
    cluster.write_quantity("node-1", "nvidia.com/gpu", "7");
    let lease = ["--leader-elect-resource-namespace", NAMESPACE];
    let controller = Controller::start_unready(&cluster, &kubeconfig, &lease);
    // What was listed before is restored, and elsewhere it is not advertised any more.
    cluster.wait_advertised("node-1", "nvidia.com/gpu", "4");
    cluster.create_nodes(["node-3"], &json!({}));
    cluster.wait_status("old", "the policy's words", |status| {
        status["problems"].to_string().contains("policy.allowedResources of the chart")
    });
    // What is allowed is advertised, on the same node too; and what is not is still withdrawn.
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-1"]}));
    cluster.wait_ready("dongle", "1/1");
    cluster.kubectl(&["delete", "ner", "old"]);
    cluster.wait_withdrawn("node-2", "nvidia.com/gpu");
    controller.stop();
}

#[test]
fn policy_bounds_events_and_leases() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    let create = |object: &Value| {
        let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "create", "-f", "-"];
        cluster.control_plane.kubectl_output(&args, Some(&object.to_string())).unwrap()
    };
    let (mut number, mut attempt) = (0, 0);
    let mut event = |change: &Value| {
        number += 1;
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": format!("event-{number}"), "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Repaired",
            "action": "Repair", "reportingInstance": "a",
            "reportingController": "noderesource.dev/node-resource-advertiser",
            "regarding": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        });
        merge(&mut event, change);
        event
    };
    let lease = |change: &Value| {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": RELEASE, "namespace": NAMESPACE},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
        });
        merge(&mut lease, change);
        lease
    };
    let own = "node-resource-advertiser may report Events about nodes and rules only, and in its own name";
    let short_texts = "node-resource-advertiser may put 16 annotations of 1024 characters and 64 labels on what it \
                       creates at most";
    let owners =
        "node-resource-advertiser may not put finalizers or ownerReferences on what it creates";
    let references =
        "node-resource-advertiser may put references of 253 characters on Events at most";
    let holder = "node-resource-advertiser may hold its Lease by a name of 512 characters at most";
    let one = "node-resource-advertiser may write the Lease node-resource-advertiser only";
    let short = "node-resource-advertiser may hold its Lease for 601 seconds at most";
    let large = "a".repeat(200_000);
    let many = |count| {
        let labels: Map<_, _> = (0..count).map(|it| (format!("a-{it}"), json!("b"))).collect();
        Value::from(labels)
    };
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"});
    wait_until("the policy to take effect", || {
        attempt += 1;
        let output = create(&lease(&json!({"metadata": {"name": format!("canary-{attempt}")}})));
        Ok(output.stderr.contains(one).then_some(()))
    })
    .unwrap();
    for (object, because) in [
        (event(&json!({"reportingController": "node-controller"})), own),
        (event(&json!({"regarding": {"kind": "Pod", "namespace": "default"}})), own),
        (event(&json!({"metadata": {"annotations": {"a": large}}})), short_texts),
        (event(&json!({"metadata": {"annotations": many(17)}})), short_texts),
        (event(&json!({"metadata": {"labels": many(65)}})), short_texts),
        (event(&json!({"metadata": {"finalizers": ["example.com/a"]}})), owners),
        (event(&json!({"metadata": {"ownerReferences": [owner]}})), owners),
        (event(&json!({"regarding": {"fieldPath": large}})), references),
        (lease(&json!({"metadata": {"name": "kube-scheduler"}})), one),
        (lease(&json!({"spec": {"leaseDurationSeconds": i32::MAX}})), short),
        (lease(&json!({"spec": {"holderIdentity": large}})), holder),
        (lease(&json!({"metadata": {"annotations": {"a": large}}})), short_texts),
        (lease(&json!({"metadata": {"labels": many(65)}})), short_texts),
        (lease(&json!({"metadata": {"finalizers": ["example.com/a"]}})), owners),
        (lease(&json!({"metadata": {"ownerReferences": [owner]}})), owners),
    ] {
        assert_rejected(&create(&object), because);
    }
    // A mutating webhook may label what is created.
    let labelled = json!({"metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}});
    for object in [event(&json!({})), event(&labelled), lease(&labelled)] {
        let output = create(&object);
        assert_eq!(output.code, 0, "{object}: {output:?}");
    }
    let own = "--field-selector=reportingComponent=noderesource.dev/node-resource-advertiser";
    let deleted = cluster.kubectl(&["--namespace=default", "delete", "events", own]);
    assert_eq!(deleted.matches("deleted").count(), 2, "as SECURITY.md has it: {deleted}");
}

/// Without renewals there would be no leader, for ever.
#[test]
fn lease_with_more_on_it_than_the_policy_allows_is_still_renewed() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let kubeconfig = install(&cluster, &[]);
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"});
    let annotations: Map<_, _> =
        (0..20).map(|it| (format!("example.com/{it}"), json!("a".repeat(2_000)))).collect();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": RELEASE, "namespace": NAMESPACE, "annotations": annotations,
            "finalizers": ["example.com/keep"], "ownerReferences": [owner],
        },
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 15},
    });
    let lease_args = ["lease", RELEASE, "--namespace", NAMESPACE];
    cluster.kubectl(&[&["delete", "--ignore-not-found"], &lease_args[..]].concat());
    cluster.control_plane.kubectl_stdin(&["create", "-f", "-"], &lease.to_string()).unwrap();
    let controller = Controller::start_unready(
        &cluster,
        &kubeconfig,
        &["--leader-elect-resource-namespace", NAMESPACE],
    );
    controller.wait_log("this process leads now");
    cluster.wait_for("the Lease to be renewed", &lease_args, |lease| {
        lease["spec"]["renewTime"] != lease["spec"]["acquireTime"]
    });
    let lease = cluster.get(&lease_args);
    assert_eq!(lease["metadata"]["finalizers"], json!(["example.com/keep"]));
    controller.stop();
    let edit = json!({"metadata": {"finalizers": null}}).to_string();
    cluster.kubectl(&[&["patch"], &lease_args[..], &["--type=merge", "-p", &edit]].concat());
}

fn merge(object: &mut Value, change: &Value) {
    let Value::Object(change) = change else { return *object = change.clone() };
    for (key, value) in change {
        merge(&mut object[key], value);
    }
}

/// Builds an overlay of deploy/ with kubectl.
fn build_overlay(cluster: &Cluster, name: &str, lines: &str) -> String {
    let dir = cluster.control_plane.dir().join("kustomize");
    let (base, overlay) = (dir.join("base"), dir.join(name));
    for dir in [&base, &overlay] {
        fs::create_dir_all(dir).unwrap();
    }
    for file in ["install.yaml", "kustomization.yaml"] {
        fs::copy(project_file("deploy").join(file), base.join(file)).unwrap();
    }
    fs::write(overlay.join("kustomization.yaml"), format!("resources: [../base]\n{lines}\n"))
        .unwrap();
    cluster.kubectl(&["kustomize", overlay.to_str().unwrap()])
}

#[test]
fn policy_follows_the_account_that_an_overlay_moves() {
    for (lines, namespace, name) in [
        ("namespace: platform", "platform", RELEASE.to_owned()),
        ("namePrefix: prod-", RELEASE, format!("prod-{RELEASE}")),
        (
            "{namespace: platform, namePrefix: prod-, nameSuffix: -a}",
            "platform",
            format!("prod-{RELEASE}-a"),
        ),
    ] {
        let cluster = Cluster::start_without_crd(ControlPlane::builder());
        let lines = lines.trim_matches(['{', '}']).replace(", ", "\n");
        cluster.apply(&build_overlay(&cluster, "overlay", &lines));
        cluster.wait_crds();
        cluster.create_nodes(["node-1"], &json!({}));
        let account = kubeconfig_of(&cluster, namespace, &name);
        let deployment = cluster.get(&["deployment", &name, "--namespace", namespace]);
        let controller = Container::from_workload(&deployment).start(&cluster, &account);
        controller.wait_log("this process leads now");
        controller.wait_ready();
        // A policy takes effect a moment after it is created: the next test is a minute later.
        wait_confinement(&controller, "confined");
        cluster.apply_rule("dongle", &json!({}));
        cluster.wait_ready("dongle", "1/1");
        controller.stop();
    }
}

/// Waits until the metric says so, which takes up to a minute.
fn wait_confinement(controller: &Controller, state: &str) {
    let line = format!("node_resource_advertiser_confinement{{state=\"{state}\"}} 1");
    wait_until(&format!("the metric {line}"), || {
        let (_, metrics) = controller.get("/metrics")?;
        Ok(metrics.lines().any(|other| other == line).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", controller.log()));
}

#[test]
fn controller_reports_within_a_minute_that_nothing_confines_it() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    apply_chart(&cluster, &[]);
    let kubeconfig = service_account_kubeconfig(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::from_workload(&deployment).start(&cluster, &kubeconfig);
    wait_confinement(&controller, "confined");
    let (_, verbose) = controller.get("/readyz?verbose").unwrap();
    assert!(verbose.contains("confinement: the API server rejects what this account"), "{verbose}");
    let before = cluster.node("node-1");

    cluster.kubectl(&["delete", "validatingadmissionpolicybinding", RELEASE]);
    wait_confinement(&controller, "unconfined");
    controller.wait_log("confinement: the API server lets this account change nodes");
    let (code, verbose) = controller.get("/readyz?verbose").unwrap();
    assert!(code == 200 && verbose.contains("confinement: the API server lets"), "{verbose}");
    assert_eq!(cluster.node("node-1"), before, "a dry run stores nothing");
    controller.stop();
}

#[test]
fn chart_switches_the_self_test_off_with_the_policy() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    apply_chart(&cluster, &["--set", "policy.validationActions={Warn,Audit}"]);
    let kubeconfig = service_account_kubeconfig(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::from_workload(&deployment).start(&cluster, &kubeconfig);
    controller.wait_log("this process leads now");
    wait_confinement(&controller, "off");
    let (_, verbose) = controller.get("/readyz?verbose").unwrap();
    assert!(verbose.contains("confinement: not tested"), "{verbose}");
    controller.stop();
}
