//! What a cluster has of extended resources, who declares them, and which pods request them. Pure, apart from [`read`] and
//! [`follow`].
//!
//! ```text
//! nodes ─┐
//! pods  ─┼─▶ Inventory ─▶ Use, per resource ─▶ rows (top), trees (node, pod, resource), Why
//! rules ─┘                └ Share, per node
//! ```

pub(crate) mod device_classes;
pub(crate) mod error;
pub(crate) mod follow;
pub(crate) mod leader;
mod lists;
pub(crate) mod placement;
pub(crate) mod pods;
pub(crate) mod read;
pub(crate) mod share;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod why;
pub(crate) mod workloads;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::rules::Rules;
use crate::model::api::DeletionPolicy;
use crate::model::compute::Compute;
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::object::{NodeObject, Readiness};
use crate::model::node::{Interner, Node};
use crate::model::pod::NodeRequests;
use crate::planner::input::{PlanningInput, PodUsage};
use crate::planner::rules::Rule;
use crate::planner::{NodePlan, plan};
use pods::PodEntry;
use share::Use;

/// The nodes, pods and rules of a cluster at about one moment.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// The selected nodes; `None` if nodes cannot be listed.
    pub(crate) nodes: Option<BTreeMap<NodeName, Arc<NodeEntry>>>,
    /// Whether other nodes exist, which were not selected.
    pub(crate) is_part: bool,
    /// The unfinished pods with requests, by namespace and name; `None` if pods cannot be listed.
    pub(crate) pods: Option<Vec<Arc<PodEntry>>>,
    /// What unfinished pods request of the cpu and memory of each node; `None` if that has not been counted.
    pub(crate) compute: Option<HashMap<NodeName, Compute>>,
    /// The rules of the cluster; `None` if rules cannot be listed.
    pub(crate) rules: Option<Rules>,
    /// The DeviceClass that maps a resource, by resource; `None` if DeviceClasses cannot be listed.
    pub(crate) classes: Option<BTreeMap<String, String>>,
    /// What could not be read, and what the answer lacks in consequence; sentences without a period.
    pub(crate) gaps: Vec<String>,
}

/// A node.
#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) node: Node,
    pub(crate) readiness: Readiness,
    /// The allocatable cpu and memory.
    pub(crate) compute: Compute,
}

impl NodeEntry {
    /// Reduces a node to what an inventory keeps.
    pub(crate) fn new(object: NodeObject, interner: &mut Interner) -> Self {
        let NodeObject { node, readiness, compute, .. } = object;
        Self { node: Node::new(node, interner), readiness, compute }
    }
}

impl Inventory {
    /// Returns the node of this name.
    pub(crate) fn node(&self, name: &str) -> Option<&NodeEntry> {
        self.nodes.as_ref()?.get(&NodeName(name.into())).map(|entry| &**entry)
    }

