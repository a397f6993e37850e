//! The policy of a moved account, and the controller's test that the policy is in force.
//!
//! Method: build overlays that move or rename the account, and compare rejections; remove the binding while the
//! controller runs, and wait for its metric and its `/readyz`.

use std::fs;

use harness::helm::{NAMESPACE, RELEASE, apply_chart, kubeconfig_of, service_account_kubeconfig};
use harness::{Cluster, Controller, project_file, wait_until};
use serde_json::json;

use crate::admission_policy::wait_in_force;
use crate::chart::Container;

/// Builds an overlay of deploy/ with kubectl.
fn build_overlay(cluster: &Cluster, name: &str, lines: &str) -> String {
    let dir = cluster.control_plane.dir().join("kustomize");
    let (base, overlay) = (dir.join("base"), dir.join(name));
    for dir in [&base, &overlay] {
        fs::create_dir_all(dir).unwrap();
    }
    for file in ["install.yaml", "kustomization.yaml", "namereference.yaml"] {
        fs::copy(project_file("deploy").join(file), base.join(file)).unwrap();
    }
    fs::write(overlay.join("kustomization.yaml"), format!("resources: [../base]\n{lines}\n")).unwrap();
    cluster.kubectl(&["kustomize", overlay.to_str().unwrap()])
}

#[test]
fn policy_follows_the_account_that_an_overlay_moves() {
    for (lines, namespace, name) in [
        ("namespace: platform", "platform", RELEASE.to_owned()),
        ("namePrefix: prod-", RELEASE, format!("prod-{RELEASE}")),
        ("{namespace: platform, namePrefix: prod-, nameSuffix: -a}", "platform", format!("prod-{RELEASE}-a")),
    ] {
        let cluster = Cluster::shared_without_crd();
        let lines = lines.trim_matches(['{', '}']).replace(", ", "\n");
        cluster.apply(&build_overlay(&cluster, "overlay", &lines));
        cluster.wait_crds();
        cluster.create_nodes(["node-1"], &json!({}));
        let account = kubeconfig_of(&cluster, namespace, &name);
        let deployment = cluster.get(&["deployment", &name, "--namespace", namespace]);
        // Otherwise the controller's first test may be too early, and the next is a minute later.
        wait_in_force(&cluster, &account, namespace, &name);
        cluster.kubectl(&["delete", "node", "canary"]);
        let controller = Container::from_workload(&deployment).start(&cluster, &account);
        controller.wait_log("this process is now the leader");
        controller.wait_ready();
        wait_confinement(&controller, "confined");
        cluster.apply_rule("dongle", &json!({}));
        cluster.wait_ready("dongle", "1/1");
        controller.stop();
    }
}

/// Waits until the metric has this value, which takes up to a minute.
fn wait_confinement(controller: &Controller, state: &str) {
    let line = format!("node_resource_advertiser_confinement{{state=\"{state}\"}} 1");
    wait_until(&format!("the metric {line}"), || {
        let (_, metrics) = controller.get("/metrics")?;
        Ok(metrics.lines().any(|other| other == line).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", controller.log()));
}

#[test]
fn unconfined_controller_reports_it_within_a_minute() {
    let cluster = Cluster::shared_without_crd();
    apply_chart(&cluster, &[]);
    let kubeconfig = service_account_kubeconfig(&cluster);
    wait_in_force(&cluster, &kubeconfig, NAMESPACE, RELEASE);
    cluster.create_nodes(["node-1"], &json!({}));
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::from_workload(&deployment).start(&cluster, &kubeconfig);
    wait_confinement(&controller, "confined");
    let (_, verbose) = controller.get("/readyz?verbose").unwrap();
    assert!(
        verbose.contains("confinement: the API server rejects changes by this account beyond extended resources"),
        "{verbose}"
    );
    let before = cluster.node("node-1");

    cluster.kubectl(&["delete", "validatingadmissionpolicybinding", RELEASE]);
    wait_confinement(&controller, "unconfined");
    controller.wait_log("confinement: the API server allows this account to change nodes");
    let (code, verbose) = controller.get("/readyz?verbose").unwrap();
    assert!(code == 200 && verbose.contains("confinement: the API server allows"), "{verbose}");
    assert_eq!(cluster.node("node-1"), before, "a dry run stores nothing");
    controller.stop();
}

#[test]
fn chart_disables_the_self_test_with_the_policy() {
    let cluster = Cluster::shared_without_crd();
    apply_chart(&cluster, &["--set", "policy.validationActions={Warn,Audit}"]);
    let kubeconfig = service_account_kubeconfig(&cluster);
    cluster.create_nodes(["node-1"], &json!({}));
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::from_workload(&deployment).start(&cluster, &kubeconfig);
    controller.wait_log("this process is now the leader");
    wait_confinement(&controller, "off");
    let (_, verbose) = controller.get("/readyz?verbose").unwrap();
    assert!(verbose.contains("confinement: not tested"), "{verbose}");
    controller.stop();
}
