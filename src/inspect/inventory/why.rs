//! Why a pod has no node, as far as extended resources decide it. Pure.
//!
//! Which nodes the pod may use is a question of its own, for [`super::placement`]. Of cpu, memory and volumes nothing is
//! known: it says "enough" or "not enough", and never that a pod fits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::pods::PodEntry;
use super::share::{Request, Share, Use, sum};
use super::{Inventory, NodeEntry};
use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::reasons;
use crate::inspect::diff::rules::Rules;
use crate::model::count::few;
use crate::model::ledger::Ledger;
use crate::model::pod::NodeRequests;
use crate::model::quantity::Quantity;
use crate::planner::rules::Rule;
use crate::planner::{NodePlan, Plan};

/// How many pods and rules a reason names.
const NAMED: usize = 3;

/// Whether one node has enough of what a pod requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has enough of each resource.
    Enough,
    /// It has too little of some.
    Short(Vec<Shortage>),
    /// It has too little of some, which DRA may provide instead or what DRA provides cannot be read; or it is unknown
    /// what pods use.
    Unknown(Vec<String>),
}

/// Too little of one resource on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shortage {
    pub(crate) resource: Arc<str>,
    #[serde(serialize_with = "as_text")]
    pub(crate) requested: Quantity,
    #[serde(serialize_with = "as_text")]
    allocatable: Quantity,
    /// Absent if it is unknown what pods use.
    #[serde(serialize_with = "as_optional_text", skip_serializing_if = "Option::is_none")]
    free: Option<Quantity>,
    /// The most that the node can have: what it has, unless that goes down with its pods, or what a rule declares there.
    #[serde(serialize_with = "as_text")]
    pub(crate) most: Quantity,
    /// Whether a rule declares it, nothing stands in the way, and it is not on the node.
    #[serde(rename = "notWrittenYet", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_unwritten: bool,
    /// The pods' requests for it there, with those for which the scheduler has made room.
    #[serde(skip)]
    used: Quantity,
    /// The first rule that declares it there.
    #[serde(skip)]
    pub(crate) rule: Option<Arc<str>>,
    /// Why that rule is not Ready, according to its status.
    #[serde(skip)]
    pub(crate) unready: Option<String>,
    /// What rules do about it there.
    #[serde(skip)]
    pub(crate) declarations: String,
    /// The pods that use it, those with the largest requests first.
    #[serde(rename = "pods", skip_serializing_if = "Vec::is_empty")]
    pub(crate) holders: Vec<String>,
    #[serde(skip)]
    pub(crate) reason: String,
}

impl Shortage {
    /// Returns whether the node has enough as soon as the controller has written what a rule declares.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_unwritten && self.most.saturating_sub(self.used) >= self.requested
    }

    /// Returns whether the node has enough once its pods have ended.
    pub(crate) fn is_freed(&self) -> bool {
        let present = if self.is_unwritten { self.most } else { self.allocatable.min(self.most) };
        present >= self.requested
    }

    /// Returns whether the node has enough once nothing stands in the way.
    pub(crate) fn can_be_enough(&self) -> bool {
        self.most >= self.requested
    }

    /// Returns whether the value is more than what remains of it, because pods request it.
    pub(crate) fn goes_down(&self) -> bool {
        self.most < self.allocatable
    }

    /// Returns it as text, without what may differ on each node.
    pub(crate) fn brief(&self) -> String {
        let declarations = on_any_node(&self.declarations);
        Self { holders: Vec::new(), declarations, ..self.clone() }.text(None)
    }

    /// Returns it as text, for a node with this capacity.
    fn text(&self, capacity: Option<Quantity>) -> String {
        let Self { resource, requested, allocatable, declarations, holders, .. } = self;
        if allocatable.is_zero() {
            let reset = capacity.filter(|capacity| !capacity.is_zero());
            let reset = reset.map(|capacity| format!(" allocatable (capacity {capacity})"));
            return format!("no {resource}{}: {declarations}", reset.unwrap_or_default());
        }
        let mut text = match &self.free {
            Some(free) => format!("{resource}: {free} of {allocatable} free"),
            None => format!("{resource}: {allocatable} in all"),
        };
        if !holders.is_empty() {
            text += &format!(", used by {}", few(holders, NAMED, ", "));
        }
        if allocatable < requested {
            text += &format!("; that is less than {requested}: {declarations}");
        }
        text
    }
}

