//! What keeps many pods waiting: the answers about them, grouped by cause. Pure.

use serde::Serialize;

use super::asked::Group;
use super::diagnosis::{Verdict, Why, WhyResource};
use super::question::Question;
use crate::cli::answers::answer::{Answer, sentence};
use crate::cli::table::Row;
use crate::cli::wrap::wrapped;
use crate::inspect::hint;
use crate::inspect::inventory::placement::Placement;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::why::Counted;
use crate::inspect::inventory::workloads::Failing;
use crate::model::count::{digits, few, plural};
use crate::model::label::printable;
use crate::model::quantity::Quantity;
use crate::model::resource_name;

/// The lines of a terminal, without the one of the prompt.
const SCREEN: usize = 23;
/// How many pods a cause names.
const NAMED: usize = 3;
const INDENT: &str = "   ";

/// What keeps the pods of a namespace or of a workload waiting.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Causes {
    /// The namespace; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<WorkloadView>,
    waiting_pods: usize,
    /// Those of extended resources first, and of these the one with the most pods.
    causes: Vec<Cause>,
    /// Whether the answer depends on whether a controller leads.
    #[serde(skip)]
    pub(super) awaits_controller: bool,
    /// Whether for some pod, each node with enough extended resources has too little cpu or memory.
    #[serde(skip)]
    pub(super) lack_compute: bool,
    /// Whether workloads may be missing whose pods cannot be created.
    #[serde(skip)]
    pub(super) lack_workloads: bool,
}

#[derive(Debug, Serialize)]
struct WorkloadView {
    name: String,
    desired: i64,
    existing: i64,
}

/// What keeps some pods waiting.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Cause {
    verdict: Verdict,
    explanation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// The scheduler's message, where that is the explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// What the pods request, and what is free.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<String>,
    /// The workload whose pods cannot be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
}

/// Pods about which every answer is the same, but for their names.
struct Alike<'g> {
    placement: &'g Placement,
    pods: Vec<&'g PodEntry>,
}

/// Pods with one cause, with the first answer about them.
struct Together<'g> {
    why: Why,
    message: Option<String>,
    pods: Vec<&'g PodEntry>,
}

impl Causes {
    /// Groups pods by cause. `leads` is whether a controller leads, if that is known.
    pub(super) fn new(counted: &Counted<'_>, group: &Group, leads: Option<bool>) -> Self {
        let mut found = Vec::<Together<'_>>::new();
        let (mut awaits_controller, mut lack_compute) = (false, false);
        for Alike { placement, pods } in alike(&group.pods).into_iter().chain(alike(&group.rejected)) {
            let Some(pod) = pods.first().copied() else { continue };
            let mut why = Question { counted, pod, placement }.explain(leads);
            awaits_controller |= why.awaits_controller();
            lack_compute |= why.lacks_compute();
            // A cause shows none, and many causes would keep many times all nodes.
            why.nodes = Vec::new();
            let message = why.explaining_message();
            let same = |other: &&mut Together<'_>| {
                let causes = [&other.why, &why].map(|why| (why.verdict, &why.explanation, &why.fix, why.resources()));
                causes[0] == causes[1] && other.message == message
            };
            match found.iter_mut().find(same) {
                Some(together) => together.pods.extend(pods),
                None => found.push(Together { why, message, pods }),
            }
        }
        let is_one = group.namespace.is_some();
        let failing = group.failing.iter().map(|failing| Cause::not_created(failing, is_one));
        let mut causes: Vec<_> =
            found.into_iter().map(|together| Cause::new(together, is_one)).chain(failing).collect();
        causes.sort_by_key(|cause| (cause.rank(), std::cmp::Reverse(cause.pods.len())));
        let workload = group.workload.as_ref().map(|workload| WorkloadView {
            name: workload.name.clone(),
            desired: workload.pods.desired,
            existing: workload.pods.existing,
        });
        let waiting_pods = group.pods.len();
        let lack_workloads = group.gap.is_some();
        let namespace = group.namespace.clone();
        Self { namespace, workload, waiting_pods, causes, awaits_controller, lack_compute, lack_workloads }
    }

    /// Returns whether the workload lacks pods that are yet to be created.
    pub(super) fn is_short(&self) -> bool {
        self.workload.as_ref().is_some_and(|workload| workload.existing < workload.desired)
    }

    pub(super) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        // A pod that waits for something else does not fit yet.
        self.of_waiting().map(|cause| cause.verdict)
    }

    /// Returns the causes apart from why pods were rejected, which wait no longer, and which their owners replace.
    fn of_waiting(&self) -> impl Iterator<Item = &Cause> {
        self.causes.iter().filter(|cause| cause.verdict != Verdict::Rejected)
    }

    /// Returns what was asked about, and how many pods wait.
    fn summary(&self) -> String {
        let count = |pods: usize| plural(pods, "pod", "pods");
        let verb = if self.waiting_pods == 1 { "waits" } else { "wait" };
        let waiting = match self.waiting_pods {
            0 => "no pod waits for a node".to_owned(),
            pods => format!("{} {verb} for a node", count(pods)),
        };
        let short = self.causes.iter().filter(|cause| cause.verdict == Verdict::NotEnough);
        let short = match short.map(|cause| cause.pods.len()).sum::<usize>() {
            0 => String::new(),
            pods if pods == self.waiting_pods => ", because of extended resources".to_owned(),
            pods => format!(", {} of them because of extended resources", digits(pods)),
        };
        let place = match (&self.workload, &self.namespace) {
            (Some(WorkloadView { name, desired, existing }), _) => format!("{name} has {existing} of {desired} pods"),
            (None, Some(namespace)) => format!("namespace {namespace}"),
            (None, None) => "all namespaces".to_owned(),
        };
        sentence(&format!("{place}: {waiting}{short}"))
    }

    /// Returns how to see the nodes of the first pod.
    fn details(&self) -> Option<String> {
        let shown = self.causes.iter().find(|cause| matches!(cause.verdict, Verdict::NotEnough | Verdict::Unknown));
        let pod = shown?.pods.first()?;
        let namespace = self.namespace.as_ref().map(|namespace| format!(" -n {namespace}"));
        Some(format!("Node by node: {}", hint::command(&format!("why {pod}{}", namespace.unwrap_or_default()))))
    }
}

