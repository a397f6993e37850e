//! helm, and the chart. Every function panics if it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // for tests, which panic on failure

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Cluster, Output, Process, project_file, tool};

/// The namespace that the chart is installed into.
pub const NAMESPACE: &str = "advertising";
/// The release's name, which is the chart's, so that objects have just that name.
pub const RELEASE: &str = "node-resource-advertiser";

/// Returns the chart's folder.
#[must_use]
pub fn chart() -> PathBuf {
    project_file("charts/node-resource-advertiser")
}

/// Returns the folder of the chart of rules.
#[must_use]
pub fn rules_chart() -> PathBuf {
    project_file("charts/node-resource-advertiser-rules")
}

/// Runs helm, and returns what it prints, success or not.
pub fn helm(cluster: &Cluster, args: &[&str]) -> Output {
    run(cluster, &tool("helm").unwrap(), args)
}

/// Runs Helm 3, and returns what it prints, success or not.
pub fn helm_3(cluster: &Cluster, args: &[&str]) -> Output {
    let helm = project_file("target/tools/helm3/helm");
    assert!(helm.exists(), "{} does not exist: run `make tools`", helm.display());
    run(cluster, &helm, args)
}

fn run(cluster: &Cluster, helm: &Path, args: &[&str]) -> Output {
    let mut helm = Command::new(helm);
    Output::run(helm.args(args).envs(environment(cluster)), None).expect("helm runs")
}

/// Starts helm without waiting for its end, such as with `--wait`. Its output is its log.
pub fn spawn_helm(cluster: &Cluster, args: &[&str]) -> Process {
    let log = cluster.control_plane.logs().join("helm.log");
    let environment = environment(cluster);
    let environment: Vec<_> = environment.iter().map(|(key, value)| (*key, &**value)).collect();
    Process::spawn("helm", &tool("helm").unwrap(), args, &environment, &log).expect("helm starts")
}

/// Environment variables for the cluster, and for helm's own files.
fn environment(cluster: &Cluster) -> [(&'static str, String); 4] {
    let dir = cluster.control_plane.dir();
    [
        ("KUBECONFIG", cluster.control_plane.kubeconfig()),
        ("HELM_CACHE_HOME", dir.join("helm/cache")),
        ("HELM_CONFIG_HOME", dir.join("helm/config")),
        ("HELM_DATA_HOME", dir.join("helm/data")),
    ]
    .map(|(key, path)| (key, path.to_str().expect("the path is UTF-8").to_owned()))
}

/// Runs a helm command that takes a chart, such as install or template; it must succeed.
pub fn helm_chart(cluster: &Cluster, command: &str, args: &[&str]) -> String {
    let chart = chart();
    let fixed = [command, RELEASE, chart.to_str().unwrap(), "--namespace", NAMESPACE];
    let output = helm(cluster, &[&fixed, args].concat());
    assert_eq!(output.code, 0, "helm {command} {args:?}: {}{}", output.stdout, output.stderr);
    output.stdout
}

/// Applies what the chart renders, without helm's hooks, and waits for the CRD.
pub fn apply_chart(cluster: &Cluster, args: &[&str]) {
    let namespace = cluster.control_plane.kubectl(&["create", "namespace", NAMESPACE]);
    namespace.expect("the namespace is new");
    let rendered = helm_chart(cluster, "template", &[&["--no-hooks"], args].concat());
    cluster.apply(&rendered);
    cluster.wait_crds();
}

/// Writes a kubeconfig of the chart's ServiceAccount, with a token like a pod's.
pub fn service_account_kubeconfig(cluster: &Cluster) -> PathBuf {
    kubeconfig_of(cluster, NAMESPACE, RELEASE)
}

/// Writes the same for any ServiceAccount.
pub fn kubeconfig_of(cluster: &Cluster, namespace: &str, name: &str) -> PathBuf {
    let token = cluster.kubectl(&["create", "token", name, "--namespace", namespace]);
    kubeconfig_of_token(cluster, token.trim())
}

/// Writes a kubeconfig that authenticates with a token.
pub fn kubeconfig_of_token(cluster: &Cluster, token: &str) -> PathBuf {
    let admin = std::fs::read_to_string(cluster.control_plane.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&admin).unwrap();
    config["users"][0]["user"]["token"] = Value::from(token);
    let path = cluster.control_plane.dir().join("service-account.kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}
