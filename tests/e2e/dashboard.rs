//! Records what `docs/images/dashboard.svg` shows: `make dashboard` runs this for twelve minutes, and draws it.
//!
//! Method: every ten seconds, record what Prometheus would scrape from two replicas on a real control plane, while rules
//! come and change, pods run and end, nodes are reset and the leader is killed. kube-state-metrics is not there: its series
//! are written from the nodes and pods that it would read. `tests/tools/alerts/picture_test.go` draws the recording.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::objects::{DONGLE, pod};
use harness::{Cluster, ControlPlane, Controller, project_file};
use serde_json::{Value, json};

use crate::support::pods;

/// As in the drawing.
const INTERVAL: Duration = Duration::from_secs(10);
const SCRAPES: usize = 73;
const LICENSE: &str = "example.com/license";
const TOOL: &str = "example.com/tool";
/// Labels that Prometheus adds.
const TARGET: &str = r#"namespace="advertising",job="nra",pod="#;

/// The values of each series, in the notation of Prometheus' own tests.
struct Recording {
    /// The dashboard and the recording rules, which name the series that are recorded.
    shown: String,
    scrapes: usize,
    series: BTreeMap<String, Vec<String>>,
}

impl Recording {
    fn new() -> Self {
        let files = ["dashboard.json", "recordings.yaml"];
        let files = files.map(|file| project_file(&format!("charts/node-resource-advertiser/files/{file}")));
        let shown = files.map(|file| std::fs::read_to_string(file).unwrap()).concat();
        Self { shown, scrapes: 0, series: BTreeMap::new() }
    }

    fn add(&mut self, name: &str, labels: &str, value: &str) {
        if self.shown.contains(&format!("{name}{{")) {
            let values = self.series.entry(format!("{name}{{{labels}}}")).or_default();
            values.resize(self.scrapes, "_".to_owned());
            values.push(value.to_owned());
        }
    }

    /// Adds what a replica serves.
    fn scrape(&mut self, replica: &str, metrics: &str) {
        for (series, value) in metrics.lines().filter_map(|line| line.rsplit_once(' ')) {
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = format!("{TARGET}\"{replica}\",{}", labels.trim_end_matches('}'));
            self.add(name, labels.trim_end_matches(','), value);
        }
    }

    /// Adds what kube-state-metrics would serve, in the form of its `internal/store`.
    fn scrape_state(&mut self, cluster: &Cluster) {
        let ksm = r#"job="kube-state-metrics""#;
        let resource = |name: &str| format!("resource=\"{}\",unit=\"integer\"", name.replace(['.', '/'], "_"));
        let extended = |map: &Value| {
            let quantities = map.as_object().into_iter().flatten();
            let quantities = quantities.filter(|(name, _)| name.starts_with("example.com/"));
            quantities.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect::<Vec<_>>()
        };
        for node in cluster.nodes() {
            let labels = format!("{ksm},node=\"{}\"", node["metadata"]["name"].as_str().unwrap());
            for (name, quantity) in extended(&node["status"]["allocatable"]) {
                self.add("kube_node_status_allocatable", &format!("{labels},{}", resource(&name)), &quantity);
            }
            let ready = harness::objects::condition(&node["status"], "Ready").0;
            let of_ready = format!("{labels},condition=\"Ready\",status=\"{}\"", ready.to_lowercase());
            self.add("kube_node_status_condition", &of_ready, "1");
            let is_cordoned = node["spec"]["unschedulable"] == true;
            self.add("kube_node_spec_unschedulable", &labels, if is_cordoned { "1" } else { "0" });
        }
        for pod in cluster.get(&["pods"])["items"].as_array().unwrap() {
            let [name, uid] = ["name", "uid"].map(|field| pod["metadata"][field].as_str().unwrap());
            let labels = format!("{ksm},namespace=\"default\",pod=\"{name}\",uid=\"{uid}\"");
            let phase = format!("{labels},phase={}", pod["status"]["phase"]);
            self.add("kube_pod_status_phase", &phase, "1");
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            for (requested, quantity) in extended(&pod["spec"]["containers"][0]["resources"]["requests"]) {
                let labels = format!("{labels},container=\"app\",node=\"{node}\",{}", resource(&requested));
                self.add("kube_pod_container_resource_requests", &labels, &quantity);
            }
        }
    }

    /// Ends a scrape: Prometheus marks series that are gone.
    fn end_scrape(&mut self) {
        self.scrapes += 1;
        for values in self.series.values_mut().filter(|values| values.len() < self.scrapes) {
            let is_marked = values.last().is_none_or(|last| ["_", "stale"].contains(&last.as_str()));
            values.push(if is_marked { "_" } else { "stale" }.to_owned());
        }
    }

