//! Pods: a scheduler binds them, and kubelets admit, run and reject them, with the statuses that real ones were measured to
//! write.

use std::sync::Arc;

use serde_json::{Value, json};
use simulator::invariants::units;
use simulator::pods::{self, has_started, is_finished, requests};
use simulator::{Key, Kind, PatchBody, Subresource, Writer};

use super::actors::RESOURCES;
use super::world::{Due, Millis, World};

/// For how long a pod that a starting kubelet rejects stands as one that waits.
const REJECTION: Millis = 9000;

impl World {
    /// The scheduler binds a pod where there is room for it, or one ends.
    pub(super) fn change_pod(&mut self, number: usize) {
        let name = self.machines[number].name.clone();
        let resource = self.choices.one_of(&RESOURCES);
        let amount = i128::from(self.choices.below(3)) + 1;
        let ends = self.choices.percent(40);
        if ends {
            let on_node = self.pods_on(&name);
            let Some(pod) = on_node.last() else { return };
            let key = Key::of(pod);
            self.set_pod_status(&key, json!({"phase": "Succeeded"}));
            self.count("pod ended");
            return self.record(|| format!("{key} on {name} ends"));
        }
        let Ok(node) = self.server.get(Kind::Node, &Key::named(&name)) else { return };
        let room = units(&node["status"]["allocatable"][resource]).unwrap_or_default() - self.units_on(&name, resource);
        if room >= amount {
            self.bind(&name, resource, amount);
        }
    }

    /// The scheduler binds a pod to a node. Returns the number of its job.
    pub(super) fn bind(&mut self, name: &str, resource: &str, amount: i128) -> Option<u64> {
        self.names += 1;
        let job = self.names;
        let object = json!({
            "metadata": {"name": format!("job-{job}"), "namespace": "default"},
            "spec": {"nodeName": name, "containers": [
                {"name": "c", "resources": {"requests": {resource: amount.to_string()}}}]},
        });
        let scheduler = Writer::new("kube-scheduler");
        self.write(|server| server.create(Kind::Pod, object, &scheduler))?;
        self.count("pod bound");
        self.record(|| format!("job-{job}, which requests {amount} {resource}, is bound to {name}"));
        let delay = self.choices.one_of(&[0, 50, 1000, 8000]);
        self.after(delay, Due::Admit(job));
        Some(job)
    }

    /// A pod ends by itself.
    pub(super) fn end_pod(&mut self, job: u64) {
        if let Some(pod) = self.job(job) {
            self.set_pod_status(&Key::of(&pod), json!({"phase": "Succeeded"}));
            self.count("pod ended");
            self.record(|| format!("job-{job} ends"));
        }
    }

    /// A kubelet admits a pod if it fits, or if the node has nothing of the resource. Else it rejects the pod, which stands as
    /// one that waits for some seconds if the kubelet is just starting.
    pub(super) fn admit(&mut self, job: u64) {
        let Some(pod) = self.job(job) else { return };
        let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let Ok(node) = self.server.get(Kind::Node, &Key::named(name)) else { return };
        let admitted = self.pods_on(name);
        let admitted = || admitted.iter().filter(|pod| pod["status"]["conditions"].is_array());
        let fits = requests(&pod).iter().all(|(resource, amount)| {
            let used: i128 = admitted().filter_map(|pod| requests(pod).get(resource).copied()).sum();
            units(&node["status"]["allocatable"][resource]).is_none_or(|value| used + amount <= value)
        });
        let start = "2026-01-01T00:00:00Z";
        let is_starting = self.choices.percent(30);
        let (status, what) = match (fits, is_starting) {
            (true, _) => {
                let conditions = json!([
                    {"type": "PodReadyToStartContainers", "status": "False"},
                    {"type": "Initialized", "status": "True"},
                ]);
                let delay = self.choices.one_of(&[1, 1000, 20_000]);
                self.after(delay, Due::Run(job));
                (json!({"phase": "Pending", "startTime": start, "conditions": conditions}), "pod admitted")
            }
            (false, true) => {
                self.after(REJECTION, Due::Reject(job));
                (json!({"phase": "Pending", "startTime": start}), "pod rejected later")
            }
            (false, false) => (rejected(start), "pod rejected"),
        };
        self.set_pod_status(&Key::of(&pod), status);
        self.count(what);
        self.record(|| format!("{what}: job-{job}"));
    }

    pub(super) fn run_pod(&mut self, job: u64) {
        if let Some(pod) = self.job(job) {
            self.set_pod_status(&Key::of(&pod), pods::running());
            self.count("pod started");
            self.record(|| format!("job-{job} starts"));
        }
    }

    pub(super) fn reject(&mut self, job: u64) {
        if let Some(pod) = self.job(job) {
            let start = pod["status"]["startTime"].as_str().unwrap_or_default();
            debug_assert!(!has_started(&pod), "{pod}");
            self.set_pod_status(&Key::of(&pod), rejected(start));
            self.record(|| format!("job-{job} is rejected"));
        }
    }

    fn job(&self, job: u64) -> Option<Arc<Value>> {
        let key = Key::namespaced("default", format!("job-{job}"));
        self.server.get(Kind::Pod, &key).ok().filter(|pod| !is_finished(pod))
    }

    /// The unfinished pods on a node.
    pub(super) fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        let pods = self.objects(Kind::Pod).into_iter();
        pods.filter(|pod| pod["spec"]["nodeName"] == node && !is_finished(pod)).collect()
    }

    fn set_pod_status(&mut self, key: &Key, status: Value) {
        let (patch, kubelet) = (PatchBody::Merge(json!({ "status": status })), Writer::new("kubelet"));
        let written = self.write(|server| server.patch(Kind::Pod, Subresource::Status, key, &patch, &kubelet));
        if written.is_some_and(|pod| is_finished(&pod)) {
            self.wake_queue();
        }
    }
}

fn rejected(start: &str) -> Value {
    json!({"phase": "Failed", "startTime": start, "reason": "OutOfexample.com", "message": "Node didn't have enough resource"})
}
