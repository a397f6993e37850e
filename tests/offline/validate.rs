//! Golden runs of `validate`, in `tests/offline/validate/`.

use std::path::PathBuf;
use std::process::Command;

use node_resource_advertiser::validate::Code;

use crate::{golden, read};

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

/// `UPDATE_GOLDEN=1` writes the table anew.
#[test]
fn validate_codes_are_documented() {
    let (head, columns) =
        ("| code | finds |\n|---|---|\n", |code: &Code| format!("| `{code}` | {} |\n", code.meaning()));
    let table: String = Code::ALL.iter().map(columns).collect();
    let docs = read("docs/validate.md");
    let (before, rest) = docs.split_once(head).unwrap();
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/validate.md");
        std::fs::write(path, format!("{before}{head}{table}{}", &rest[end..])).unwrap();
    } else {
        assert_eq!(&rest[..end], table, "docs/validate.md: UPDATE_GOLDEN=1 writes it anew");
    }
}
