//! Rules that several field managers apply.
//!
//! Method: apply a manifest on the server, edit the rule as another client does, apply again, and compare what is stored
//! with the manifest.

use harness::objects::DONGLE;
use harness::{Cluster, ControlPlane, project_file};
use serde_json::{Value, json};

fn manifest(choice: &Value) -> Value {
    let mut spec = json!({"resourceName": DONGLE, "quantity": 4});
    if choice.get("quantityFrom").is_some() {
        spec = json!({"resourceName": DONGLE, "allNodes": true});
    }
    spec.as_object_mut().unwrap().extend(choice.as_object().unwrap().clone());
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": "dongle"}, "spec": spec,
    })
}

/// Applies a manifest like a GitOps tool of this name.
fn apply(cluster: &Cluster, tool: &str, manifest: &Value) {
    let manager = format!("--field-manager={tool}");
    let args = ["apply", "--server-side", "--force-conflicts", &manager, "-f", "-"];
    cluster.control_plane.kubectl_stdin(&args, &manifest.to_string()).unwrap();
}

/// Checks that the rule is as a manifest declares it, apart from defaults.
fn check(cluster: &Cluster, manifest: &Value, what: &str) {
    let stored = cluster.get(&["ner", "dongle"]);
    for (field, declared) in manifest["spec"].as_object().unwrap() {
        assert_eq!(&stored["spec"][field], declared, "{what}");
    }
}

/// A choice in Git, an edit by another client, and the next choice in Git.
fn choices() -> [[Value; 3]; 3] {
    let labels = |labels: Value| json!({"nodeSelector": {"matchLabels": labels}});
    let from = |source: &str| json!({"quantityFrom": {source: {"key": "example.com/slots"}, "max": 9}});
    [
        [labels(json!({"has": "dongle", "pool": "usb"})), labels(json!({"tmp": "x"})), labels(json!({"pool": "usb"}))],
        [from("nodeLabel"), json!({"quantityFrom": {"min": 2}}), from("nodeAnnotation")],
        [json!({"nodeNames": ["a", "b"]}), json!({"nodeNames": ["a", "b", "c"]}), json!({"nodeNames": ["b"]})],
    ]
}

#[test]
fn what_git_declares_is_what_is_stored() {
    let cluster = Cluster::shared();
    for [one, edit, other] in choices() {
        let (one, edit, other) = (manifest(&one), json!({ "spec": edit }).to_string(), manifest(&other));
        // Somebody edits the rule, and Git's manifest is applied again.
        apply(&cluster, "argocd-controller", &one);
        cluster.kubectl(&["patch", "ner", "dongle", "--type=merge", "-p", &edit]);
        apply(&cluster, "argocd-controller", &one);
        check(&cluster, &one, "an edit is undone");
        // The manifest changes in Git, and another tool applies it than before.
        apply(&cluster, "kustomize-controller", &other);
        check(&cluster, &other, "another tool applies the manifest");
        // The same tool applies another manifest.
        apply(&cluster, "kustomize-controller", &one);
        check(&cluster, &one, "the manifest changes");
        cluster.kubectl(&["delete", "ner", "dongle"]);
    }
}

/// Rules that were stored under a CRD that merged these fields, with owners of parts of them.
#[test]
fn what_git_declares_is_what_is_stored_after_an_upgrade_of_the_crd() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder());
    let crd = std::fs::read_to_string(project_file("crds/noderesource.dev_nodeextendedresources.yaml")).unwrap();
    let before = crd.replace("x-kubernetes-map-type: atomic", "x-kubernetes-map-type: granular");
    assert_eq!(before.matches("x-kubernetes-map-type: granular").count(), 2, "{before}");
    cluster.apply(&before);
    cluster.wait_crds();
    let labels = |labels: Value| manifest(&json!({"nodeSelector": {"matchLabels": labels}}));
    let [one, other] = [labels(json!({"has": "dongle"})), labels(json!({"pool": "usb"}))];
    let merged = || {
        apply(&cluster, "argocd-controller", &one);
        apply(&cluster, "kustomize-controller", &other);
        let labels = cluster.get(&["ner", "dongle"])["spec"]["nodeSelector"]["matchLabels"].clone();
        labels.as_object().unwrap().len() == 2
    };
    assert!(merged(), "this CRD merges");
    cluster.install_crd();
    harness::wait_until("the CRD to take effect", || {
        apply(&cluster, "kustomize-controller", &other);
        let stored = cluster.get(&["ner", "dongle"]);
        Ok((stored["spec"]["nodeSelector"] == other["spec"]["nodeSelector"]).then_some(()))
    })
    .unwrap();
    assert!(!merged());
    check(&cluster, &other, "another tool applies the manifest");
}
