//! How the world answers requests that have been left open.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use json_patch::{Patch, PatchOperation};
use kube::core::Status;
use kube::runtime::watcher;
use serde_json::json;

use super::world::{DONGLE, Open, World, object};
use crate::model::api::NodeExtendedResourceStatus;
use crate::model::pod::{NodeRequests, Pod, Requests};
use crate::planner::tests::try_apply;
use crate::reconciler::effect::{Completion, WrittenStatus};
use crate::reconciler::limiter::Slot;
use crate::reconciler::rules::ObservedStatus;
use crate::reconciler::usage::PodObject;
use crate::reconciler::{Event, Observation};
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;

pub(super) fn error(code: u16) -> RequestError {
    let code = StatusCode::from_u16(code).unwrap();
    RequestError::Api { code, status: Box::new(Status::failure("no", "")), retry_after: None }
}

fn api_error(code: u16, body: &str) -> RequestError {
    RequestError::from_response(StatusCode::from_u16(code).unwrap(), &HeaderMap::new(), body.as_bytes())
}

impl World {
    /// The one open patch.
    pub(super) fn only_patch(&mut self) -> (Slot, String, Patch) {
        assert_eq!(self.open.len(), 1, "{:?}", self.open);
        match self.open.remove(0) {
            Open::Patch { slot, node, patch, .. } => (slot, node, patch),
            other => panic!("{other:?}"),
        }
    }

    /// The nodes with an open patch.
    pub(super) fn patched(&self) -> Vec<&str> {
        let patched = self.open.iter().filter_map(|open| match open {
            Open::Patch { node, .. } => Some(node.as_str()),
            Open::Rules(_) => None,
        });
        patched.collect()
    }

    /// Answers a patch as the API server does: applies it, or says that a `test` does not hold.
    pub(super) fn answer(&mut self, open: Open) {
        match open {
            Open::Patch { slot, node, patch, .. } => {
                let reply = self.apply(&node, &patch);
                self.reply(slot, &node, reply);
            }
            Open::Rules(rules) => self.show_rules(rules),
        }
        self.run();
    }

