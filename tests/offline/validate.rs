//! Golden runs of `validate`, in `tests/offline/validate/`.

use std::path::PathBuf;
use std::process::Command;

use node_resource_advertiser::validate::Code;

use crate::golden;
use crate::reference::check_part;

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
    golden::check(&golden_runs(), 30);
}

/// The golden runs, all of which a test compares.
pub fn golden_runs() -> Vec<PathBuf> {
    golden::runs(&[folder(), folder().join("readme")])
}

#[test]
fn validate_uses_colours_as_flag_and_environment_demand() {
    for (args, environment, coloured) in [
        (&[][..], &[][..], false),
        (&["--color", "always"], &[], true),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1"), ("TERM", "xterm")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], false),
        (&["--color", "always"], &[("TERM", "dumb")], true),
        (&["-o", "json", "--color", "always"], &[], false),
    ] {
        let mut command = validate(&[&["selectors.yaml"], args].concat());
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(stdout.contains('\u{1b}'), coloured, "{args:?} {environment:?}");
        assert_eq!(output.status.code(), Some(1), "{args:?} {environment:?}");
    }
}

#[test]
fn validate_codes_are_documented() {
    let row = |code: &Code| format!("| `{code}` | {} |\n", code.meaning());
    let rows: String = Code::ALL.iter().map(row).collect();
    check_part("docs/validate.md", "codes", &format!("\n| code | finds |\n|---|---|\n{rows}\n"));
}
