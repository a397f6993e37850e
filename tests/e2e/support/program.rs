//! Runs the program's commands until they exit.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use harness::documents::Shell;
use harness::{Cluster, Output};

/// Runs the program as the user of a kubeconfig, with `input` on standard input.
pub fn run(kubeconfig: &Path, args: &[&str], input: Option<&str>) -> Output {
    let mut program = Command::new(harness::program().unwrap());
    Output::run(program.args(args).env("KUBECONFIG", kubeconfig), input).unwrap()
}

/// Returns what was printed in one line: sentences are broken before column 81.
pub fn in_one_line(printed: &str) -> String {
    printed.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the shell with the program as the plugin `kubectl ner`.
pub fn with_plugin(mut shell: Shell, cluster: &Cluster) -> Shell {
    let folder = cluster.control_plane.dir().join("plugins");
    fs::create_dir_all(&folder).unwrap();
    for link in ["kubectl-ner", "kubectl_complete-ner"] {
        symlink(harness::program().unwrap(), folder.join(link)).unwrap();
    }
    for (name, value) in &mut shell.environment {
        if name == "PATH" {
            *value = format!("{}:{value}", folder.display());
        }
    }
    shell
}
