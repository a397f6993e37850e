//! What several answers show: resources, their part on a node, and pods.

use std::collections::{BTreeMap, BTreeSet};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::cli::table::{Cell, Row};
use crate::inspect::diff::order::NodeName;
use crate::inspect::hint;
use crate::inspect::inventory::Inventory;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::share::{Request, Share, Use, sum};
use crate::model::count::{few, plural};
use crate::model::quantity::Quantity;

/// How many rules a table names.
const NAMED_RULES: usize = 2;

/// How many marks are explained.
const MARKS: usize = 5;

/// One resource in the whole cluster, or on the selected nodes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceView {
    pub(super) resource: String,
    #[serde(flatten)]
    pub(super) owners: Owners,
    /// Absent if nodes cannot be listed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) supply: Option<Supply>,
    /// What pods on nodes request; absent if pods cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<String>,
    /// Absent if nodes or pods cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) free: Option<String>,
    /// The part of `free` on nodes that are not ready or cordoned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) free_on_unavailable_nodes: Option<String>,
    /// The most that one pod can get now, and where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) largest_free: Option<LargestFree>,
    /// The pods without a node that request it; absent if pods cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Pending>,
    /// What pods have from ResourceClaims instead (DRA).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimed: Option<String>,
}

/// What nodes have of a resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Supply {
    /// The nodes that have some of it.
    pub(super) nodes: usize,
    /// Those, and the nodes that a rule of it selects.
    pub(super) expected_nodes: usize,
    /// In allocatable, on all nodes.
    pub(super) total: String,
}

/// Who declares a resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Owners {
    /// The rules that declare it; absent if rules cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rules: Option<Vec<String>>,
    /// Why the values of a rule may differ from what it declares, by rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attention: BTreeMap<String, String>,
    /// The DeviceClass that maps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_class: Option<String>,
    /// Who wrote it where no rule applies, according to managedFields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) managers: Vec<String>,
    /// On how many nodes no rule declares it, and it leaves when it is unused.
    #[serde(skip_serializing_if = "is_none")]
    pub(super) leaving: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LargestFree {
    pub(super) quantity: String,
    pub(super) node: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pending {
    pub(super) pods: usize,
    pub(super) requested: String,
}

/// One resource on one node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShareView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allocatable: Option<String>,
    /// Absent if pods cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<String>,
    /// Absent if nodes or pods cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) free: Option<String>,
    /// How much more pods request than there is, for example after the value was lowered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) excess: Option<String>,
    /// The rule that declared the value, if none does now and it leaves when it is unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leaving: Option<String>,
    pub(super) pods: Vec<PodView>,
}

/// The request of a pod for one resource.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodView {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nominated_node: Option<String>,
    pub(super) requested: String,
}

/// Whether a node takes pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeStateView {
    pub(super) ready: bool,
    pub(super) unschedulable: bool,
    pub(super) taints: Vec<String>,
}

impl ResourceView {
    pub(super) fn new(inventory: &Inventory, resource: &str, of_resource: &Use<'_>) -> Self {
        let [knows_nodes, knows_pods] = [inventory.nodes.is_some(), inventory.pods.is_some()];
        let knows_free = knows_nodes && knows_pods;
        let blocked = of_resource.blocked();
        let claimed = sum(of_resource.claimed.iter().map(|(_, quantity)| *quantity));
        Self {
            resource: resource.to_owned(),
            owners: Owners::new(inventory, of_resource),
            supply: knows_nodes.then(|| Supply {
                nodes: of_resource.nodes(),
                expected_nodes: of_resource.expected_nodes(),
                total: of_resource.total().to_string(),
            }),
            requested: knows_pods.then(|| of_resource.requested().to_string()),
            free: knows_free.then(|| of_resource.free().to_string()),
            free_on_unavailable_nodes: (knows_free && !blocked.is_zero()).then(|| blocked.to_string()),
            largest_free: of_resource
                .largest()
                .filter(|_| knows_free)
                .map(|(node, quantity)| LargestFree { quantity: quantity.to_string(), node: node.to_string() }),
            pending: knows_pods.then(|| Pending {
                pods: of_resource.waiting.len(),
                requested: sum(of_resource.waiting.iter().map(|(_, quantity)| *quantity)).to_string(),
            }),
            claimed: (!claimed.is_zero()).then(|| claimed.to_string()),
        }
    }

