//! helm, and the chart.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Output, Process};
use serde_json::Value;

use crate::cluster::Cluster;

/// The namespace that the chart is installed into.
pub const NAMESPACE: &str = "advertising";
/// The release's name, which is the chart's, so that objects are called by just that.
pub const RELEASE: &str = "node-resource-advertiser";

pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/node-resource-advertiser")
}

/// Runs helm, and gives what it answers, success or not.
pub fn helm(cluster: &Cluster, args: &[&str]) -> Output {
    let output = Command::new(harness::tool("helm").unwrap())
        .args(args)
        .envs(environment(cluster))
        .output()
        .expect("helm runs");
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// Starts helm, such as one that waits. What it prints is its log.
pub fn spawn_helm(cluster: &Cluster, args: &[&str]) -> Process {
    let log = cluster.control_plane.logs().join("helm.log");
    let environment = environment(cluster);
    let environment: Vec<_> = environment.iter().map(|(key, value)| (*key, &**value)).collect();
    Process::spawn("helm", &harness::tool("helm").unwrap(), args, &environment, &log)
        .expect("helm starts")
}

/// Where helm finds the cluster, and keeps what is its own.
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

/// Runs helm about the chart, which must succeed: `command` is such as install or template.
pub fn helm_chart(cluster: &Cluster, command: &str, args: &[&str]) -> String {
    let chart = chart();
    let fixed = [command, RELEASE, chart.to_str().unwrap(), "--namespace", NAMESPACE];
    let output = helm(cluster, &[&fixed, args].concat());
    assert_eq!(output.code, 0, "helm {command} {args:?}: {}{}", output.stdout, output.stderr);
    output.stdout
}

/// Applies what the chart renders, as `kubectl apply` would a file, and waits for the CRD.
pub fn apply_chart(cluster: &Cluster, args: &[&str]) {
    let namespace = cluster.control_plane.kubectl(&["create", "namespace", NAMESPACE]);
    namespace.expect("the namespace is new");
    let rendered = helm_chart(cluster, "template", &[&["--no-hooks"], args].concat());
    cluster.apply(&rendered);
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
}

/// The kubeconfig of the chart's ServiceAccount, with a token as a pod gets one.
pub fn service_account(cluster: &Cluster) -> PathBuf {
    let token = cluster.kubectl(&["create", "token", RELEASE, "--namespace", NAMESPACE]);
    let admin = std::fs::read_to_string(cluster.control_plane.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&admin).unwrap();
    config["users"][0]["user"]["token"] = Value::from(token.trim());
    let path = cluster.control_plane.dir().join("service-account.kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}
