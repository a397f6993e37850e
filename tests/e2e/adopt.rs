//! `adopt` on a cluster whose nodes have values of several writers.
//!
//! Method: write values as people, kubelets, Node Feature Discovery and Gardener do, apply the rules that adopt prints,
//! and compare the values with those before.

use std::fs;
use std::path::Path;

use harness::documents::{self, Shell};
use harness::objects::{DONGLE, LEDGER};
use harness::{Cluster, Controller, Output};
use serde_json::{Value, json};

use crate::support::{permissions, program};

const EPC: &str = "example.com/epc";
const SEAT: &str = "example.com/seat";

fn adopt(kubeconfig: &Path, args: &[&str]) -> Output {
    program::run(kubeconfig, &[&["adopt"], args].concat(), None)
}

/// Writes a quantity into one map of a node, as this field manager.
fn write(cluster: &Cluster, node: &str, manager: &str, map: &str, [resource, quantity]: [&str; 2]) {
    let (manager, patch) = (format!("--field-manager={manager}"), json!({"status": {map: {resource: quantity}}}));
    let args = ["patch", "node", node, "--subresource=status", &manager, "--type=merge", "-p", &patch.to_string()];
    cluster.kubectl(&args);
}

/// Writes capacity as the Kubernetes documentation describes it, and allocatable as a kubelet copies it.
fn write_capacity(cluster: &Cluster, node: &str, manager: &str, amount: [&str; 2]) {
    write(cluster, node, manager, "capacity", amount);
    write(cluster, node, "kubelet", "allocatable", amount);
}

/// The CustomResourceDefinition of Node Feature Discovery's rules, without their schema.
fn install_feature_rules(cluster: &Cluster) {
    let names = json!({"plural": "nodefeaturerules", "singular": "nodefeaturerule", "kind": "NodeFeatureRule"});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    let approved = "https://github.com/kubernetes/enhancements/pull/1111";
    cluster.apply(
        &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "nodefeaturerules.nfd.k8s-sigs.io",
                "annotations": {"api-approved.kubernetes.io": approved},
            },
            "spec": {"group": "nfd.k8s-sigs.io", "names": names, "scope": "Cluster", "versions": [version]},
        })
        .to_string(),
    );
    cluster.wait_crds();
    let resources = json!({EPC: "@cpu.security.sgx.epc"});
    let rules = json!([{"name": "sgx", "extendedResources": resources}]);
    cluster.apply(
        &json!({
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule",
            "metadata": {"name": "sgx"}, "spec": {"rules": rules},
        })
        .to_string(),
    );
}

