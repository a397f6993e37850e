//! Golden runs of `validate`, in `tests/it/validate/`.

use std::path::PathBuf;
use std::process::Command;

use crate::golden;

/// Files that no repository can hold, and those that want too much.
mod hostile;

fn folder() -> PathBuf {
    golden::folder("validate")
}

/// `validate`, run among the files of the golden runs.
fn validate(args: &[&str]) -> Command {
    golden::program(&folder(), &[&["validate"], args].concat())
}

#[test]
fn validate_prints_the_golden_output() {
    golden::check(&[folder()], 16);
}