    /// Writes the status of the rule with this uid.
    pub(super) fn write_rule_status(
        &mut self,
        rule: &str,
        uid: Option<&str>,
        status: &NodeExtendedResourceStatus,
    ) -> Result<WrittenStatus, RequestError> {
        let value = serde_json::to_value(status).unwrap();
        self.statuses.push((rule.to_owned(), value.clone()));
        match self.write_status {
            200 => {}
            422 => return Err(api_error(422, r#"{"details": {"causes": [{"reason": "FieldValueInvalid"}]}}"#)),
            code => return Err(error(code)),
        }
        let Some(object) = self.rules.get_mut(rule) else {
            return Err(api_error(404, r#"{"reason": "NotFound", "details": {"kind": "nodeextendedresources"}}"#));
        };
        if object["metadata"]["uid"].as_str() != uid {
            return Err(api_error(422, r#"{"reason": "Invalid", "details": {}}"#));
        }
        object["status"] = value;
        let version = self.overtake_status(rule);
        Ok(WrittenStatus { status: ObservedStatus::new(status), version })
    }

    /// The watch shows a late status. Returns the version of the write before it, if there is one.
    pub(super) fn overtake_status(&mut self, rule: &str) -> Option<u64> {
        let status = self.late_status.take()?;
        let written = self.next_version().parse().unwrap();
        let version = self.next_version();
        let value = self.rules.get_mut(rule)?;
        value["status"] = status;
        value["metadata"]["resourceVersion"] = json!(version);
        let event = Event::Apply(object(value.clone()));
        self.observe(Observation::Rule(Ok(event)));
        Some(written)
    }

    /// Applies a patch, and shows the node to the watch.
    pub(super) fn apply(&mut self, name: &str, patch: &Patch) -> Reply {
        let Some(mut node) = self.nodes.get(name).cloned() else { return Reply::NotFound };
        if try_apply(&mut node, patch).is_err() {
            let node = Box::new(object(self.nodes[name].clone()));
            return Reply::Stale { node, message: "422: a test failed".to_owned() };
        }
        node["metadata"]["resourceVersion"] = json!(self.next_version());
        node["metadata"]["managedFields"] = json!([]);
        (self.admission)(&mut node);
        self.nodes.insert(name.to_owned(), node.clone());
        self.show(name);
        Reply::Patched(Box::new(object(node)))
    }

    pub(super) fn reply(&mut self, slot: Slot, node: &str, reply: Reply) {
        let completion = Completion::NodePatched { slot, node: node.into(), reply };
        self.reconciler.complete(completion, self.now);
        self.run();
    }

    /// Answers everything until nothing is open.
    pub(super) fn run_until_idle(&mut self) {
        self.run();
        for _ in 0..100_000 {
            if self.open.is_empty() {
                return;
            }
            let open = self.open.remove(0);
            self.answer(open);
        }
        panic!("it never comes to rest: {:?}", self.open);
    }

    /// A node whose 4 dongles are being lowered to 2: then a pod has been bound that requests 3, and the patch is open.
    pub(super) fn lowering_while_a_pod_is_bound() -> (Self, (Slot, String, Patch)) {
        let mut world = Self::leading(1, &[("dongle", 4)]);
        world.run_until_idle();
        world.set_rule("dongle", json!({"quantity": 2}));
        world.run();
        let patch = world.only_patch();
        world.bind("node-0", 3);
        (world, patch)
    }

    /// Has a pod on a node request so many dongles, and start. Before, none did.
    pub(super) fn bind(&mut self, node: &str, dongles: u64) {
        self.pods.insert(node.to_owned(), dongles);
        self.show_pods(Event::Apply(pod(node, dongles)));
    }

    /// Ends all pods.
    pub(super) fn end_pods(&mut self) {
        for (node, dongles) in std::mem::take(&mut self.pods) {
            self.show_pods(Event::Delete(pod(&node, dongles)));
        }
    }

    fn show_pods(&mut self, event: Event<PodObject>) {
        if self.watches_pods && self.hears_pods && self.watch_pods == 200 {
            self.observe(Observation::Pods(Ok(event)));
        }
    }

    /// Lists all pods for the watch, if they are watched.
    pub(super) fn list_pods(&mut self) {
        if !self.watches_pods {
            return;
        }
        if self.watch_pods != 200 {
            let error = kube::Error::Api(Box::new(Status::failure("no", "").with_code(self.watch_pods)));
            self.observe(Observation::Pods(Err(watcher::Error::InitialListFailed(error))));
            return;
        }
        self.observe(Observation::Pods(Ok(Event::Init)));
        for (node, dongles) in self.pods.clone() {
            self.observe(Observation::Pods(Ok(Event::InitApply(pod(&node, dongles)))));
        }
        self.observe(Observation::Pods(Ok(Event::InitDone)));
    }

    /// Lets the reconciler do all that it can at this moment; answers lists of rules, and patches by `reply`. Returns how many
    /// patches there were.
    pub(super) fn answer_all(&mut self, mut reply: impl FnMut(&mut Self, &str, &Patch) -> Reply) -> usize {
        let mut patches = 0;
        self.run();
        while !self.open.is_empty() {
            match self.open.remove(0) {
                Open::Patch { slot, node, patch, .. } => {
                    patches += 1;
                    let reply = reply(self, &node, &patch);
                    self.reply(slot, &node, reply);
                }
                other => self.answer(other),
            }
        }
        patches
    }

    /// Lets seconds pass, and answers everything as it comes.
    pub(super) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.run_until_idle();
            self.advance(Duration::from_secs(1));
        }
        self.run_until_idle();
    }
}

/// The pod on a node.
fn pod(node: &str, dongles: u64) -> PodObject {
    let container = json!({"resources": {"requests": {DONGLE: dongles.to_string()}}});
    object(json!({"metadata": {"uid": node, "resourceVersion": "7"},
        "spec": {"nodeName": node, "containers": [container]}, "status": simulator::pods::running()}))
}

pub(super) fn requests(dongles: u64) -> NodeRequests {
    let container = json!({"resources": {"requests": {DONGLE: dongles.to_string()}}});
    let pod: Pod = object(json!({"spec": {"containers": [container]}}));
    let requests = Requests::of(&pod);
    NodeRequests { bound: requests.clone(), started: requests }
}

/// I6: what a process sends that does not lead restores values that are 0 in both maps, if the ledger is as it was.
pub(super) fn check_reset(patch: &Patch) {
    let text = serde_json::to_value(patch).unwrap().to_string();
    for operation in &patch.0 {
        let (path, is_test) = match operation {
            PatchOperation::Test(test) => (&test.path, true),
            PatchOperation::Add(add) => (&add.path, false),
            other => panic!("{other}"),
        };
        let test = json!({"op": "test", "path": path.as_str(), "value": "0"}).to_string();
        assert!(is_test || text.contains(&test), "{text}");
    }
    for path in ["/metadata/uid", "/metadata/annotations/noderesource.dev~1advertised"] {
        assert!(text.contains(&format!(r#"{{"op":"test","path":"{path}""#)), "{text}");
    }
}

pub(super) fn failed(code: u16) -> Reply {
    Reply::from(error(code))
}
