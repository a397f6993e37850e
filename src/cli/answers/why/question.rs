//! The answer about one pod. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conclusion::{Circumstances, Conclusion, conclude};
use super::diagnosis::{Unallocatable, Verdict, Why, WhyNode, WhyResource};
use crate::cli::answers::view::{ResourceView, Supply, state};
use crate::inspect::diff::order::NodeName;
use crate::inspect::inventory::Inventory;
use crate::inspect::inventory::placement::{HOSTNAME, Placement};
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::share::Use;
use crate::inspect::inventory::why::{self, Counted};
use crate::model::quantity::Quantity;
use crate::model::spelling::closest_resource;

/// A pod, and what the answer about it is made of.
pub(super) struct Question<'q> {
    pub(super) counted: &'q Counted<'q>,
    pub(super) pod: &'q PodEntry,
    pub(super) placement: &'q Placement,
}

impl Question<'_> {
    /// Answers. `leads` is whether a controller leads, if that is known.
    pub(super) fn explain(&self, leads: Option<bool>) -> Why {
        let Self { counted, pod, placement } = self;
        let Counted { inventory, uses, .. } = counted;
        let is_pending = pod.node.is_none() && *pod.phase == *"Pending" && !pod.is_terminating;
        let is_waiting = is_pending && !pod.requests.is_empty();
        let answers = if is_waiting { counted.nodes(pod, placement.own_node()) } else { Vec::new() };
        let nodes: Vec<_> = answers.into_iter().map(|(name, answer)| WhyNode::new(self, name, answer)).collect();
        let verdict = match is_waiting {
            false if pod.is_rejected() => Verdict::Rejected,
            false => Verdict::NotWaiting,
            true if pod.is_gated => Verdict::Gated,
            true => verdict(&nodes, inventory),
        };
        let requests = pod.requests.iter().map(|request| WhyResource::new(inventory, uses, pod, request));
        let mut why = Why {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            phase: state(pod),
            node: pod.node.as_ref().map(ToString::to_string),
            nominated_node: pod.nominated_node.as_deref().filter(|_| is_pending).map(str::to_owned),
            message: pod.message.as_deref().map(str::to_owned),
            failure: pod.failure.as_deref().map(str::to_owned),
            device_classes: pod.device_classes.iter().map(ToString::to_string).collect(),
            verdict,
            explanation: String::new(),
            fix: None,
            requests: requests.collect(),
            nodes,
        };
        let Conclusion { sentence, fix } = conclude(&why, &self.circumstances(leads));
        (why.explanation, why.fix) = (sentence, fix);
        why
    }

    fn circumstances(&self, leads: Option<bool>) -> Circumstances<'_> {
        let Self { counted: Counted { inventory, .. }, pod, placement } = self;
        let is_absent = |name: &&str| inventory.nodes.is_some() && !inventory.is_part && inventory.node(name).is_none();
        // The label differs from the name in some clouds.
        let is_hostname = |name: &str| {
            let mut nodes = inventory.nodes.iter().flatten();
            nodes.any(|(_, entry)| entry.node.labels.get(HOSTNAME) == Some(name))
        };
        let named = placement.named_nodes();
        let absent = named.iter().copied().filter(|name| is_absent(name) && !is_hostname(name));
        let absent: Vec<_> = absent.map(str::to_owned).collect();
        let is_silent = pod.node.is_none() && !placement.is_considered;
        Circumstances {
            pod,
            selected: if inventory.is_part { " that -l selects" } else { "" },
            leads,
            knows_rules: inventory.rules.is_some(),
            has_own_node: placement.own_node().is_some(),
            absent: if absent.len() == named.len() { absent } else { Vec::new() },
            silent_scheduler: is_silent.then(|| placement.scheduler.clone()),
            is_node_gone: pod.node.as_ref().is_some_and(|node| is_absent(&&*node.0)) && !pod.is_finished(),
        }
    }
}

/// Returns the verdict for a pod that waits.
fn verdict(nodes: &[WhyNode], inventory: &Inventory) -> Verdict {
    let mut allowed = nodes.iter().filter(|node| node.allowed).peekable();
    if allowed.peek().is_none() {
        return match (inventory.nodes.is_some(), nodes.is_empty()) {
            (false, _) => Verdict::Unknown,
            // Others may have enough.
            (true, true) if inventory.is_part => Verdict::Unknown,
            (true, true) if inventory.nodes.as_ref().is_some_and(BTreeMap::is_empty) => Verdict::NotEnough,
            (true, _) => Verdict::Excluded,
        };
    }
    let answers: Vec<_> = allowed.map(|node| node.enough).collect();
    match () {
        () if answers.contains(&Some(true)) => Verdict::Enough,
        () if answers.contains(&None) => Verdict::Unknown,
        () => Verdict::NotEnough,
    }
}