impl Answer for Causes {
    const KIND: &'static str = "PendingPods";

    fn table(&self, _is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        (Vec::new(), Vec::new())
    }

    fn names(&self) -> Vec<String> {
        let pods = self.of_waiting().flat_map(|cause| &cause.pods);
        let kind = if self.namespace.is_some() { "pod/" } else { "" };
        pods.map(|pod| format!("{kind}{pod}")).collect()
    }

    /// As many causes as fit on a screen, unless it is wide.
    fn text(&self, is_wide: bool) -> String {
        let mut lines = wrapped(&self.summary(), "");
        let after = self.details().map(|details| vec![details]).unwrap_or_default();
        let room = if is_wide { usize::MAX } else { SCREEN - after.len() - 1 };
        for (at, cause) in self.causes.iter().enumerate() {
            let of_cause = cause.lines(is_wide);
            // The first is shown in any case.
            if at > 0 && lines.len() + of_cause.len() > room {
                let left = self.causes.get(at..).unwrap_or_default();
                let pods: usize = left.iter().map(|cause| cause.pods.len()).sum();
                let (causes, pods) = (plural(left.len(), "cause", "causes"), plural(pods, "pod", "pods"));
                lines.push(format!("… and {causes} more, of {pods} (-o wide)"));
                break;
            }
            lines.extend(of_cause);
        }
        lines.into_iter().chain(after).map(|line| printable(&line).into_owned() + "\n").collect()
    }
}

impl Cause {
    fn new(together: Together<'_>, is_one_namespace: bool) -> Self {
        let Together { why, message, pods } = together;
        let name = |pod: &&PodEntry| if is_one_namespace { pod.name.to_string() } else { pod.to_string() };
        let requests = match why.verdict {
            Verdict::NotEnough | Verdict::Unknown => &why.requests[..],
            _ => &[],
        };
        Self {
            verdict: why.verdict,
            explanation: why.explanation.clone(),
            fix: why.fix.clone(),
            message,
            requests: requests.iter().filter_map(|request| amounts(request, &pods)).collect(),
            pods: pods.iter().map(name).collect(),
            workload: None,
        }
    }

