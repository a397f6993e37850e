//! Who has and requests one resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pods::PodEntry;
use crate::inspect::diff::order::NodeName;
use crate::model::quantity::Quantity;

/// Where one resource is, and who requests it.
#[derive(Debug, Default)]
pub(crate) struct Use<'i> {
    /// The valid rules that declare it, by name.
    pub(crate) rules: Vec<&'i Arc<str>>,
    /// The DeviceClass that maps it: where a node does not have it, DRA provides it.
    pub(crate) class: Option<&'i str>,
    /// The nodes that have it, or that a rule of it selects, or where pods request it.
    pub(crate) shares: BTreeMap<&'i NodeName, Share<'i>>,
    /// The pods without a node, each with its request.
    pub(crate) waiting: Vec<Request<'i>>,
    /// The pods that have it from a ResourceClaim, on nodes without any of their own, each with its request.
    pub(crate) claimed: Vec<Request<'i>>,
}

/// A pod, and how much of one resource it requests.
pub(crate) type Request<'i> = (&'i PodEntry, Quantity);

/// One resource on one node.
#[derive(Debug, Default)]
pub(crate) struct Share<'i> {
    pub(crate) capacity: Option<Quantity>,
    pub(crate) allocatable: Option<Quantity>,
    /// Of the pods that are assigned to the node.
    pub(crate) requested: Quantity,
    pub(crate) pods: Vec<Request<'i>>,
    /// Whether the node has been listed.
    pub(crate) is_known: bool,
    /// Whether pods are assigned to the node, and it is not in the list of all nodes.
    pub(crate) is_missing: bool,
    /// Whether the node is ready and not cordoned.
    pub(crate) takes_pods: bool,
    /// Whether a rule that declares the resource selects the node.
    pub(crate) is_selected: bool,
    /// Who wrote the value last, if not this project's controller.
    pub(crate) manager: Option<&'i str>,
    /// The rule that declared the value, if none does now and it leaves when it is unused.
    pub(crate) leaving: Option<String>,
}

impl<'i> Use<'i> {
    pub(super) fn share(&mut self, node: &'i NodeName) -> &mut Share<'i> {
        self.shares.entry(node).or_default()
    }

    /// Returns the sum over all nodes, in allocatable: what the scheduler counts.
    pub(crate) fn total(&self) -> Quantity {
        sum(self.shares.values().filter_map(|share| share.allocatable))
    }

    /// Returns what pods on nodes request, apart from nodes that do not exist.
    pub(crate) fn requested(&self) -> Quantity {
        sum(self.shares.values().filter(|share| !share.is_missing).map(|share| share.requested))
    }

    /// Returns the sum of what is free on each node.
    pub(crate) fn free(&self) -> Quantity {
        sum(self.shares.values().map(Share::free))
    }

    /// Returns the part of what is free that is on nodes that take no pods.
    pub(crate) fn blocked(&self) -> Quantity {
        sum(self.shares.values().filter(|share| !share.takes_pods).map(Share::free))
    }

    /// Returns the node with the most of it free, among those that take pods; the first by name of several.
    pub(crate) fn largest(&self) -> Option<(&'i NodeName, Quantity)> {
        let free = self.shares.iter().filter(|(_, share)| share.takes_pods).map(|(name, share)| (*name, share.free()));
        free.rev().max_by_key(|(_, free)| *free).filter(|(_, free)| !free.is_zero())
    }

    /// Returns the number of nodes that have some of it.
    pub(crate) fn nodes(&self) -> usize {
        self.shares.values().filter(|share| share.exists()).count()
    }

    /// Returns the number of nodes that have some of it, or that a rule of it selects.
    pub(crate) fn expected_nodes(&self) -> usize {
        self.shares.values().filter(|share| share.exists() || share.is_selected).count()
    }

    /// Returns the field managers that wrote it on nodes where no rule of it applies, each once.
    pub(crate) fn other_managers(&self) -> Vec<&'i str> {
        let others = self.shares.values().filter(|share| share.exists() && !share.is_selected);
        let mut managers: Vec<_> = others.filter_map(|share| share.manager).collect();
        managers.sort_unstable();
        managers.dedup();
        managers
    }

    /// Returns whether some node lists it, even as 0: its device plugin may be down.
    pub(crate) fn is_listed(&self) -> bool {
        self.values().next().is_some()
    }

    /// Returns the quantities in capacity and allocatable of all nodes.
    fn values(&self) -> impl Iterator<Item = Quantity> {
        self.shares.values().flat_map(|share| [share.capacity, share.allocatable]).flatten()
    }

    /// Returns whether it is nothing but zeros that something has left on nodes, if everything could be listed.
    pub(crate) fn is_leftover(&self) -> bool {
        let is_used = !self.waiting.is_empty() || !self.claimed.is_empty() || !self.requested().is_zero();
        // A device plugin has capacity, and nothing allocatable, while all its devices are unhealthy.
        let is_zero = self.values().all(|value| value.is_zero());
        is_zero && self.rules.is_empty() && self.class.is_none() && !is_used
    }
}

impl<'i> Share<'i> {
    pub(super) fn hold(&mut self, pod: &'i PodEntry, quantity: Quantity) {
        self.requested = self.requested.saturating_add(quantity);
        self.pods.push((pod, quantity));
    }

    /// Returns what a new pod can get: allocatable less what pods request, and never less than 0.
    pub(crate) fn free(&self) -> Quantity {
        let rest = self.allocatable.unwrap_or_default().saturating_sub(self.requested);
        rest.max(Quantity::default())
    }

    /// Returns how much more than allocatable pods request.
    pub(crate) fn excess(&self) -> Quantity {
        let excess = self.requested.saturating_sub(self.allocatable.unwrap_or_default());
        excess.max(Quantity::default())
    }

    pub(super) fn exists(&self) -> bool {
        self.allocatable.is_some_and(|allocatable| !allocatable.is_zero())
    }
}

/// Returns the sum of quantities.
pub(crate) fn sum(quantities: impl Iterator<Item = Quantity>) -> Quantity {
    quantities.fold(Quantity::default(), Quantity::saturating_add)
}