impl WhyResource {
    fn new(
        inventory: &Inventory,
        uses: &BTreeMap<&str, Use<'_>>,
        pod: &PodEntry,
        (resource, quantity): &(Arc<str>, Quantity),
    ) -> Self {
        let nothing = Use::default();
        let of_resource = uses.get(&**resource).unwrap_or(&nothing);
        let is_unmapped = inventory.knows_sources_of(resource) && of_resource.class.is_none();
        let is_unheard = is_unmapped && !of_resource.is_listed() && of_resource.rules.is_empty();
        let known = uses.iter().filter(|(_, other)| other.nodes() > 0 || !other.rules.is_empty());
        let similar = is_unheard.then(|| closest_resource(resource, known.map(|(name, _)| *name))).flatten();
        let reserved = why::promised(inventory, pod, resource);
        Self {
            pod_requests: quantity.to_string(),
            is_added: pod.added.contains(resource),
            resource: ResourceView::new(inventory, resource, of_resource),
            reserved: (!reserved.is_zero()).then(|| reserved.to_string()),
            similar: similar.map(str::to_owned),
            is_nowhere: is_unmapped && of_resource.expected_nodes() == 0,
            unallocatable: Unallocatable::find(inventory, resource, of_resource),
            invalid_rules: inventory
                .rules
                .iter()
                .flat_map(|rules| rules.invalid_of(resource))
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// Returns the amounts as a sentence, if they are known.
    pub(super) fn sentence(&self) -> Option<String> {
        let by = if self.is_added { " with what a LimitRange of its namespace adds" } else { "" };
        self.sentence_about(&format!("the pod requests {}{by}", self.pod_requests))
    }

    /// Returns the same beside what is requested.
    pub(super) fn sentence_about(&self, requested: &str) -> Option<String> {
        let ResourceView { resource, supply, free, largest_free, .. } = &self.resource;
        let Some(Supply { total, .. }) = supply.as_ref().filter(|_| !self.is_nowhere) else {
            return supply.is_none().then(|| format!("{resource}: {requested}"));
        };
        let Some(free) = free else {
            return Some(format!("{resource}: {requested}; nodes have {total} in all"));
        };
        let largest = match largest_free {
            Some(largest) => format!("{} on one node ({})", largest.quantity, largest.node),
            None => "none on a node that takes pods".to_owned(),
        };
        let reserved = self.reserved.as_ref().map(|reserved| format!("; {reserved} of it reserved for nominated pods"));
        let reserved = reserved.unwrap_or_default();
        Some(format!("{resource}: {requested}; {free} of {total} free, {largest}{reserved}"))
    }
}

impl Unallocatable {
    /// Returns a node with it, one about which another program than a kubelet can be blamed if there is one.
    fn find(inventory: &Inventory, resource: &str, of_resource: &Use<'_>) -> Option<Self> {
        let with_capacity = of_resource.shares.iter().filter_map(|(name, share)| {
            let capacity = share.capacity.filter(|capacity| !capacity.is_zero())?;
            let manager = inventory.node(&name.0)?.node.other_manager(resource).filter(|manager| !manager.is_kubelet());
            Some(Self { node: name.to_string(), capacity, manager: manager.map(|manager| manager.name().to_string()) })
        });
        // Stable, so that the first by name comes first.
        with_capacity.min_by_key(|found| found.manager.is_none())
    }
}

impl WhyNode {
    fn new(question: &Question<'_>, name: &NodeName, answer: why::Answer) -> Self {
        let entry = question.counted.inventory.node(&name.0);
        let obstacle = entry.and_then(|entry| question.placement.obstacle(entry));
        let (enough, reasons, shortages) = match answer {
            why::Answer::Enough => (Some(true), Vec::new(), Vec::new()),
            why::Answer::Short(short) => {
                (Some(false), short.iter().map(|shortage| shortage.reason.clone()).collect(), short)
            }
            why::Answer::Unknown(reasons) => (None, reasons, Vec::new()),
        };
        let is_unready = entry.is_some_and(|entry| !entry.readiness.is_ready) && enough == Some(true);
        let unready = (is_unready && obstacle.is_none()).then(|| "not ready".to_owned());
        let allowed = obstacle.is_none();
        let obstacles = obstacle.map(|obstacle| obstacle.to_string()).into_iter().chain(unready).collect();
        let lacks = question.counted.lacks(name, question.pod);
        // Nothing is lacking where it is unknown what pods use.
        let is_too_small =
            !lacks.is_empty() && entry.is_some_and(|entry| question.pod.compute.lacks(entry.compute).next().is_some());
        Self { node: name.to_string(), enough, allowed, lacks, is_too_small, obstacles, reasons, shortages }
    }
}

impl Why {
    /// Returns whether each node with enough extended resources has too little cpu or memory.
    pub(super) fn lacks_compute(&self) -> bool {
        self.verdict == Verdict::Enough && !self.nodes.iter().any(WhyNode::takes)
    }

    /// Returns whether the answer depends on whether a controller leads.
    pub(super) fn awaits_controller(&self) -> bool {
        let shortages = self.nodes.iter().filter(|node| node.allowed).flat_map(|node| &node.shortages);
        self.verdict == Verdict::NotEnough && shortages.into_iter().any(|shortage| shortage.is_unwritten)
    }
}
