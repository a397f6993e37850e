use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty folder of a test.
pub(crate) fn folder(of: &str, test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(of).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Bash in a folder, which prints both streams to one.
pub(crate) fn bash(folder: &Path, script: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-euc", &format!("exec 2>&1\n{script}")]).current_dir(folder);
    bash
}

/// Runs a command, and returns what it prints and its exit code.
pub(crate) fn run(command: &mut Command) -> (String, i32) {
    let output = command.output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}
