//! Tests that need no cluster: the program and the files in the repository.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

/// The invariants in `docs/`.
mod architecture;
/// `autoscaler`, by files and what it prints of them.
mod autoscaler;
/// The scripts in `hack/`.
mod build_scripts;
/// CA bundles and client certificates that rotate, with a server on loopback.
mod certificates;
/// The chart, as far as no helm is needed.
mod chart;
/// What the program says to wrong arguments and missing clusters.
mod command_line;
/// Completion scripts, run by their shells.
mod completion;
/// What the commands report where a cluster cannot be reached.
mod connection;
/// The CRD in `crds/`, and `crd`, which prints it.
mod crd;
/// The commands in the documentation.
mod documents;
/// The files in `examples/`.
mod examples;
/// The files in `examples/gitops/`, as far as no cluster and no tool is needed.
mod gitops;
/// `guard`, by files and what it prints of them.
mod guard;
/// `health`, which `helm test` runs, with replicas on loopback.
mod health;
/// The layers of the source tree.
mod layers;
/// The links of the pages.
mod links;
/// What linters report about the chart, as a page explains it.
mod linters;
/// The log of the controller.
mod log;
/// The pictures in `docs/images/`.
mod pictures;
/// `plan`, by files and what it prints of them.
mod plan;
/// The words of the pages.
mod prose;
/// The ledger, as the policy reads it that keeps values across reboots.
mod protection;
/// `prune`, before an API server that responds when the test lets it.
#[cfg(unix)]
mod prune;
/// The list of reasons in `docs/`.
mod reasons;
/// The parts of `docs/` that are generated.
mod reference;
/// The searches of the runbook.
mod runbook;
/// What tests of scripts share.
mod scripts;
mod security;
/// The connection to the API server, with servers on loopback that fail.
mod transport;
/// `validate`, by files and what it prints of them.
mod validate;
/// What earlier versions left in clusters.
mod versions;
/// The workflows of CI and of the release.
mod workflows;

mod golden;

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program, without a cluster to reach.
fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
        .args(args)
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("the program runs")
}

/// A file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the commands that help lists, without `help` itself.
fn commands() -> Vec<String> {
    let help = String::from_utf8(program(&["help"]).stdout).unwrap();
    let (groups, _) = help.split_once("\nOptions:\n").unwrap();
    // A line that continues another is indented further.
    let names = groups.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<_> = names.filter(|name| !["", "help"].contains(name)).map(str::to_owned).collect();
    assert!(names.len() > 10, "{help}");
    names
}
