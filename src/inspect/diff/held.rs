//! Which pods keep values above what rules declare.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::node_diff::{NodeDiff, RuleResult};
use super::prospect::Prospect;
use crate::model::count::{and_more, plural};
use crate::model::pod::object::PodObject;
use crate::model::pod::{NodeRequests, Requests};

/// How many pods are named.
const NAMED: usize = 3;

/// The unfinished pods on a node.
#[derive(Clone, Debug, Default)]
pub struct NodePods {
    /// What they request.
    pub requests: NodeRequests,
    /// Which of them request a resource.
    by_resource: BTreeMap<String, Pods>,
}

/// Pods, of which the first are named.
#[derive(Clone, Debug, Default)]
struct Pods {
    count: usize,
    first: BTreeSet<String>,
}

/// A resource that nodes have, or will have, above what a rule declares, because pods request it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The resource's name.
    pub resource: String,
    /// The rule that declares less.
    pub rule: Arc<str>,
    /// The number of nodes, including those whose pods are unknown.
    pub nodes: usize,
    /// The number of nodes whose pods are unknown: the value there may be lowered.
    pub unknown_nodes: usize,
    /// The number of pods that request it on the other nodes.
    pub pods: usize,
    /// The first of them, by namespace and name.
    pub pod_names: Vec<String>,
}

/// What is held so far, by resource and rule.
#[derive(Clone, Debug, Default)]
pub(super) struct AllHeld(BTreeMap<(String, Arc<str>), Sums>);

#[derive(Clone, Debug, Default)]
struct Sums {
    nodes: usize,
    unknown_nodes: usize,
    pods: Pods,
}

impl NodePods {
    /// Adds a pod, unless it has finished.
    pub fn add(&mut self, object: &PodObject) {
        let PodObject { metadata, pod, .. } = object;
        let requests = Requests::on_node(pod);
        let name = metadata.name.as_deref().unwrap_or_default();
        let name =
            metadata.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        for (resource, _) in requests.iter() {
            let pods = self.by_resource.entry(resource.to_owned()).or_default();
            pods.add(1, [name.clone()]);
        }
        self.requests.add(&requests, pod.has_started());
    }
}

impl Pods {
    fn add(&mut self, count: usize, names: impl IntoIterator<Item = String>) {
        self.count += count;
        self.first.extend(names);
        while self.first.len() > NAMED {
            self.first.pop_last();
        }
    }
}

impl AllHeld {
    /// Adds what is held on a node; without `pods`, it is unknown which use it.
    pub(super) fn add(&mut self, node_diff: &NodeDiff, pods: Option<&NodePods>) {
        for RuleResult { rule, resource, outcome, .. } in &node_diff.outcomes {
            if !outcome.is_held() && *outcome != Prospect::MaybeHeld {
                continue;
            }
            let sums = self.0.entry((resource.clone(), Arc::clone(rule))).or_default();
            sums.nodes += 1;
            match pods.filter(|_| outcome.is_held()) {
                None => sums.unknown_nodes += 1,
                Some(pods) => {
                    let Pods { count, first } = pods.by_resource.get(resource).cloned().unwrap_or_default();
                    sums.pods.add(count, first);
                }
            }
        }
    }

    pub(super) fn finish(self) -> Vec<Held> {
        let held = |((resource, rule), sums): ((String, Arc<str>), Sums)| {
            let Sums { nodes, unknown_nodes, pods } = sums;
            let Pods { count, first } = pods;
            Held { resource, rule, nodes, unknown_nodes, pods: count, pod_names: first.into_iter().collect() }
        };
        self.0.into_iter().map(held).collect()
    }
}

impl Held {
    /// Returns the lines below the table.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { resource, rule, nodes, unknown_nodes, pods, pod_names } = self;
        let mut lines = Vec::new();
        let known = nodes - unknown_nodes;
        if known > 0 {
            let named = and_more(pod_names, pods - pod_names.len(), ", ");
            let (nodes, pods) =
                (plural(known, "node stays", "nodes stay"), plural(*pods, "pod requests", "pods request"));
            lines.push(format!("{resource}: {nodes} above what rule {rule} declares, since {pods} it: {named}"));
        }
        if *unknown_nodes > 0 {
            let nodes = plural(*unknown_nodes, "node may stay", "nodes may stay");
            lines
                .push(format!("{resource}: {nodes} above what rule {rule} declares: which pods request it is unknown"));
        }
        lines
    }
}
