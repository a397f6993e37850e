//! `why`: why a pod has no node, as far as extended resources decide it.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::answer::{Answer, AnswerError, Common};
use super::pod::PodName;
use super::view::{ResourceView, Supply, state};
use crate::cli::inventory::pods::PodEntry;
use crate::cli::inventory::share::Use;
use crate::cli::inventory::{Inventory, why};
use crate::cli::message::print_message;
use crate::cli::table::{Cell, Row};
use crate::model::count::{digits, plural};
use crate::model::spelling::closest_resource;

/// Show why a pod is Pending, as far as extended resources decide it
///
/// For each node, why shows whether it has enough of what the pod requests, and if not, which pods use it, or which
/// rule would provide it and why it does not. It prints the scheduler's own message too, which is about everything
/// else as well: taints, affinity, cpu, memory, volumes. why does not look at those.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 0 if extended resources do not keep the pod Pending, 1 if they do, and 2 on an error.")]
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
    /// The scheduler's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    verdict: Verdict,
    /// The verdict as a sentence.
    explanation: String,
    requests: Vec<WhyResource>,
    nodes: Vec<WhyNode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Verdict {
    /// The pod has a node, has finished, or requests nothing.
    NotWaiting,
    /// Something else than the amounts keeps the pod waiting.
    Gated,
    /// Some node has enough, or all that is known says so.
    Enough,
    /// No node has enough, apart from what DRA may provide.
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
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    similar: Option<String>,
}

