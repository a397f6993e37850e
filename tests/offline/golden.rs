//! Golden runs: each `.console` file is a command and what it prints, and can be read as
//! documentation. `UPDATE_GOLDEN=1` writes them anew.
//!
//! Whatever is shown elsewhere as a golden run must be one of [`runs`], which is all that tests compare.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder beside the tests.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/offline").join(name)
}

/// The program, to be run in a folder without a cluster to reach.
pub fn program(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
    command.args(args).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// Returns the golden runs in these folders.
pub fn runs(folders: &[PathBuf]) -> Vec<PathBuf> {
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = files.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "console")).collect()
}

/// Runs these golden runs, of which there are at least so many.
pub fn check(runs: &[PathBuf], least: usize) {
    let mut wrong = Vec::new();
    for path in runs {
        let golden = fs::read_to_string(path).unwrap();
        let command = golden.lines().next().unwrap_or_default();
        let printed = format!("{command}\n{}", run(path.parent().unwrap(), command));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(path, &printed).unwrap();
        } else if printed != golden {
            wrong.push(format!("{}:\n{printed}", path.display()));
        }
    }
    assert!(runs.len() >= least, "{}", runs.len());
    let wrong = wrong.join("\n");
    assert!(wrong.is_empty(), "UPDATE_GOLDEN=1 takes it as it is:\n{wrong}");
}

/// Runs `$ node-resource-advertiser ARGS [< FILE]`; gives what it prints, what it complains of and its
/// exit code.
fn run(folder: &Path, command: &str) -> String {
    let args = command.strip_prefix("$ node-resource-advertiser ").expect(command);
    let (args, input) = match args.split_once(" < ") {
        Some((args, file)) => (args, Some(file)),
        None => (args, None),
    };
    let mut command = program(folder, &args.split(' ').collect::<Vec<_>>());
    if let Some(file) = input {
        command.stdin(fs::File::open(folder.join(file)).unwrap());
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    format!("{stdout}{stderr}[exit {}]\n", status.code().unwrap())
}
