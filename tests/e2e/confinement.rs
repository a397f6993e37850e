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

use crate::admission_policy::{install, patch};
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
    let long = json!([{"op": "add", "path": LEDGER_PATH, "value": "a".repeat(65_537)}]);
    assert_rejected(
        &try_patch(&long),
        "node-resource-advertiser may write an annotation of 65536 characters at most",
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
    let text = "{\n \"example.com/dongle\" : { \"rule\": \"dongle\", \"deletionPolicy\": \"Retain\",\n \
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
    let spec = json!({"resourceName": "nvidia.com/gpu", "nodeNames": ["node-1", "node-2"]});
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
    let bare =
        "node-resource-advertiser may not put annotations, labels or long references on Events";
    let one = "node-resource-advertiser may write the Lease node-resource-advertiser only";
    let short = "node-resource-advertiser may hold its Lease for 601 seconds at most";
    let small = "node-resource-advertiser may not put large annotations on its Lease";
    let large = "a".repeat(200_000);
    wait_until("the policy to take effect", || {
        attempt += 1;
        let output = create(&lease(&json!({"metadata": {"name": format!("canary-{attempt}")}})));
        Ok(output.stderr.contains(one).then_some(()))
    })
    .unwrap();
    for (object, because) in [
        (event(&json!({"reportingController": "node-controller"})), own),
        (event(&json!({"regarding": {"kind": "Pod", "namespace": "default"}})), own),
        (event(&json!({"metadata": {"annotations": {"a": large}}})), bare),
        (event(&json!({"metadata": {"labels": {"a": "b"}}})), bare),
        (event(&json!({"metadata": {"finalizers": ["example.com/a"]}})), bare),
        (event(&json!({"regarding": {"fieldPath": large}})), bare),
        (lease(&json!({"metadata": {"name": "kube-scheduler"}})), one),
        (lease(&json!({"spec": {"leaseDurationSeconds": i32::MAX}})), short),
        (lease(&json!({"metadata": {"annotations": {"a": large}}})), small),
    ] {
        assert_rejected(&create(&object), because);
    }
    for object in [event(&json!({})), lease(&json!({}))] {
        let output = create(&object);
        assert_eq!(output.code, 0, "{object}: {output:?}");
    }
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