/// Returns reasons without the labels of the node that each is about.
pub(crate) fn on_any_node(reasons: &str) -> String {
    let common = reasons.split("; ").map(|reason| reason.split(", and the node has ").next().unwrap_or_default());
    common.collect::<Vec<_>>().join("; ")
}

fn as_text<S: Serializer>(quantity: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(quantity)
}

fn as_optional_text<S: Serializer>(quantity: &Option<Quantity>, serializer: S) -> Result<S::Ok, S::Error> {
    match quantity {
        Some(quantity) => serializer.collect_str(quantity),
        None => serializer.serialize_none(),
    }
}

/// What rules do about a resource on a node.
#[derive(Default)]
struct Declarations {
    texts: Vec<String>,
    /// Whether a rule declares it there, nothing stands in the way, and it is not there.
    is_unwritten: bool,
}

/// An inventory, with what the answers about all its pods have in common.
pub(crate) struct Counted<'i> {
    pub(crate) inventory: &'i Inventory,
    /// Who has, declares and requests each resource.
    pub(crate) uses: BTreeMap<&'i str, Use<'i>>,
    /// What pods on each node request.
    requests: HashMap<&'i NodeName, NodeRequests>,
}

impl<'i> Counted<'i> {
    pub(crate) fn new(inventory: &'i Inventory) -> Self {
        Self { inventory, uses: inventory.uses(), requests: inventory.requests() }
    }

    /// Returns for each node, or for the only one that the pod may use, whether it has enough for a pod without a node.
    pub(crate) fn nodes(&self, pod: &PodEntry, only: Option<&str>) -> Vec<(&'i NodeName, Answer)> {
        let reserved = reserved(self.inventory, pod);
        let nodes = self.inventory.nodes.iter().flatten();
        let nodes = nodes.filter(|(name, _)| only.is_none_or(|only| *name.0 == *only));
        nodes
            .map(|(name, entry)| {
                let node = OnNode { inventory: self.inventory, name, entry, requests: self.requests.get(name) };
                let reserved = reserved.get(&*name.0).map(Vec::as_slice).unwrap_or_default();
                (name, self.answer(&node, pod, reserved))
            })
            .collect()
    }

    /// Returns what a node has too little of for a pod, of cpu, memory and room for pods; nothing where that is not known.
    pub(crate) fn lacks(&self, name: &NodeName, pod: &PodEntry) -> Vec<String> {
        let (Some(used), Some(entry)) = (&self.inventory.compute, self.inventory.node(&name.0)) else {
            return Vec::new();
        };
        let free = entry.compute.less(used.get(name).copied().unwrap_or_default());
        pod.compute.lacks(free).collect()
    }

    fn answer(&self, node: &OnNode<'_>, pod: &PodEntry, reserved: &[&PodEntry]) -> Answer {
        // A resource that no node has, and of which no list knows.
        let nothing = Use::default();
        let mut short = Vec::new();
        let mut may_be_dra = true;
        for (resource, quantity) in &pod.requests {
            let of_resource = self.uses.get(&**resource).unwrap_or(&nothing);
            if let Some(shortage) = node.shortage(of_resource, &(Arc::clone(resource), *quantity), reserved) {
                let may_be_mapped = of_resource.class.is_some() || self.inventory.classes.is_none();
                may_be_dra &= may_be_mapped && !node.has(resource);
                short.push(shortage);
            }
        }
        match (short.is_empty(), may_be_dra) {
            (true, _) if self.inventory.pods.is_none() => {
                Answer::Unknown(vec!["what pods on the node use is unknown".to_owned()])
            }
            (true, _) => Answer::Enough,
            (false, true) => Answer::Unknown(short.into_iter().map(|shortage| shortage.reason).collect()),
            (false, false) => Answer::Short(short),
        }
    }
}

/// Returns why a node does not have what rules declare there, for each resource for which that is so.
pub(crate) fn unmet(inventory: &Inventory, name: &NodeName) -> BTreeMap<String, String> {
    let (Some(rules), Some(entry)) = (&inventory.rules, inventory.node(&name.0)) else { return BTreeMap::new() };
    let requests = inventory.requests();
    let node = OnNode { inventory, name, entry, requests: requests.get(name) };
    let declared: BTreeSet<_> = inventory.declaring(&entry.node).iter().map(|rule| rule.resource.to_string()).collect();
    let is_met = |resource: &str| {
        let [_, allocatable] = entry.node.values(resource);
        let present = allocatable.and_then(|text| text.parse::<Quantity>().ok());
        node.declared(resource).is_some_and(|declared| present == Some(declared))
    };
    let unmet = declared.into_iter().filter(|resource| !is_met(resource));
    let why = |resource: String| {
        let why = node.outcomes(rules, &resource).texts.join("; ");
        (resource, why)
    };
    unmet.map(why).collect()
}

