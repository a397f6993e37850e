//! What the answers for all nodes come to: one conclusion, and one thing to do. Pure.

use std::collections::BTreeMap;

use super::diagnosis::{Unallocatable, Verdict, Why, WhyNode, WhyResource};
use crate::cli::answers::pod::NO_REQUESTS;
use crate::inspect::hint;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::why::{Shortage, on_any_node};
use crate::model::count::{digits, few, have, plural};

/// How many nodes, pods and reasons a conclusion names.
const NAMED: usize = 3;

/// What the answers for all nodes come to.
#[derive(Debug, Default)]
pub(super) struct Conclusion {
    /// Without a period.
    pub(super) sentence: String,
    /// What to do, without a period.
    pub(super) fix: Option<String>,
}

impl Conclusion {
    fn new(sentence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), fix: Some(fix.into()) }
    }

    fn alone(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), fix: None }
    }
}

/// What a conclusion is drawn from, besides the answers for nodes.
pub(super) struct Circumstances<'c> {
    pub(super) pod: &'c PodEntry,
    /// ` that -l selects`, if not all nodes count.
    pub(super) selected: &'static str,
    /// Whether a controller leads, if that is known.
    pub(super) leads: Option<bool>,
    /// Whether it is known what rules declare.
    pub(super) knows_rules: bool,
    /// The nodes that the pod names and that do not exist, if it may use no others.
    pub(super) absent: Vec<String>,
    /// Whether the pod may use one node only, which its owner has chosen.
    pub(super) has_own_node: bool,
    /// The scheduler that the pod asks for, if none has reported on the pod.
    pub(super) silent_scheduler: Option<String>,
    /// Whether the node that the pod is on does not exist.
    pub(super) is_node_gone: bool,
}

impl Circumstances<'_> {
    /// Returns which nodes a sentence is about, after `node`.
    fn which(&self, why: &Why) -> &'static str {
        let is_limited = self.has_own_node || why.nodes.iter().any(|node| !node.allowed);
        if is_limited { " that the pod may use" } else { "" }
    }
}

/// Draws the conclusion.
pub(super) fn conclude(why: &Why, circumstances: &Circumstances<'_>) -> Conclusion {
    let Circumstances { pod, selected, .. } = circumstances;
    match why.verdict {
        Verdict::NotWaiting if circumstances.is_node_gone => Conclusion::new(
            format!("The pod is on node {}, which does not exist", why.node.as_deref().unwrap_or_default()),
            "delete the pod, if Kubernetes does not; its owner then creates another",
        ),
        Verdict::NotWaiting | Verdict::OverQuota | Verdict::NotCreated => Conclusion::alone(not_waiting(pod)),
        Verdict::Rejected => Conclusion::new(
            not_waiting(pod),
            format!(
                "its owner creates another pod, if it has one; {} shows who changed the value",
                hint::command(&format!("history {}", why.node.as_deref().unwrap_or_default()))
            ),
        ),
        Verdict::Gated => {
            Conclusion::alone("The scheduler does not consider the pod until its scheduling gates are removed")
        }
        Verdict::Unknown => Conclusion::alone(unknown(why, selected)),
        Verdict::Excluded => excluded(why, circumstances),
        Verdict::Enough => enough(why, circumstances),
        Verdict::NotEnough if why.nodes.is_empty() => Conclusion::alone(format!("There are no nodes{selected}")),
        Verdict::NotEnough => not_enough(why, circumstances),
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
        None if pod.requests.is_empty() => NO_REQUESTS.to_owned(),
        None => format!("The pod is {}: it waits for no node", pod.phase),
    }
}

fn unknown(why: &Why, selected: &str) -> String {
    let none = format!("No node{selected} is known to have enough extended resources");
    let named = why.requests.iter().map(|request| &*request.resource.resource);
    let counts = named.filter_map(|name| Some((why.scheduler_count(name)?, name)));
    let counts: Vec<_> = counts.map(|(count, name)| format!("{count} {} too little {name}", have(count))).collect();
    if counts.is_empty() {
        none
    } else {
        format!("{none}; of the nodes that the scheduler tried, {}", counts.join(", "))
    }
}

