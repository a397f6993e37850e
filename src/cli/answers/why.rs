//! `why`: why a pod has no node, as far as extended resources decide it.

mod conclusion;
mod diagnosis;
mod filters;

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};

use super::answer::{Answer, AnswerError, Common};
use super::pod::{PodName, Subject};
use super::view::{ResourceView, Supply, state};
use crate::cli::diff::order::NodeName;
use crate::cli::inventory::placement::HOSTNAME;
use crate::cli::inventory::pods::PodEntry;
use crate::cli::inventory::share::Use;
use crate::cli::inventory::{Inventory, leader, why};
use crate::cli::message::print_message;
use crate::cli::table::{Cell, Row};
use crate::model::count::{digits, few};
use crate::model::quantity::Quantity;
use crate::model::spelling::closest_resource;
use conclusion::{Circumstances, Conclusion, conclude};
use diagnosis::{Verdict, Why, WhyNode, WhyResource};
pub use filters::why_filters;

/// Show why a pod is Pending, as far as extended resources decide it
///
/// For each node that the pod may use, by its nodeSelector, node affinity and tolerations, why shows whether it has
/// enough of what the pod requests, and if not, which pods use it, or which rule would provide it and why it does not.
/// It ends with one conclusion and one thing to do, and prints the scheduler's own message, which is about everything
/// else as well: cpu, memory, volumes, other pods. why does not look at those.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 0 if extended resources do not keep the pod Pending, 1 if they do, 2 on an error, and 3 if it is unknown. With \
-l, that is about the selected nodes only.

Examples:
  # Why has the pod train-1 no node?
  node-resource-advertiser why train-1

  # The same for a pod that kubectl has printed
  kubectl get pods -n team-a -o name | xargs -n1 node-resource-advertiser why -n team-a")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    pod: PodName,
    #[command(flatten)]
    common: Common,
}

/// The most lines of nodes in a table without `-o wide`.
const LINES: usize = 25;

