//! The workflows, which nothing runs here: what they may do, and what of other repositories they run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::{Value, json};

use crate::{read, scripts};

const WORKFLOWS: [&str; 3] = ["ci", "release", "weekly"];

fn text(workflow: &str) -> String {
    read(&format!(".github/workflows/{workflow}.yaml"))
}

fn jobs(workflow: &str) -> Vec<(String, Value)> {
    let parsed: Value = serde_saphyr::from_str(&text(workflow)).unwrap();
    parsed["jobs"].as_object().unwrap().clone().into_iter().collect()
}

fn steps(job: &Value) -> &[Value] {
    job["steps"].as_array().unwrap()
}

/// Returns a step that runs an action of this name.
fn step<'j>(job: &'j Value, action: &str) -> Option<&'j Value> {
    steps(job).iter().find(|step| step["uses"].as_str().is_some_and(|uses| uses.starts_with(&format!("{action}@"))))
}

#[test]
fn workflows_are_those_that_these_tests_know() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert_eq!(files, WORKFLOWS.map(|workflow| format!("{workflow}.yaml")));
}

/// Whoever moves a tag of an action would run in our jobs.
#[test]
fn actions_are_pinned_to_commits_with_their_versions() {
    let pinned = Regex::new(r"^ +-? *uses: ([\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$").unwrap();
    let mut pins = BTreeMap::new();
    let texts = WORKFLOWS.map(text).into_iter().chain([read("examples/gitops/ci/github-actions.yaml")]);
    for line in texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()) {
        if !line.contains("uses:") {
            continue;
        }
        let found = pinned.captures(&line).unwrap_or_else(|| panic!("not pinned by `make pin-actions`: {line}"));
        let pin = (found[2].to_owned(), found[3].to_owned());
        let first = pins.entry(found[1].to_owned()).or_insert_with(|| pin.clone());
        assert_eq!(*first, pin, "{} is pinned to two commits", &found[1]);
    }
    assert!(pins.len() > 4, "{pins:?}");
}

#[test]
fn only_the_job_that_publishes_may_write() {
    for workflow in WORKFLOWS {
        let parsed: Value = serde_saphyr::from_str(&text(workflow)).unwrap();
        assert_eq!(parsed["permissions"], json!({"contents": "read"}), "{workflow}");
        assert!(parsed["on"].get("pull_request_target").is_none(), "{workflow}");
        for (name, job) in jobs(workflow) {
            assert!(job["timeout-minutes"].is_u64(), "{workflow}: {name} has no timeout");
            let grants = job["permissions"].as_object().cloned().unwrap_or_default();
            let writes: Vec<_> =
                grants.iter().filter(|(_, grant)| *grant != "read").map(|(scope, _)| &**scope).collect();
            let expected: &[_] = match (workflow, &*name) {
                ("release", "publish") => &["attestations", "contents", "id-token", "packages"],
                _ => &[],
            };
            assert_eq!(writes, expected, "{workflow}: {name}");
            for step in steps(&job) {
                if step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@")) {
                    assert_eq!(step["with"]["persist-credentials"], false, "{workflow}: {name}: the token stays");
                }
            }
        }
    }
}

/// What the workflows do can be run, and is tested, elsewhere.
#[test]
fn workflows_run_commands_of_the_makefile() {
    let makefile = ["Makefile", "hack/test.mk", "hack/tools.mk"].map(read).concat();
    let target = Regex::new(r"\bmake (?:--silent )?([a-z0-9-]+(?: test-image)?)").unwrap();
    for workflow in WORKFLOWS {
        for (name, job) in jobs(workflow) {
            for step in steps(&job) {
                let Some(run) = step["run"].as_str() else { continue };
                let by_matrix = run.ends_with(" ${{ matrix.command }}") || run == "git diff docs/verification.md";
                for target in target
                    .captures_iter(run)
                    .flat_map(|found| found[1].split(' ').map(str::to_owned).collect::<Vec<_>>())
                {
                    let is_there = makefile
                        .lines()
                        .any(|line| line.split(':').next().unwrap().split(' ').any(|word| word == target));
                    assert!(is_there, "{workflow}: {name}: make {target}");
                }
                assert!(by_matrix || target.is_match(run), "{workflow}: {name}: {run}");
                // A title or a branch of a pull request would become a part of the command.
                assert!(!run.contains("github.event") && !run.contains("github.head_ref"), "{workflow}: {name}: {run}");
            }
        }
    }
}

