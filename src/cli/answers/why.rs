//! `why`: why a pod has no node, as far as extended resources decide it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::answer::{Answer, AnswerError, Common};
use super::pod::PodName;
use super::view::{NodeStateView, ResourceView, Supply, state};
use crate::cli::diff::order::NodeName;
use crate::cli::inventory::pods::PodEntry;
use crate::cli::inventory::share::Use;
use crate::cli::inventory::{Inventory, why};
use crate::cli::message::print_message;
use crate::cli::table::{Cell, Row};
use crate::model::count::{digits, plural};
use crate::model::quantity::Quantity;
use crate::model::spelling::closest_resource;

/// Show why a pod is Pending, as far as extended resources decide it
///
/// For each node, why shows whether it has enough of what the pod requests, and if not, which pods use it, or which
/// rule would provide it and why it does not. It prints the scheduler's own message too, which is about everything
/// else as well: taints, affinity, cpu, memory, volumes. why does not look at those.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 0 if extended resources do not keep the pod Pending or it is unknown, 1 if they do, and 2 on an error. With \
-l, that is about the selected nodes only.")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    pod: PodName,
    #[command(flatten)]
    common: Common,
}

/// The most lines of nodes in a table without `-o wide`.
const LINES: usize = 25;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Why {
    namespace: String,
    name: String,
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The node for which the scheduler has nominated the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    nominated_node: Option<String>,
    /// The scheduler's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Why the pod failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The DeviceClasses that the pod requests by name, from DRA, which are not looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device_classes: Vec<String>,
    verdict: Verdict,
    /// The verdict as a sentence.
    explanation: String,
    requests: Vec<WhyResource>,
    nodes: Vec<WhyNode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Verdict {
    /// The pod has a node, has finished, is being deleted, or requests nothing.
    NotWaiting,
    /// Something else than the amounts keeps the pod waiting.
    Gated,
    /// Some node has enough, as far as is known.
    Enough,
    /// No node is known to have enough: DRA may provide it, or something cannot be read.
    Unknown,
    /// No node has enough.
    NotEnough,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WhyResource {
    pod_requests: String,
    #[serde(flatten)]
    resource: ResourceView,
    /// What the scheduler reserves for pods that it has nominated for a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<String>,
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    similar: Option<String>,
    /// Whether it is known that no node has the resource, no rule of it selects one, and no DeviceClass maps it.
    #[serde(skip)]
    is_nowhere: bool,
}

#[derive(Debug, Serialize)]
struct WhyNode {
    node: String,
    enough: Option<bool>,
    /// What keeps pods off a node that has enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    obstacles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

/// Runs the command. 1 means that the pod waits for extended resources, so every error is a 2.
pub(super) async fn run(args: Args) -> ExitCode {
    match print_why(&args).await {
        Ok(Verdict::NotEnough) => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            print_message(format_args!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

async fn print_why(args: &Args) -> Result<Verdict, AnswerError> {
    let (pod, inventory) = args.pod.read(&args.common).await?;
    let why = explain(&inventory, &pod);
    args.common.print(&why, &inventory.gaps)?;
    Ok(why.verdict)
}

fn explain(inventory: &Inventory, pod: &PodEntry) -> Why {
    let uses = inventory.uses();
    let is_pending = pod.node.is_none() && *pod.phase == *"Pending" && !pod.is_terminating;
    let is_waiting = is_pending && !pod.requests.is_empty();
    let answers = if is_waiting { why::nodes(inventory, &uses, pod) } else { Vec::new() };
    let nodes: Vec<_> = answers.into_iter().map(|(name, answer)| WhyNode::new(inventory, name, answer)).collect();
    let verdict = match (is_waiting, pod.is_gated) {
        (false, _) => Verdict::NotWaiting,
        (true, true) => Verdict::Gated,
        (true, false) if nodes.iter().any(|node| node.enough == Some(true)) => Verdict::Enough,
        (true, false) if nodes.iter().any(|node| node.enough.is_none()) => Verdict::Unknown,
        (true, false) if inventory.nodes.is_none() => Verdict::Unknown,
        (true, false) => Verdict::NotEnough,
    };
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
        requests: pod.requests.iter().map(|request| WhyResource::new(inventory, &uses, pod, request)).collect(),
        nodes,
    };
    why.explanation = why.explain(pod, inventory.is_part);
    why
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
        let is_unmapped = inventory.knows_sources() && of_resource.class.is_none();
        let is_unheard = is_unmapped && !of_resource.is_listed() && of_resource.rules.is_empty();
        let known = uses.iter().filter(|(_, other)| other.nodes() > 0 || !other.rules.is_empty());
        let similar = is_unheard.then(|| closest_resource(resource, known.map(|(name, _)| *name))).flatten();
        let reserved = why::promised(inventory, pod, resource);
        Self {
            pod_requests: quantity.to_string(),
            resource: ResourceView::new(inventory, resource, of_resource),
            reserved: (!reserved.is_zero()).then(|| reserved.to_string()),
            similar: similar.map(str::to_owned),
            is_nowhere: is_unmapped && of_resource.expected_nodes() == 0,
        }
    }

    /// Returns the amounts as a sentence, if they are known.
    fn sentence(&self) -> Option<String> {
        let Self { pod_requests, resource: ResourceView { resource, supply, free, largest_free, .. }, .. } = self;
        let Supply { total, .. } = supply.as_ref()?;
        let Some(free) = free else {
            return Some(format!("{resource}: the pod requests {pod_requests}; nodes have {total} in all"));
        };
        let largest = match largest_free {
            Some(largest) => format!("{} on one node ({})", largest.quantity, largest.node),
            None => "none on a node that takes pods".to_owned(),
        };
        let reserved = self.reserved.as_ref().map(|reserved| format!("; {reserved} of it reserved for nominated pods"));
        let reserved = reserved.unwrap_or_default();
        Some(format!("{resource}: the pod requests {pod_requests}; {free} of {total} free, {largest}{reserved}"))
    }
}

impl WhyNode {
    fn new(inventory: &Inventory, name: &NodeName, answer: why::Answer) -> Self {
        let (enough, reasons) = match answer {
            why::Answer::Enough => (Some(true), Vec::new()),
            why::Answer::Short(reasons) => (Some(false), reasons),
            why::Answer::Unknown(reasons) => (None, reasons),
        };
        let state = NodeStateView::of(inventory, name).filter(|_| enough == Some(true));
        let obstacles = state.map(|state| state.obstacles()).unwrap_or_default();
        Self { node: name.to_string(), enough, obstacles, reasons }
    }
}

impl Why {
    /// Returns the verdict as a sentence. If `is_part`, `-l` excludes nodes.
    fn explain(&self, pod: &PodEntry, is_part: bool) -> String {
        let selected = if is_part { " that -l selects" } else { "" };
        match self.verdict {
            Verdict::NotWaiting => not_waiting(pod),
            Verdict::Gated => {
                "The scheduler does not consider the pod until its scheduling gates are removed".to_owned()
            }
            Verdict::Enough => {
                let enough = self.nodes.iter().filter(|node| node.enough == Some(true)).count();
                let verb = if enough == 1 { "has" } else { "have" };
                let stale = if self.scheduler_saw_less() { ", or the scheduler has yet to try again" } else { "" };
                format!(
                    "{} of {}{selected} {verb} enough extended resources: if the pod stays Pending, something else keeps \
                     it off them{stale}",
                    digits(enough),
                    plural(self.nodes.len(), "node", "nodes")
                )
            }
            Verdict::Unknown => format!("No node{selected} is known to have enough extended resources"),
            Verdict::NotEnough if self.nodes.is_empty() => format!("There are no nodes{selected}"),
            Verdict::NotEnough if is_part => format!("No node{selected} has enough extended resources"),
            Verdict::NotEnough => match self.requests.iter().find(|request| request.is_nowhere) {
                Some(WhyResource { resource, similar: Some(similar), .. }) => {
                    format!("Nothing provides {}: is it {similar}?", resource.resource)
                }
                Some(WhyResource { resource, .. }) => {
                    format!("No node has {}, and no rule selects one", resource.resource)
                }
                None => "No node has enough extended resources".to_owned(),
            },
        }
    }

    /// Returns whether the scheduler found too little of a requested resource on some node.
    fn scheduler_saw_less(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default();
        let is_of_name = |next: char| next.is_ascii_alphanumeric() || "-_./".contains(next);
        let named: HashSet<_> = message
            .split("Insufficient ")
            .skip(1)
            .filter_map(|rest| rest.split(|next| !is_of_name(next)).next())
            // The period ends the sentence.
            .map(|name| name.trim_end_matches('.'))
            .collect();
        self.requests.iter().any(|request| named.contains(&*request.resource.resource))
    }
}

/// Returns why a pod waits for no node's extended resources.
fn not_waiting(pod: &PodEntry) -> String {
    match &pod.node {
        _ if pod.is_finished() => {
            let failure = pod.failure.as_ref().map(|failure| format!(": {failure}"));
            format!("The pod has ended ({}){}", pod.phase, failure.unwrap_or_default())
        }
        Some(node) => format!("The pod is on node {node}: it does not wait for extended resources"),
        None if pod.is_terminating => "The pod is being deleted: it waits for no node".to_owned(),
        None if pod.requests.is_empty() && !(pod.claimed.is_empty() && pod.device_classes.is_empty()) => {
            "The pod has its extended resources from DRA: it does not wait for those of nodes".to_owned()
        }
        None if pod.requests.is_empty() => "The pod requests no extended resources".to_owned(),
        None => format!("The pod is {}: it waits for no node", pod.phase),
    }
}

impl Answer for Why {
    const KIND: &'static str = "PodDiagnosis";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        // Nodes with the same answer, in the order of their names.
        let mut groups = Vec::<(&WhyNode, usize)>::new();
        let mut places = HashMap::new();
        for node in &self.nodes {
            let next = groups.len();
            let own = is_wide.then_some(&node.node);
            let place = *places.entry((node.enough, &node.obstacles, &node.reasons, own)).or_insert(next);
            match groups.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => groups.push((node, 1)),
            }
        }
        groups.sort_by_key(|(node, _)| node.enough != Some(true));
        let most = if is_wide { usize::MAX } else { LINES };
        let more = groups.iter().skip(most).map(|(_, count)| count).sum::<usize>();
        let rows = groups.iter().take(most).map(|(node, count)| {
            let name = match count {
                1 => node.node.clone(),
                count => format!("{} and {} more", node.node, digits(count - 1)),
            };
            let (answer, style) = match node.enough {
                Some(true) => ("enough", AnsiColor::Green.on_default()),
                Some(false) => ("short", AnsiColor::Red.on_default()),
                None => ("unknown", AnsiColor::Yellow.on_default()),
            };
            let why = if node.enough == Some(true) { node.obstacles.join(", ") } else { node.reasons.join("; ") };
            Row::new([name.into(), Cell::styled(answer, style), why.into()])
        });
        let more = (more > 0).then(|| {
            Row::new([
                format!("… and {} more (-o wide)", digits(more)).into(),
                "".into(),
                Cell::styled("", Style::new()),
            ])
        });
        (vec!["NODE", "ANSWER", "REASON"], rows.chain(more).collect())
    }

    fn names(&self) -> Vec<String> {
        let enough = self.nodes.iter().filter(|node| node.enough == Some(true));
        enough.map(|node| format!("node/{}", node.node)).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![self.explanation.clone()];
        if self.verdict != Verdict::NotWaiting {
            remarks.extend(self.requests.iter().filter_map(WhyResource::sentence));
        }
        remarks.extend(self.nominated_node.iter().map(|node| {
            format!("The scheduler has nominated the pod for node {node}, where it waits for other pods to end")
        }));
        remarks.extend(self.message.iter().map(|message| format!("The scheduler says: {message}")));
        if self.verdict == Verdict::NotEnough && self.message.is_some() && !self.scheduler_saw_less() {
            remarks.push(
                "The scheduler names none of these resources: it has rejected the nodes for another reason first, or \
                 ignores the resources (ignoredResources, an extender)"
                    .to_owned(),
            );
        }
        if self.verdict == Verdict::Enough {
            remarks.push("Not looked at: taints, cordons, affinity, cpu, memory, volumes and topology".to_owned());
        }
        if self.verdict != Verdict::NotWaiting {
            let classes = self.device_classes.iter();
            remarks.extend(classes.map(|class| format!("Not looked at: DeviceClass {class}, which DRA provides")));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
