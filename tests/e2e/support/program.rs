//! Runs the program's commands until they exit.

use std::path::Path;
use std::process::Command;

use harness::Output;

/// Runs the program as the user of a kubeconfig, with `input` on standard input.
pub fn run(kubeconfig: &Path, args: &[&str], input: Option<&str>) -> Output {
    let mut program = Command::new(harness::program().unwrap());
    Output::run(program.args(args).env("KUBECONFIG", kubeconfig), input).unwrap()
}