/// Tests run thousands of modules of others, and must not touch what is signed.
#[test]
fn release_is_built_tested_and_published_by_separate_jobs() {
    let jobs: BTreeMap<_, _> = jobs("release").into_iter().collect();
    assert_eq!(jobs.keys().map(String::as_str).collect::<Vec<_>>(), ["build", "macos", "publish", "tag", "test"]);
    for (job, needs) in [
        ("macos", json!("tag")),
        ("build", json!("macos")),
        ("test", json!("build")),
        ("publish", json!(["build", "test"])),
    ] {
        assert_eq!(jobs[job]["needs"], needs, "{job}");
    }
    let runs = |job: &str| {
        let runs = steps(&jobs[job]).iter().filter_map(|step| step["run"].as_str().map(str::to_owned));
        runs.collect::<Vec<_>>()
    };
    let sums = "SUMS=${{ needs.build.outputs.sums }}";
    assert_eq!(runs("tag"), ["make check-tag"]);
    assert!(runs("build").iter().all(|run| !run.contains("test")), "{:?}", runs("build"));
    assert_eq!(jobs["build"]["outputs"], json!({"sums": "${{ steps.sums.outputs.sums }}"}));
    assert!(step(&jobs["build"], "actions/upload-artifact").is_some());
    let on_a_node = r#"sudo env "PATH=$PATH" "HOME=$HOME" make test-cluster"#;
    let tests = ["make test-release test-image", on_a_node].map(|tests| format!("{tests} RELEASE=built {sums}"));
    assert_eq!(runs("test"), tests);
    assert!(step(&jobs["test"], "actions/upload-artifact").is_none(), "the files of `build` would be replaced");
    assert_eq!(runs("publish"), [format!("make publish {sums}"), "make github-release".to_owned()]);
    assert_eq!(jobs["publish"]["environment"], "release");
    let attest = step(&jobs["publish"], "actions/attest-build-provenance").unwrap();
    assert_eq!(attest["with"]["subject-checksums"], "target/dist/SHA256SUMS");
    for job in ["test", "publish"] {
        assert_eq!(step(&jobs[job], "actions/download-artifact").unwrap()["with"]["name"], "dist", "{job}");
    }
    // The makefile's recipes pass the digest on.
    assert!(read("Makefile").contains("hack/publish.sh target/dist $(or $(REGISTRY),ghcr.io/noderesource) $(SUMS)"));
    assert!(read("hack/test.mk").contains("$(if $(filter built,$(RELEASE)),hack/check-dist.sh $(DIST) $(SUMS),"));
    let publish = read("hack/publish.sh");
    let checked = publish.find("hack/check-dist.sh \"$dist\" \"${3:-}\"").unwrap();
    assert!(checked < publish.find("hack/push.sh").unwrap(), "it is checked before anything is pushed");
}

#[test]
fn advisories_are_checked_weekly() {
    let parsed: Value = serde_saphyr::from_str(&text("weekly")).unwrap();
    let cron = parsed["on"]["schedule"][0]["cron"].as_str().unwrap();
    assert!(Regex::new(r"^\d+ \d+ \* \* [0-6]$").unwrap().is_match(cron), "{cron}");
    let runs = steps(&parsed["jobs"]["advisories"]).iter().filter_map(|step| step["run"].as_str());
    assert_eq!(runs.collect::<Vec<_>>(), ["make advisories", "make pin-actions CHECK=1"]);
}

/// An empty folder of a test, with a file `hack/` beside which the project's scripts run.
fn folder(test: &str) -> PathBuf {
    scripts::folder("workflows", test)
}

/// Runs bash in a folder, and returns what it prints, of both streams, and whether it succeeds.
fn bash(folder: &Path, script: &str) -> (String, bool) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut bash = scripts::bash(folder, script);
    bash.env("PROJECT", project)
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@example.com")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@example.com")]);
    let (printed, code) = scripts::run(&mut bash);
    (printed, code == 0)
}

#[test]
fn pin_actions_pins_tags_and_finds_pins_that_are_not_theirs() {
    let folder = folder("pins");
    let workflow = "steps:\n  - uses: owner/one@v1 # v1.0.0\n  - uses: owner/two/sub@0000 # v2.1.0\n";
    fs::write(folder.join("workflow.yaml"), workflow).unwrap();
    let pin = "export GITHUB_SERVER_URL=file://$PWD; \"$PROJECT/hack/pin-actions.sh\"";
    let (printed, is_done) = bash(
        &folder,
        &format!(
            "for name in one two; do git init --quiet owner/$name; git -C owner/$name commit --quiet --allow-empty -m a; done
            git -C owner/one tag v1.0.0
            git -C owner/two tag --annotate -m a v2.1.0
            {pin} workflow.yaml
            {pin} check workflow.yaml
            for name in one two; do git -C owner/$name rev-parse HEAD; done"
        ),
    );
    assert!(is_done, "{printed}");
    let commits: Vec<_> = printed.lines().collect();
    let [one, two] = commits[..] else { panic!("{printed}") };
    let pinned = workflow.replace("@v1 ", &format!("@{one} ")).replace("@0000 ", &format!("@{two} "));
    assert_eq!(fs::read_to_string(folder.join("workflow.yaml")).unwrap(), pinned);

    // Somebody moves a tag.
    let moved = "git -C owner/two commit --quiet --allow-empty -m b; git -C owner/two tag --force v2.1.0 > /dev/null";
    let (printed, is_done) = bash(&folder, &format!("{moved}; {pin} check workflow.yaml"));
    assert!(!is_done && printed.starts_with("owner/two/sub v2.1.0 is ") && !printed.contains("owner/one"), "{printed}");
    assert_eq!(fs::read_to_string(folder.join("workflow.yaml")).unwrap(), pinned, "check changes nothing");
    let (printed, is_done) =
        bash(&folder, &format!("git -C owner/two tag --delete v2.1.0 > /dev/null; {pin} workflow.yaml"));
    assert!(!is_done && printed.contains("owner/two has no tag v2.1.0"), "{printed}");
}

