//! How the world answers requests that have been left open.

use std::time::Duration;

use http::StatusCode;
use json_patch::{Patch, PatchOperation};
use kube::core::Status;
use serde_json::json;

use super::world::{DONGLE, Open, World, object};
use crate::cluster::node_client::{PodsByNode, Reply};
use crate::cluster::requests::RequestError;
use crate::controller::effect::{Completion, PodScope, RequestId};
use crate::controller::reconciler::{Event, Observation};
use crate::model::pod::{NodeRequests, Pod, Requests};
use crate::planner::tests::try_apply;

pub(super) fn error(code: u16) -> RequestError {
    let code = StatusCode::from_u16(code).unwrap();
    RequestError::Api { code, status: Box::new(Status::failure("no", "")), retry_after: None }
}

impl World {
    /// Answers a patch as the API server does: applies it, or says that a `test` does not hold.
    pub(super) fn answer(&mut self, open: Open) {
        match open {
            Open::Patch { id, node, patch, .. } => {
                let reply = self.apply(&node, &patch);
                self.reply(id, &node, reply);
            }
            Open::Rules { id, list } => {
                self.reconciler.complete(Completion::RulesListed { id, reply: Ok(list) }, self.now);
            }
            Open::Pods { id, scope } => {
                let nodes = self.pods.iter().map(|(node, dongles)| (node.as_str().into(), requests(*dongles)));
                let total = (scope == PodScope::Cluster).then_some(self.pods_of_others + self.pods.len());
                let reply = Ok(PodsByNode { requests: nodes.collect(), total });
                self.reconciler.complete(Completion::PodsListed { id, scope, reply }, self.now);
            }
        }
        self.run();
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

    pub(super) fn reply(&mut self, id: RequestId, node: &str, reply: Reply) {
        let completion = Completion::NodePatched { id, node: node.into(), reply };
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

    /// A node whose 4 dongles are to be lowered to 2, and the list of pods that precedes it.
    pub(super) fn listing_for_a_lowering() -> (Self, Open) {
        let mut world = Self::leading(1, &[("dongle", 4)]);
        world.run_until_idle();
        world.set_rule("dongle", json!({"quantity": 2}));
        world.run();
        let list = world.open.remove(0);
        (world, list)
    }

    /// A node whose 4 dongles are being lowered to 2: pods have been listed, then one was bound that requests 3, and the
    /// patch is open.
    pub(super) fn lowering_while_a_pod_is_bound() -> (Self, (RequestId, String, Patch)) {
        let (mut world, list) = Self::listing_for_a_lowering();
        world.answer(list);
        world.pods.insert("node-0".to_owned(), 3);
        let patch = world.only_patch();
        (world, patch)
    }

    /// The API server asks for a pause, in response to a patch of another node.
    pub(super) fn api_server_asks_for_a_pause(&mut self, seconds: u64) {
        self.set_node("node-1", json!({}));
        self.run();
        let list = self.open.remove(0);
        self.answer(list);
        let (id, node, _) = self.only_patch();
        let reply = Reply::Failed {
            message: "too many requests".to_owned(),
            retry_after: Some(Duration::from_secs(seconds)),
            maybe_applied: false,
        };
        self.reply(id, &node, reply);
    }

    /// Lets the reconciler do all that it can at this moment; answers lists, and patches by `reply`. Returns how many
    /// patches there were.
    pub(super) fn answer_all(&mut self, mut reply: impl FnMut(&mut Self, &str, &Patch) -> Reply) -> usize {
        let mut patches = 0;
        self.run();
        while !self.open.is_empty() {
            match self.open.remove(0) {
                Open::Patch { id, node, patch, .. } => {
                    patches += 1;
                    let reply = reply(self, &node, &patch);
                    self.reply(id, &node, reply);
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
