//! When the status of a pod shows that a kubelet has admitted it, as the controller reads it.
//!
//! Method: bind pods to one real kubelet, without a controller: pods that fit, that do not, that wait, that end, and that
//! are bound while the kubelet is down. A watch records each status, and the controller's reading of it is compared with
//! what became of the pod. A kubelet that behaves otherwise fails one of the rows.

use std::thread;

use harness::objects::{bound_pod, condition};
use harness::{Cluster, Process, wait_next_second, wait_until};
use node_resource_advertiser::model::pod::pod_use::{PodInterner, PodUse};
use serde_json::{Deserializer, Value, json};

use crate::pod_fate::{TICK, start_kubelet};

const NODE: &str = "node-1";
/// The resources, with what the node has of each. The last one appears when its pod runs.
const FOUR: &str = "example.com/four";
const ONE: &str = "example.com/one";
const ANOTHER: &str = "example.com/another";
const LOWERED: &str = "example.com/lowered";
const ABSENT: &str = "example.com/absent";

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It runs, and so it has started.
    Runs,
    /// It has run, and has ended.
    Ends,
    /// It is rejected at once, as by each kubelet that has run for some seconds: no status before has a start time.
    Rejected,
    /// A kubelet that starts rejects it: before, it has a start time for a while, and has not started.
    RejectedLater,
    /// It is admitted, and waits for a Secret: it has not started.
    Waits,
    /// It runs, or is rejected.
    RunsOrNot,
}

/// What is done to each pod, and what becomes of it.
const ROWS: [(&str, &str, Fate); 15] = [
    ("it fits", "fits", Fate::Runs),
    ("two are bound, and one fits", "three", Fate::RunsOrNot),
    ("two are bound, and one fits", "three-too", Fate::RunsOrNot),
    ("the value is lowered while it is bound", "lowered-0", Fate::RunsOrNot),
    ("the value is lowered while it is bound", "lowered-1", Fate::RunsOrNot),
    ("the value is lowered while it is bound", "lowered-2", Fate::RunsOrNot),
    ("the resource is absent until it runs; then the kubelet starts", "hundred", Fate::Ends),
    ("another uses more than there is", "one-more", Fate::Rejected),
    ("it is bound while the kubelet is down, and fits", "late", Fate::Runs),
    ("it is bound while the kubelet is down, and does not fit", "too-late", Fate::RejectedLater),
    ("it waits for a Secret", "waits", Fate::Waits),
    ("another waits for a Secret", "beside", Fate::Rejected),
    ("it is deleted, and runs on", "stops", Fate::Ends),
    ("another is deleted, and runs on", "early", Fate::RunsOrNot),
    ("another has been deleted", "after", Fate::Runs),
];

/// Every status of every pod, as a watch shows it.
struct Recorder(Process);

impl Recorder {
    /// Starts the watch, and waits until it shows what is written.
    fn start(cluster: &Cluster) -> Self {
        let args = ["get", "pods", "--watch", "--output-watch-events", "--output=json"];
        let recorder = Self(cluster.control_plane.spawn_kubectl("recorder", &args).expect("kubectl starts"));
        // It names no node, so it stays as it is.
        cluster.apply(&harness::objects::pod("first", ONE, "1").to_string());
        recorder.wait("first", "is recorded", |_| true);
        recorder
    }

    /// Returns the versions of a pod so far.
    fn versions(&self, pod: &str) -> Vec<Value> {
        let log = self.0.log();
        let events = Deserializer::from_str(&log).into_iter::<Value>().map_while(Result::ok);
        events.map(|mut event| event["object"].take()).filter(|object| object["metadata"]["name"] == pod).collect()
    }

    fn wait(&self, pod: &str, what: &str, test: impl Fn(&Value) -> bool) {
        let found = wait_until(&format!("the watch to show that pod {pod} {what}"), || {
            self.0.check_running()?;
            Ok(self.versions(pod).iter().any(&test).then_some(()))
        });
        found.unwrap_or_else(|error| panic!("{error:#}\n{:#?}", self.versions(pod).last()));
    }

    fn wait_decided(&self, pod: &str) {
        self.wait(pod, "runs or is rejected", |pod| is_running(pod) || is_finished(pod));
    }
}

fn is_finished(pod: &Value) -> bool {
    ["Failed", "Succeeded"].iter().any(|phase| pod["status"]["phase"] == **phase)
}

fn is_running(pod: &Value) -> bool {
    let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    containers.into_iter().any(|container| container["state"]["running"].is_object())
}

fn is_rejected(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed"
        && pod["status"]["reason"].as_str().is_some_and(|reason| reason.starts_with("OutOf"))
}

/// Returns whether the controller reads from a pod that it has started; `None` if the pod uses nothing.
fn reads_as_started(pod: &Value) -> Option<bool> {
    let pod = serde_json::from_value(pod.clone()).expect("a pod");
    let used = PodUse::new(&pod, &mut PodInterner::default()).expect("few resources");
    used.map(|pod| pod.has_started)
}

