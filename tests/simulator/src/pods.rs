//! What pods request, and which of them have started, read without the code of the controller.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::invariants::units;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, i128>;

/// What the unfinished pods on a node request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All that are bound to it.
    pub bound: Amounts,
    /// Those of which something has run.
    pub started: Amounts,
}

impl Usage {
    /// Adds a pod. One that has finished requests nothing.
    pub fn add(&mut self, pod: &Value) {
        if is_finished(pod) {
            return;
        }
        let has_started = has_started(pod);
        for (resource, amount) in requests(pod) {
            if has_started {
                *self.started.entry(resource.clone()).or_default() += amount;
            }
            *self.bound.entry(resource).or_default() += amount;
        }
    }

    /// Combines each amount of two usages; one that is absent is 0.
    #[must_use]
    pub fn merged(&self, other: &Self, amount: fn(i128, i128) -> i128) -> Self {
        let merged = |one: &Amounts, other: &Amounts| {
            let of = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or_default();
            let resources = one.keys().chain(other.keys()).cloned();
            resources.map(|it| (it.clone(), amount(of(one, &it), of(other, &it)))).collect()
        };
        Self { bound: merged(&self.bound, &other.bound), started: merged(&self.started, &other.started) }
    }
}

impl<'a> FromIterator<&'a Value> for Usage {
    fn from_iter<I: IntoIterator<Item = &'a Value>>(pods: I) -> Self {
        let mut usage = Self::default();
        pods.into_iter().for_each(|pod| usage.add(pod));
        usage
    }
}

/// Returns the requests of a pod without init containers.
#[must_use]
pub fn requests(pod: &Value) -> Amounts {
    let mut sum = Amounts::new();
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    for (name, amount) in containers.filter_map(|it| it["resources"]["requests"].as_object()).flatten() {
        *sum.entry(name.clone()).or_default() += units(amount).unwrap_or_default();
    }
    sum
}

/// Returns whether nothing of a pod runs, or will run, anymore.
#[must_use]
pub fn is_finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns whether something of a pod has run, by what kubelets were measured to write.
#[must_use]
pub fn has_started(pod: &Value) -> bool {
    let status = &pod["status"];
    let list = |field: &str| status[field].as_array().into_iter().flatten();
    let condition = |kind: &str| list("conditions").find(|it| it["type"] == kind).map(|it| &it["status"]);
    let has_run = |container: &Value| {
        let states = [&container["state"], &container["lastState"]];
        let ran = |state: &&Value| !state["running"].is_null() || !state["terminated"].is_null();
        states.iter().any(ran) || container["restartCount"].as_i64().is_some_and(|count| count > 0)
    };
    let containers =
        ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"].into_iter().flat_map(list);
    let is_running = status["phase"] == "Running"
        || condition("PodReadyToStartContainers").is_some_and(|status| status == "True")
        || { containers }.any(has_run);
    !status["startTime"].is_null() && condition("Initialized").is_some() && is_running
}

/// Returns the status of a pod that runs.
#[must_use]
pub fn running() -> Value {
    json!({
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "PodReadyToStartContainers", "status": "True"},
            {"type": "Initialized", "status": "True"},
        ],
        "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}, "lastState": {}}],
    })
}