    fn not_created(failing: &Failing, is_one_namespace: bool) -> Self {
        let Failing { namespace, name, failure } = failing;
        let is_quota = failure.contains("exceeded quota");
        let verdict = if is_quota && names_resource(failure) { Verdict::OverQuota } else { Verdict::NotCreated };
        let describe = hint::kubectl(&format!("describe quota -n {namespace}"));
        let fix = format!("delete pods that the quota counts, or raise it: {describe}");
        // Kubernetes puts the first before Events of which there are many, and the second before those of some kinds.
        let reason =
            failure.trim_start_matches("(combined from similar events): ").trim_start_matches("Error creating: ");
        Self {
            verdict,
            explanation: format!("Pods cannot be created: {reason}"),
            fix: is_quota.then_some(fix),
            message: None,
            requests: Vec::new(),
            pods: Vec::new(),
            workload: Some(if is_one_namespace { name.clone() } else { format!("{name} in {namespace}") }),
        }
    }

    /// Extended resources come first.
    fn rank(&self) -> u8 {
        match self.verdict {
            Verdict::NotEnough | Verdict::OverQuota => 0,
            Verdict::Unknown | Verdict::Rejected => 1,
            Verdict::NotCreated | Verdict::Excluded => 2,
            Verdict::Enough | Verdict::Gated => 3,
            Verdict::NotWaiting => 4,
        }
    }

    fn lines(&self, is_wide: bool) -> Vec<String> {
        let most = if is_wide { usize::MAX } else { NAMED };
        let head = match &self.workload {
            Some(workload) => workload.clone(),
            None => format!("{}: {}", plural(self.pods.len(), "pod", "pods"), few(&self.pods, most, ", ")),
        };
        let fix = self.fix.as_ref().map(|fix| format!("Fix: {fix}"));
        let message = self.message.as_ref().map(|message| format!("The scheduler says: {message}"));
        let about = std::iter::once(&self.explanation).chain(&self.requests).chain(&fix).chain(&message);
        wrapped(&head, "").into_iter().chain(about.flat_map(|text| wrapped(&sentence(text), INDENT))).collect()
    }
}

/// Returns whether the message of a quota names an extended resource, as in `requested: requests.example.com/dongle=1`.
fn names_resource(message: &str) -> bool {
    let mut names = message.split("requests.").skip(1).filter_map(|rest| rest.split('=').next());
    names.any(resource_name::is_extended)
}

/// Returns what these pods request of a resource, and what is free.
fn amounts(request: &WhyResource, pods: &[&PodEntry]) -> Option<String> {
    let quantities = || pods.iter().map(|pod| pod.requests(&request.resource.resource));
    let [least, most] = [quantities().min(), quantities().max()].map(Option::<Quantity>::unwrap_or_default);
    request.sentence_about(&match (pods.len(), least == most) {
        (1, _) => format!("requests {most}"),
        (_, true) => format!("each requests {most}"),
        (_, false) => format!("each requests {least} to {most}"),
    })
}

/// Groups pods that differ in nothing that an answer depends on.
fn alike(pods: &[(PodEntry, Placement)]) -> Vec<Alike<'_>> {
    let mut groups = Vec::<Alike<'_>>::new();
    for (pod, placement) in pods {
        let is_alike = |group: &&mut Alike<'_>| {
            *group.placement == *placement && group.pods.first().is_some_and(|first| answers_alike(first, pod))
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.pods.push(pod),
            None => groups.push(Alike { placement, pods: vec![pod] }),
        }
    }
    groups
}

fn answers_alike(one: &PodEntry, other: &PodEntry) -> bool {
    let of = |pod: &PodEntry| (pod.phase.clone(), pod.priority, pod.is_gated, pod.message.clone());
    let ended = |pod: &PodEntry| (pod.node.clone(), pod.failure.clone());
    // What is reserved for a nominated pod is not reserved from itself.
    let is_nominated = one.nominated_node.is_some() || other.nominated_node.is_some();
    let claims = |pod: &PodEntry| (pod.claimed.clone(), pod.device_classes.clone());
    !is_nominated
        && of(one) == of(other)
        && ended(one) == ended(other)
        && one.requests == other.requests
        && claims(one) == claims(other)
}

impl Why {
    /// Returns the resources that the pod requests.
    fn resources(&self) -> Vec<&str> {
        self.requests.iter().map(|request| &*request.resource.resource).collect()
    }

    /// Returns the first sentence of the scheduler's message, where something else than extended resources keeps the pod
    /// waiting.
    fn explaining_message(&self) -> Option<String> {
        let is_other = matches!(self.verdict, Verdict::Enough | Verdict::NotWaiting | Verdict::Unknown);
        let message = self.message.as_deref().filter(|_| is_other)?;
        Some(message.split(" preemption:").next().unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
mod tests;