/// Checks that what the controller reads from each version of a pod is what became of it.
fn check(why: &str, name: &str, fate: Fate, versions: &[Value]) {
    let last = versions.last().unwrap_or_else(|| panic!("{name} is recorded"));
    let context = format!("{name}: {why}: {fate:?}: {versions:#?}");
    let fate = match fate {
        Fate::RunsOrNot if versions.iter().any(is_running) => Fate::Runs,
        fate => fate,
    };
    let used: Vec<_> = versions.iter().filter_map(|pod| Some((pod, reads_as_started(pod)?))).collect();
    let has_start_time = |pod: &Value| pod["status"]["startTime"].is_string();
    let started = used.iter().filter(|(_, started)| *started).count();
    for (pod, started) in &used {
        assert!(!started || has_start_time(pod), "{context}");
    }
    match fate {
        Fate::Runs | Fate::Ends => {
            let missed = used.iter().any(|(pod, started)| is_running(pod) && !started);
            assert!(started > 0 && !missed, "{context}");
            assert!(fate == Fate::Runs || is_finished(last), "{context}");
        }
        Fate::Rejected | Fate::RejectedLater | Fate::RunsOrNot => {
            assert!(started == 0 && versions.iter().any(is_rejected), "{context}");
            let looks_admitted = used.iter().any(|(pod, _)| has_start_time(pod));
            assert!(looks_admitted == (fate == Fate::RejectedLater) || fate == Fate::RunsOrNot, "{context}");
        }
        Fate::Waits => {
            let is_admitted = |pod: &Value| condition(&pod["status"], "Initialized").0 == "True" && has_start_time(pod);
            assert!(started == 0 && used.iter().any(|(pod, _)| is_admitted(pod)), "{context}");
        }
    }
}

/// Has the node have these quantities.
fn write_quantities(cluster: &Cluster, quantities: &Value) {
    let patch = json!({"status": {"capacity": quantities, "allocatable": quantities}});
    cluster.patch_status(NODE, "merge", &patch);
}

/// Creates pods that are bound to the node.
fn bind(cluster: &Cluster, pods: &[(&str, &str, &str)]) {
    let items: Vec<_> =
        pods.iter().map(|(name, resource, quantity)| bound_pod(name, NODE, resource, quantity)).collect();
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
}

/// Creates the pods that a running kubelet admits or rejects.
fn bind_to_a_running_kubelet(cluster: &Cluster, recorder: &Recorder) {
    let mut waits = bound_pod("waits", NODE, ONE, "1");
    waits["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "missing", "mountPath": "/missing"}]);
    waits["spec"]["volumes"] = json!([{"name": "missing", "secret": {"secretName": "missing"}}]);
    let mut stops = bound_pod("stops", NODE, ANOTHER, "1");
    stops["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 8}}});
    cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [waits, stops]}).to_string());
    bind(cluster, &[("fits", FOUR, "1"), ("hundred", ABSENT, "100")]);
    for pod in ["fits", "hundred", "stops"] {
        recorder.wait(pod, "runs", is_running);
    }
    recorder.wait("waits", "is admitted", |pod| condition(&pod["status"], "Initialized").0 == "True");
    // Its containers run for some seconds more.
    cluster.kubectl(&["delete", "pod", "stops", "--wait=false"]);
    write_quantities(cluster, &json!({ABSENT: "2"}));
    bind(cluster, &[("early", ANOTHER, "1")]);
    for number in 0..3 {
        let name = format!("lowered-{number}");
        write_quantities(cluster, &json!({LOWERED: "4"}));
        thread::scope(|scope| {
            scope.spawn(|| bind(cluster, &[(&name, LOWERED, "3")]));
            scope.spawn(|| write_quantities(cluster, &json!({LOWERED: "1"})));
        });
        recorder.wait_decided(&name);
        cluster.kubectl(&["delete", "pod", &name, "--now", "--wait=false"]);
    }
    recorder.wait_decided("early");
    recorder.wait("stops", "has ended", is_finished);
    cluster.kubectl(&["delete", "pod", "early", "--now"]);
    bind(cluster, &[("after", ANOTHER, "1"), ("three", FOUR, "3"), ("three-too", FOUR, "3")]);
    bind(cluster, &[("one-more", ABSENT, "1"), ("beside", ONE, "1")]);
    ["after", "three", "three-too", "one-more", "beside"].iter().for_each(|pod| recorder.wait_decided(pod));
}

#[test]
fn pod_reads_as_started_where_the_kubelet_has_admitted_it() {
    let cluster = Cluster::start();
    let mut kubelet = start_kubelet(&cluster, NODE, TICK);
    let recorder = Recorder::start(&cluster);
    write_quantities(&cluster, &json!({FOUR: "4", ONE: "1", ANOTHER: "1"}));
    bind_to_a_running_kubelet(&cluster, &recorder);
    let one_of_two = ["three", "three-too"].map(|pod| recorder.versions(pod).iter().any(is_running));
    assert_ne!(one_of_two[0], one_of_two[1], "one of them fits");

    write_quantities(&cluster, &json!({ANOTHER: "2"}));
    kubelet.kill().expect("the kubelet is killed");
    // A kubelet that starts admits pods in the order of their creation, which has whole seconds.
    wait_next_second().unwrap();
    bind(&cluster, &[("late", ANOTHER, "1"), ("too-late", FOUR, "1")]);
    kubelet.restart().expect("the kubelet restarts");
    recorder.wait("late", "runs", is_running);
    recorder.wait("too-late", "is rejected", is_rejected);
    recorder.wait("hundred", "has ended", is_finished);
    for (why, pod, fate) in ROWS {
        check(why, pod, fate, &recorder.versions(pod));
    }
    println!("the controller reads {} pods as their kubelet has admitted them", ROWS.len());
}
