//! The commands in the documentation: each is run by a test, is a golden run, or says why it is not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::documents::{self, Block, Marker};
use regex::Regex;

use crate::{autoscaler, guard, plan, read, validate};

/// The names of tests that run blocks, and their files.
const RUNNERS: [(&str, &str); 19] = [
    ("node-condition", "tests/e2e/node_condition.rs"),
    ("quick-start", "tests/e2e/documented_commands.rs"),
    ("cluster", "tests/e2e/documented_commands.rs"),
    ("validate", "tests/e2e/documented_commands.rs"),
    ("gitops", "tests/e2e/documented_commands.rs"),
    ("answers", "tests/e2e/documented_commands.rs"),
    ("history", "tests/e2e/history.rs"),
    ("karpenter", "tests/e2e/karpenter.rs"),
    ("doctor", "tests/e2e/doctor.rs"),
    ("adopt", "tests/e2e/adopt.rs"),
    ("autoscalers", "tests/e2e/autoscaler.rs"),
    ("quantities", "tests/e2e/quantities.rs"),
    ("slots", "tests/e2e/documented_commands.rs"),
    ("quota", "tests/e2e/documented_commands.rs"),
    ("shared-counter", "tests/e2e/documented_commands.rs"),
    ("release", "tests/cluster/release.rs"),
    ("published", "tests/cluster/published.rs"),
    ("verify-files", "tests/release/main.rs"),
    ("verify-artifacts", "tests/release/main.rs"),
];

