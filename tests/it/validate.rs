//! Golden runs of `validate`: each `.console` file in `tests/it/validate/` is a command and what it
//! prints, and can be read as documentation. `UPDATE_GOLDEN=1` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Files that no repository can hold, and those that want too much.
mod hostile;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/validate")
}

/// `validate`, run among the files of the golden runs.
fn validate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
    command.arg("validate").args(args).current_dir(folder()).env_clear().stdin(Stdio::null());
    command
}

#[test]
fn golden_runs() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "console") {
            continue;
        }
        count += 1;
        let golden = fs::read_to_string(&path).unwrap();
        let command = golden.lines().next().unwrap_or_default();
        let printed = format!("{command}\n{}", run(command));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &printed).unwrap();
        } else if printed != golden {
            wrong.push(format!("{}:\n{printed}", path.display()));
        }
    }
    assert!(count >= 16, "{count}");
    let wrong = wrong.join("\n");
    assert!(wrong.is_empty(), "UPDATE_GOLDEN=1 takes it as it is:\n{wrong}");
}

/// Runs `$ node-resource-advertiser validate ARGS [< FILE]`; gives what it prints and its exit code.
fn run(command: &str) -> String {
    let args = command.strip_prefix("$ node-resource-advertiser validate ").expect(command);
    let (args, input) = match args.split_once(" < ") {
        Some((args, file)) => (args, Some(file)),
        None => (args, None),
    };
    let mut command = validate(&args.split(' ').collect::<Vec<_>>());
    if let Some(file) = input {
        command.stdin(fs::File::open(folder().join(file)).unwrap());
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&stderr), "", "{args}");
    format!("{}[exit {}]\n", String::from_utf8(stdout).unwrap(), status.code().unwrap())
}
