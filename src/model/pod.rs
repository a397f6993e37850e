//! The requests of Pods for a node's extended resources, counted like the scheduler does.

mod amounts;
mod compute;
pub mod object;
pub mod pod_use;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::model::quantity::{MAX_QUANTITY, Quantity};
use amounts::Amounts;
use status::PodStatus;

/// A list of Pods from the API server, decoded without unused fields.
#[derive(Clone, Debug, Deserialize)]
pub struct PodList {
    items: Vec<Pod>,
}

/// A Pod, reduced to its resource requests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    kind: Option<Box<str>>,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<Box<str>>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: Amounts,
    /// Of the pod as a whole, instead of its containers'.
    resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    resources: Resources,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Resources {
    requests: Amounts,
}

impl<'de> Deserialize<'de> for Resources {
    /// Sets a missing request from the limit, as the API server does when a pod is created: a file may hold a pod as
    /// people write it.
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Written {
            requests: Amounts,
            limits: Amounts,
        }

        let Written { mut requests, limits } = Option::<Written>::deserialize(decoder)?.unwrap_or_default();
        let own = requests.extended.len();
        for limit in limits.extended {
            if !requests.extended[..own].iter().any(|(name, _)| *name == limit.0) {
                requests.extended.push(limit);
            }
        }
        let classes = limits.classes.into_iter().filter(|class| !requests.classes.contains(class));
        let classes: Vec<_> = classes.collect();
        requests.classes.extend(classes);
        requests.cpu = requests.cpu.or(limits.cpu);
        requests.memory = requests.memory.or(limits.memory);
        Ok(Self { requests })
    }
}

/// Amounts of extended resources, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Of pods that have them from the node.
    own: BTreeMap<String, Quantity>,
    /// Of pods that have them from a ResourceClaim.
    claimed: BTreeMap<String, Quantity>,
}

impl Requests {
    /// Returns what a pod requests of its node, and what it has from a ResourceClaim instead. A pod that has finished
    /// requests nothing.
    #[must_use]
    pub fn on_node(pod: &Pod) -> Self {
        if pod.is_finished() {
            return Self::default();
        }
        let mut requests = Self::of(pod);
        requests.own.retain(|_, quantity| !quantity.is_zero());
        for resource in pod.claimed() {
            requests.claimed.extend(requests.own.remove_entry(resource));
        }
        requests
    }

    /// Returns the requests of one pod, like `PodRequests` in `k8s.io/component-helpers/resource`.
    ///
    /// An init container runs alongside the sidecars (init containers that always restart) before it, and ends before
    /// the other containers start. Pod-level requests apply only to cpu, memory and huge pages, so they add nothing
    /// here.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let PodSpec { containers, init_containers, overhead, .. } = &pod.spec;
        let mut running = Self::default();
        for container in containers {
            running.add(&Self::read(&container.resources.requests));
        }
        let mut sidecars = Self::default();
        let mut starting = Self::default();
        for container in init_containers {
            let mut beside = Self::read(&container.resources.requests);
            if container.restart_policy.as_deref() == Some("Always") {
                running.add(&beside);
                sidecars.add(&beside);
                starting.raise_to(&sidecars);
            } else {
                beside.add(&sidecars);
                starting.raise_to(&beside);
            }
        }
        running.raise_to(&starting);
        running.add(&Self::read(overhead));
        running
    }

    /// Returns how much of a resource a node needs, or 0.
    ///
    /// Once a pod has it from the node, what others have from ResourceClaims counts as well: the scheduler subtracts it
    /// (`fitsRequest` in `k8s.io/kubernetes/pkg/scheduler`), and so does a kubelet that restarts, and then rejects pods
    /// for which too little is left (`removeMissingExtendedResources` in `pkg/kubelet/lifecycle`, which spares only the
    /// pod in question).
    #[must_use]
    pub fn get(&self, resource: &str) -> Quantity {
        let [own, claimed] = [&self.own, &self.claimed].map(|amounts| amounts.get(resource).copied());
        let own = own.filter(|own| !own.is_zero());
        own.map(|own| own.saturating_add(claimed.unwrap_or_default())).unwrap_or_default()
    }

    /// Returns every resource that a node needs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.own.keys().map(|resource| (resource.as_str(), self.get(resource)))
    }

    fn read(amounts: &Amounts) -> Self {
        let own = amounts.extended.iter().map(|(name, quantity)| (name.clone(), *quantity)).collect();
        Self { own, claimed: BTreeMap::new() }
    }

    /// Returns the number of resources that are requested.
    #[must_use]
    pub fn len(&self) -> usize {
        self.own.len() + self.claimed.len()
    }

    /// Returns whether nothing is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.claimed.is_empty()
    }

    fn add(&mut self, other: &Self) {
        other.own.iter().for_each(|(resource, quantity)| self.add_amount(resource, *quantity));
        other.claimed.iter().for_each(|(resource, quantity)| self.add_claimed(resource, *quantity));
    }

    /// Adds what a pod has of a resource from the node.
    pub fn add_amount(&mut self, resource: &str, quantity: Quantity) {
        let sum = self.own.entry(resource.to_owned()).or_default();
        *sum = sum.saturating_add(quantity);
    }

    /// Adds what a pod has of a resource from a ResourceClaim.
    pub fn add_claimed(&mut self, resource: &str, quantity: Quantity) {
        let sum = self.claimed.entry(resource.to_owned()).or_default();
        *sum = sum.saturating_add(quantity);
    }

    fn raise_to(&mut self, other: &Self) {
        for (resource, quantity) in &other.own {
            let largest = self.own.entry(resource.to_owned()).or_default();
            *largest = (*largest).max(*quantity);
        }
    }
}

