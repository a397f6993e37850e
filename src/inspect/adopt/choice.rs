//! Which nodes a rule selects, and by what. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::few::Few;
use super::labels::{Key, LabelIndex, NodeSet, Rank};
use crate::model::api::{MAX_NAMES, MAX_NAMES_LENGTH, MAX_VALUES};
use crate::model::node::Node;

/// What selects nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Choice {
    /// Labels with one of these values each.
    Labels(BTreeMap<String, Vec<String>>),
    /// Names, as indices of nodes.
    Names(Vec<usize>),
}

/// What selects some nodes of a group, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) nodes: Vec<usize>,
    pub(crate) choice: Choice,
    pub(crate) why: Why,
}

/// Why nodes are selected so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// These labels select all nodes of the group and no other node.
    Exact { rank: Rank },
    /// These labels select only nodes of the group, though not all.
    Some { rank: Rank },
    /// All nodes of the cluster have the value, and no label says why.
    AllNodes,
    /// No label selects exactly the nodes. This one selects the fewest others.
    Closest { label: (String, String), others: Few<usize> },
    /// No label that explains anything is common to the nodes.
    NoLabel,
    /// The rest of the nodes, which labels do not select.
    Rest,
}

/// A selector, by how well it explains the nodes: strength, form, rank, and itself for an order that never changes.
type Candidate = (bool, u8, Vec<Rank>, BTreeMap<String, Vec<String>>);

/// Selects exactly these nodes: by labels where some explain them, and else by their names. `nodes` is not empty.
pub(super) fn choose(index: &LabelIndex<'_>, all: &[&Node], resource: &str, nodes: &[usize]) -> Vec<Part> {
    let target = NodeSet::from_iter(nodes.iter().copied());
    let group = GroupLabels { index, all, resource, target: &target, is_all: nodes.len() == index.nodes() };
    let Some(first) = nodes.first().and_then(|place| all.get(*place)) else { return Vec::new() };
    if let Some((_, _, ranks, labels)) = group.exact(first) {
        let rank = ranks.into_iter().max().unwrap_or(Rank::Weak);
        return vec![Part { nodes: nodes.to_vec(), choice: Choice::Labels(labels), why: Why::Exact { rank } }];
    }
    let (mut parts, rest) = match group.largest_part() {
        Some((part, rest)) => (vec![part], rest),
        None => (Vec::new(), nodes.to_vec()),
    };
    let why = match (parts.is_empty(), group.is_all) {
        (false, _) => Why::Rest,
        (true, true) => Why::AllNodes,
        (true, false) => group.closest(first),
    };
    let by_name = of_one_rule(rest, all).into_iter();
    parts.extend(by_name.map(|names| Part { nodes: names.clone(), choice: Choice::Names(names), why: why.clone() }));
    parts
}

/// Divides nodes so that one rule can have the names of each part.
fn of_one_rule(nodes: Vec<usize>, all: &[&Node]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut length = 0;
    for node in nodes {
        let name = all.get(node).map_or(0, |node| node.name.len());
        length += name;
        match parts.last_mut() {
            Some(part) if part.len() < MAX_NAMES && length <= MAX_NAMES_LENGTH => part.push(node),
            _ => {
                parts.push(vec![node]);
                length = name;
            }
        }
    }
    parts
}

/// The labels of the nodes of a group.
struct GroupLabels<'g> {
    index: &'g LabelIndex<'g>,
    all: &'g [&'g Node],
    resource: &'g str,
    target: &'g NodeSet,
    is_all: bool,
}