    /// Returns the pods with requests.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodEntry> {
        self.pods.iter().flatten().map(|pod| &**pod)
    }

    /// Returns the rules that declare something on a node, or may, the winner first.
    pub(crate) fn declaring(&self, node: &Node) -> Vec<&Rule> {
        self.rules.iter().flat_map(|rules| rules.set().declaring(node)).map(|rule| &**rule).collect()
    }

    /// Returns those of them that declare a resource.
    pub(crate) fn declaring_resource(&self, node: &Node, resource: &str) -> Vec<&Rule> {
        let declaring = self.rules.iter().flat_map(|rules| rules.set().declaring_resource(node, resource));
        declaring.map(|rule| &**rule).collect()
    }

    /// Returns whether everything is known that could provide a resource: nodes, rules and DeviceClasses. An invalid
    /// rule may declare anything.
    pub(crate) fn knows_sources(&self) -> bool {
        let knows_rules = self.rules.as_ref().is_some_and(|rules| !rules.has_frozen());
        self.nodes.is_some() && knows_rules && self.classes.is_some()
    }

    /// Returns whether everything is known that could provide this resource.
    pub(crate) fn knows_sources_of(&self, resource: &str) -> bool {
        let knows_rules = self.rules.as_ref().is_some_and(|rules| rules.invalid_of(resource).next().is_none());
        self.nodes.is_some() && knows_rules && self.classes.is_some()
    }

    /// Returns who has, declares and requests each resource, by its name.
    pub(crate) fn uses(&self) -> BTreeMap<&str, Use<'_>> {
        let mut uses = BTreeMap::<&str, Use<'_>>::new();
        for rule in self.rules.iter().flat_map(Rules::all) {
            uses.entry(rule.resource.as_str()).or_default().rules.push(&rule.name);
        }
        for (resource, class) in self.classes.iter().flatten() {
            uses.entry(resource).or_default().class = Some(class);
        }
        for (name, entry) in self.nodes.iter().flatten() {
            for rule in self.declaring(&entry.node) {
                uses.entry(rule.resource.as_str()).or_default().share(name).is_selected = true;
            }
            for (resource, [capacity, allocatable]) in entry.node.resources() {
                let share = uses.entry(resource).or_default().share(name);
                share.capacity = capacity;
                share.allocatable = allocatable;
                share.manager = entry.node.other_manager(resource).map(|manager| &**manager.name());
            }
            for (resource, rule) in self.leaving(&entry.node) {
                if let Some(of_resource) = uses.get_mut(&*resource) {
                    of_resource.share(name).leaving = Some(rule);
                }
            }
        }
        let known: HashMap<_, _> = self.nodes.iter().flatten().map(|(name, _)| (&*name.0, name)).collect();
        // On a node that was not selected.
        let is_elsewhere = |node: &NodeName| self.is_part && !known.contains_key(&*node.0);
        for pod in self.pods().filter(|pod| !pod.node.as_ref().is_some_and(is_elsewhere)) {
            for (resource, quantity) in &pod.requests {
                let of_resource = uses.entry(resource).or_default();
                match &pod.node {
                    // The scheduler does not consider a pod that is being deleted.
                    None if pod.is_terminating => {}
                    None => of_resource.waiting.push((pod, *quantity)),
                    Some(node) => match known.get(&*node.0) {
                        Some(name) => of_resource.share(name).hold(pod, *quantity),
                        // Nodes cannot be listed, or do not exist.
                        None => {
                            let share = of_resource.share(node);
                            share.hold(pod, *quantity);
                            share.is_missing = self.nodes.is_some();
                        }
                    },
                }
            }
            for (resource, quantity) in &pod.claimed {
                let of_resource = uses.entry(resource).or_default();
                let share = pod.node.as_ref().and_then(|node| of_resource.shares.get_mut(node));
                match share.filter(|share| share.exists()) {
                    // Where the node has the resource itself, the scheduler counts every request, and so does the kubelet
                    // (`fitsRequest` and `removeMissingExtendedResources` in Kubernetes).
                    Some(share) => share.hold(pod, *quantity),
                    None => of_resource.claimed.push((pod, *quantity)),
                }
            }
        }
        for (name, share) in uses.values_mut().flat_map(|of_resource| &mut of_resource.shares) {
            if let Some(entry) = self.node(&name.0) {
                share.is_known = true;
                share.takes_pods = entry.readiness.takes_pods();
            }
        }
        uses
    }

    /// Returns the values of a node that no rule declares and that leave when they are unused, each with its rule.
    fn leaving(&self, node: &Node) -> Vec<(String, String)> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let leaves = |entry: &Entry| entry.deletion_policy == DeletionPolicy::WhenUnused;
        if !ledger.entries().any(|(_, entry)| leaves(entry)) {
            return Vec::new();
        }
        // Whatever pods request.
        let leaving = self.plan(rules, node, None).leaving;
        leaving.into_iter().map(|leaving| (leaving.resource.to_string(), leaving.rule.to_string())).collect()
    }

    /// Returns what pods on each node request.
    pub(crate) fn requests(&self) -> HashMap<&NodeName, NodeRequests> {
        let mut nodes = HashMap::<_, NodeRequests>::new();
        for pod in self.pods() {
            if let Some(node) = &pod.node {
                nodes.entry(node).or_default().add(&pod.all_requests(), pod.has_started);
            }
        }
        nodes
    }

    /// Returns what the controller does on a node whose pods request this, as `plan` shows it.
    pub(crate) fn plan(&self, rules: &Rules, node: &Node, requests: Option<&NodeRequests>) -> NodePlan {
        let pods = match self.pods {
            Some(_) => PodUsage::Known(requests.cloned().unwrap_or_default()),
            None => PodUsage::Unavailable("what pods request is unknown".into()),
        };
        plan(node, rules.set(), &PlanningInput { contested: rules.contested(node), pods, ..PlanningInput::default() })
    }
}