#[test]
fn every_documented_command_is_run_or_has_a_reason() {
    let blocks = documents::blocks(&documents::pages().unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for block in &blocks {
        if let Marker::Runs(name) = &block.marker {
            used.insert(name.as_str());
        }
        if let Err(problem) = check(block) {
            wrong.push(format!("{}:{}: {problem}", block.page, block.line));
        }
    }
    assert_eq!(wrong, [""; 0]);
    let runners: BTreeSet<_> = RUNNERS.into_iter().map(|(name, _)| name).collect();
    assert_eq!(used, runners, "every runner has commands to run");
    for (name, file) in RUNNERS {
        assert!(read(file).contains(&format!("{name:?}")), "{file} runs no block with {name:?}");
    }
}

#[test]
fn golden_marker_names_a_run_that_a_test_compares() {
    let check = |file: &str, text: &str| {
        let marker = format!("<!-- golden: {file} -->\n");
        let blocks = documents::blocks_of("page", &format!("{marker}```console\n{text}```\n"));
        check(&blocks[0])
    };
    let sample = "tests/offline/validate/readme/sample.console";
    let golden = read(sample);
    let (shown, _) = golden.rsplit_once("[exit ").unwrap();
    let command = "$ node-resource-advertiser validate rules/";
    let with_code = |code: &str| shown.replacen(command, &format!("{command}  # exit {code}"), 1);
    assert_eq!(check(sample, &with_code("1")), Ok(()));
    assert!(check(sample, shown).unwrap_err().contains("exit code"), "it ends with 1");
    assert!(check(sample, &with_code("2")).unwrap_err().contains("exit code"));
    assert!(check(sample, &with_code("1").replace("errors", "error")).is_err());
    assert!(check(sample, &format!("{}$ true\n", with_code("1"))).is_err(), "two commands");
    // What no test compares, though it has the text.
    for other in ["Makefile", "tests/offline/validate/readme/none.console", "../sample.console"] {
        assert!(check(other, &with_code("1")).unwrap_err().contains("no golden run"), "{other}");
    }
}

#[test]
fn reason_names_a_test_that_exists() {
    let file = "tests/offline/documents.rs";
    assert_eq!(check_reason(&format!("reason_names_a_test_that_exists in {file} does it")), Ok(()));
    assert_eq!(check_reason("nothing in here can run it"), Ok(()));
    for (name, file) in [("gone", file), ("check_reason", file), ("gone", "tests/offline/gone.rs")] {
        assert!(check_reason(&format!("as {name} in {file} does")).is_err(), "{name} in {file}");
    }
}

/// What a block names that does not exist: targets of make, and files of the repository.
fn missing_names(text: &str) -> Vec<String> {
    let makefiles = ["Makefile", "hack/test.mk", "hack/kubernetes.mk", "hack/containers.mk", "hack/tools.mk"].map(read);
    let words: Vec<_> = text.split_whitespace().map(|word| word.trim_matches(['\'', '"', ',', ';'])).collect();
    let targets = words.windows(2).filter(|pair| pair[0] == "make").map(|pair| pair[1]);
    let is_target = |target: &str| makefiles.iter().any(|file| file.contains(&format!("\n{target}:")));
    let missing = targets.filter(|target| !is_target(target)).map(|target| format!("make {target}"));
    let folders = ["charts/", "crds/", "deploy/", "docs/", "examples/", "hack/"];
    let files = words.iter().filter(|word| folders.iter().any(|folder| word.starts_with(folder)));
    let exists = |file: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists();
    missing.chain(files.filter(|file| !exists(file)).map(|file| (*file).to_owned())).collect()
}

/// Nothing runs these blocks, so the least is that bash reads them, and that what they name exists.
#[test]
fn commands_that_no_test_runs_are_bash_and_name_what_exists() {
    let blocks = documents::blocks(&documents::pages().unwrap()).unwrap();
    let image = Regex::new(r"noderesource/node-resource-advertiser:([0-9.]+)").unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for block in blocks.iter().filter(|block| matches!(block.marker, Marker::NotRun(_))) {
        let commands: Vec<_> = block.steps().into_iter().map(|step| step.command).collect();
        let text = commands.join("\n");
        let parsed = Command::new("bash").args(["-n", "-c", &text]).output().unwrap();
        let versions = image.captures_iter(&text).map(|found| found[1].to_owned());
        let other = versions.filter(|version| version != env!("CARGO_PKG_VERSION"));
        let place = format!("{}:{}", block.page, block.line);
        wrong.extend(
            (!parsed.status.success()).then(|| format!("{place}: {}", String::from_utf8_lossy(&parsed.stderr))),
        );
        wrong.extend(missing_names(&text).into_iter().chain(other).map(|name| format!("{place}: {name}")));
        count += commands.len();
    }
    assert_eq!(wrong, [""; 0]);
    assert!(count > 20, "{count} commands");
}

/// Both pages have them, so that neither reader has to follow a link for the first three commands.
#[test]
fn readme_installs_as_getting_started_does() {
    let readme = read("README.md");
    let installation = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(installation.lines().count(), 3, "{installation}");
    assert!(read("docs/getting-started.md").contains(installation), "{installation}");
}

#[test]
fn name_that_does_not_exist_is_missing() {
    let text = "make demo CONTEXT=a && make gone\nkubectl apply -f crds/ -f 'examples/gone.yaml' -f examples/pod.yaml";
    assert_eq!(missing_names(text), ["make gone", "examples/gone.yaml"]);
}

fn check(block: &Block) -> Result<(), String> {
    match &block.marker {
        Marker::Missing => Err("no comment above it names the test that runs it".to_owned()),
        Marker::NotRun(reason) if reason.len() < 10 => Err(format!("the reason {reason:?} is too short")),
        Marker::NotRun(reason) => check_reason(reason),
        Marker::Runs(name) if RUNNERS.iter().any(|(runner, _)| runner == name) => Ok(()),
        Marker::Runs(name) => Err(format!("there is no test {name}")),
        Marker::Golden(file) => check_golden(block, file),
    }
}

/// A reason may name a test that does the same: `NAME in FILE.rs`.
fn check_reason(reason: &str) -> Result<(), String> {
    let words: Vec<_> = reason.split(' ').collect();
    for named in words.windows(3).filter(|named| named[1] == "in" && named[2].ends_with(".rs")) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(named[2]);
        let tests = fs::read_to_string(path).unwrap_or_default();
        if !tests.contains(&format!("#[test]\nfn {}(", named[0])) {
            return Err(format!("there is no test {} in {}", named[0], named[2]));
        }
    }
    Ok(())
}

fn check_golden(block: &Block, file: &str) -> Result<(), String> {
    let runs = [validate::golden_runs(), plan::golden_runs(), autoscaler::golden_runs(), guard::golden_runs()].concat();
    if !runs.contains(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)) {
        return Err(format!("{file} is no golden run that a test compares"));
    }
    let golden = read(file);
    let (text, code) = golden.rsplit_once("[exit ").ok_or("no exit code in the golden run")?;
    let [step] = &block.steps()[..] else { return Err("not one command".to_owned()) };
    let shown = format!("$ {}\n{}", step.bare_command(), step.output.as_deref().unwrap_or(""));
    if shown != text {
        return Err(format!("it is not the text of {file}"));
    }
    if format!("{}]", step.code) != code.trim() {
        return Err(format!("it shows the exit code {}, and {file} has [exit {code}", step.code));
    }
    Ok(())
}