impl From<&Requests> for Arc<Requests> {
    fn from(requests: &Requests) -> Self {
        Self::new(requests.clone())
    }
}

/// What the unfinished pods on a node request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRequests {
    /// Of all pods that are bound to it.
    pub bound: Requests,
    /// Of those in which something has run: a kubelet has admitted them.
    pub started: Requests,
}

impl NodeRequests {
    /// Returns up to what started pods raise the value of a resource: their requests, unless the pods together request more
    /// than any value can be. Scheduler and kubelet add in 64 bits, and admit a pod whose requests overflow those
    /// (`Quantity.Value` in `k8s.io/apimachinery`): that one has started is then no sign that the node has enough.
    #[must_use]
    pub fn raising(&self, resource: &str) -> Quantity {
        let started = self.started.get(resource);
        let is_countable = self.bound.get(resource).max(started) <= Quantity::from(MAX_QUANTITY);
        if is_countable { started } else { Quantity::default() }
    }
}

impl NodeRequests {
    /// Returns the requests of the pods in a list.
    #[must_use]
    pub fn from_pods(pods: &PodList) -> Self {
        let mut total = Self::default();
        pods.items.iter().for_each(|pod| total.add_pod(pod));
        total
    }

    /// Adds the requests of a pod, unless it has finished.
    pub fn add_pod(&mut self, pod: &Pod) {
        self.add(&Requests::on_node(pod), pod.has_started());
    }

    /// Adds the requests of a pod.
    pub fn add(&mut self, requests: &Requests, has_started: bool) {
        self.bound.add(requests);
        if has_started {
            self.started.add(requests);
        }
    }
}

