//! `autoscaler --check-cluster`: what is in a cluster, against the rules in files.
//!
//! Neither Karpenter nor Cluster API runs here: the API server serves their kinds, with the fields that count.

use std::collections::BTreeMap;
use std::fs;

use harness::documents::{self, Shell};
use harness::objects::rule;
use harness::{Cluster, Output, project_file};
use serde_json::{Value, json};

use crate::support::{node_overlays, program};

/// Two rules for one resource, and the arguments that name their file.
fn write_rules(cluster: &Cluster, rules: &[Value]) -> [String; 2] {
    let path = cluster.control_plane.dir().join("autoscaler-rules.json");
    fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": rules}).to_string()).unwrap();
    ["-f".to_owned(), path.to_str().unwrap().to_owned()]
}

fn autoscaler(cluster: &Cluster, user: Option<&str>, files: &[String; 2], args: &[&str]) -> Output {
    let control_plane = &cluster.control_plane;
    let kubeconfig = user.map_or_else(|| control_plane.kubeconfig(), |user| control_plane.kubeconfig_for(user));
    let files = files.each_ref().map(String::as_str);
    program::run(&kubeconfig, &[&["autoscaler"], &files[..], args].concat(), None)
}

fn pool(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["nodeSelector"] = json!({"matchLabels": {"karpenter.sh/nodepool": "big"}});
    rule(name, &spec)
}

