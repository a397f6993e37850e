//! The scripts of the build, where a mistake would be noticed late: on a full disk, or on a slow machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::scripts;

/// An empty folder of a test.
fn folder(test: &str) -> PathBuf {
    scripts::folder("build-scripts", test)
}

/// Runs bash in a folder, and returns what it prints, of both streams, and its exit code.
fn bash(folder: &Path, script: &str) -> (String, i32) {
    let mut bash = scripts::bash(folder, script);
    bash.env("HACK", Path::new(env!("CARGO_MANIFEST_DIR")).join("hack"))
        .env("BUILD_CACHE", folder.join("cache"))
        // Of the `make test` that this runs in.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .env_remove("STEPS")
        .env_remove("REQUIRE_ISOLATION")
        .env_remove("SKIP_ISOLATED");
    scripts::run(&mut bash)
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
fn isolation_unavailable_is_skipped_unless_it_is_required() {
    let folder = folder("isolation");
    let isolated = |settings: &str| {
        let script =
            format!(r#"{settings}; bash=$(command -v bash); PATH=/nowhere; "$bash" "$HACK/isolated.sh" kubelet false"#);
        bash(&folder, &script)
    };
    let (printed, code) = isolated("true");
    assert!(code == 75 && printed.starts_with("skipped: no isolation here: "), "{printed}");
    assert!(printed.contains("unshare: command not found"), "{printed}");
    let (printed, code) = isolated("export REQUIRE_ISOLATION=1");
    assert!(code == 1 && printed.ends_with("; SKIP_ISOLATED=kubelet skips them\n"), "{printed}");
    let (printed, code) = isolated("export REQUIRE_ISOLATION=1 SKIP_ISOLATED='cluster kubelet'");
    assert_eq!((printed.as_str(), code), ("skipped: SKIP_ISOLATED names kubelet\n", 75));
    let (_, code) = isolated("export REQUIRE_ISOLATION=1 SKIP_ISOLATED=cluster");
    assert_eq!(code, 1);
}

/// As `timeout`, but the time is over when the file `hangs` exists.
const TIMEOUT: &str = r#"#!/usr/bin/env bash
rm -f hangs
setsid "${@:3}" &
while kill -0 $! 2> /dev/null && [[ ! -e hangs ]]; do sleep 0.02; done
[[ ! -e hangs ]] || { kill -TERM -- -$!; wait $!; exit 124; }
wait $!
"#;
/// A step that does not end.
const HANGS: &str = "touch hangs; sleep 600";

/// A checkout whose `make` runs steps of the test's own, by a variable for each: `test_alerts='exit 3'`.
fn checkout(test: &str) -> PathBuf {
    let folder = folder(test);
    fs::create_dir_all(folder.join("bin")).unwrap();
    let make = folder.join("bin/make");
    let timeout = folder.join("bin/timeout");
    fs::write(&timeout, TIMEOUT).unwrap();
    fs::set_permissions(&timeout, fs::Permissions::from_mode(0o755)).unwrap();
    let steps = r#"for step in "${@:2}"; do variable=${step//-/_}; hack/step.sh "$step" bash -c "${!variable:-${STEP:-true}}"; done"#;
    fs::write(&make, format!("#!/usr/bin/env bash\nset -e\n{steps}\n")).unwrap();
    fs::set_permissions(&make, fs::Permissions::from_mode(0o755)).unwrap();
    let (printed, code) = bash(&folder, r#"git init --quiet; cp -r "$HACK" hack; mkdir target"#);
    assert_eq!(code, 0, "{printed}");
    folder
}

#[test]
fn steps_print_the_result_of_each() {
    let folder = checkout("results");
    let steps = |settings: &str| {
        let script = format!(
            "export PATH=$PWD/bin:$PATH; {settings} timeout --kill-after=60 9 hack/steps.sh make one two three"
        );
        let (printed, code) = bash(&folder, &script);
        // The row of the second step, without its times.
        let row = printed.lines().find(|line| line.starts_with("two ")).unwrap_or_default();
        let row: Vec<_> = row.split_whitespace().filter(|word| word.parse::<f64>().is_err()).collect();
        (row.join(" "), code, printed)
    };
    let (row, code, printed) = steps("");
    assert!(row == "two passed" && code == 0 && printed.ends_with("==> all passed: one two three\n"), "{printed}");
    let (row, code, printed) = steps("two='echo skipped: no such machine; exit 75'");
    assert!(row == "two skipped no such machine" && code == 0, "{printed}");
    assert!(printed.ends_with("==> passed, but for what was skipped: two\n"), "{printed}");
    let (row, code, printed) = steps("two='exit 3'");
    assert!(row == "two FAILED" && code == 3, "{printed}");
    let (row, code, printed) = steps(&format!("two='{HANGS}'"));
    assert!(row == "two timed out" && code == 124, "{printed}");
}

#[test]
fn slow_machine_runs_each_skipped_step_in_its_turn() {
    let folder = checkout("slow");
    let list = || bash(&folder, "hack/changed.sh list").0;
    let run = |step: &str| {
        let script = format!("PATH=$PWD/bin:$PATH SLOW=1 STEP='{step}' hack/changed.sh run 600");
        bash(&folder, &script)
    };
    let lines = |steps: &[&str]| steps.iter().map(|step| format!("{step}\n")).collect::<String>();
    let mut steps = ["test-alerts", "test-gitops", "test-harness", "test-kyverno", "test-release"];
    assert_eq!(list(), lines(&steps));
    let (printed, code) = run("exit 3");
    assert!(code != 0 && printed.contains("test-alerts: FAILED"), "{printed}");
    assert_eq!(list(), lines(&steps), "what failed is the first");
    let (printed, code) = run("echo skipped: no; exit 75");
    assert!(code == 0 && printed.contains("skipped"), "{printed}");
    steps.rotate_left(1);
    assert_eq!(list(), lines(&steps), "what was skipped has not passed");
    for passed in 1..=steps.len() {
        let (printed, code) = run("true");
        assert_eq!((list(), code), (lines(&steps[passed..]), 0), "{printed}");
    }
    let (printed, code) = run("false");
    assert!(code == 0 && printed.contains("passed with the same files before"), "{printed}");
}

#[test]
fn step_that_times_out_fails_the_second_run_with_the_same_files() {
    let folder = checkout("times-out");
    bash(&folder, "git add hack");
    let run =
        |settings: &str| bash(&folder, &format!("export PATH=$PWD/bin:$PATH; {settings} hack/changed.sh run 600"));
    let hangs = &format!("test_gitops='{HANGS}'");
    let (printed, code) = run(hangs);
    assert!(code == 0 && printed.contains("test-gitops timed out: the next run repeats it"), "{printed}");
    let (printed, code) = run(hangs);
    assert!(code == 1 && printed.contains("test-gitops timed out again, with the same files"), "{printed}");
    bash(&folder, "echo '# changed' >> hack/fuzz.sh");
    let (printed, code) = run(hangs);
    assert!(code == 0 && printed.contains("test-gitops timed out: the next run repeats it"), "{printed}");
    assert_eq!(run("").1, 0);
}

/// `make` waits for the running steps before it fails, and may run out of time meanwhile.
#[test]
fn failure_beside_a_step_that_times_out_fails() {
    let folder = checkout("failure-and-time-out");
    // All steps at once.
    bash(&folder, r"sed -i 's/do variable/do (variable/; s/; done/) \& done; wait/' bin/make");
    let hangs = format!("until grep --quiet failed target/steps.tsv; do sleep 0.02; done; {HANGS}");
    let script =
        format!("export PATH=$PWD/bin:$PATH; test_alerts='exit 3' test_gitops='{hangs}' hack/changed.sh run 600");
    let (printed, code) = bash(&folder, &script);
    let rows: Vec<_> = printed.lines().filter(|line| line.starts_with("test-alerts ")).collect();
    assert!(rows.len() == 1 && rows[0].contains("FAILED"), "{printed}");
    assert!(code == 1 && printed.contains("test-gitops timed out"), "{printed}");
}

#[test]
fn test_runner_keeps_the_result_and_reports_each_test() {
    let folder = folder("test-runner");
    let (printed, code) = bash(
        &folder,
        r#"mkdir hack target
        cp "$HACK/test-runner.sh" hack
        cat > some_tests-1a2b << 'END'
#!/bin/bash
echo "arguments: $*"
printf 'waits::long\t1.20\tthe moon\t0.20\n' >> "$TEST_COSTS"
echo 'test waits::long ... ok <0.250s>'
echo 'test fails ... FAILED <1.000s>'
echo 'test result: FAILED. 1 passed; 1 failed'
exit 3
END
        chmod +x some_tests-1a2b
        hack/test-runner.sh ./some_tests-1a2b --skip other || echo "status $?"
        sort target/tests.tsv
        ls target"#,
    );
    let expected = "arguments: --skip other -Z unstable-options --report-time
test waits::long ... ok <0.250s>
test fails ... FAILED <1.000s>
test result: FAILED. 1 passed; 1 failed
status 3
some_tests\tfails\t1.000\t\t\t
some_tests\twaits::long\t0.250\t1.20\tthe moon\t0.20
tests.tsv
";
    assert_eq!((printed.as_str(), code), (expected, 0));
}