/// The pod may use no node at all.
fn excluded(why: &Why, circumstances: &Circumstances<'_>) -> Conclusion {
    let Circumstances { selected, absent, .. } = circumstances;
    if !absent.is_empty() {
        return Conclusion::new(
            format!("The pod may only use {}, which does not exist", few(absent, NAMED, ", ")),
            "correct the pod's nodeSelector or affinity, or delete the pod: its owner creates another",
        );
    }
    let counts = |shown: fn(&str) -> String| {
        let mut counts = BTreeMap::<String, usize>::new();
        let reasons = why.nodes.iter().filter_map(|node| node.obstacles.first());
        reasons.for_each(|reason| *counts.entry(shown(reason)).or_default() += 1);
        counts
    };
    let mut reasons = counts(str::to_owned);
    if reasons.len() > NAMED {
        reasons = counts(on_any_node);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let reasons: Vec<_> = reasons.iter().map(|(reason, count)| format!("{} {reason}", on_nodes(*count))).collect();
    Conclusion::new(
        format!("The pod may use no node{selected}: {}", few(&reasons, NAMED, "; ")),
        "change the pod's nodeSelector, affinity or tolerations, or the nodes' labels and taints",
    )
}

fn on_nodes(count: usize) -> String {
    format!("on {},", plural(count, "node", "nodes"))
}

/// Some node that the pod may use has enough.
fn enough(why: &Why, circumstances: &Circumstances<'_>) -> Conclusion {
    let Circumstances { selected, silent_scheduler, .. } = circumstances;
    if let Some(conclusion) = without_compute(why, selected) {
        return conclusion;
    }
    let allowed = why.nodes.iter().filter(|node| node.allowed);
    let (count, of) = (why.nodes.iter().filter(|node| node.takes()).count(), allowed.count());
    let which = circumstances.which(why);
    let verb = have(count);
    let sentence = format!(
        "{} of {}{selected}{which} {verb} enough extended resources: if the pod stays Pending, something else keeps it off",
        digits(count),
        plural(of, "node", "nodes"),
    );
    if let Some(scheduler) = silent_scheduler {
        let fix =
            format!("see that the scheduler {scheduler} runs, which the pod asks for, or change its schedulerName");
        return Conclusion::new(format!("{sentence}. No scheduler has reported on the pod"), fix);
    }
    // Its count is of all nodes.
    if selected.is_empty() && why.scheduler_is_behind() {
        let sentence = format!("{sentence}, or the scheduler has yet to try again: it saw more nodes with too little");
        return Conclusion::new(sentence, "wait for its next attempt");
    }
    match why.message {
        Some(_) => Conclusion::new(sentence, "see what else the scheduler says below"),
        None => Conclusion::alone(sentence),
    }
}

/// Every node with enough extended resources has too little cpu or memory.
fn without_compute(why: &Why, selected: &str) -> Option<Conclusion> {
    let with_enough: Vec<_> = why.nodes.iter().filter(|node| node.has_enough()).collect();
    let takes = with_enough.iter().any(|node| node.takes());
    if takes { None } else { too_little_compute(&with_enough, selected) }
}

/// These nodes have enough extended resources, or soon, and each has too little cpu or memory.
fn too_little_compute(nodes: &[&WhyNode], selected: &str) -> Option<Conclusion> {
    let (first, others) = nodes.split_first()?;
    let lack = format!("{}: {}", first.node, first.lacks.join(", "));
    let others = if others.is_empty() { String::new() } else { format!(", and {} more", digits(others.len())) };
    let rest = format!("node{selected} with enough extended resources has room for the pod ({lack}{others})");
    Some(if nodes.iter().all(|node| node.is_too_small) {
        let sentence = format!("However many pods end, no {rest}");
        Conclusion::new(sentence, "request less cpu or memory in one pod, or add a larger node")
    } else {
        Conclusion::new(format!("No {rest}"), "wait until pods end there, or request less cpu or memory")
    })
}

/// No node that the pod may use has enough, and it is known which.
fn not_enough(why: &Why, circumstances: &Circumstances<'_>) -> Conclusion {
    let Circumstances { selected, leads, .. } = circumstances;
    let nowhere = why.requests.iter().find(|request| request.is_nowhere && selected.is_empty());
    if let Some(request) = nowhere {
        return provided_by_nothing(request);
    }
    let tried: Vec<_> = why.nodes.iter().filter(|node| node.allowed).collect();
    if let Some(conclusion) = why.requests.iter().find_map(|request| never(why, request, &tried, circumstances)) {
        return conclusion;
    }
    let awaited: Vec<_> = tried.iter().copied().filter(|node| node.is_awaited()).collect();
    let written = awaited.iter().find(|node| node.lacks.is_empty()).and_then(|node| node.shortages.first());
    if let Some(unwritten) = written {
        return not_written(unwritten, *leads);
    }
    let which = format!("{selected}{}", circumstances.which(why));
    let is_freed = tried.iter().any(|node| node.is_freed());
    let apart = apart(&why.requests, &tried).map(|sentence| {
        let sentence = format!("No node{which} has all that the pod requests: {sentence}");
        let fix = match is_freed {
            true => "wait until pods free the rest on one of them, or advertise all on one node",
            false => "advertise all on one node that has room for the pod",
        };
        Conclusion::new(sentence, fix)
    });
    let apart = apart.or_else(|| {
        let awaited: Vec<_> = awaited.into_iter().filter(|node| !is_freed || !node.is_too_small).collect();
        too_little_compute(&awaited, selected)
    });
    apart.unwrap_or_else(|| not_free(&tried, &which, circumstances))
}

/// Some node can have enough, and has too little now.
fn not_free(tried: &[&WhyNode], which: &str, circumstances: &Circumstances<'_>) -> Conclusion {
    let shortages = || tried.iter().flat_map(|node| &node.shortages);
    let freed = || tried.iter().filter(|node| node.is_freed());
    let can_have_all = |node: &&&WhyNode| !node.is_too_small && node.shortages.iter().all(Shortage::can_be_enough);
    let able = || tried.iter().filter(can_have_all);
    let mut holders: Vec<_> = freed().flat_map(|node| &node.shortages).flat_map(|short| &short.holders).collect();
    holders.dedup();
    let sentence = format!("No node{which} has enough extended resources free now");
    if able().next().is_none() && shortages().any(|short| short.is_freed() && !short.holders.is_empty()) {
        return Conclusion::new(
            format!("No node{which} will have room for all that the pod requests, however many pods end"),
            "request less in one pod, or advertise all on one node that has room for it",
        );
    }
    if !holders.is_empty() {
        let wait = match circumstances.has_own_node {
            // Their names differ for each pod of a DaemonSet.
            true => "wait until pods on that node end; or declare more".to_owned(),
            false => format!("wait until pods end, such as {}; or declare more", few(&holders, NAMED, ", ")),
        };
        return Conclusion::new(sentence, wait);
    }
    let hindered = shortages().find(|short| short.can_be_enough() && !short.is_freed());
    let Some(Shortage { resource, declarations, rule: Some(rule), .. }) = hindered else {
        return Conclusion::alone(sentence);
    };
    Conclusion::new(
        format!("{sentence}: rule {rule} declares {resource}, and something stands in its way ({declarations})"),
        format!("see the rule's status: {}", hint::describe_rule(rule)),
    )
}

fn provided_by_nothing(request: &WhyResource) -> Conclusion {
    let name = &request.resource.resource;
    match &request.similar {
        Some(similar) => Conclusion::alone(format!("Nothing provides {name}: is it {similar}?")),
        None => provided_by_no_one(name, request.unallocatable.as_ref()),
    }
}

fn provided_by_no_one(name: &str, unallocatable: Option<&Unallocatable>) -> Conclusion {
    match unallocatable {
        Some(Unallocatable { node, capacity, manager: Some(manager) }) => Conclusion::new(
            format!(
                "{node} has {capacity} of {name} in status.capacity, by {manager}, and nothing in status.allocatable, \
                 where the scheduler looks"
            ),
            format!("let {manager} write both, or declare {name} with a rule"),
        ),
        Some(_) => Conclusion::new(
            format!(
                "Nodes have capacity of {name}, and nothing allocatable: their device plugin reports no healthy device"
            ),
            "see the device plugin's log",
        ),
        None => Conclusion::new(
            format!("No node has {name}, and no rule selects one"),
            "declare it with a rule, start its device plugin, or let the autoscaler add a node that has it",
        ),
    }
}

fn not_written(unwritten: &Shortage, leads: Option<bool>) -> Conclusion {
    let Shortage { resource: name, rule, unready, .. } = unwritten;
    let doctor = hint::command("doctor");
    match (leads, rule, unready) {
        (Some(false), ..) => Conclusion::new(
            format!("A rule declares {name}, and no controller leads that would write it"),
            format!("start the controller; {doctor} shows why none leads"),
        ),
        (_, Some(rule), Some(unready)) => Conclusion::new(
            format!("Rule {rule} declares {name}, and is not Ready ({unready})"),
            format!("see its status: {}", hint::describe_rule(rule)),
        ),
        (Some(true), ..) => Conclusion::new(
            format!("A rule declares {name}, and the controller has yet to write it"),
            "wait for seconds",
        ),
        (None, ..) => Conclusion::new(
            format!("A rule declares {name}, which is not on the node yet"),
            format!("see that a controller leads: {doctor}"),
        ),
    }
}

/// However many pods end, no node that the pod may use has what it requests.
fn never(
    why: &Why,
    request: &WhyResource,
    tried: &[&WhyNode],
    circumstances: &Circumstances<'_>,
) -> Option<Conclusion> {
    let shortages: Option<Vec<_>> = tried.iter().map(|node| node.shortage(&request.resource.resource)).collect();
    let most = shortages?.into_iter().max_by_key(|shortage| shortage.most)?;
    if most.can_be_enough() {
        return None;
    }
    let which = format!("{}{}", circumstances.selected, circumstances.which(why));
    let sentence = match circumstances.knows_rules {
        true => at_most(most, &which),
        false => at_most_now(most, &which),
    };
    Some(match &request.invalid_rules[..] {
        [] if circumstances.has_own_node && most.most.is_zero() && !most.goes_down() => {
            nothing_on_own_node(request, most)
        }
        [] => elsewhere(why, most, sentence),
        [rule, ..] => Conclusion::new(
            format!("{sentence}, and rule {rule}, which declares it, is invalid"),
            format!("correct rule {rule}"),
        ),
    })
}

/// Returns the most that a node can have.
fn at_most(shortage: &Shortage, which: &str) -> String {
    let Shortage { resource, requested, most, .. } = shortage;
    match most.is_zero() {
        _ if shortage.goes_down() => format!(
            "No node{which} will have enough: the pod requests {requested} of {resource}, and {most} are left there once the \
             pods that use more have ended"
        ),
        true => format!("No node{which} has {resource}"),
        false => format!(
            "No node{which} can ever have enough: the pod requests {requested} of {resource}, and the most that one has, or \
             that a rule declares there, is {most}"
        ),
    }
}

/// Returns the most that a node has, where it is unknown what rules declare.
fn at_most_now(Shortage { resource, requested, most, .. }: &Shortage, which: &str) -> String {
    match most.is_zero() {
        true => format!("No node{which} has {resource}"),
        false => format!(
            "No node{which} has enough: the pod requests {requested} of {resource}, and the most that one has now is {most}"
        ),
    }
}

/// Returns what is the same for each pod of a DaemonSet.
fn nothing_on_own_node(request: &WhyResource, shortage: &Shortage) -> Conclusion {
    let Shortage { resource, declarations, rule, .. } = shortage;
    let why = match request.resource.owners.rules.as_deref() {
        Some([name]) if rule.is_none() => format!("rule {name} does not select it"),
        Some([_, _, ..]) if rule.is_none() => "no rule of it selects the node".to_owned(),
        _ => declarations.clone(),
    };
    Conclusion::new(
        format!("The pod's own node, the only one that it may use, has no {resource}: {why}"),
        "let a rule select that node, or keep the pod off it with a nodeSelector",
    )
}

/// Adds where the resource is instead.
fn elsewhere(why: &Why, Shortage { resource, most, .. }: &Shortage, sentence: String) -> Conclusion {
    let elsewhere = why.nodes.iter().filter(|node| !node.allowed && node.shortage(resource).is_none());
    let elsewhere: Vec<_> = elsewhere.collect();
    match elsewhere.first() {
        Some(node) => {
            let names: Vec<_> = elsewhere.iter().map(|node| &node.node).collect();
            let has = have(names.len());
            let reason = node.obstacles.first().map(String::as_str).unwrap_or_default();
            let sentence =
                format!("{sentence}; {} {has} enough, and the pod may not use it: {reason}", few(&names, NAMED, ", "));
            Conclusion::new(sentence, "declare it on a node that the pod may use, or let the pod use these")
        }
        None if most.is_zero() => Conclusion::new(sentence, "declare it on a node that the pod may use"),
        None => Conclusion::new(sentence, format!("request at most {most} in one pod, or declare more on a node")),
    }
}

/// Returns where each resource is free, if each is somewhere, and nowhere together.
fn apart(requests: &[WhyResource], tried: &[&WhyNode]) -> Option<String> {
    let mut parts = Vec::new();
    for WhyResource { resource, .. } in requests.iter().filter(|_| requests.len() > 1) {
        let name = &*resource.resource;
        let free: Vec<_> = tried.iter().filter(|node| node.shortage(name).is_none()).map(|node| &node.node).collect();
        if free.is_empty() {
            return None;
        }
        parts.push(format!("{name} is free on {}", few(&free, NAMED, ", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl WhyNode {
    /// Returns whether the pod may use the node, and it has enough of everything.
    pub(super) fn takes(&self) -> bool {
        self.has_enough() && self.lacks.is_empty()
    }

    /// Returns whether the pod may use the node, and it has enough extended resources.
    fn has_enough(&self) -> bool {
        self.allowed && self.enough == Some(true)
    }

    /// Returns whether the pod fits on the node once its pods have ended.
    fn is_freed(&self) -> bool {
        self.allowed
            && !self.is_too_small
            && self.shortages.iter().all(Shortage::is_freed)
            && self.enough == Some(false)
    }

    /// Returns whether the node has enough as soon as the controller has written everything.
    fn is_awaited(&self) -> bool {
        self.allowed && !self.shortages.is_empty() && self.shortages.iter().all(Shortage::is_awaited)
    }

    fn shortage(&self, resource: &str) -> Option<&Shortage> {
        self.shortages.iter().find(|shortage| *shortage.resource == *resource)
    }
}

impl Why {
    /// Returns on how many nodes the scheduler found too little of a resource, according to its message.
    pub(super) fn scheduler_count(&self, resource: &str) -> Option<usize> {
        let message = self.message.as_deref()?;
        let is_of_name = |next: char| next.is_ascii_alphanumeric() || "-_./".contains(next);
        message.match_indices(" Insufficient ").find_map(|(at, insufficient)| {
            let (before, rest) = (message.get(..at)?, message.get(at + insufficient.len()..)?);
            let name = rest.split(|next| !is_of_name(next)).next()?;
            // The period ends the sentence.
            let count = before.rsplit(|digit: char| !digit.is_ascii_digit()).next()?;
            (name.trim_end_matches('.') == resource).then(|| count.parse().ok())?
        })
    }

    /// Returns whether the scheduler found too little of a requested resource on some node.
    pub(super) fn scheduler_saw_less(&self) -> bool {
        self.requests.iter().any(|request| self.scheduler_count(&request.resource.resource).is_some())
    }

    /// Returns whether the scheduler found too little of a resource on more nodes than there are now: it has not looked since.
    fn scheduler_is_behind(&self) -> bool {
        self.requests.iter().any(|request| {
            let name = &*request.resource.resource;
            let short = self.nodes.iter().filter(|node| node.allowed && node.shortage(name).is_some()).count();
            self.scheduler_count(name).is_some_and(|count| count > short)
        })
    }
}