#[derive(Debug, Serialize)]
struct WhyNode {
    node: String,
    enough: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

impl WhyResource {
    /// Returns whether no node has the resource, and no rule of it selects one.
    fn is_nowhere(&self) -> bool {
        self.resource.supply.as_ref().is_some_and(|supply| supply.expected_nodes == 0)
    }
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
    let client = args.common.connect().await?;
    let pod = args.pod.read(&client).await?;
    let inventory = args.common.read_from(&client).await?;
    let why = explain(&inventory, &pod);
    args.common.print(&why, &inventory.gaps)?;
    Ok(why.verdict)
}

fn explain(inventory: &Inventory, pod: &PodEntry) -> Why {
    let uses = inventory.uses();
    let is_waiting = pod.node.is_none() && *pod.phase == *"Pending" && !pod.requests.is_empty();
    let nodes = if is_waiting { why::nodes(inventory, &uses, pod) } else { Vec::new() };
    let nothing = Use::default();
    let requests = pod.requests.iter().map(|(resource, quantity)| {
        let of_resource = uses.get(&**resource).unwrap_or(&nothing);
        let is_unknown = of_resource.nodes() == 0 && of_resource.rules.is_empty() && of_resource.class.is_none();
        let known = uses.iter().filter(|(_, other)| other.nodes() > 0 || !other.rules.is_empty());
        let similar = is_unknown.then(|| closest_resource(resource, known.map(|(name, _)| *name))).flatten();
        WhyResource {
            pod_requests: quantity.to_string(),
            resource: ResourceView::new(inventory, resource, of_resource),
            similar: similar.map(str::to_owned),
        }
    });
    let requests: Vec<_> = requests.collect();
    let enough = nodes.iter().filter(|(_, answer)| *answer == why::Answer::Enough).count();
    let is_unknown = nodes.iter().any(|(_, answer)| matches!(answer, why::Answer::Unknown(_)));
    let is_complete = inventory.nodes.is_some() && inventory.pods.is_some();
    let verdict = match (is_waiting, pod.is_gated) {
        (false, _) => Verdict::NotWaiting,
        (true, true) => Verdict::Gated,
        (true, false) if enough > 0 => Verdict::Enough,
        (true, false) if is_unknown || !is_complete => Verdict::Unknown,
        (true, false) => Verdict::NotEnough,
    };
    let explanation = explanation(verdict, pod, &requests, (enough, nodes.len()), inventory.is_part);
    let nodes = nodes.into_iter().map(|(node, answer)| {
        let (enough, reasons) = match answer {
            why::Answer::Enough => (Some(true), Vec::new()),
            why::Answer::Short(reasons) => (Some(false), reasons),
            why::Answer::Unknown(reasons) => (None, reasons),
        };
        WhyNode { node: node.to_string(), enough, reasons }
    });
    Why {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        phase: state(pod),
        node: pod.node.as_ref().map(ToString::to_string),
        message: pod.message.as_deref().map(str::to_owned),
        verdict,
        explanation,
        nodes: nodes.collect(),
        requests,
    }
}

/// Returns the verdict as a sentence. If `is_part`, `-l` excludes nodes.
fn explanation(
    verdict: Verdict,
    pod: &PodEntry,
    requests: &[WhyResource],
    (enough, all): (usize, usize),
    is_part: bool,
) -> String {
    let selected = if is_part { " that -l selects" } else { "" };
    match verdict {
        Verdict::NotWaiting => match &pod.node {
            Some(node) => format!("The pod is on node {node}: it does not wait for extended resources"),
            None if pod.requests.is_empty() && !pod.claimed.is_empty() => {
                "The pod has its extended resources from DRA: it does not wait for those of nodes".to_owned()
            }
            None if pod.requests.is_empty() => "The pod requests no extended resources".to_owned(),
            None => format!("The pod is {}: it waits for no node", pod.phase),
        },
        Verdict::Gated => "The scheduler does not consider the pod until its scheduling gates are removed".to_owned(),
        Verdict::Enough => {
            let verb = if enough == 1 { "has" } else { "have" };
            format!(
                "{} of {}{selected} {verb} enough extended resources: if the pod stays Pending, something else keeps it off \
                 them",
                digits(enough),
                plural(all, "node", "nodes")
            )
        }
        Verdict::Unknown => format!("No node{selected} is known to have enough extended resources"),
        Verdict::NotEnough if all == 0 => format!("There are no nodes{selected}"),
        Verdict::NotEnough if is_part => format!("No node{selected} has enough extended resources"),
        Verdict::NotEnough => {
            let unknown = requests.iter().find(|request| request.is_nowhere());
            match unknown {
                Some(WhyResource { resource, similar: Some(similar), .. }) => {
                    format!("Nothing provides {}: is it {similar}?", resource.resource)
                }
                Some(WhyResource { resource, .. }) => {
                    format!("No node has {}, and no rule selects one", resource.resource)
                }
                None => "No node has enough extended resources".to_owned(),
            }
        }
    }
}

impl Answer for Why {
    const KIND: &'static str = "PodDiagnosis";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        // Nodes with the same answer, in the order of their names.
        let mut groups = Vec::<(&WhyNode, usize)>::new();
        for node in &self.nodes {
            let alike = groups
                .iter_mut()
                .find(|(first, _)| !is_wide && (first.enough, &first.reasons) == (node.enough, &node.reasons));
            match alike {
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
            Row::new([name.into(), Cell::styled(answer, style), node.reasons.join("; ").into()])
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
        let waiting = self.requests.iter().filter(|_| self.verdict != Verdict::NotWaiting);
        for WhyResource { pod_requests, resource, .. } in waiting {
            let ResourceView { resource: name, supply, free, largest_free, .. } = resource;
            let (Some(Supply { total, .. }), Some(free)) = (supply, free) else { continue };
            let largest = match largest_free {
                Some(largest) => format!("{} on one node ({})", largest.quantity, largest.node),
                None => "none on a node that takes pods".to_owned(),
            };
            remarks.push(format!("{name}: the pod requests {pod_requests}; {free} of {total} free, {largest}"));
        }
        remarks.extend(self.message.iter().map(|message| format!("The scheduler says: {message}")));
        if self.verdict == Verdict::Enough {
            remarks.push("Not looked at: taints, affinity, cpu, memory, volumes and topology".to_owned());
        }
        remarks
    }
}
