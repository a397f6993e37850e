//! The reconciler alone with up to 100,000 nodes and 1,000 rules: its memory, and the instructions of each step.
//!
//! It runs a test of the library, `scale`, once for each number of nodes and rules: directly for the memory, and under
//! Valgrind for the instructions, which depend on no other load. `make bench-scale` runs it, prints a table, and writes
//! `target/bench/scale.json`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use harness::project_file;
use serde_json::{Value, json};

const TEST: &str = "reconciler::tests::scale::scale";

fn main() -> ExitCode {
    if !env::args().any(|arg| arg == "--bench") {
        eprintln!("this runs for many minutes: run `make bench-scale`");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (nodes, rules) = (numbers("NODES", "1000 10000 100000")?, numbers("RULES", "1 10 100 1000")?);
    let folder = project_file("target/bench");
    fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let test = build()?;
    let mut rows = Vec::new();
    println!(
        "{:>7} {:>5}  {:21} {:>12} {:>14} {:>9}  {:>7} {:>7}",
        "nodes", "rules", "step", "instructions", "each", "patches", "B/node", "peak"
    );
    for nodes in &nodes {
        for rules in &rules {
            let steps = measure(&test, *nodes, *rules, &folder)?;
            let base = steps.first().and_then(|step| step["memory"].as_f64()).context("the test printed nothing")?;
            for step in steps {
                print(&step, base);
                rows.push(step);
            }
        }
    }
    let file = folder.join("scale.json");
    let report = json!({"schema_version": 1, "rows": rows});
    fs::write(&file, format!("{report:#}\n")).with_context(|| format!("cannot write {}", file.display()))?;
    println!("==> target/bench/scale.json");
    Ok(())
}

fn numbers(name: &str, default: &str) -> Result<Vec<usize>> {
    let text = env::var(name).ok().filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_owned());
    let numbers = text.split_whitespace().map(str::parse).collect::<Result<_, _>>();
    numbers.with_context(|| format!("{name}={text:?}: expected numbers, separated by spaces"))
}

/// Builds the tests of the library as a release is built, but with the names of functions. Returns their path.
fn build() -> Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--workspace", "--locked", "--release", "--lib", "--no-run", "--message-format=json"]);
    cargo.args(["--target-dir", "target/scale"]).env("CARGO_PROFILE_RELEASE_STRIP", "none");
    let output = cargo.current_dir(project_file(".")).stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("cannot build the tests of the library");
    }
    let messages = String::from_utf8(output.stdout)?;
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = messages.find_map(|message| {
        let is_library = message["target"]["name"] == "node_resource_advertiser";
        message["executable"].as_str().filter(|_| is_library).map(PathBuf::from)
    });
    program.context("cargo names no program of the tests of the library")
}

/// Returns the steps with these numbers of nodes and rules.
fn measure(test: &Path, nodes: usize, rules: usize, folder: &Path) -> Result<Vec<Value>> {
    let arguments = ["--ignored", "--exact", TEST, "--nocapture"];
    let mut steps = execute(Command::new(test).args(arguments), nodes, rules)?;
    let counts = folder.join(format!("callgrind-{nodes}-{rules}"));
    let _ = fs::remove_dir_all(&counts);
    fs::create_dir_all(&counts)?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--collect-atstart=no"]);
    valgrind.arg(format!("--callgrind-out-file={}", counts.join("dump").display()));
    // Two patterns: Callgrind keeps one option for each.
    valgrind.arg(format!("--toggle-collect=*{}measured", TEST.trim_end_matches("scale")));
    valgrind.arg("--dump-after=*measured");
    execute(valgrind.arg(test).args(arguments).env("LEAN", "1"), nodes, rules)?;
    let mut last = 0;
    for step in &mut steps {
        let number = step["measured"].as_u64().context("a step without its number")?;
        if number > last {
            step["instructions"] = json!(total(&counts.join(format!("dump.{number}")))?);
        }
        last = number;
    }
    fs::remove_dir_all(&counts)?;
    Ok(steps)
}

fn execute(command: &mut Command, nodes: usize, rules: usize) -> Result<Vec<Value>> {
    let program = command.get_program().to_owned();
    let command = command.env("NODES", nodes.to_string()).env("RULES", rules.to_string());
    let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        bail!("{}: {}\n{text}{}", program.display(), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Returns the instructions of a dump of Callgrind.
fn total(dump: &Path) -> Result<u64> {
    let text = fs::read_to_string(dump).with_context(|| dump.display().to_string())?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.with_context(|| format!("{} has no total", dump.display()))
}

fn print(step: &Value, base: f64) {
    let number = |key: &str| step[key].as_f64().unwrap_or(f64::NAN);
    let (nodes, events) = (number("nodes"), number("events"));
    let per_node = |key: &str| (number(key) - base) / nodes;
    let shown = |number: f64| if number.is_finite() { format!("{number:.0}") } else { String::new() };
    let each = if events > 0.0 { number("instructions") / events } else { f64::NAN };
    println!(
        "{:>7} {:>5}  {:21} {:>12} {:>14} {:>9}  {:>7} {:>7}",
        nodes,
        number("rules"),
        step["step"].as_str().unwrap_or_default(),
        shown(number("instructions")),
        shown(each),
        number("patches"),
        shown(per_node("memory")),
        shown(per_node("peak_memory")),
    );
}