/// Runs the command. 1 means that the pod waits for extended resources, so every error is a 2.
pub(super) async fn run(args: Args) -> ExitCode {
    match print_why(&args).await {
        Ok(Verdict::NotEnough | Verdict::Rejected) => ExitCode::from(1),
        Ok(Verdict::Unknown) => ExitCode::from(3),
        Ok(Verdict::NotWaiting | Verdict::Gated | Verdict::Excluded | Verdict::Enough) => ExitCode::SUCCESS,
        Err(error) => {
            print_message(format_args!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

async fn print_why(args: &Args) -> Result<Verdict, AnswerError> {
    let client = args.common.connect().await?;
    let subject = args.pod.read(&args.common, &client).await?;
    let mut why = explain(&subject, None);
    if why.awaits_controller() {
        why = explain(&subject, leader::leads(&client).await);
    }
    args.common.print(&why, &subject.inventory.gaps)?;
    Ok(why.verdict)
}

/// Answers for a pod. `leads` is whether a controller leads, if that is known.
fn explain(subject: &Subject, leads: Option<bool>) -> Why {
    let Subject { pod, placement, inventory } = subject;
    let uses = inventory.uses();
    let is_pending = pod.node.is_none() && *pod.phase == *"Pending" && !pod.is_terminating;
    let is_waiting = is_pending && !pod.requests.is_empty();
    let answers = if is_waiting { why::nodes(inventory, &uses, pod) } else { Vec::new() };
    let nodes: Vec<_> = answers.into_iter().map(|(name, answer)| WhyNode::new(subject, name, answer)).collect();
    let verdict = match is_waiting {
        false if is_rejected(pod) => Verdict::Rejected,
        false => Verdict::NotWaiting,
        true if pod.is_gated => Verdict::Gated,
        true => verdict(&nodes, inventory.nodes.is_some()),
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
        fix: None,
        requests: pod.requests.iter().map(|request| WhyResource::new(inventory, &uses, pod, request)).collect(),
        nodes,
    };
    let is_absent = |name: &&str| inventory.nodes.is_some() && !inventory.is_part && inventory.node(name).is_none();
    let named = placement.named_nodes();
    // The label differs from the name in some clouds.
    let is_hostname = |name: &str| {
        let mut nodes = inventory.nodes.iter().flatten();
        nodes.any(|(_, entry)| entry.node.labels.get(HOSTNAME) == Some(name))
    };
    let absent = named.iter().copied().filter(|name| is_absent(name) && !is_hostname(name));
    let absent: Vec<_> = absent.map(str::to_owned).collect();
    let is_silent = is_waiting && !placement.is_considered;
    let circumstances = Circumstances {
        pod,
        selected: if inventory.is_part { " that -l selects" } else { "" },
        leads,
        absent: if absent.len() == named.len() { absent } else { Vec::new() },
        silent_scheduler: is_silent.then(|| placement.scheduler.clone()),
        is_node_gone: pod.node.as_ref().is_some_and(|node| is_absent(&&*node.0)) && !pod.is_finished(),
    };
    let Conclusion { sentence, fix } = conclude(&why, &circumstances);
    (why.explanation, why.fix) = (sentence, fix);
    why
}

/// Returns the verdict for a pod that waits.
fn verdict(nodes: &[WhyNode], knows_nodes: bool) -> Verdict {
    let mut allowed = nodes.iter().filter(|node| node.allowed).peekable();
    if allowed.peek().is_none() {
        return match (knows_nodes, nodes.is_empty()) {
            (false, _) => Verdict::Unknown,
            (true, true) => Verdict::NotEnough,
            (true, false) => Verdict::Excluded,
        };
    }
    let answers: Vec<_> = allowed.map(|node| node.enough).collect();
    match () {
        () if answers.contains(&Some(true)) => Verdict::Enough,
        () if answers.contains(&None) => Verdict::Unknown,
        () => Verdict::NotEnough,
    }
}

/// Returns whether a kubelet has rejected the pod for want of what it requests.
fn is_rejected(pod: &PodEntry) -> bool {
    let failure = pod.failure.as_deref().unwrap_or_default();
    let resource = failure.strip_prefix("OutOf").and_then(|rest| rest.split(':').next());
    pod.is_finished() && resource.is_some_and(|resource| !pod.requests(resource).is_zero())
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
            is_unhealthy: of_resource.shares.values().any(|share| share.capacity.is_some_and(|all| !all.is_zero())),
        }
    }

    /// Returns the amounts as a sentence, if they are known.
    fn sentence(&self) -> Option<String> {
        let Self { pod_requests, resource: ResourceView { resource, supply, free, largest_free, .. }, .. } = self;
        let Some(Supply { total, .. }) = supply.as_ref().filter(|_| !self.is_nowhere) else {
            return supply.is_none().then(|| format!("{resource}: the pod requests {pod_requests}"));
        };
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
    fn new(subject: &Subject, name: &NodeName, answer: why::Answer) -> Self {
        let entry = subject.inventory.node(&name.0);
        let obstacle = entry.and_then(|entry| subject.placement.obstacle(entry));
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
        Self { node: name.to_string(), enough, allowed, obstacles, reasons, shortages }
    }
}

impl Why {
    /// Returns whether the answer depends on whether a controller leads.
    fn awaits_controller(&self) -> bool {
        let shortages = self.nodes.iter().filter(|node| node.allowed).flat_map(|node| &node.shortages);
        self.verdict == Verdict::NotEnough && shortages.into_iter().any(|shortage| shortage.is_unwritten)
    }
}

impl Answer for Why {
    const KIND: &'static str = "PodDiagnosis";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        // Nodes with the same answer, in the order of their names.
        let mut groups = Vec::<(Vec<&WhyNode>, &[String])>::new();
        let mut places = HashMap::new();
        for node in &self.nodes {
            let next = groups.len();
            let own = is_wide.then_some(&node.node);
            // Of a node that the pod may not use, it does not matter what it has.
            let reasons = if node.allowed { &node.reasons[..] } else { &[] };
            let answer = if node.allowed { node.enough } else { None };
            let place = *places.entry((node.allowed, answer, &node.obstacles, reasons, own)).or_insert(next);
            match groups.get_mut(place) {
                Some((nodes, _)) => nodes.push(node),
                None => groups.push((vec![node], reasons)),
            }
        }
        groups.sort_by_key(|(nodes, _)| nodes.first().map(|node| (!node.allowed, !node.takes())));
        let most = if is_wide { usize::MAX } else { LINES };
        let more = groups.iter().skip(most).map(|(nodes, _)| nodes.len()).sum::<usize>();
        let rows = groups.iter().take(most).filter_map(|(nodes, reasons)| {
            let names: Vec<_> = nodes.iter().map(|node| &node.node).collect();
            let node = nodes.first()?;
            let (answer, style) = match node.enough {
                _ if !node.allowed => ("excluded", Style::new()),
                Some(true) => ("enough", AnsiColor::Green.on_default()),
                Some(false) => ("short", AnsiColor::Red.on_default()),
                None => ("unknown", AnsiColor::Yellow.on_default()),
            };
            let why = if reasons.is_empty() { node.obstacles.join(", ") } else { reasons.join("; ") };
            // "And 1 more" would be longer than the name.
            let most = if names.len() == 2 { 2 } else { 1 };
            Some(Row::new([few(&names, most, ", ").into(), Cell::styled(answer, style), why.into()]))
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
        let enough = self.nodes.iter().filter(|node| node.takes());
        enough.map(|node| format!("node/{}", node.node)).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![self.explanation.clone()];
        remarks.extend(self.fix.iter().map(|fix| format!("Fix: {fix}")));
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
            remarks.push("Not looked at: cpu, memory, volumes, topology and affinity to other pods".to_owned());
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
