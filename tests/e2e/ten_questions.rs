//! Ten questions about extended resources, put to `kubectl describe node` and to `kubectl ner` on one cluster.
//!
//! Method: look for the answer in what each prints, and compare with the table in docs/answers.md.

use harness::objects::{DONGLE, bound_pod, pod};
use harness::{Cluster, SharedCluster};
use serde_json::{Value, json};

use crate::support::program;

const STORE: &str = "example.com/store";
const GONE: &str = "example.com/gone";
/// What the API server makes of 8Ei: the largest number that it keeps.
const HUGE: &str = "9223372036854775807";

/// A question, whether `kubectl describe node` answers it, and whether `kubectl ner` does.
type Row = (&'static str, bool, bool);

fn ask(cluster: &Cluster, args: &[&str]) -> Value {
    let args = [args, &["-o", "json"]].concat();
    let output = program::run(&cluster.control_plane.kubeconfig(), &args, None);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {}", output.stderr))
}

/// Returns the words of each line of a text that contains `word`.
fn lines<'t>(text: &'t str, word: &str) -> Vec<Vec<&'t str>> {
    text.lines().filter(|line| line.contains(word)).map(|line| line.split_whitespace().collect()).collect()
}

/// node-1 is tainted, and has four dongles, of which a pod with a sidecar requests three. node-2 has two dongles and
/// 8Ei of store, and a pod requests what it no longer has. A pod that requests three dongles is Pending.
fn build() -> SharedCluster {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1", "node-2"], &json!({}));
    for (node, resource, quantity) in
        [("node-1", DONGLE, "4"), ("node-2", DONGLE, "2"), ("node-2", STORE, "8Ei"), ("node-2", GONE, "1")]
    {
        cluster.write_quantity(node, resource, quantity);
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        cluster.patch_status(node, "merge", &ready);
    }
    cluster.kubectl(&["taint", "node", "node-1", "example.com/dongle=yes:NoSchedule"]);
    let mut holder = bound_pod("holder", "node-1", DONGLE, "1");
    holder["spec"]["initContainers"] = json!([{"name": "sidecar", "image": "pause", "restartPolicy": "Always",
        "resources": {"limits": {DONGLE: "2"}}}]);
    cluster.apply(&holder.to_string());
    cluster.apply(&bound_pod("left", "node-2", GONE, "1").to_string());
    let removed = json!([{"op": "remove", "path": "/status/capacity/example.com~1gone"},
        {"op": "remove", "path": "/status/allocatable/example.com~1gone"}]);
    cluster.patch_status("node-2", "json", &removed);
    cluster.apply(&pod("waits", DONGLE, "3").to_string());
    cluster.apply_rule("dongle-rule", &json!({"nodeNames": ["node-1"]}));
    cluster
}

fn rows(cluster: &Cluster) -> [Row; 10] {
    let [one, two] = ["node-1", "node-2"].map(|node| cluster.kubectl(&["describe", "node", node]));
    let both = format!("{one}{two}").to_lowercase();
    // What is allocated, by resource: requests and limits.
    let (_, allocated) = one.split_once("Allocated resources:").unwrap();
    let dongles = lines(allocated, DONGLE);
    let top = ask(cluster, &["top"]);
    let of = |name: &str| top["resources"].as_array().unwrap().iter().find(|one| one["resource"] == name).unwrap();
    let dongle = of(DONGLE);
    let node = &ask(cluster, &["node", "node-1"])["resources"][0];
    let why = ask(cluster, &["why", "waits"]);
    let is_holder = |pod: &Value| pod["name"] == "holder" && pod["requested"] == "3";
    let holder_line = lines(&one, "holder");
    [
        ("How much is free on a node?", dongles[0].contains(&"1"), node["free"] == "1"),
        ("How much is free in the cluster?", both.contains("free"), dongle["free"] == "3"),
        ("How much can one pod get?", both.contains("largest"), dongle["largestFree"]["quantity"] == "2"),
        (
            "Which pods have it on a node?",
            holder_line.iter().any(|words| words.contains(&DONGLE)),
            node["pods"].as_array().unwrap().iter().all(is_holder),
        ),
        ("Who declares it?", both.contains("dongle-rule"), dongle["rules"] == json!(["dongle-rule"])),
        (
            "How much do pods request, sidecars included?",
            dongles == [[DONGLE, "3", "3"]],
            dongle["requested"] == "3" && node["requested"] == "3",
        ),
        ("What do pods request that the node does not have?", two.contains(GONE), of(GONE)["requested"] == "1"),
        (
            "How much is on tainted nodes?",
            one.contains("example.com/dongle=yes:NoSchedule") && dongles.len() == 1,
            node["allocatable"] == "4",
        ),
        (
            "Which pods wait for it?",
            both.contains("waits"),
            dongle["pending"] == json!({"pods": 1, "requested": "3"}) && why["verdict"] == "Excluded",
        ),
        (
            "How much is 8Ei on a node?",
            lines(&two, STORE).iter().any(|words| words.contains(&HUGE)),
            of(STORE)["total"] == HUGE,
        ),
    ]
}

#[test]
fn ten_questions_have_the_answers_that_the_page_shows() {
    let cluster = build();
    let cell = |is_answered: bool| if is_answered { "yes" } else { "no" };
    let rows = rows(&cluster).into_iter();
    let rows: String = rows
        .map(|(question, describe, ner)| format!("| {question} | {} | {} |\n", cell(describe), cell(ner)))
        .collect();
    let expected = format!("\n| question | describe node | kubectl ner |\n|---|---|---|\n{rows}\n");
    let path = harness::project_file("docs/answers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let head = "<!-- questions: made by UPDATE_GOLDEN=1 -->\n";
    let (before, rest) = page.split_once(head).unwrap();
    let (table, after) = rest.split_once("<!-- end of questions -->").unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{before}{head}{expected}<!-- end of questions -->{after}")).unwrap();
    } else {
        assert_eq!(table, expected, "UPDATE_GOLDEN=1 writes it anew");
    }
}