#[test]
fn overlays_in_a_cluster_are_compared_with_the_rules() {
    let cluster = Cluster::shared_without_crd();
    let rules = [pool("high", json!({"priority": 1})), pool("low", json!({"quantity": 2}))];
    let files = write_rules(&cluster, &rules);
    let check = |args: &[&str]| {
        let args = [&["--for", "karpenter", "--check-cluster"], args].concat();
        autoscaler(&cluster, None, &files, &args)
    };
    let output = check(&[]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.stderr);
    assert!(output.stderr.contains("the cluster serves no NodeOverlay"), "{}", output.stderr);

    node_overlays::install(&cluster);
    cluster.apply(&node_overlays::overlay("spot", "1").to_string().replace("node-resource-advertiser", "helm"));
    let missing = check(&[]);
    assert_eq!(missing.code, 1, "{}", missing.stderr);
    let expected = "\
NodeOverlay high: it does not exist, and NodeOverlay spot, which selects more, has 1 of example.com/dongle, not 4: apply this one
NodeOverlay high: NodeOverlay spot has the same weight, and example.com/dongle too: where both apply, Karpenter uses the one whose name is last in the alphabet
NodeOverlay low: it does not exist, and NodeOverlay spot, which selects more, has 1 of example.com/dongle, not 2: apply this one
NodeOverlay low: NodeOverlay spot has a higher weight, and 1 of example.com/dongle, not 2: where both apply, Karpenter uses that one
4 differences, 2 expected values.
";
    assert_eq!(missing.stdout, expected);
    cluster.kubectl(&["delete", "nodeoverlay", "spot"]);

    // In both formats.
    for format in ["yaml", "json"] {
        let printed = autoscaler(&cluster, None, &files, &["--for", "karpenter", "-o", format]);
        assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
        cluster.apply(&printed.stdout);
        let same = check(&[]);
        assert_eq!((same.code, same.stdout.as_str()), (0, "No differences: 2 expected values.\n"), "{}", same.stderr);
        cluster.kubectl(&["delete", "nodeoverlays", "--all"]);
        cluster.apply(&printed.stdout);
    }

    cluster.kubectl(&["patch", "nodeoverlay", "low", "--type=merge", "-p", r#"{"spec": {"weight": 7}}"#]);
    let edited = check(&["-o", "json"]);
    let report: Value = serde_json::from_str(&edited.stdout).unwrap();
    let expected = json!([{
        "object": "NodeOverlay low", "field": "spec.weight", "expected": "9999", "found": "7",
        "message": "spec.weight: expected 9999, found 7",
    }]);
    assert_eq!((edited.code, &report["differences"]), (1, &expected));
    assert_eq!((&report["kind"], &report["unexpressed"]), (&json!("AutoscalerCheck"), &json!([])));

    let fewer = write_rules(&cluster, &rules[..1]);
    let left = autoscaler(&cluster, None, &fewer, &["--for", "karpenter", "--check-cluster"]);
    assert!(left.code == 1 && left.stdout.starts_with("NodeOverlay low: it is left over"), "{}", left.stdout);

    let forbidden = autoscaler(&cluster, Some("limited"), &files, &["--for", "karpenter", "--check-cluster"]);
    assert_eq!((forbidden.code, forbidden.stdout.as_str()), (2, ""));
    assert!(forbidden.stderr.contains("cannot list nodeoverlays: 403"), "{}", forbidden.stderr);

    page_shows_what_kubectl_prints(&cluster);
    machines_are_compared(&cluster, &fewer);
}

/// Runs the commands of docs/karpenter.md in a cluster with one overlay that is left over.
fn page_shows_what_kubectl_prints(cluster: &Cluster) {
    cluster.kubectl(&["delete", "nodeoverlays", "--all"]);
    cluster.apply(&node_overlays::overlay("license", "10").to_string());
    let folder = cluster.control_plane.dir().join("autoscalers-page");
    fs::create_dir_all(folder.join("rules")).unwrap();
    for file in ["dongle.yaml", "storage.yaml"] {
        let rules = project_file("tests/offline/autoscaler/rules");
        fs::copy(rules.join(file), folder.join("rules").join(file)).unwrap();
    }
    let shell = Shell::new(cluster, &folder, BTreeMap::new()).unwrap();
    let blocks = documents::blocks_run_by("autoscalers", &documents::pages().unwrap()).unwrap();
    println!("{} commands print what docs/karpenter.md shows", shell.run(&blocks).unwrap());
    let notes = fs::read_to_string(folder.join("notes.txt")).unwrap();
    assert!(notes.starts_with("cluster: ") && notes.contains("spec.template.metadata.labels"), "{notes}");
}

/// With the same cluster: each start of one takes seconds.
fn machines_are_compared(cluster: &Cluster, files: &[String; 2]) {
    let group = ["--for", "cluster-api", "--labels", "karpenter.sh/nodepool=big", "--group", "workers"];
    let check = || autoscaler(cluster, None, files, &[&group[..], &["--check-cluster"]].concat());
    let output = check();
    assert!(output.code == 2 && output.stderr.contains("does not serve cluster.x-k8s.io"), "{}", output.stderr);

    let version = json!({
        "name": "v1beta2", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machinedeployments.cluster.x-k8s.io", "annotations": {
            "api-approved.kubernetes.io": "unapproved, for a test",
        }},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "MachineDeployment", "plural": "machinedeployments", "singular": "machinedeployment"},
        },
    });
    cluster.apply(&crd.to_string());
    cluster.wait_crds();
    let output = check();
    assert!(output.code == 2 && output.stderr.contains("there is no MachineDeployment"), "{}", output.stderr);

    let metadata = json!({"namespace": "default", "name": "workers"});
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": metadata});
    cluster.apply(&object.to_string());
    let missing = check();
    let line = "MachineDeployment default/workers: capacity.cluster-autoscaler.kubernetes.io/gpu-type: expected \
                example.com/dongle, found nothing\n";
    assert!(missing.code == 1 && missing.stdout.contains(line), "{}{}", missing.stdout, missing.stderr);

    let printed = autoscaler(cluster, None, files, &group);
    let annotations: Vec<_> = printed.stdout.lines().collect();
    assert_eq!(annotations.len(), 2, "{}", printed.stdout);
    cluster.kubectl(&[&["annotate", "machinedeployment", "workers"], &annotations[..]].concat());
    let same = check();
    assert_eq!((same.code, same.stdout.as_str()), (0, "No differences: 2 expected values.\n"), "{}", same.stderr);
}