impl Pod {
    /// Returns the kind of the object, like [`ApiNode::kind`](crate::model::node::ApiNode::kind).
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Returns the node that the pod is assigned to.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref()
    }

    /// Returns the extended resources that a ResourceClaim provides.
    pub fn claimed(&self) -> impl Iterator<Item = &str> {
        let status = self.status.extended_resource_claim_status.iter();
        let mappings = status.flat_map(|status| &status.request_mappings).flatten();
        mappings.map(|mapping| &*mapping.resource_name)
    }

    /// Returns the DeviceClasses that the pod requests by name, as `deviceclass.resource.kubernetes.io/<class>`: DRA
    /// provides them, and never a node (KEP-5004).
    pub fn device_classes(&self) -> impl Iterator<Item = &str> {
        let containers = self.spec.containers.iter().chain(&self.spec.init_containers);
        containers.flat_map(|container| &container.resources.requests.classes).map(|class| &**class)
    }

    /// Returns `status.phase`, such as `Running`.
    #[must_use]
    pub fn phase(&self) -> &str {
        &self.status.phase
    }

    /// Returns whether something of the pod has run.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.status.has_started
    }

    /// Returns whether none of its containers runs or will run again.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(dongles: &str) -> Value {
        json!({"resources": {"requests": {"example.com/dongle": dongles, "cpu": "1"}}})
    }

    fn sidecar(dongles: &str) -> Value {
        let mut sidecar = container(dongles);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    }

    fn dongles(pods: &[Value]) -> String {
        let pods = serde_json::from_value(json!({"items": pods})).unwrap();
        let requests = NodeRequests::from_pods(&pods).bound;
        assert_eq!(requests.get("cpu"), Quantity::from(0), "native resources are not counted");
        requests.get("example.com/dongle").to_string()
    }

    #[test]
    fn pod_requests_sum_containers_and_take_largest_init_container() {
        for (containers, init_containers, requested) in [
            (vec![container("1"), container("2")], vec![], "3"),
            (vec![container("1")], vec![container("3"), container("2")], "3"),
            (vec![container("2")], vec![container("1")], "2"),
            // A sidecar runs beside what comes after it.
            (vec![container("2")], vec![sidecar("1"), container("1")], "3"),
            (vec![container("1")], vec![sidecar("1"), container("4")], "5"),
            (vec![container("1")], vec![container("4"), sidecar("1")], "4"),
            (vec![], vec![sidecar("1"), sidecar("2")], "3"),
            (vec![], vec![], "0"),
        ] {
            let spec = json!({"containers": containers, "initContainers": init_containers});
            assert_eq!(dongles(&[json!({"spec": spec})]), requested, "{spec}");
        }
    }

    #[test]
    fn pod_requests_include_overhead_but_not_pod_level_requests() {
        let pod = json!({"spec": {
            "containers": [container("1")],
            "overhead": {"example.com/dongle": "2"},
            "resources": {"requests": {"example.com/dongle": "8"}},
        }});
        assert_eq!(dongles(&[pod]), "3");
    }

    #[test]
    fn pod_requests_exclude_what_only_a_resource_claim_provides() {
        let mapping = |resource: &str| json!({"containerName": "a", "resourceName": resource, "requestName": "b"});
        for (status, requested) in [
            (json!({"requestMappings": [mapping("example.com/dongle")]}), "0"),
            (json!({"requestMappings": [mapping("example.com/key"), mapping("example.com/dongle")]}), "0"),
            (json!({"requestMappings": [mapping("example.com/key")]}), "3"),
            (json!({"requestMappings": []}), "3"),
            (json!({"requestMappings": null}), "3"),
            (json!({}), "3"),
            (Value::Null, "3"),
        ] {
            let pod = json!({
                "spec": {"containers": [container("1"), container("2")]},
                "status": {"phase": "Running", "extendedResourceClaimStatus": status},
            });
            assert_eq!(dongles(&[pod]), requested, "{status}");
        }
    }

    /// Else a kubelet that restarts would reject the pod that has it from the node.
    #[test]
    fn pod_requests_include_what_a_resource_claim_provides_beside_a_pod_that_uses_the_node() {
        let pod = |quantity: &str, resource: &str| {
            let mapping = json!({"containerName": "a", "resourceName": resource, "requestName": "b"});
            let status = json!({"requestMappings": [mapping]});
            json!({"spec": {"containers": [container(quantity)]}, "status": {"extendedResourceClaimStatus": status}})
        };
        let [from_claim, from_node] = [pod("2", "example.com/dongle"), pod("1", "example.com/key")];
        let nothing = json!({"spec": {"containers": [container("0")]}});
        assert_eq!(dongles(&[from_claim.clone(), from_node.clone()]), "3");
        assert_eq!(dongles(&[from_node, from_claim.clone()]), "3");
        assert_eq!(dongles(&[from_claim, nothing]), "0");
    }

    #[test]
    fn pod_requests_exclude_finished_pods() {
        let pod = |phase: &str| json!({"spec": {"containers": [container("1k")]}, "status": {"phase": phase}});
        let pods = ["Running", "Pending", "Unknown", "Succeeded", "Failed"].map(pod);
        assert_eq!(dongles(&pods), "3k");
    }
}
