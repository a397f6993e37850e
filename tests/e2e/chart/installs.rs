//! Ways to install and uninstall other than Helm 4. `tests/tools/installs` tests what needs no cluster.
//!
//! Method: install with kubectl, Helm 3 or Kustomize, run the program as the Deployment would, and compare the nodes
//! and the remaining objects after uninstalling.

use harness::helm::{NAMESPACE, RELEASE, chart, helm, helm_3, helm_chart, service_account_kubeconfig};
use harness::{Cluster, ControlPlane, project_file};
use serde_json::{Value, json};

use super::{Container, assert_only_crd_is_left, uninstall};

const DEPLOYMENT: [&str; 4] = ["deployment", RELEASE, "--namespace", NAMESPACE];

/// The Job would withdraw everything, and stop the controllers from writing for ten minutes.
#[test]
fn chart_rendered_and_applied_runs_no_prune_job() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.kubectl(&["create", "namespace", NAMESPACE]);
    let rendered = helm_chart(&cluster, "template", &[]);
    cluster.apply(&rendered);
    cluster.wait_crds();
    let found = cluster.get(&["jobs,leases", "--namespace", NAMESPACE]);
    assert_eq!(found["items"], json!([]), "hooks are not rendered as ordinary objects");
    let controller =
        Container::from_workload(&cluster.get(&DEPLOYMENT)).start(&cluster, &service_account_kubeconfig(&cluster));
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.apply(&rendered);
    cluster.wait_advertised("node-1", "example.com/dongle", "4");

    // The manual equivalent of the Job.
    cluster.kubectl(&["delete", "ner", "--all"]);
    cluster.wait_withdrawn("node-1", "example.com/dongle");
    cluster.control_plane.kubectl_stdin(&["delete", "-f", "-"], &rendered).unwrap();
    controller.stop();
}

#[test]
fn chart_installs_upgrades_and_uninstalls_with_helm_3() {
    let cluster = Cluster::shared_without_crd();
    let chart = chart();
    let of_release = [RELEASE, chart.to_str().unwrap(), "--namespace", NAMESPACE];
    for command in [&["install", "--create-namespace"][..], &["upgrade", "--set=replicaCount=3"]] {
        let output = helm_3(&cluster, &[command, &of_release].concat());
        assert_eq!(output.code, 0, "{output:?}");
    }
    assert_eq!(cluster.get(&DEPLOYMENT)["spec"]["replicas"], 3);
    let hooks = helm_3(&cluster, &["get", "hooks", RELEASE, "--namespace", NAMESPACE]).stdout;
    let prune = Container::from_hooks(&hooks).run(&service_account_kubeconfig(&cluster));
    assert_eq!(prune.code, 0, "{prune:?}");
    let uninstall = ["uninstall", RELEASE, "--namespace", NAMESPACE, "--no-hooks"];
    assert_eq!(helm_3(&cluster, &uninstall).code, 0);
    assert_only_crd_is_left(&cluster);
}

/// A Job whose image cannot be pulled fails too.
#[test]
fn chart_uninstalls_without_its_job() {
    let cluster = Cluster::shared_without_crd();
    helm_chart(&cluster, "install", &["--create-namespace", "--set=image.tag=missing"]);
    uninstall(&cluster, &["--no-hooks"]);
    assert_only_crd_is_left(&cluster);
}

/// Whoever deletes the namespace first leaves objects behind, and no release to uninstall.
#[test]
fn chart_installs_again_after_its_namespace_was_deleted() {
    let cluster = Cluster::shared_without_crd();
    helm_chart(&cluster, "install", &["--create-namespace"]);
    // No controller manager finalizes it.
    cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
    let chart = chart();
    let again = ["install", RELEASE, chart.to_str().unwrap(), "--namespace", "other", "--create-namespace"];
    let output = helm(&cluster, &again);
    assert!(output.code != 0 && output.stderr.contains("invalid ownership metadata"), "{output:?}");
    let output = helm(&cluster, &[&again[..], &["--take-ownership", "--force-conflicts"]].concat());
    assert_eq!(output.code, 0, "{output:?}");
    let binding = cluster.get(&["clusterrolebindings", RELEASE]);
    assert_eq!(binding["subjects"][0]["namespace"], "other");
}

/// From the manifests to Helm: nothing is deleted, so the nodes keep their values.
#[test]
fn helm_takes_over_what_the_manifests_installed() {
    let cluster = Cluster::shared_without_crd();
    let deploy = project_file("deploy/install.yaml");
    cluster.kubectl(&["apply", "--server-side", "-f", deploy.to_str().unwrap()]);
    let deployment = ["deployment", RELEASE, "--namespace", RELEASE];
    let uid = cluster.get(&deployment)["metadata"]["uid"].clone();
    let chart = chart();
    let of_release = [RELEASE, chart.to_str().unwrap(), "--namespace", RELEASE];
    let install = ["install", "--take-ownership", "--force-conflicts"];
    let output = helm(&cluster, &[&install[..], &of_release].concat());
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(cluster.get(&deployment)["metadata"]["uid"], uid);
}

/// A node has the port once, so a new pod fits only after the old one.
#[test]
fn upgrade_in_the_network_of_the_only_node_ends() {
    let cluster = Cluster::start_without_crd(ControlPlane::builder().controller_manager().scheduler().kubelets(1));
    let values = "--set=hostNetwork=true,replicaCount=1";
    helm_chart(&cluster, "install", &[values, "--create-namespace"]);
    let pods = ["pods", "--namespace", NAMESPACE, "--selector=app.kubernetes.io/component=controller"];
    // The only pod, once it has a node.
    let bound = |list: &Value| match list["items"].as_array().unwrap().as_slice() {
        [pod] if pod["spec"]["nodeName"] == "node-1" => Some(pod["metadata"]["uid"].clone()),
        _ => None,
    };
    let before = cluster.wait_for("the pod to have a node", &pods, |list| bound(list).is_some());
    assert_eq!(before["items"][0]["spec"]["containers"][0]["ports"][0]["hostPort"], 8080);
    helm_chart(&cluster, "upgrade", &[values, "--set=controller.logLevel=debug"]);
    let is_new = |list: &Value| bound(list).is_some_and(|uid| Some(uid) != bound(&before));
    cluster.wait_for("a new pod to have the node", &pods, is_new);
}

/// The overlay of the examples: another namespace, except for the objects that belong to `default`.
#[test]
fn kustomize_overlay_of_deploy_leads_in_its_namespace() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    let overlay = project_file("examples/gitops/kustomize/controller");
    let built = cluster.kubectl(&["kustomize", overlay.to_str().unwrap()]);
    cluster.apply(&built);
    cluster.wait_crds();
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", "platform"]);
    let token = cluster.kubectl(&["create", "token", RELEASE, "--namespace", "platform"]);
    let kubeconfig = harness::helm::kubeconfig_of_token(&cluster, token.trim());
    let controller = Container::from_workload(&deployment).start(&cluster, &kubeconfig);
    controller.wait_log("this process is now the leader");
    cluster.get(&["lease", RELEASE, "--namespace", "platform"]);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.write_quantity("node-1", "example.com/dongle", "9");
    cluster.wait_event("node-1", "Repaired", ": 9 (by ");

    cluster.kubectl(&["delete", "ner", "--all"]);
    cluster.wait_withdrawn("node-1", "example.com/dongle");
    // Without a controller manager nothing would finalize the namespace.
    cluster.control_plane.kubectl_stdin(&["delete", "--wait=false", "-f", "-"], &built).unwrap();
    controller.stop();
}
