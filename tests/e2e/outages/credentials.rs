//! The API server's certificate is rotated, and a token expires. `tests/offline/certificates.rs` tests the rotation of
//! server and client certificates in isolation, in a kubeconfig and in files.

use std::fs;
use std::path::{Path, PathBuf};

use harness::objects::DONGLE;
use harness::{Cluster, Controller};
use serde_json::{Value, json};

use super::{create_nodes, wait_converged};

/// Writes a kubeconfig that reads the token from a file, as in a pod.
fn kubeconfig_with(cluster: &Cluster, token: &Path) -> PathBuf {
    let admin = fs::read_to_string(cluster.control_plane.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&admin).unwrap();
    config["users"][0]["user"] = json!({"tokenFile": token});
    let path = cluster.control_plane.dir().join("token-file.kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Writes a token that is valid for as long as a Secret exists.
fn write_token(cluster: &Cluster, path: &Path, secret: &str) {
    cluster.kubectl(&["create", "secret", "generic", secret]);
    let bound = ["--bound-object-kind", "Secret", "--bound-object-name", secret];
    let token = cluster.kubectl(&[&["create", "token", "controller"], &bound[..]].concat());
    fs::write(path, token.trim()).unwrap();
}

#[test]
fn rotated_certificate_and_token_are_read_again() {
    let mut cluster = Cluster::shared();
    create_nodes(&cluster, 2);
    cluster.kubectl(&["create", "serviceaccount", "controller"]);
    let role = ["--clusterrole", "cluster-admin", "--serviceaccount", "default:controller"];
    cluster.kubectl(&[&["create", "clusterrolebinding", "controller"], &role[..]].concat());
    let token = cluster.control_plane.dir().join("token");
    write_token(&cluster, &token, "first");
    let kubeconfig = kubeconfig_with(&cluster, &token);
    let controller = Controller::start_unready(&cluster, &kubeconfig, &[]);
    controller.wait_ready();
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "2/2");

    // Another authority, in the same file.
    cluster.control_plane.rotate_apiserver_certificate().unwrap();
    controller.wait_log("have changed, reconnecting to the API server");
    cluster.apply_rule("dongle", &json!({"quantity": 5}));
    cluster.wait_advertised("node-1", DONGLE, "5");

    // The token was valid until now; a kubelet writes the next one long before it expires.
    cluster.kubectl(&["delete", "secret", "first"]);
    controller.wait_log("Unauthorized");
    write_token(&cluster, &token, "second");
    cluster.apply_rule("dongle", &json!({"quantity": 6}));
    // The file is read once a minute.
    wait_converged(&cluster, 2, Some("6"));
    cluster.wait_ready("dongle", "2/2");
    controller.stop();
}
