use std::path::Path;

use harness::ControlPlane;

use crate::cluster::{Cluster, Controller};

#[test]
fn every_example_is_taken_and_comes_into_force() {
    let cluster = Cluster::with(ControlPlane::builder().scheduler().kubelets(2));
    let controller = Controller::start(&cluster);
    cluster.kubectl(&[
        "label",
        "node",
        "node-1",
        "example.com/has-dongle=true",
        "example.com/role=build",
    ]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Those for GitOps tools are tested by themselves.
        if path.is_file() {
            cluster.kubectl(&["apply", "--validate=strict", "-f", path.to_str().unwrap()]);
        }
    }
    cluster.kubectl(&["wait", "--for=condition=Ready", "ner", "--all", "--timeout=60s"]);
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_ready("special-storage", "2/2");
    cluster.wait_ready("licences", "1/2");
    cluster.wait_ready("licences-build", "1/1");
    cluster.wait_advertised("node-1", "example.com/licence", "10");
    cluster.wait_advertised("node-2", "example.com/licence", "2");
    cluster.wait_for("the example's pod to run", &["pod", "dongle-user"], |pod| {
        pod["status"]["phase"] == "Running"
    });
    controller.stop();
}