/// Returns the pods for which the scheduler has made room, by node: those of at least the same priority count as if
/// they were there (`addGENominatedPods` in the scheduler).
fn reserved<'i>(inventory: &'i Inventory, pod: &PodEntry) -> HashMap<&'i str, Vec<&'i PodEntry>> {
    let mut reserved = HashMap::<_, Vec<_>>::new();
    for other in inventory.pods() {
        let is_same = (&other.namespace, &other.name) == (&pod.namespace, &pod.name);
        if let (None, Some(node), false) = (&other.node, &other.nominated_node, is_same)
            && other.priority >= pod.priority
        {
            reserved.entry(&**node).or_default().push(other);
        }
    }
    reserved
}

/// Returns how much of a resource the scheduler reserves, on the nodes of the inventory, for pods that it counts before
/// this one.
pub(crate) fn promised(inventory: &Inventory, pod: &PodEntry, resource: &str) -> Quantity {
    let reserved = reserved(inventory, pod).into_iter();
    let here = reserved.filter(|(node, _)| inventory.nodes.is_none() || inventory.node(node).is_some());
    sum(here.flat_map(|(_, pods)| pods).map(|other| other.requests(resource)))
}

struct OnNode<'i> {
    inventory: &'i Inventory,
    name: &'i NodeName,
    entry: &'i NodeEntry,
    requests: Option<&'i NodeRequests>,
}