/// Creates the nodes that docs/adopt.md describes.
fn create_nodes(cluster: &Cluster) {
    cluster.create_nodes(["node-1", "node-2"], &json!({"pool": "usb"}));
    cluster.create_nodes(["node-3", "node-4"], &json!({"pool": "general"}));
    cluster.create_nodes(["node-5", "node-6"], &json!({"pool": "sgx"}));
    cluster.create_nodes(["node-7"], &json!({"worker.gardener.cloud/pool": "seats"}));
    (1..=7).for_each(|number| cluster.heartbeat(&format!("node-{number}"), "kubelet"));
    for node in ["node-1", "node-2"] {
        write_capacity(cluster, node, "kubectl-patch", [DONGLE, "4"]);
    }
    write_capacity(cluster, "node-3", "kubectl-edit", [DONGLE, "2"]);
    write_capacity(cluster, "node-4", "kubelet", ["example.com/gpu", "1"]);
    for node in ["node-5", "node-6"] {
        write_capacity(cluster, node, "nfd-master", [EPC, "64Mi"]);
        cluster.kubectl(&["annotate", "node", node, &format!("nfd.node.kubernetes.io/extended-resources={EPC}")]);
    }
    write_capacity(cluster, "node-7", "machine-controller", [SEAT, "20"]);
    let applied = format!(r#"node.machine.sapcloud.io/last-applied-virtual-capacity={{"{SEAT}":"20"}}"#);
    cluster.kubectl(&["annotate", "node", "node-7", &applied]);
}

/// The values of all nodes.
fn values(cluster: &Cluster) -> Vec<[Value; 3]> {
    let nodes = cluster.nodes().into_iter();
    nodes
        .map(|node| {
            let status = &node["status"];
            [node["metadata"]["name"].clone(), status["capacity"].clone(), status["allocatable"].clone()]
        })
        .collect()
}

#[test]
fn adopted_rules_change_no_value_and_become_ready() {
    let cluster = Cluster::shared();
    let admin = cluster.control_plane.kubeconfig();
    install_feature_rules(&cluster);
    create_nodes(&cluster);
    let before = values(&cluster);
    let controller = Controller::start(&cluster);

    // What is printed is a valid input of the other commands, and changes no value.
    let output = adopt(&admin, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let strict = program::run(&admin, &["validate", "--strict", "-"], Some(&output.stdout));
    assert_eq!(strict.code, 0, "{}{}", strict.stdout, strict.stderr);
    let plan = program::run(&admin, &["plan", "-o", "json", "-f", "-"], Some(&output.stdout));
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let summary = &plan["summary"];
    assert_eq!((&plan["totals"], &summary["add"], &summary["remove"]), (&json!([]), &json!(0), &json!(0)), "{plan:#}");
    assert_eq!(summary["change"], 6, "the ledger of each node with a value");
    let some = adopt(&admin, &["--from-manager", "kubectl-edit", "--resource", DONGLE, "-l", "pool=general"]);
    assert!(some.stdout.contains("- node-3\n") && !some.stdout.contains("pool: "), "{}", some.stdout);

    // The page applies the rules.
    let folder = cluster.control_plane.dir().join("adopted");
    fs::create_dir_all(&folder).unwrap();
    let shell = program::with_plugin(Shell::new(&cluster, &folder, Default::default()).unwrap(), &cluster);
    let blocks = documents::blocks_run_by("adopt", &documents::pages().unwrap()).unwrap();
    println!("{} commands print what docs/adopt.md shows", shell.run(&blocks).unwrap());

    for (rule, nodes) in [("dongle-2", "1/1"), ("dongle-4", "2/2"), ("epc", "2/2"), ("seat", "1/1")] {
        cluster.wait_ready(rule, nodes);
    }
    assert_eq!(values(&cluster), before);
    let ledgers = cluster.nodes().into_iter().filter(|node| !node["metadata"]["annotations"][LEDGER].is_null());
    assert_eq!(ledgers.count(), 6);

    // As the comments advise, in the end no rule takes over anything.
    cluster.apply(&output.stdout.replace("  conflictPolicy: Overwrite\n", ""));
    for (rule, nodes) in [("dongle-2", "1/1"), ("dongle-4", "2/2"), ("epc", "2/2"), ("seat", "1/1")] {
        cluster.wait_ready(rule, nodes);
    }
    // NFD removes what it has written when its rule is gone.
    let gone = json!([{"op": "remove", "path": "/status/capacity/example.com~1epc"}]);
    cluster.patch_status("node-5", "json", &gone);
    cluster.wait_advertised("node-5", EPC, "64Mi");
    assert_eq!(values(&cluster), before);
    controller.stop();
}

#[test]
fn adopt_lacks_only_what_a_user_may_not_read() {
    let cluster = Cluster::shared_without_crd();
    let admin = cluster.control_plane.kubeconfig();
    let nothing = adopt(&admin, &[]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("nothing to adopt"), "{}", nothing.stderr);
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    let odd = json!({DONGLE: "4", "": "1", "BAD name!": "1", "a/b/c": "2", "example.com/most": "9223372036854775807"});
    cluster.patch_status("node-1", "merge", &json!({"status": {"capacity": odd, "allocatable": odd}}));
    let output = adopt(&admin, &[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout.matches("kind: NodeExtendedResource\n").count(), 1, "{}", output.stdout);
    for text in ["no CustomResourceDefinition of rules", r#""a/b/c" on node-1"#, "9223372036854775807 is more than"] {
        assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
    }

    let limited = cluster.control_plane.kubeconfig_for("limited");
    let refused = adopt(&limited, &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("error: you lack permission to list nodes"), "{}", refused.stderr);
    for (args, code, message) in [
        (&["--kubeconfig", "/nowhere"][..], 1, "/nowhere"),
        (&["--context", "none"], 1, "none"),
        (&["--resource", "cpu"], 2, "native resource"),
        (&["-l", "a=="], 0, "nothing to adopt"),
        (&["-l", "=a"], 2, "expected"),
        (&["nonsense"], 2, "nonsense"),
    ] {
        let output = adopt(&admin, args);
        assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{args:?}: {}", output.stderr);
    }

    cluster.install_crd();
    install_feature_rules(&cluster);
    cluster.apply_rule("dongle", &json!({"nodeNames": ["node-2"]}));
    let nodes = json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]});
    permissions::grant(&cluster, &[nodes]);
    cluster.wait_permission("limited", "list", "nodes");
    let some = adopt(&limited, &[]);
    assert_eq!(some.code, 0, "{}", some.stderr);
    assert!(some.stdout.contains("  name: dongle\n"), "{}", some.stdout);
    for kind in ["nodeextendedresources", "deviceclasses", "nodefeaturerules.nfd.k8s-sigs.io"] {
        let note = some.stderr.lines().find(|line| line.contains(&format!("you lack permission to list {kind}")));
        assert!(note.is_some_and(|note| note.starts_with("note: ")), "{kind}: {}", some.stderr);
    }
    assert!(some.stderr.contains("use kubectl create"), "{}", some.stderr);
    assert!(adopt(&admin, &[]).stdout.contains("  name: dongle-2\n"), "the name of the rule is taken");

    // Those of the example are enough.
    cluster.apply(&fs::read_to_string(harness::project_file("examples/permissions/adopt.yaml")).unwrap());
    let role = "node-resource-advertiser-adopt";
    cluster.kubectl(&["create", "clusterrolebinding", role, "--user=limited", &format!("--clusterrole={role}")]);
    cluster.wait_permission("limited", "list", "nodefeaturerules.nfd.k8s-sigs.io");
    let all = adopt(&limited, &[]);
    assert!(!all.stderr.contains("lack permission"), "{}", all.stderr);
}
