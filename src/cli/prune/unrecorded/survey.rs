//! Which values may be removed, and why the others stay. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::read::{Found, Snapshot, Writer};
use crate::cli::age::age;
use crate::cli::prune::choice::NodeChoice;
use crate::inspect::adopt::snapshot::Entry;
use crate::inspect::doctor::snapshot::Rules;
use crate::inspect::hint;
use crate::inspect::inventory::pods::PodEntry;
use crate::model::api::FIELD_MANAGER;
use crate::model::count::{NAMED, few};
use crate::model::node::Node;
use crate::model::quantity::Quantity;

/// A writer that has changed nothing for this long is taken to be gone. Node Feature Discovery, the slowest known, comes by
/// once an hour.
pub(super) const LIVE: SignedDuration = SignedDuration::from_hours(2);

/// The values of a resource.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) removals: Vec<Removal>,
    /// Where they stay, by reason.
    pub(super) left: BTreeMap<Stays, Left>,
    /// The pods without a node that request the resource.
    waiting: Vec<Arc<PodEntry>>,
}

/// A value to remove, as it was read.
pub(super) struct Removal {
    pub(super) node: Node,
    pub(super) writer: Writer,
}

/// The nodes on which values stay for one reason.
#[derive(Debug, Default)]
pub(super) struct Left {
    nodes: Vec<Arc<str>>,
    /// The pods that are the reason.
    pods: Vec<String>,
}

impl Left {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// Why a value stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stays {
    /// Pods on the node request it.
    Used,
    /// This manager has changed it, on this node or another, so long ago. An equal value that is written again shows no time
    /// (`managedfieldsupdater.go` of the API server).
    Recent { manager: String, age: String },
    /// This rule declares it there.
    Declared(Arc<str>),
    /// This rule is invalid, and may declare it.
    Invalid(Arc<str>),
    /// The ledger records it for this rule.
    Recorded(String),
    /// The ledger cannot be read.
    Ledger,
    /// It is 0.
    Zero,
    /// This kubelet has written it, perhaps before others.
    Kubelet(Arc<str>),
    /// The node's annotations name this program as the writer.
    Annotated(&'static str),
    /// managedFields name no writer.
    UnknownWriter,
}

impl Survey {
    /// Judges the value of each node.
    pub(super) fn new(snapshot: &Snapshot, resource: &str) -> Self {
        let requesting = snapshot.pods.iter().filter(|pod| requests(pod, resource));
        let (waiting, mut pods) = (Vec::new(), BTreeMap::<&str, Vec<String>>::new());
        let mut survey = Self { waiting, ..Self::default() };
        for pod in requesting {
            match &pod.node {
                Some(node) => pods.entry(&node.0).or_default().push(pod.to_string()),
                None => survey.waiting.push(Arc::clone(pod)),
            }
        }
        for found in &snapshot.found {
            let node = &found.entry.node;
            let pods = pods.get(&*node.name).map(Vec::as_slice).unwrap_or_default();
            match judge(snapshot, found, resource, !pods.is_empty()) {
                Ok(writer) => survey.removals.push(Removal { node: node.clone(), writer: writer.clone() }),
                Err(stays) => {
                    let is_used = stays == Stays::Used;
                    let left = survey.left.entry(stays).or_default();
                    left.nodes.push(Arc::clone(&node.name));
                    left.pods.extend(pods.iter().filter(|_| is_used).cloned());
                }
            }
        }
        survey
    }

    /// Returns sentences about what stays, and about pods that wait.
    pub(super) fn notes(&self, resource: &str, choice: &NodeChoice) -> Vec<String> {
        let stays = self.left.iter().map(|(stays, left)| {
            format!("{resource} stays on {}: {}", few(&left.nodes, NAMED, ", "), stays.describe(resource, left, choice))
        });
        let waiting = (!self.waiting.is_empty() && !self.removals.is_empty()).then(|| {
            let pods = few(&self.waiting, NAMED, ", ");
            format!("pods that wait for {resource} no longer fit on these nodes: {pods}")
        });
        stays.chain(waiting).collect()
    }
}

/// Returns whether a pod requests the resource, of the node or, through a DeviceClass, in its place.
fn requests(pod: &PodEntry, resource: &str) -> bool {
    pod.requests.iter().chain(&pod.claimed).any(|(name, _)| **name == *resource)
}

/// Returns who wrote a value that may be removed, or why it stays.
fn judge<'s>(snapshot: &Snapshot, found: &'s Found, resource: &str, is_used: bool) -> Result<&'s Writer, Stays> {
    let Found { entry, writer } = found;
    let Ok(ledger) = &entry.ledger else { return Err(Stays::Ledger) };
    if let Some(recorded) = ledger.get(resource) {
        return Err(Stays::Recorded(recorded.rule.clone()));
    }
    if let Some(stays) = snapshot.rules.as_ref().and_then(|rules| declared(rules, &entry.node, resource)) {
        return Err(stays);
    }
    let values = entry.node.values(resource).into_iter().flatten();
    if values.map(str::parse::<Quantity>).all(|value| value.is_ok_and(|value| value.is_zero())) {
        return Err(Stays::Zero);
    }
    if let Some(stays) = of_live_program(entry, resource) {
        return Err(stays);
    }
    let writer = writer.as_ref().ok_or(Stays::UnknownWriter)?;
    if let Some(age) = recent(snapshot, &writer.manager) {
        return Err(Stays::Recent { manager: writer.manager.clone(), age });
    }
    if is_used { Err(Stays::Used) } else { Ok(writer) }
}

