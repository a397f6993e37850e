//! The files in `examples/`.
//!
//! Method: apply all of them to a cluster of two kubelets, and wait until every rule is Ready with the
//! values that the files declare, and the pod runs. Manifests of other projects are tried on an API server with the CRDs
//! of these projects.

use harness::{Cluster, ControlPlane, Controller, project_file};

#[test]
fn examples_apply_and_become_ready() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(2));
    let controller = Controller::start(&cluster);
    cluster.kubectl(&["label", "node", "node-1", "example.com/has-dongle=true", "example.com/role=build"]);
    for entry in std::fs::read_dir(project_file("examples")).unwrap() {
        let path = entry.unwrap().path();
        // The GitOps tests cover the others.
        if path.is_file() {
            cluster.kubectl(&["apply", "--validate=strict", "-f", path.to_str().unwrap()]);
        }
    }
    cluster.kubectl(&["wait", "--for=condition=Ready", "ner", "--all", "--timeout=180s"]);
    cluster.wait_ready("dongle", "1/1");
    cluster.wait_ready("special-storage", "2/2");
    cluster.wait_ready("licences", "1/2");
    cluster.wait_ready("licences-build", "1/1");
    cluster.wait_advertised("node-1", "example.com/licence", "10");
    cluster.wait_advertised("node-2", "example.com/licence", "2");
    cluster.wait_running("dongle-user");
    controller.stop();
}

#[test]
fn kueue_and_capacity_buffer_fit_their_schemas() {
    let crds = project_file("target/tools/example-crds");
    assert!(crds.exists(), "{} does not exist: run `make example-crds`", crds.display());
    let cluster = Cluster::start();
    cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
    cluster.wait_crds();
    let files = ["kueue/queues.yaml", "kueue/rule.yaml", "kueue/job.yaml", "karpenter/buffer.yaml"];
    let created = files.map(|file| {
        let path = project_file("examples").join(file);
        cluster.kubectl(&["create", "--dry-run=server", "--validate=strict", "-f", path.to_str().unwrap()])
    });
    assert_eq!(created.concat().matches(" created (server dry run)").count(), 7, "{created:#?}");
}
