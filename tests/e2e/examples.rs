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
    for (node, instance_type, memory) in [("node-1", "m5.large", "8192"), ("node-2", "m7i.8xlarge", "131072")] {
        let labels =
            [("node.kubernetes.io/instance-type", instance_type), ("karpenter.k8s.aws/instance-memory", memory)];
        let labels = labels.map(|(key, value)| format!("{key}={value}"));
        cluster.kubectl(&["label", "--overwrite", "node", node, &labels[0], &labels[1]]);
    }
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
    cluster.wait_ready("licenses", "1/2");
    cluster.wait_ready("licenses-build", "1/1");
    cluster.wait_advertised("node-1", "example.com/build-license", "10");
    cluster.wait_advertised("node-2", "example.com/build-license", "2");
    for (node, volumes, addresses) in [("node-1", "24", "16"), ("node-2", "32", "2")] {
        cluster.wait_advertised(node, "example.com/volume", volumes);
        cluster.wait_advertised(node, "example.com/address", addresses);
    }
    // A node that another instance type replaces under its name, and one of a type that the table does not name.
    cluster.kubectl(&["label", "--overwrite", "node", "node-1", "node.kubernetes.io/instance-type=m7i.48xlarge"]);
    cluster.kubectl(&["label", "--overwrite", "node", "node-2", "node.kubernetes.io/instance-type=m8g.medium"]);
    cluster.wait_advertised("node-1", "example.com/volume", "128");
    cluster.wait_status("volumes", "the type that is not in the table", |status| {
        status["problems"][0]["message"].as_str().is_some_and(|message| message.contains("not in nodeLabel.values"))
    });
    cluster.wait_advertised("node-2", "example.com/volume", "32");
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
