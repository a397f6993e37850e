//! What a message advises: no command changes more than the message names.
//!
//! Method: a cluster of 800 nodes with a zero on one, an annotation that cannot be read on another, and values of a rule
//! that is gone on a third. Every command is run, and every `prune` in its output is carried out as a dry run, as it is
//! printed; each node and resource that it would change has to be named beside it.

use std::process::Command;

use harness::objects::{self, LEDGER};
use harness::{Cluster, Output};
use serde_json::{Value, json};

use crate::support::{golden, program};

const NODES: usize = 800;
const NAME: &str = "node-resource-advertiser ";
const OLD: &str = "example.com/old";

fn node(number: usize) -> Value {
    let name = format!("w-{number}");
    let rule = if number == 3 { "gone" } else { "fleet" };
    let ledger = match number {
        2 => "{".to_owned(),
        _ => json!({"example.com/fleet": {"quantity": "4", "rule": rule}}).to_string(),
    };
    let mut amounts = json!({"cpu": "4", "example.com/fleet": "4"});
    if number == 1 {
        amounts[OLD] = json!("0");
    }
    let mut node = objects::node(&name, &json!({}));
    node["metadata"]["annotations"] = json!({LEDGER: ledger});
    node["status"] = json!({"capacity": amounts, "allocatable": amounts});
    node
}

/// Returns the command in a line, as a user would paste it, if the line advises to prune.
fn advised(line: &str) -> Option<Vec<&str>> {
    let (_, rest) = line.split_once(&format!("{NAME}prune "))?;
    let end = rest.find([',', ';', '`', ')']).unwrap_or(rest.len());
    Some(["prune"].into_iter().chain(rest[..end].split_whitespace()).collect())
}

/// Returns the node and the resource of each change that a dry run prints.
fn changes(output: &Output) -> Vec<(&str, &str)> {
    let lines = output.stdout.lines().filter(|line| line.ends_with("(dry run)"));
    let of_node = lines.filter_map(|line| line.split_once(": "));
    of_node
        .flat_map(|(node, changes)| {
            let resources = changes.split([' ', ',']).filter(|word| word.starts_with("example.com/"));
            resources.map(move |resource| (node, resource))
        })
        .collect()
}

#[test]
fn advice_leads_to_no_command_that_changes_more_than_it_names() {
    let cluster = Cluster::shared();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": (0..NODES).map(node).collect::<Vec<_>>()});
    cluster.apply(&list.to_string());
    cluster.apply_rule("fleet", &json!({"resourceName": "example.com/fleet", "allNodes": true, "nodeSelector": null}));
    cluster.apply(&objects::pod("waits", OLD, "1").to_string());

    let kubeconfig = cluster.control_plane.kubeconfig();
    let context = cluster.kubectl(&["config", "current-context"]);
    let run = |args: &[&str]| program::run(&kubeconfig, args, None);
    let flags = ["--context", context.trim()];
    let (mut advice, mut screens) = (0, Vec::new());
    for command in [
        &["top"][..],
        &["top", "-o", "wide"],
        &["node", "w-1"],
        &["resource", OLD],
        &["resource", "example.com/fleet"],
        &["pod", "waits"],
        &["why", "waits"],
        &["history", "w-1"],
        &["plan"],
        &["adopt"],
        &["doctor"],
        &["doctor", "-o", "wide"],
        &["prune", "--rule", "nope", "--dry-run"],
        &["prune", "--all", "--node", "w-2", "--dry-run"],
        &["prune", "--resource", "example.com/fleet", "--dry-run"],
        &["prune", "--resource", OLD, "--dry-run"],
    ] {
        let output = run(&[command, &flags].concat());
        // The widths of its columns follow the times.
        if command[0] != "history" {
            screens.push(golden::console(&command.join(" "), &output));
        }
        let (stdout, stderr): (Vec<_>, Vec<_>) = (output.stdout.lines().collect(), output.stderr.lines().collect());
        // A message on standard error is about all that is printed.
        let everything = format!("{}{}", output.stdout, output.stderr);
        let of_stdout = (0..stdout.len()).map(|at| (stdout[at], stdout[at.saturating_sub(1)..=at].join("\n")));
        for (line, message) in of_stdout.chain(stderr.iter().map(|line| (*line, everything.clone()))) {
            let Some(args) = advised(line) else {
                assert!(!line.contains("prune --"), "a command without the program: {line}");
                continue;
            };
            advice += 1;
            assert!(args.contains(&"--dry-run"), "the first step only shows: {line}");
            assert!(line.contains(&format!("--context={}", context.trim())), "the same cluster: {line}");
            let dry_run = run(&args);
            for (node, resource) in changes(&dry_run) {
                let is_named = message.contains(node) && message.contains(resource);
                let is_repair = args.contains(&"--repair-ledger") && message.contains(node);
                let rule = args.iter().skip_while(|arg| **arg != "--rule").nth(1);
                // Of many nodes, a message names the first.
                let is_one_of_many = message.contains(" more: ") && message.contains(resource);
                let is_of_rule =
                    rule.is_some_and(|rule| message.contains(rule)) && (message.contains(node) || is_one_of_many);
                assert!(
                    is_named || is_repair || is_of_rule,
                    "{command:?} advises {args:?}, which changes {resource} on {node}: {message}"
                );
            }
        }
    }
    assert!(advice >= 6, "only {advice} commands were advised");
    golden::check("advice.console", &screens.join("\n"));
}

/// Nobody is asked in a script, and an answer other than "yes" changes nothing.
#[test]
fn prune_of_everything_is_confirmed() {
    let cluster = Cluster::shared();
    cluster.apply(&node(0).to_string());
    let kubeconfig = cluster.control_plane.kubeconfig();
    let before = cluster.node_patches();
    let output = program::run(&kubeconfig, &["prune", "--all"], Some("yes\n"));
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stderr.contains("there is no terminal to ask on: add --yes"), "{}", output.stderr);
    let output = program::run(&kubeconfig, &["prune"], None);
    assert_eq!(output.code, 2, "{}", output.stdout);
    assert!(
        output.stderr.contains("<--all|--rule <NAME>|--zeros|--repair-ledger|--resource <NAME>>"),
        "{}",
        output.stderr
    );

    let on_a_terminal = |answer: &str| {
        let command = format!("{} prune --all", harness::program().unwrap().display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env("KUBECONFIG", &kubeconfig);
        Output::run(&mut script, Some(answer)).unwrap()
    };
    for answer in ["y\n", "no\n", "\n"] {
        let output = on_a_terminal(answer);
        assert_eq!(output.code, 1, "{answer:?}: {}", output.stdout);
        let question = "this makes 1 change on 1 of 1 node. Type yes to continue: ";
        assert!(output.stdout.contains(question), "{answer:?}: {}", output.stdout);
        assert!(output.stdout.contains("nothing has changed"), "{answer:?}: {}", output.stdout);
    }
    assert_eq!(cluster.node_patches(), before);
    let output = on_a_terminal("yes\n");
    assert_eq!(output.code, 0, "{}", output.stdout);
    assert!(objects::ledger(&cluster.node("w-0")).is_none(), "{}", output.stdout);
}