impl OnNode<'_> {
    /// Returns whether the node itself has more than 0 of a resource: then DRA does not provide it there (KEP-5004).
    fn has(&self, resource: &str) -> bool {
        let [_, allocatable] = self.entry.node.values(resource);
        allocatable.and_then(|text| text.parse::<Quantity>().ok()).is_some_and(|quantity| !quantity.is_zero())
    }

    /// Returns what the node lacks of a resource, if it has too little.
    fn shortage(
        &self,
        of_resource: &Use<'_>,
        requested: &(Arc<str>, Quantity),
        reserved: &[&PodEntry],
    ) -> Option<Shortage> {
        let (resource, quantity) = (&*requested.0, requested.1);
        let nothing = Share::default();
        let share = of_resource.shares.get(self.name).unwrap_or(&nothing);
        let promised = sum(reserved.iter().map(|pod| pod.requests(resource)));
        let used = share.requested.saturating_add(promised);
        let free = share.free().saturating_sub(promised).max(Quantity::default());
        if free >= quantity {
            return None;
        }
        let allocatable = share.allocatable.unwrap_or_default();
        let declarations = match allocatable < quantity {
            true => self.declarations(of_resource, resource, share.manager),
            false => Declarations::default(),
        };
        let declaring = self.inventory.declaring_resource(&self.entry.node, resource);
        let first = declaring.first().copied();
        let rule = first.map(|rule| &rule.name);
        let nominated = reserved.iter().map(|pod| (*pod, pod.requests(resource)));
        let nominated = nominated.filter(|(_, quantity)| !quantity.is_zero());
        let shortage = Shortage {
            resource: Arc::clone(&requested.0),
            requested: quantity,
            allocatable,
            free: self.inventory.pods.as_ref().map(|_| free),
            most: self.most(resource, first, allocatable),
            is_unwritten: declarations.is_unwritten,
            used,
            unready: rule.and_then(|rule| self.inventory.rules.as_ref()?.unready(rule)),
            rule: rule.cloned(),
            declarations: declarations.texts.join("; "),
            holders: by_size(share.pods.iter().copied().chain(nominated).collect()),
            reason: String::new(),
        };
        Some(Shortage { reason: shortage.text(share.capacity), ..shortage })
    }

    /// Returns the most that the node can have of a resource, of which this rule declares some there. A value that the ledger
    /// records goes down to what the rule declares, and one that leaves to none.
    fn most(&self, resource: &str, rule: Option<&Rule>, allocatable: Quantity) -> Quantity {
        let declared = rule.and_then(|rule| rule.quantity.known_on(&self.entry.node));
        let most = declared.unwrap_or_default().max(allocatable);
        // Only what the node has beyond that can go down.
        if most == declared.unwrap_or_default() {
            return most;
        }
        let ledger = Ledger::parse(self.entry.node.ledger.as_deref()).unwrap_or_default();
        match (rule, ledger.get(resource)) {
            (Some(rule), Some(_)) if !rule.paused => declared.unwrap_or(allocatable),
            (None, Some(entry)) if entry.is_leaving => Quantity::default(),
            _ => most,
        }
    }

    /// Returns what the first rule of a resource declares on the node.
    fn declared(&self, resource: &str) -> Option<Quantity> {
        let declaring = self.inventory.declaring_resource(&self.entry.node, resource);
        declaring.first()?.quantity.known_on(&self.entry.node)
    }

    /// Returns why a node has none of a resource, or no more: what each rule that declares it does there.
    fn declarations(&self, of_resource: &Use<'_>, resource: &str, manager: Option<&str>) -> Declarations {
        let class = of_resource.class.map(|class| format!("DeviceClass {class} may provide it through DRA"));
        let Some(rules) = &self.inventory.rules else {
            let unknown = std::iter::once("who declares it is unknown".to_owned());
            return Declarations { texts: unknown.chain(class).collect(), is_unwritten: false };
        };
        let declaring = self.inventory.declaring_resource(&self.entry.node, resource);
        let mut declarations = if declaring.is_empty() {
            let mismatches = of_resource.rules.iter().take(NAMED).filter_map(|name| {
                let selection = &rules.get(name)?.selection;
                let Some(mismatch) = selection.mismatch(&self.entry.node) else {
                    return Some(format!("rule {name} declares no quantity for the node"));
                };
                let names: Vec<_> = selection.names().collect();
                let exists = |node: &&Arc<str>| self.inventory.is_part || self.inventory.node(node).is_some();
                if names.is_empty() || names.iter().any(exists) {
                    return Some(format!("rule {name} does not select the node: {mismatch}"));
                }
                let exist = if names.len() == 1 { "does not exist" } else { "do not exist" };
                Some(format!("rule {name} names only {}, which {exist}", few(&names, NAMED, ", ")))
            });
            let more = of_resource.rules.len().saturating_sub(NAMED);
            let more = (more > 0).then(|| format!("nor do {more} more rules"));
            Declarations { texts: mismatches.chain(more).collect(), is_unwritten: false }
        } else {
            self.outcomes(rules, resource)
        };
        let none = || {
            let valid = if rules.invalid_of(resource).next().is_some() { "valid " } else { "" };
            let writer = manager.map(|manager| format!("; {manager} wrote it"));
            format!("no {valid}rule declares it{}", writer.unwrap_or_default())
        };
        let none = (declarations.texts.is_empty() && class.is_none()).then(none);
        declarations.texts.extend(class.into_iter().chain(none));
        declarations
    }

    /// Returns what the rules that declare a resource and select the node do there.
    fn outcomes(&self, rules: &Rules, resource: &str) -> Declarations {
        let NodePlan { plan, outcomes, .. } = self.inventory.plan(rules, &self.entry.node, self.requests);
        if matches!(plan, Plan::Blocked(_)) {
            let unreadable = "the annotation of the node cannot be read, so nothing on it changes".to_owned();
            return Declarations { texts: vec![unreadable], is_unwritten: false };
        }
        let outcomes = outcomes.iter().filter_map(|(name, outcome)| Some((rules.get(name)?, outcome)));
        let outcomes = outcomes.filter(|(rule, _)| rule.resource.as_str() == resource);
        let [_, allocatable] = self.entry.node.values(resource);
        let present = allocatable.and_then(|text| text.parse::<Quantity>().ok());
        let mut declarations = Declarations::default();
        for (rule, outcome) in outcomes {
            let text = reasons::outcome(outcome, rule, rules).unwrap_or_else(|| {
                let declared = rule.quantity.known_on(&self.entry.node);
                let is_unwritten = present != declared;
                declarations.is_unwritten |= is_unwritten;
                reasons::declares(rule, declared) + if is_unwritten { ", which is not on the node yet" } else { "" }
            });
            declarations.texts.push(text);
        }
        declarations
    }
}

/// Names pods, those with the largest requests first.
fn by_size(mut holders: Vec<Request<'_>>) -> Vec<String> {
    holders.sort_by(|(pod, quantity), (other, less)| less.cmp(quantity).then_with(|| pod.name.cmp(&other.name)));
    let named = holders.iter().map(|(pod, quantity)| {
        let nominated = if pod.node.is_none() { ", nominated" } else { "" };
        format!("{pod} ({quantity}{nominated})")
    });
    named.collect()
}
