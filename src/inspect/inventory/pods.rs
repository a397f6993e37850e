//! The pods that request extended resources.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::inspect::diff::order::NodeName;
use crate::model::compute::Compute;
use crate::model::pod::Requests;
use crate::model::pod::object::PodObject;
use crate::model::quantity::Quantity;
use crate::model::resource_name::is_extended;

/// An unfinished pod that requests extended resources.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    /// The node that it is assigned to.
    pub(crate) node: Option<NodeName>,
    pub(crate) phase: Arc<str>,
    pub(crate) priority: i32,
    pub(crate) is_gated: bool,
    pub(crate) is_terminating: bool,
    /// Where the scheduler has made room for it, while it has no node.
    pub(crate) nominated_node: Option<Box<str>>,
    /// Why the scheduler found no node, in its own words.
    pub(crate) message: Option<Arc<str>>,
    /// Why the pod failed, in the words of who decided so.
    pub(crate) failure: Option<Box<str>>,
    /// The DeviceClasses that it requests by name.
    pub(crate) device_classes: Box<[Box<str>]>,
    /// What it requests of nodes, by resource.
    pub(crate) requests: Box<[(Arc<str>, Quantity)]>,
    /// The resources of which a LimitRange has added a request.
    pub(crate) added: Box<[Arc<str>]>,
    /// What it has from a ResourceClaim, by resource.
    pub(crate) claimed: Box<[(Arc<str>, Quantity)]>,
    /// The cpu and memory that it requests.
    pub(crate) compute: Compute,
    /// Whether something of it has run.
    pub(crate) has_started: bool,
}

impl PodEntry {
    /// Returns whether the pod has finished: none of its containers runs or will run again.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// Returns whether a kubelet has rejected the pod because the node has too little of a resource.
    pub(crate) fn is_rejected(&self) -> bool {
        let failure = self.failure.as_deref().unwrap_or_default();
        let resource = failure.strip_prefix("OutOf").and_then(|rest| rest.split(':').next());
        self.is_finished() && resource.is_some_and(|resource| !self.requests(resource).is_zero())
    }

    /// Returns whether an inventory has the pod: if it is unfinished and requests extended resources.
    pub(crate) fn counts(&self) -> bool {
        let has_requests = !self.requests.is_empty() || !self.claimed.is_empty();
        has_requests && !self.is_finished()
    }

    /// Returns how much of a node's resource the pod requests.
    pub(crate) fn requests(&self, resource: &str) -> Quantity {
        let found = self.requests.iter().find(|(name, _)| **name == *resource);
        found.map(|(_, quantity)| *quantity).unwrap_or_default()
    }

    /// Returns everything that the pod requests of a node, or has from a ResourceClaim instead.
    pub(crate) fn all_requests(&self) -> Requests {
        let mut all = Requests::default();
        self.requests.iter().for_each(|(resource, quantity)| all.add_amount(resource, *quantity));
        self.claimed.iter().for_each(|(resource, quantity)| all.add_claimed(resource, *quantity));
        all
    }
}

impl fmt::Display for PodEntry {
    /// `namespace/name`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns the extended resources that `LimitRanger plugin set: cpu, example.com/dongle request for container c; ...` names
/// as requested.
fn added_requests(text: &str) -> Vec<&str> {
    let (_, parts) = text.split_once("plugin set: ").unwrap_or_default();
    let requests = parts.split("; ").filter_map(|part| part.split_once(" request for "));
    requests.flat_map(|(names, _)| names.split(", ")).filter(|name| is_extended(name)).collect()
}

/// Collects pods from pages of a list.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    entries: Vec<Arc<PodEntry>>,
    /// What unfinished pods request of the cpu and memory of each node.
    compute: HashMap<NodeName, Compute>,
    /// Names of nodes and resources, phases and messages, each kept once.
    strings: HashSet<Arc<str>>,
}

impl Pods {
    /// Adds a pod, unless it has finished or requests no extended resource.
    pub(crate) fn add(&mut self, object: PodObject) {
        let entry = self.entry(object);
        if let (Some(node), false) = (&entry.node, entry.is_finished()) {
            *self.compute.entry(node.clone()).or_default() += entry.compute;
        }
        if entry.counts() {
            self.entries.push(Arc::new(entry));
        }
    }

    /// Reduces a pod to what an inventory keeps.
    pub(crate) fn entry(&mut self, object: PodObject) -> PodEntry {
        let PodObject { metadata, priority, is_gated, is_terminating, nominated_node, .. } = object;
        let PodObject { message, failure, limit_ranger, pod, .. } = object;
        let added = limit_ranger.as_deref().map(added_requests).unwrap_or_default();
        let added = added.into_iter().map(|resource| self.intern(resource)).collect();
        let claimed: HashSet<_> = pod.claimed().collect();
        let (mut requests, mut from_claims) = (Vec::new(), Vec::new());
        for (resource, quantity) in Requests::of(&pod).iter().filter(|(_, quantity)| !quantity.is_zero()) {
            let amounts = if claimed.contains(resource) { &mut from_claims } else { &mut requests };
            amounts.push((self.intern(resource), quantity));
        }
        let node = pod.node().filter(|node| !node.is_empty()).map(|node| NodeName(self.intern(node)));
        PodEntry {
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            phase: self.intern(pod.phase()),
            priority,
            is_gated,
            is_terminating,
            // Before Kubernetes 1.35, the field stays when the pod gets a node.
            nominated_node: nominated_node.filter(|_| node.is_none()),
            node,
            message: message.map(|message| self.intern(&message)),
            failure,
            device_classes: pod.device_classes().map(Into::into).collect(),
            requests: requests.into(),
            added,
            claimed: from_claims.into(),
            compute: pod.compute(),
            has_started: pod.has_started(),
        }
    }

    /// Drops all pods.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.compute.clear();
    }

    /// Drops strings that no pod has anymore.
    pub(crate) fn forget_unused(&mut self) {
        self.strings.retain(|text| Arc::strong_count(text) > 1);
    }

    /// Returns what the pods request of the cpu and memory of each node.
    pub(crate) fn take_compute(&mut self) -> HashMap<NodeName, Compute> {
        std::mem::take(&mut self.compute)
    }

    /// Returns the pods by namespace and name.
    pub(crate) fn finish(mut self) -> Vec<Arc<PodEntry>> {
        self.entries.sort_unstable_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        self.entries
    }

    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.strings.get(text) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = text.into();
        self.strings.insert(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_that_a_limit_range_has_added_is_read() {
        let text = "LimitRanger plugin set: cpu, example.com/dongle request for container a; cpu, example.com/other limit \
                    for container a; example.com/key request for init container b";
        assert_eq!(added_requests(text), ["example.com/dongle", "example.com/key"]);
        for other in ["", "by hand", "LimitRanger plugin set: "] {
            assert_eq!(added_requests(other), [""; 0], "{other}");
        }
    }
}