/// Prints what the API of GitHub would: `ref` is the tag, `tag` its object, `runs` the number of runs that passed.
const GH: &str = r#"#!/usr/bin/env bash
case $2 in
*/git/ref/tags/*) echo "${KIND:-tag} 1234" ;;
*/git/tags/1234) case $4 in .object.sha) git rev-parse "${OF:-HEAD}" ;; *) echo "${VERIFIED:-true valid}" ;; esac ;;
*/runs\?head_sha=$(git rev-parse HEAD)\&branch=main\&event=push\&status=success) echo "${RUNS:-1}" ;;
*) exit 9 ;;
esac
"#;

#[test]
fn tag_that_is_not_of_main_signed_and_tested_is_no_release() {
    let folder = folder("tag");
    fs::create_dir(folder.join("bin")).unwrap();
    let gh = folder.join("bin/gh");
    fs::write(&gh, GH).unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let (printed, is_done) = bash(
        &folder,
        "git init --quiet; mkdir hack; cp \"$PROJECT\"/hack/{check-tag,version}.sh hack; cp \"$PROJECT/Cargo.toml\" .
        git add hack Cargo.toml; git commit --quiet -m a; git commit --quiet --allow-empty -m b
        git update-ref refs/remotes/origin/main HEAD",
    );
    assert!(is_done, "{printed}");
    let version = env!("CARGO_PKG_VERSION");
    let tag = format!("v{version}");
    let check = |settings: &str| {
        let script = format!(
            "export PATH=$PWD/bin:$PATH GITHUB_REPOSITORY=owner/name GITHUB_REF_NAME={tag}; {settings}; hack/check-tag.sh"
        );
        bash(&folder, &script)
    };
    assert_eq!(check("true"), (String::new(), true));
    for (settings, because) in [
        ("GITHUB_REF_NAME=v9.9.9", "Cargo.toml has the version"),
        ("git update-ref refs/remotes/origin/main HEAD~1", "is not on main"),
        ("export KIND=commit", "it has no signature"),
        ("export OF=HEAD~1", "it has moved from"),
        ("export VERIFIED='false unknown_key'", "cannot verify its signature (unknown_key)"),
        ("export RUNS=0", "no run of ci.yaml on main has passed"),
    ] {
        let (printed, is_done) = check(settings);
        assert!(!is_done && printed.contains(because), "{settings}: {printed}");
        bash(&folder, "git update-ref refs/remotes/origin/main HEAD");
    }
}

/// The folder that `build` has uploaded, and what a test or an attacker has made of it.
#[test]
fn files_of_a_release_are_those_that_were_built() {
    let folder = folder("dist");
    let (digest, _) = bash(
        &folder,
        "mkdir dist; echo a > dist/a; (cd dist; sha256sum a > SHA256SUMS); sha256sum dist/SHA256SUMS | cut -d ' ' -f 1",
    );
    let digest = digest.trim();
    let check = |change: &str, digest: &str| {
        bash(&folder, &format!("rm -rf copy; cp -r dist copy; {change}; \"$PROJECT/hack/check-dist.sh\" copy {digest}"))
    };
    assert_eq!(check("true", digest), (String::new(), true));
    assert_eq!(check("touch copy/a.sigstore.json", ""), (String::new(), true), "signatures come later");
    for (change, because) in [
        ("echo b > copy/a", "FAILED"),
        ("echo b > copy/b", "does not list: b"),
        ("echo b > copy/a; (cd copy; sha256sum a > SHA256SUMS)", "these are not the files that were built"),
    ] {
        let (printed, is_done) = check(change, digest);
        assert!(!is_done && printed.contains(because), "{change}: {printed}");
    }
}