/// Returns the rule that declares a value on a node, or may do so.
fn declared(rules: &Rules, node: &Node, resource: &str) -> Option<Stays> {
    let mut invalid = rules.all.iter().filter(|entry| entry.rule.is_err());
    let may_declare = invalid.find(|entry| entry.resource.as_deref().is_none_or(|name| name == resource));
    let declaring = rules.set.declaring_resource(node, resource);
    let declared = declaring.first().map(|rule| Stays::Declared(Arc::clone(&rule.name)));
    declared.or_else(|| may_declare.map(|entry| Stays::Invalid(Arc::clone(&entry.name))))
}

/// Returns the program that keeps a value, if the node names it.
fn of_live_program(entry: &Entry, resource: &str) -> Option<Stays> {
    if let Some(kubelet) = entry.plugins.get(resource) {
        return Some(Stays::Kubelet(Arc::clone(kubelet)));
    }
    let annotated = [(&entry.nfd, "Node Feature Discovery"), (&entry.gardener, "Gardener")];
    let keeper = annotated.into_iter().find(|(resources, _)| resources.contains(resource));
    keeper.map(|(_, name)| Stays::Annotated(name))
}

/// Returns how long ago a manager changed the resource last, on any node, if that is too recent. The controller writes
/// nothing that no rule declares, however lively it is.
fn recent(snapshot: &Snapshot, manager: &str) -> Option<String> {
    let last = *snapshot.writers.get(manager)?;
    let is_recent = manager != FIELD_MANAGER && is_live(snapshot.now, last);
    is_recent.then(|| age(snapshot.now, last))
}

fn is_live(now: Timestamp, last: Timestamp) -> bool {
    now.duration_since(last) < LIVE
}

impl Stays {
    /// Returns whether the value may be removed later, without a change of what keeps it.
    pub(super) fn is_for_now(&self) -> bool {
        matches!(self, Self::Used | Self::Recent { .. })
    }

    /// Returns why, and what to do, without a period.
    fn describe(&self, resource: &str, Left { nodes, pods }: &Left, choice: &NodeChoice) -> String {
        match self {
            Self::Used => format!("pods there request it ({})", few(pods, NAMED, ", ")),
            Self::Recent { manager, age } => format!(
                "{manager} has changed it there or elsewhere {age} ago, and may write it again: stop that program, and run \
                 prune again when it has changed nothing for two hours"
            ),
            Self::Declared(rule) => {
                format!("rule {rule} declares it: to replace the value, set conflictPolicy: Overwrite")
            }
            Self::Invalid(rule) => format!("rule {rule} is invalid and may declare it: correct the rule first"),
            Self::Recorded(rule) => format!(
                "the controller has written it for rule {rule}: delete the rule, or, if it is gone, see what {} prints",
                hint::withdraw_rule(rule, &choice.flags(nodes))
            ),
            Self::Ledger => "the annotation of the controller cannot be read: see doctor".to_owned(),
            Self::Zero => format!("it is 0: see what {} prints", hint::remove_zeros(&choice.flags(nodes))),
            Self::Kubelet(kubelet) => format!(
                "{kubelet}, which is the node's kubelet, has written it, so it is probably a device plugin's: uninstall \
                 the plugin"
            ),
            Self::Annotated(program) => {
                format!("an annotation names {program} as its writer, which writes it again: delete {resource} there")
            }
            Self::UnknownWriter => "managedFields name no writer, so that it may be a device plugin's".to_owned(),
        }
    }
}
