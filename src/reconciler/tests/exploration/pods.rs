//! The pod on the node, and the watch that shows it.

use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::world::object;
use super::world::{NODES, Open, Shown, World};
use crate::planner::tests::exploration::node::RESOURCES;
use crate::reconciler::*;

impl World {
    /// The pod has changed, or has ended: then it is shown as it was.
    pub(super) fn change_pod(&mut self, pods: u8, has_started: bool) {
        let ended = (pods == 0).then(|| Shown::Delete(self.pod()));
        (self.pods, self.has_started) = (pods, has_started);
        let shown = ended.unwrap_or_else(|| Shown::Apply(self.pod()));
        if self.watches_pods[1] {
            self.show(2, shown);
        }
    }

    fn pod(&self) -> Value {
        let status = if self.has_started { simulator::pods::running() } else { json!({"phase": "Pending"}) };
        let requests = json!({RESOURCES[0]: self.pods.to_string()});
        json!({"metadata": {"uid": "pod", "resourceVersion": "1"},
            "spec": {"nodeName": NODES[0], "containers": [{"resources": {"requests": requests}}]}, "status": status})
    }

    pub(super) fn show_pods_now(&mut self, shown: Shown) {
        let event = match shown {
            Shown::Apply(pod) => {
                let amount = &pod["spec"]["containers"][0]["resources"]["requests"][RESOURCES[0]];
                let bound = amount.as_str().unwrap().parse().unwrap();
                self.shown_pods = [bound, if pod["status"]["phase"] == "Running" { bound } else { 0 }];
                Event::Apply(object(pod))
            }
            Shown::Delete(pod) => {
                self.shown_pods = [0; 2];
                Event::Delete(object(pod))
            }
        };
        self.observe(Observation::Pods(Ok(event)));
    }

    pub(super) fn list_pods(&mut self) {
        self.behind[2] = None;
        self.watches_pods[1] = true;
        self.shown_pods = [self.pods, if self.has_started { self.pods } else { 0 }];
        self.observe(Observation::Pods(Ok(Event::Init)));
        if self.pods > 0 {
            let pod = object(self.pod());
            self.observe(Observation::Pods(Ok(Event::InitApply(pod))));
        }
        self.observe(Observation::Pods(Ok(Event::InitDone)));
    }

    /// Whether the watch of pods shows bookmarks.
    pub(super) fn hears_pods(&self) -> bool {
        self.watches_pods[1] && self.behind[2].is_none()
    }

    /// Whether pods are to be watched.
    pub(super) fn watches_pods(&self) -> bool {
        self.watches_pods[0]
    }

    /// Whether the watch of pods goes on.
    pub(super) fn has_listed_pods(&self) -> bool {
        self.watches_pods[1]
    }

    /// Begins or ends the watch of pods.
    pub(super) fn watch_pods(&mut self, is_wanted: bool) {
        self.watches_pods = [is_wanted, false];
        self.behind[2] = None;
        self.open.retain(|open| !matches!(open, Open::Pods));
        if is_wanted {
            self.open.push(Open::Pods);
        }
    }

    /// Lets time pass, in which bookmarks come.
    pub(super) fn pass(&mut self, until: Instant) {
        self.late.retain(|late| until < late.until);
        let passed = until.duration_since(self.now.instant);
        self.now.instant = until;
        self.now.wall += SignedDuration::try_from(passed).unwrap();
        // Bookmarks.
        if self.hears_pods() {
            self.observe(Observation::PodsHeard(until));
        }
    }
}
