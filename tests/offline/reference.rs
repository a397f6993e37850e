//! The parts of `docs/` that are generated: commands from their help, permissions from the chart, metrics from the
//! registry. `UPDATE_GOLDEN=1` writes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use node_resource_advertiser::controller::metrics::Metrics;

use crate::{program, read};

/// Compares a part of a page, between two comments with its name, with what it has to be.
pub fn check_part(page: &str, name: &str, expected: &str) {
    let head = format!("<!-- {name}: made by UPDATE_GOLDEN=1 -->\n");
    let text = read(page);
    let (before, rest) = text.split_once(&head).unwrap_or_else(|| panic!("{page} lacks {head}"));
    let (part, after) = rest.split_once("<!-- end of ").unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        std::fs::write(path, format!("{before}{head}{expected}<!-- end of {after}")).unwrap();
    } else {
        assert_eq!(part, expected, "{page}: UPDATE_GOLDEN=1 writes it anew");
    }
}

/// What a command prints on standard output.
fn printed(args: &[&str]) -> String {
    String::from_utf8(program(args).stdout).unwrap()
}

/// Returns the help of a command in two parts: its own, and the options that every command has.
fn help(command: &str) -> (String, String) {
    let help = printed(&[command, "--help"]);
    let (own, shared) = help.split_once("      --color <WHEN>").unwrap();
    // After the options.
    let end = ["\n\nPermissions:", "\n\nChecks:", "\n\nExits with", "\n\nExamples:"]
        .iter()
        .filter_map(|head| shared.find(head))
        .min();
    let (shared, after) = shared.split_at(end.unwrap_or(shared.len()));
    let own = format!("{}\n{}", own.trim_end().trim_end_matches("\n\nOptions:"), after.trim_end());
    (without_trailing_spaces(&own), without_trailing_spaces(&format!("      --color <WHEN>{shared}")))
}

fn without_trailing_spaces(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn commands_are_documented_as_their_help() {
    let overview = printed(&["help"]);
    let (groups, _) = overview.split_once("\nOptions:\n").unwrap();
    let commands = groups.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = commands.filter_map(|line| line.split_whitespace().next());
    let mut text = String::new();
    for name in names.filter(|name| *name != "help") {
        write!(text, "\n## {name}\n\n```text\n{}\n```\n", help(name).0).unwrap();
    }
    write!(text, "\n## Options of every command\n\n```text\n{}\n```\n\n", help("top").1).unwrap();
    assert!(text.matches("\n## ").count() > 10, "{text}");
    check_part("docs/commands.md", "commands", &text);
}

/// The rules of a role, each with the comment above it.
fn permissions(role: &str) -> String {
    let mut rows = String::new();
    let [mut purpose, mut group] = [String::new(), String::new()];
    let mut resources = Vec::new();
    let inner = |line: &str| line.split_once('[').unwrap().1.trim_end_matches(']').replace('"', "");
    for line in role.split_once("\nrules:\n").unwrap().1.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("# ") {
            purpose = comment.trim_end_matches('.').to_owned();
        } else if line.starts_with("- apiGroups: ") {
            group = inner(line);
        } else if line.starts_with("resources: ") {
            let dot = if group.is_empty() { "" } else { "." };
            let named = |resource: &str| match resource.split_once('/') {
                Some((resource, part)) => format!("`{resource}{dot}{group}/{part}`"),
                None => format!("`{resource}{dot}{group}`"),
            };
            resources = inner(line).split(", ").map(named).collect();
        } else if line.starts_with("verbs: ") {
            writeln!(rows, "| {} | {} | {purpose} |", resources.join(", "), inner(line)).unwrap();
            assert!(!purpose.is_empty(), "no comment says what {resources:?} is for");
            purpose.clear();
        }
    }
    rows
}

#[test]
fn permissions_of_the_controller_are_documented() {
    let manifests = read("deploy/install.yaml");
    let mut table = "\n| resource | verbs | purpose |\n|---|---|---|\n".to_owned();
    for (kind, name) in [("ClusterRole", ""), ("Role", "-events"), ("Role", "-lease")] {
        let head = format!("kind: {kind}\nmetadata:\n  name: node-resource-advertiser{name}\n");
        let role = manifests.split("\n---\n").find(|document| document.contains(&head));
        table += &permissions(role.unwrap_or_else(|| panic!("there is no {head}")));
    }
    assert!(table.lines().count() > 10, "{table}");
    check_part("docs/install.md", "permissions", &format!("{table}\n"));
}

#[test]
fn metrics_are_documented() {
    let mut metrics = Metrics::default();
    metrics.count_lost_lines(|| 0);
    let text = metrics.text().unwrap();
    let mut table = "\n| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for help in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, meaning) = help.split_once(' ').unwrap();
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        let end = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let name = format!("{name}{end}");
        writeln!(table, "| `{name}` | {kind} | {} | {} |", labels(&text, &name), meaning.trim_end_matches('.'))
            .unwrap();
    }
    assert!(table.lines().count() > 15, "{table}");
    check_part("docs/monitoring.md", "metrics", &format!("{table}\n"));
}

/// The labels of a metric with their values, in order: a family has them in any order.
fn labels(text: &str, name: &str) -> String {
    let series = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once('}'));
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in series.filter_map(|(labels, _)| labels.split_once('=')) {
        labels.entry(key).or_default().insert(value.trim_matches('"'));
    }
    let shown = labels.into_iter().map(|(key, values)| {
        // It changes with each release.
        let values = if key == "version" { BTreeSet::from(["of the program"]) } else { values };
        format!("`{key}`: {}", values.into_iter().collect::<Vec<_>>().join(", "))
    });
    shown.collect::<Vec<_>>().join("; ")
}
