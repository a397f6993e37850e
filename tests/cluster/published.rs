//! What a release publishes is enough: installation, use, upgrade and removal without a checkout.
//!
//! Method: push the files of `make release` (DIST) to a registry, from which the node pulls what it takes for ghcr.io,
//! and run the commands of docs/install.md. Everything else comes from the program in the archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use harness::documents::{self, Block, Shell};
use harness::helm::NAMESPACE;
use harness::objects::{DONGLE, ledger};
use harness::{Cluster, Output, PLATFORM, Registry, isolated, project_file};

use crate::replicas::{self, events, start_cluster_without_image, wait_leader};

#[test]
fn release_is_installed_and_used_without_a_checkout() {
    let _outside = isolated("published::release_is_installed_and_used_without_a_checkout", || {
        let (cluster, node) = start_cluster_without_image();
        let registry = Registry::start(&cluster.control_plane.logs().join("registry.log")).unwrap();
        let dist = project_file(&env::var("DIST").expect("DIST: `make test-cluster`"));
        registry.push(&dist).unwrap();
        node.mirror("ghcr.io", &registry.address).unwrap();
        let blocks = documents::blocks_run_by("published", &[project_file("docs/install.md")]).unwrap();
        let [install, upgrade, uninstall] = &blocks[..] else { panic!("{blocks:#?}") };
        let folder = cluster.control_plane.dir().join("user");
        fs::create_dir(&folder).unwrap();
        let run = |block: &Block| run(&cluster, &registry, &folder, block);

        run(install);
        wait_leader(&cluster, None);
        println!("installed: {}", image(&cluster));
        use_it(&cluster, &unpack(&dist, &folder));
        let before = ledger(&cluster.node("node-1")).map(str::to_owned);
        run(upgrade);
        wait_leader(&cluster, None);
        assert_eq!(ledger(&cluster.node("node-1")), before.as_deref());
        println!("upgraded: the node as before");
        run(uninstall);
        assert_eq!(ledger(&cluster.node("node-1")), None);
        assert_eq!(replicas::ready(&cluster), [""; 0]);
        println!("uninstalled: the node has neither values nor a ledger");
    });
}

fn run(cluster: &Cluster, registry: &Registry, folder: &Path, block: &Block) {
    let mut shell = Shell::new(cluster, folder, BTreeMap::new()).unwrap();
    // A registry without TLS.
    shell.words.push(("oci://ghcr.io", format!("--plain-http oci://{}", registry.address)));
    shell.words.push(("--namespace node-resource-advertiser", format!("--namespace {NAMESPACE}")));
    shell.run(std::slice::from_ref(block)).unwrap_or_else(|error| panic!("{error:#}\n{}", events(cluster)));
}

/// The image of the controller's pods, which is pulled by its digest.
fn image(cluster: &Cluster) -> String {
    let deployment = cluster.get(&["deployment", "node-resource-advertiser", "--namespace", NAMESPACE]);
    let image = deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    assert!(image.contains("@sha256:"), "{image}");
    image
}

/// Unpacks the archive, and returns the path of its program.
fn unpack(dist: &Path, folder: &Path) -> PathBuf {
    let archive = dist.join(format!("node-resource-advertiser-{}-{PLATFORM}.tar.gz", env!("CARGO_PKG_VERSION")));
    let mut tar = Command::new("tar");
    let output = Output::run(tar.arg("--extract").arg("--file").arg(archive).current_dir(folder), None).unwrap();
    assert_eq!(output.code, 0, "{}", output.stderr);
    folder.join("node-resource-advertiser")
}

/// Validates a rule, applies it, and asks the program what is on the node.
fn use_it(cluster: &Cluster, program: &Path) {
    let rule = program.with_file_name("rule.yaml");
    let text = "apiVersion: noderesource.dev/v1alpha1\nkind: NodeExtendedResource\nmetadata: {name: dongle}\n\
                spec: {resourceName: example.com/dongle, quantity: 4, allNodes: true}\n";
    fs::write(&rule, text).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig();
    let run = |args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).arg("-f").arg(&rule).env("KUBECONFIG", &kubeconfig);
        Output::run(&mut command, None).unwrap()
    };
    let validated = run(&["validate"]);
    assert_eq!(validated.code, 0, "{}{}", validated.stdout, validated.stderr);
    let planned = run(&["plan"]);
    assert_eq!(planned.code, 1, "changes: {}{}", planned.stdout, planned.stderr);
    cluster.kubectl(&["apply", "-f", rule.to_str().unwrap()]);
    cluster.wait_advertised("node-1", DONGLE, "4");
    let planned = run(&["plan"]);
    assert_eq!(planned.code, 0, "no change: {}{}", planned.stdout, planned.stderr);
    println!("used: validate, plan and apply with the program of the archive");
}
