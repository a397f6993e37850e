//! The commands in the documentation, and the output that it shows.
//!
//! Method: create the state that a page assumes, then run the blocks with the test's marker, in order, in a
//! shell with kubectl, helm and the program. `tests/cluster` runs those that need a release of the chart.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::documents::{self, Block, Shell};
use harness::objects::{DONGLE, advertises, bound_pod, pod, rule};
use harness::{Cluster, ControlPlane, Controller, project_file};
use serde_json::json;

use crate::support::program;

/// The blocks that the test `name` runs.
fn blocks(name: &str) -> Vec<Block> {
    documents::blocks_run_by(name, &documents::pages().unwrap()).unwrap()
}

fn shell(cluster: &Cluster) -> Shell {
    Shell::new(cluster, &project_file("."), BTreeMap::new()).unwrap()
}

#[test]
fn quick_start_does_what_the_readme_shows() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(2));
    let controller = Controller::start(&cluster);
    let count = shell(&cluster).run(&blocks("quick-start")).unwrap();
    println!("{count} commands of the quick start do what the README shows");
    cluster.wait_withdrawn("node-1", "example.com/dongle");
    controller.stop();
}

#[test]
fn slots_and_quotas_limit_pods_as_their_pages_show() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(2));
    let controller = Controller::start(&cluster);
    let shell = shell(&cluster);
    for name in ["slots", "quota"] {
        let count = shell.run(&blocks(name)).unwrap();
        println!("{count} commands on {name} do what their page shows");
    }
    controller.stop();
}

#[test]
fn answers_are_those_that_their_page_shows() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(2));
    let controller = Controller::start(&cluster);
    cluster.apply(&rule("dongle", &json!({"quantity": 4})).to_string());
    cluster.wait_ready("dongle", "2/2");
    for node in ["node-1", "node-2"] {
        cluster.wait_for(&format!("{node} to be ready"), &["node", node], |node| node["spec"]["taints"].is_null());
    }
    for (name, node, dongles) in [("train-1", "node-1", "3"), ("train-2", "node-2", "2")] {
        cluster.apply(&bound_pod(name, node, DONGLE, dongles).to_string());
        cluster.wait_running(name);
    }
    for (name, resource, quantity) in [("big", DONGLE, "3"), ("misspelled", "example.com/dongel", "1")] {
        cluster.apply(&pod(name, resource, quantity).to_string());
        cluster.wait_for(&format!("the scheduler to reject {name}"), &["pod", name], |pod| {
            pod["status"]["conditions"][0]["reason"] == "Unschedulable"
        });
    }
    let shell = program::with_plugin(shell(&cluster), &cluster);
    let count = shell.run(&blocks("answers")).unwrap();
    println!("{count} commands print what docs/answers.md shows");
    controller.stop();
}

/// The API server accepts the manifests and the new number. Pods need kubelets with the gate, which the tests have not.
#[test]
fn shared_counter_is_accepted_with_its_gate() {
    let gate = "DRAOptionalNodeOperations";
    for (builder, kept) in
        [(ControlPlane::builder().feature_gate(gate), json!(["*"])), (ControlPlane::builder(), json!(null))]
    {
        let cluster = Cluster::shared_with(builder);
        shell(&cluster).run(&blocks("shared-counter")).unwrap();
        let slice = cluster.get(&["resourceslice", "seats-quantity"]);
        // As the page says, an API server without the gate drops the field.
        assert_eq!(slice["spec"]["skipNodeOperations"], kept, "{slice:#}");
        assert_eq!(slice["spec"]["sharedCounters"][0]["counters"]["seats"]["value"], "10", "{slice:#}");
    }
}

#[test]
fn commands_for_a_running_cluster_print_what_the_pages_show() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({"example.com/has-dongle": "true"}));
    cluster.create_nodes(["node-2"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule(
        "dongle",
        &json!({
            "resourceName": "example.com/dongle", "quantity": 4,
            "nodeSelector": {"matchLabels": {"example.com/has-dongle": "true"}},
        }),
    );
    cluster.wait_ready("dongle", "1/1");
    cluster.write_quantity("node-1", "example.com/dongle", "9");
    cluster.wait_event("node-1", "Repaired", ": 9 (by ");
    cluster.wait_advertised("node-1", "example.com/dongle", "4");
    let count = shell(&cluster).run(&blocks("cluster")).unwrap();
    println!("{count} commands print what the pages show");
    controller.stop();
}

#[test]
fn validate_reads_files_and_pipes_as_its_page_shows() {
    let cluster = Cluster::shared();
    let folder = cluster.control_plane.dir().join("validate-page");
    let base = example("gitops/kustomize/base");
    copy(&base, &folder.join("rules"));
    // Without `--exclude`, the command with `-R` fails.
    fs::create_dir_all(folder.join("rules/overlays")).unwrap();
    fs::write(folder.join("rules/overlays/patch.yaml"), "[").unwrap();
    copy(&base, &folder.join("base"));
    copy(&example("gitops/kustomize/overlays"), &folder.join("overlays"));
    chart(&folder.join("chart"));
    let shell = Shell::new(&cluster, &folder, BTreeMap::new()).unwrap();
    println!("{} commands read what the page names", shell.run(&blocks("validate")).unwrap());
}

#[test]
fn tools_wait_for_rules_as_the_gitops_page_shows() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({"example.com/has-dongle": "true"}));
    let controller = Controller::start(&cluster);
    let folder = cluster.control_plane.dir().join("gitops-page");
    copy(&example("gitops"), &folder);
    fs::copy(example("dongle.yaml"), folder.join("dongle.yaml")).unwrap();
    chart(&folder.join("chart-with-rules"));
    let shell = Shell::new(&cluster, &folder, BTreeMap::new()).unwrap();
    println!("{} commands do what the page shows", shell.run(&blocks("gitops")).unwrap());
    // Both waits returned, so the values exist without another wait.
    let node = cluster.node("node-1");
    for resource in ["example.com/dongle", "example.com/key"] {
        assert!(advertises(&node, resource, "4"), "{node:#}");
    }
    controller.stop();
}

fn example(path: &str) -> PathBuf {
    project_file("examples").join(path)
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Writes a chart of one rule.
fn chart(folder: &Path) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    let about = json!({"apiVersion": "v2", "name": "rules", "version": "1.0.0"});
    fs::write(folder.join("Chart.yaml"), about.to_string()).unwrap();
    let key = rule("key", &json!({"resourceName": "example.com/key", "quantity": 4}));
    fs::write(folder.join("templates/key.yaml"), key.to_string()).unwrap();
}
