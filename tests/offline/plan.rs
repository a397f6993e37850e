//! Golden runs of `plan`, in a folder below `tests/offline/plan/` each, and plans of thousands of nodes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{golden, program};

/// What the summary of a GitHub job may have.
const STEP_SUMMARY: usize = 1 << 20;

#[test]
fn plan_prints_the_golden_output() {
    golden::check(&golden_runs(), 20);
}

/// The golden runs, all of which a test compares.
pub fn golden_runs() -> Vec<PathBuf> {
    let folders = fs::read_dir(golden::folder("plan")).unwrap();
    golden::runs(&folders.map(|entry| entry.unwrap().path()).collect::<Vec<_>>())
}

/// Plans 5,000 nodes with two overlapping rules, and returns the output and exit code. `status` is that
/// of the node of a number.
fn plan_fleet(test: &str, args: &[&str], status: impl Fn(usize) -> Value) -> (String, i32) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("plan-{test}"));
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, items: Vec<Value>| {
        let path = folder.join(name).to_str().unwrap().to_owned();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(&path, list.to_string()).unwrap();
        path
    };
    let node = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "Node", "status": status(number),
            "metadata": {
                "name": format!("ip-10-{}-{}.eu-central-1.compute.internal", number / 256, number % 256),
                "labels": {"pool": if number.is_multiple_of(2) { "build" } else { "desk" }},
            },
        })
    };
    let rule = |name: &str, spec: Value| {
        json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let everywhere = json!([{"key": "pool", "operator": "Exists"}]);
    let rules = vec![
        rule(
            "licenses-build",
            json!({
                "resourceName": "example.com/license", "quantity": 10, "priority": 10,
                "nodeSelector": {"matchLabels": {"pool": "build"}},
            }),
        ),
        rule(
            "licenses-everywhere",
            json!({
                "resourceName": "example.com/license", "quantity": 1,
                "nodeSelector": {"matchExpressions": everywhere},
            }),
        ),
        rule(
            "storage-for-the-build-cache",
            json!({
                "resourceName": "example.com/storage", "quantity": "800Gi",
                "nodeSelector": {"matchExpressions": everywhere},
            }),
        ),
    ];
    let (rules, nodes) = (file("rules.json", rules), file("nodes.json", (0..5000).map(node).collect()));
    let output = program(&[&["plan", "-f", &rules, "--nodes", &nodes], args].concat());
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

#[test]
fn plan_of_a_fleet_fits_into_a_job_summary() {
    let (table, code) = plan_fleet("same", &[], |_| json!({}));
    let first = "ip-10-0-0.eu-central-1.compute.internal";
    let expected = format!("\
+ 2,500 nodes ({first} … ip-10-19-134.eu-central-1.compute.internal)   example.com/license   -        10      rule licenses-build (priority 10) over licenses-everywhere (priority 0)
+ 5,000 nodes ({first} … ip-10-19-135.eu-central-1.compute.internal)   example.com/storage   -        800Gi   rule storage-for-the-build-cache
+ 2,500 nodes (ip-10-0-1.eu-central-1.compute.internal … ip-10-19-135.eu-central-1.compute.internal)   example.com/license   -        1       rule licenses-everywhere

example.com/license: 0 -> 27,500 on 5,000 nodes
example.com/storage: 0 -> 4,000,000Gi on 5,000 nodes
Plan: 10,000 to add, 0 to change, 0 to remove; 0 unchanged.
");
    let (heading, lines) = table.split_once('\n').unwrap();
    assert!(heading.starts_with("  NODE  "), "{heading}");
    assert_eq!((lines, code), (expected.as_str(), 1));

    let (wide, code) = plan_fleet("wide", &["-o", "wide"], |_| json!({}));
    assert_eq!((wide.matches("\n+ ip-10-").count(), code), (10_000, 1));
    assert!(wide.len() > STEP_SUMMARY, "the nodes are too few to prove something");
}

/// Where no two nodes are alike there is nothing to put together.
#[test]
fn plan_of_different_nodes_fits_into_a_job_summary() {
    let different = |number: usize| {
        let amounts = json!({"example.com/license": (number + 11).to_string()});
        json!({"capacity": amounts, "allocatable": amounts})
    };
    let (table, code) = plan_fleet("different", &[], different);
    assert!(table.len() < STEP_SUMMARY / 4, "{}", table.len());
    let more = "\n  … and 4,751 more lines: -o wide shows all; --node, -l and --rule select\n";
    assert!(table.contains(more), "{table}");
    let end = "\nPlan: 5,000 to add, 0 to change, 0 to remove; 5,000 conflicts; 0 unchanged.\n";
    assert!(table.ends_with(end) && code == 1, "{table}");
}

/// A dump that somebody committed is not read, but it may hold rules, which the plan must not miss.
#[test]
fn plan_beside_a_file_that_is_too_large_stops_if_that_names_rules() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plan-large");
    fs::create_dir_all(folder.join("repo")).unwrap();
    let others = golden::folder("plan").join("others");
    fs::copy(others.join("repo/rule.yaml"), folder.join("repo/rule.yaml")).unwrap();
    let comment = "# ........\n".repeat(2 << 20);
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    for (end, code) in [(b"kind: ConfigMap\n".to_vec(), 1), (utf16("kind: NodeExtendedResource\n"), 2)] {
        let large = [b"apiVersion: v1\n", comment.as_bytes(), end.as_slice()].concat();
        fs::write(folder.join("repo/large.yaml"), large).unwrap();
        let (repo, nodes) = (folder.join("repo"), others.join("node.json"));
        let output = program(&["plan", "-f", repo.to_str().unwrap(), "--nodes", nodes.to_str().unwrap()]);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        let says = ["note: 1 unreadable file without rules skipped: ", "larger than 16 MiB, the most that is read"];
        assert!(printed.contains(says[usize::from(code == 2)]), "{printed}");
    }
}