    /// Returns the columns TOTAL, REQUESTED and FREE.
    pub(super) fn cells(&self) -> [Cell; 3] {
        cells(self.supply.as_ref().map(|supply| &supply.total), self.requested.as_ref(), self.free.as_ref())
    }
}

impl Owners {
    pub(super) fn new(inventory: &Inventory, of_resource: &Use<'_>) -> Self {
        let names = || of_resource.rules.iter().map(ToString::to_string).collect();
        let attention = of_resource.rules.iter().filter_map(|name| {
            let why = inventory.rules.as_ref()?.attention(name)?;
            Some((name.to_string(), why))
        });
        Self {
            attention: attention.collect(),
            rules: inventory.rules.is_some().then(names),
            device_class: of_resource.class.map(str::to_owned),
            managers: of_resource.other_managers().into_iter().map(str::to_owned).collect(),
            leaving: of_resource.shares.values().filter(|share| share.leaving.is_some()).count(),
        }
    }

    /// Returns the names, as a table shows them.
    pub(super) fn text(&self, is_wide: bool) -> String {
        let rules = match self.rules.as_deref() {
            None => UNKNOWN.to_owned(),
            Some([]) => "<none>".to_owned(),
            Some(names) => {
                let mark = |name: &String| if self.attention.contains_key(name) { "!" } else { "" };
                let marked: Vec<_> = names.iter().map(|name| format!("{name}{}", mark(name))).collect();
                few(&marked, if is_wide { names.len() } else { NAMED_RULES }, ", ")
            }
        };
        let class = self.device_class.iter().map(|class| format!("DeviceClass {class}"));
        let leaving = (self.leaving > 0).then(|| "leaving".to_owned());
        let others: Vec<_> = class.chain(self.managers.iter().cloned()).chain(leaving).collect();
        if others.is_empty() { rules } else { format!("{rules} ({})", others.join(", ")) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Returns what the marks of rules mean.
pub(super) fn explain_marks<'o>(owners: impl IntoIterator<Item = &'o Owners>) -> Vec<String> {
    let marked = owners.into_iter().flat_map(|owners| {
        let shown = |name: &&String| owners.rules.iter().flatten().any(|rule| rule == *name);
        owners.attention.iter().filter(move |(name, _)| shown(name))
    });
    let all: BTreeSet<_> = marked.map(|(name, why)| format!("! rule {name} is {why}")).collect();
    let more = all.len().saturating_sub(MARKS);
    let more =
        (more > 0).then(|| format!("… and {} more: {}", plural(more, "rule", "rules"), hint::kubectl("get ner")));
    all.into_iter().take(MARKS).chain(more).collect()
}

impl ShareView {
    /// Shows the pods of one namespace, or all; the others count as well.
    pub(super) fn new(inventory: &Inventory, share: &Share<'_>, namespace: Option<&str>) -> Self {
        let knows_pods = inventory.pods.is_some();
        let excess = share.excess();
        Self {
            capacity: share.capacity.map(|quantity| quantity.to_string()),
            allocatable: share.allocatable.map(|quantity| quantity.to_string()),
            requested: knows_pods.then(|| share.requested.to_string()),
            // On a node that does not exist, nothing is free.
            free: ((share.is_known || share.is_missing) && knows_pods).then(|| share.free().to_string()),
            excess: (share.is_known && !excess.is_zero()).then(|| excess.to_string()),
            leaving: share.leaving.clone(),
            pods: PodView::list(&share.pods, namespace),
        }
    }

    /// Returns the columns TOTAL, REQUESTED and FREE.
    pub(super) fn cells(&self) -> [Cell; 3] {
        let none = "0".to_owned();
        let total = self.allocatable.as_ref().or_else(|| self.free.is_some().then_some(&none));
        cells(total, self.requested.as_ref(), self.free.as_ref())
    }

    /// Returns what is unusual, as text.
    pub(super) fn remark(&self) -> Option<String> {
        let excess = self.excess.as_ref().map(|excess| format!("pods request {excess} more than there is"));
        let differs = self.capacity != self.allocatable;
        let capacity = differs.then(|| format!("capacity {}", self.capacity.as_deref().unwrap_or("absent")));
        let leaving = self.leaving.as_ref().map(|rule| format!("leaving: rule {rule} no longer declares it"));
        let remarks: Vec<_> = excess.into_iter().chain(capacity).chain(leaving).collect();
        (!remarks.is_empty()).then(|| remarks.join(", "))
    }
}

impl PodView {
    pub(super) fn list(requests: &[Request<'_>], namespace: Option<&str>) -> Vec<Self> {
        let shown = requests.iter().filter(|(pod, _)| namespace.is_none_or(|namespace| *pod.namespace == *namespace));
        shown.map(|(pod, quantity)| Self::new(pod, *quantity)).collect()
    }

    fn new(pod: &PodEntry, requested: Quantity) -> Self {
        Self {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            phase: state(pod),
            nominated_node: pod.nominated_node.as_deref().map(str::to_owned),
            requested: requested.to_string(),
        }
    }

    /// Returns the line of the pod in a tree with the columns TOTAL, REQUESTED, FREE and more.
    pub(super) fn row(&self, depth: usize) -> Row {
        let Self { namespace, name, phase, nominated_node, requested } = self;
        let nominated = nominated_node.as_ref().map(|node| format!(", nominated for {node}"));
        let info = format!("{phase}{}", nominated.unwrap_or_default());
        let name = format!("{namespace}/{name}");
        Row::below(depth, [name.into(), "".into(), requested.clone().into(), "".into(), info.into()])
    }
}

/// Returns the phase of a pod as kubectl shows it.
pub(super) fn state(pod: &PodEntry) -> String {
    match &pod.node {
        _ if pod.is_terminating => "Terminating".to_owned(),
        None if pod.is_gated => "SchedulingGated".to_owned(),
        _ => pod.phase.to_string(),
    }
}

impl NodeStateView {
    /// Returns nothing for a node that cannot be listed.
    pub(super) fn of(inventory: &Inventory, node: &NodeName) -> Option<Self> {
        let readiness = &inventory.node(&node.0)?.readiness;
        Some(Self {
            ready: readiness.is_ready,
            unschedulable: readiness.is_cordoned,
            taints: readiness.taints.iter().map(ToString::to_string).collect(),
        })
    }

    /// Returns the state as kubectl shows it, then the taints.
    pub(super) fn cell(&self) -> Cell {
        self.cell_with(None)
    }

    /// Returns the same with what is unusual.
    pub(super) fn cell_with(&self, remark: Option<String>) -> Cell {
        let remark = remark.map(|remark| format!("; {remark}")).unwrap_or_default();
        let ready = if self.ready { "Ready" } else { "NotReady" };
        let cordoned = if self.unschedulable { ",SchedulingDisabled" } else { "" };
        let taints = match self.taints.is_empty() {
            true => String::new(),
            false => format!(", tainted {}", self.taints.join(", ")),
        };
        let style = if self.ready && !self.unschedulable { Style::new() } else { AnsiColor::Yellow.on_default() };
        Cell::styled(format!("{ready}{cordoned}{taints}{remark}"), style)
    }
}

/// The state of a node that pods are assigned to, and that is not in the list of nodes.
pub(super) const MISSING: &str = "not in the list of nodes";

/// What a table shows in place of a number that cannot be known.
pub(super) const UNKNOWN: &str = "<unknown>";

/// Returns the columns TOTAL, REQUESTED and FREE; red if nothing is free.
fn cells(total: Option<&String>, requested: Option<&String>, free: Option<&String>) -> [Cell; 3] {
    let [total, requested, free] = [total, requested, free].map(|number| number.map_or(UNKNOWN, String::as_str));
    let is_exhausted = free == "0" && total != "0";
    let style = if is_exhausted { AnsiColor::Red.on_default() } else { Style::new() };
    [total.into(), requested.into(), Cell::styled(free, style)]
}
