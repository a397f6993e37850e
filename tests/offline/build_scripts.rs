//! The scripts of the build, where a mistake would be noticed late: on a full disk, or on a slow machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty folder of a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("build-scripts").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs bash in a folder, and returns what it prints, of both streams, and its exit code.
fn bash(folder: &Path, script: &str) -> (String, i32) {
    let output = Command::new("bash")
        .args(["-euc", &format!("exec 2>&1\n{script}")])
        .current_dir(folder)
        .env("HACK", Path::new(env!("CARGO_MANIFEST_DIR")).join("hack"))
        .env("BUILD_CACHE", folder.join("cache"))
        // Of the `make test` that this runs in.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .env_remove("STEPS")
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

/// The names of a folder's files, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn build_cache_full_deletes_what_was_not_used_for_longest() {
    let folder = folder("limit");
    let (printed, code) = bash(
        &folder,
        r#"export BUILD_CACHE_MIB=10
        mkdir source copy
        head -c 3000000 /dev/zero > source/file
        for n in 1 2 3; do
            "$HACK/cache.sh" save source "kind/label-$n"
            touch -d "-$((10 - n)) minutes" "cache/kind/label-$n"
        done
        "$HACK/cache.sh" restore kind/label-1 copy
        "$HACK/cache.sh" save source kind/label-4
        touch -d '-40 days' cache/kind/label-3
        "$HACK/cache.sh" save copy other/label-5"#,
    );
    assert_eq!((printed.as_str(), code), ("", 0));
    assert_eq!(names(&folder.join("copy")), ["file"]);
    assert_eq!(names(&folder.join("cache/kind")), ["label-1", "label-4"]);
    assert_eq!(names(&folder.join("cache/other")), ["label-5"]);
}

#[test]
fn build_cache_that_cannot_be_written_is_a_warning() {
    let folder = folder("unwritable");
    // Even root cannot make a folder in a file.
    let script = r#"mkdir source; touch source/file cache; "$HACK/cache.sh" save source kind/label-1"#;
    let (printed, code) = bash(&folder, script);
    assert!(code == 0 && printed.contains("warning: the build cache: source is not kept"), "{printed}");
    let script = r#"mkdir copy; "$HACK/cache.sh" restore kind/label-1 copy"#;
    assert_eq!(bash(&folder, script).1, 1, "there is none");
}

#[test]
fn make_n_prints_and_runs_nothing() {
    let (printed, code) = bash(Path::new(env!("CARGO_MANIFEST_DIR")), "make --dry-run test test-all");
    assert_eq!((printed.lines().count(), code), (2, 0), "{printed}");
    assert!(printed.lines().all(|line| line.starts_with("hack/steps.sh make fmt ")), "{printed}");
}

#[test]
fn isolation_unavailable_prints_why() {
    let folder = folder("isolation");
    let script = r#"bash=$(command -v bash); PATH=/nowhere; "$bash" "$HACK/isolated.sh" kubelet false"#;
    let (printed, code) = bash(&folder, script);
    assert!(code == 0 && printed.starts_with("skipped: no isolation here: "), "{printed}");
    assert!(printed.contains("unshare: command not found"), "{printed}");
}

/// In a checkout with a `make` that runs steps of the test's own.
#[test]
fn slow_machine_runs_each_postponed_step_in_its_turn() {
    let folder = folder("slow");
    fs::create_dir_all(folder.join("bin")).unwrap();
    let make = folder.join("bin/make");
    let step = r#"for step in "${@:2}"; do hack/step.sh "$step" bash -c "${STEP:-true}"; done"#;
    fs::write(&make, format!("#!/usr/bin/env bash\nset -e\n{step}\n")).unwrap();
    fs::set_permissions(&make, fs::Permissions::from_mode(0o755)).unwrap();
    let (printed, code) = bash(&folder, r#"git init --quiet; cp -r "$HACK" hack; mkdir target"#);
    assert_eq!(code, 0, "{printed}");
    let list = || bash(&folder, "hack/changed.sh list").0;
    let run = |step: &str| {
        let script = format!("PATH=$PWD/bin:$PATH SLOW=1 STEP='{step}' hack/changed.sh run 600");
        bash(&folder, &script)
    };
    let lines = |steps: &[&str]| steps.iter().map(|step| format!("{step}\n")).collect::<String>();
    let mut steps = ["test-alerts", "test-gitops", "test-harness", "test-release"];
    assert_eq!(list(), lines(&steps));
    let (printed, code) = run("exit 3");
    assert!(code != 0 && printed.contains("test-alerts: FAILED"), "{printed}");
    assert_eq!(list(), lines(&steps), "what failed is the first");
    // As if it had not ended in time.
    bash(&folder, "mkdir -p cache/tried; touch cache/tried/test-alerts");
    steps.rotate_left(1);
    assert_eq!(list(), lines(&steps));
    for passed in 1..=steps.len() {
        let (printed, code) = run("true");
        assert_eq!((list(), code), (lines(&steps[passed..]), 0), "{printed}");
    }
    let (printed, code) = run("false");
    assert!(code == 0 && printed.contains("passed with the same files before"), "{printed}");
}