impl GroupLabels<'_> {
    /// Returns the best selector of exactly the nodes. `first` is one of them, and so has the labels of all.
    fn exact(&self, first: &Node) -> Option<Candidate> {
        let mut candidates = Vec::new();
        let common = self.common(first);
        for (rank, key, value, nodes) in &common {
            if *nodes == self.target {
                candidates.push((rank.is_weak(), 0, vec![*rank], one(key, value)));
            }
        }
        for (key, _) in first.labels.iter() {
            candidates.extend(self.by_values(key));
        }
        // What one node or all have in common is common by coincidence, unless the label is there to distinguish them.
        let is_evidence = self.target.len() > 1 && !self.is_all;
        let pairable: Vec<_> = common.iter().filter(|(rank, ..)| is_evidence || rank.is_strong()).collect();
        for (at, (rank, key, value, nodes)) in pairable.iter().enumerate() {
            for (other_rank, other_key, other_value, other) in pairable.iter().skip(at + 1) {
                if nodes.intersection(other).eq(self.target) {
                    let mut labels = one(key, value);
                    labels.extend(one(other_key, other_value));
                    let worst = *rank.max(other_rank);
                    candidates.push((worst.is_weak(), 2, vec![worst, *rank.min(other_rank)], labels));
                }
            }
        }
        candidates.retain(|(is_weak, form, ranks, _)| {
            let is_strong = ranks.iter().all(|rank| rank.is_strong());
            let is_foreign = ranks.contains(&Rank::Foreign);
            is_strong || is_evidence || (!is_weak && !is_foreign && *form == 0 && !self.is_all)
        });
        candidates.into_iter().min()
    }

    /// Returns the labels that all nodes of the group have.
    fn common<'s>(&'s self, first: &'s Node) -> Vec<(Rank, &'s str, &'s str, &'s NodeSet)> {
        let labels = first.labels.iter().filter_map(|(key, value)| {
            let (rank, found) = self.index.key(key, self.resource)?;
            let nodes = found.values.get(value)?;
            self.target.is_subset(nodes).then_some((rank, key, value, nodes))
        });
        labels.collect()
    }

    /// Returns the values of a label that the nodes have, if no other node has one of them.
    fn by_values(&self, key: &str) -> Option<Candidate> {
        let (rank, found) = self.index.key(key, self.resource)?;
        let (values, covered) = self.values_within(key, found);
        let is_any = values.len() < self.target.len() || rank == Rank::Pool;
        let fits = (2..=MAX_VALUES).contains(&values.len()) && is_any && covered == *self.target;
        fits.then(|| (rank.is_weak(), 1, vec![rank], BTreeMap::from([(key.to_owned(), values)])))
    }

    /// Returns the values of a label that only nodes of the group have, and these nodes.
    fn values_within(&self, key: &str, found: &Key<'_>) -> (Vec<String>, NodeSet) {
        let values: BTreeSet<_> = self.labels(key).collect();
        let within = values.into_iter().filter_map(|value| Some((value, found.values.get(value)?)));
        let within: Vec<_> = within.filter(|(_, nodes)| nodes.is_subset(self.target)).collect();
        let covered = within.iter().flat_map(|(_, nodes)| nodes.iter().copied()).collect();
        (within.into_iter().map(|(value, _)| value.to_owned()).collect(), covered)
    }

    /// Returns the nodes of the group.
    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.target.iter().filter_map(|place| self.all.get(*place).copied())
    }

    /// Returns the values that the nodes of the group have for a key.
    fn labels(&self, key: &str) -> impl Iterator<Item = &str> {
        self.nodes().filter_map(move |node| node.labels.get(key))
    }

    /// Returns the label that is there to distinguish nodes and that selects the most of the group, two at least,
    /// and no other node; and the rest of the group.
    fn largest_part(&self) -> Option<(Part, Vec<usize>)> {
        if self.is_all {
            return None;
        }
        let mut best: Option<(Part, NodeSet)> = None;
        let keys: BTreeSet<_> = self.nodes().flat_map(|node| node.labels.iter()).map(|(key, _)| key).collect();
        for key in keys {
            let Some((rank, found)) = self.index.key(key, self.resource).filter(|(rank, _)| rank.is_strong()) else {
                continue;
            };
            let (values, covered) = self.values_within(key, found);
            let explains = values.len() < covered.len() || rank == Rank::Pool;
            let is_best = best.as_ref().is_none_or(|(_, most)| most.len() < covered.len());
            if covered.len() > 1 && explains && values.len() <= MAX_VALUES && is_best {
                let part = Part {
                    nodes: covered.iter().copied().collect(),
                    choice: Choice::Labels(BTreeMap::from([(key.to_owned(), values)])),
                    why: Why::Some { rank },
                };
                best = Some((part, covered));
            }
        }
        best.map(|(part, covered)| (part, self.target.difference(&covered).copied().collect()))
    }

    /// Returns the label of all nodes of the group that the fewest others have.
    fn closest(&self, first: &Node) -> Why {
        let common = self.common(first).into_iter();
        let common = common.filter(|(rank, .., nodes)| !rank.is_weak() && *nodes != self.target);
        let closest = common.min_by_key(|(rank, key, _, nodes)| (nodes.len(), *rank, *key));
        closest.map_or(Why::NoLabel, |(_, key, value, nodes)| Why::Closest {
            label: (key.to_owned(), value.to_owned()),
            others: nodes.difference(self.target).copied().collect(),
        })
    }
}

fn one(key: &str, value: &str) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([(key.to_owned(), vec![value.to_owned()])])
}