    /// Returns a command of Prometheus' tests, in which `1x2` is 1 three times, and `_x2` nothing twice.
    fn text(&self) -> String {
        let run = |run: &[String]| match (run.len(), run[0].as_str()) {
            (1, value) => value.to_owned(),
            (count, "_") => format!("_x{count}"),
            (count, value) => format!("{value}x{}", count - 1),
        };
        let lines = self.series.iter().map(|(series, values)| {
            let runs: Vec<_> = values.chunk_by(|one, next| one == next).map(run).collect();
            format!("  {series} {}\n", runs.join(" "))
        });
        format!("load {}s\n{}", INTERVAL.as_secs(), lines.collect::<String>())
    }
}

/// What happens before each scrape.
struct Story {
    cluster: Cluster,
    replicas: BTreeMap<&'static str, Controller>,
}

impl Story {
    fn start() -> Self {
        let cluster = Cluster::start_with(ControlPlane::builder().scheduler().kubelets(6));
        for number in 1..=6 {
            let pool = if number <= 4 { "pool=large" } else { "pool=small" };
            cluster.kubectl(&["label", "node", &format!("node-{number}"), pool]);
        }
        let mut story = Self { cluster, replicas: BTreeMap::new() };
        story.start_replica("a");
        story.replicas["a"].wait_log("this process is now the leader");
        story.start_replica("b");
        story
    }

    fn start_replica(&mut self, name: &'static str) {
        let replica = Controller::start_with(&self.cluster, &["--identity", name]);
        self.replicas.insert(name, replica);
    }

    fn step(&mut self, step: usize) {
        let cluster = &self.cluster;
        let of_pool = |pool: &str| json!({"matchLabels": {"pool": pool}});
        let dongles = |quantity: u32| {
            cluster.apply_rule("dongle", &json!({"quantity": quantity, "nodeSelector": of_pool("large")}));
        };
        let tools = |policy: &str| {
            let spec = json!({"resourceName": TOOL, "nodeSelector": of_pool("small"), "conflictPolicy": policy});
            cluster.apply_rule("tool", &spec);
        };
        match step {
            4 => dongles(4),
            8 => cluster.apply_rule("license", &json!({"resourceName": LICENSE, "quantity": 10})),
            12 | 14 | 16 | 18 => {
                let (user, build) = (format!("user-{step}"), format!("build-{step}"));
                pods::create(cluster, &pod(&user, DONGLE, "3"));
                pods::create(cluster, &pod(&build, LICENSE, "7"));
            }
            22 => cluster.apply_rule("spare", &json!({"nodeSelector": of_pool("none")})),
            // Pods hold the values at 3.
            26 => dongles(2),
            32 => cluster.write_quantity("node-5", TOOL, "1"),
            34 => tools("Keep"),
            36 | 40 | 44 => pods::end(cluster, &format!("user-{}", step / 4 * 2 - 6)),
            48 => self.replicas.remove("a").unwrap().kill(),
            52 => self.start_replica("a"),
            56 => drop(cluster.kubectl(&["delete", "ner", "spare"])),
            60 => tools("Overwrite"),
            64 => dongles(6),
            _ => {}
        }
    }

    /// Resets a node like a kubelet that starts after a reboot: one in half a minute, and twice all of them.
    fn reset(&self, step: usize) {
        let nodes = match step {
            28 | 68 => 1..=4,
            6.. if step.is_multiple_of(3) => step % 4 + 1..=step % 4 + 1,
            _ => return,
        };
        for node in nodes {
            self.cluster.reset(&format!("node-{node}"), "hollow-kubelet", DONGLE);
        }
    }
}

#[test]
#[ignore = "takes twelve minutes: `make dashboard`"]
fn recording_for_the_picture_of_the_dashboard_is_made() {
    let mut story = Story::start();
    let mut recording = Recording::new();
    let start = Instant::now();
    for step in 0..SCRAPES {
        story.step(step);
        story.reset(step);
        let due = INTERVAL * u32::try_from(step + 1).unwrap();
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        for (name, replica) in &story.replicas {
            recording.scrape(name, &replica.get("/metrics").unwrap().1);
        }
        recording.scrape_state(&story.cluster);
        recording.end_scrape();
    }
    std::fs::write(project_file("tests/testdata/dashboard.txt"), recording.text()).unwrap();
    story.replicas.into_values().for_each(Controller::stop);
}
