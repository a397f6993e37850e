//! `top`: all extended resources of the cluster.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use anstyle::AnsiColor;
use serde::Serialize;

use super::answer::{Answer, AnswerError, Common, Repeat};
use super::namespaces::{Namespaces, percent};
use super::view::{Pending, ResourceView, Supply, UNKNOWN, explain_marks};
use crate::cli::table::{Cell, Row};
use crate::inspect::hint;
use crate::inspect::inventory::Inventory;
use crate::inspect::inventory::share::Use;
use crate::model::count::{few, plural};

/// Show every extended resource: who declares it, and what is requested and free
///
/// LARGEST is the most that one pod can get: with 7 free and LARGEST 2, a pod that requests 3 stays Pending. It does
/// not count nodes that are not ready or cordoned; the other columns do. Taints and affinity are not considered.
///
/// Resources count as the scheduler counts them, including those of device plugins, and those that pods request and no
/// node has. Without one of its permissions, top shows less, and a note names what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = super::answer::help(
    "Examples:
  # Every extended resource, those with the least free first
  node-resource-advertiser top --sort-by free

  # Who uses up what
  node-resource-advertiser top --by namespace

  # What one pool of nodes has, again at each change
  node-resource-advertiser top -l pool=a -w",
))]
pub(crate) struct Args {
    /// Count pods of all namespaces: the default, since the scheduler does
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Order of the resources
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = SortBy::Resource)]
    sort_by: SortBy,
    /// Show what pods request, by what they have in common; the largest first
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "sort_by")]
    by: Option<By>,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Their namespace
    Namespace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SortBy {
    /// By name
    Resource,
    /// The largest first
    Total,
    /// The largest first
    Requested,
    /// The smallest first
    Free,
    /// The largest number of pods first
    Pending,
}

impl SortBy {
    fn compare(self, one: &Use<'_>, other: &Use<'_>) -> Ordering {
        match self {
            Self::Resource => Ordering::Equal,
            Self::Total => other.total().cmp(&one.total()),
            Self::Requested => other.requested().cmp(&one.requested()),
            Self::Free => one.free().cmp(&other.free()),
            Self::Pending => other.waiting.len().cmp(&one.waiting.len()),
        }
    }
}

/// How many resources and nodes a remark names.
const NAMED_LEFTOVERS: usize = 3;

#[derive(Debug, Serialize)]
struct Top {
    resources: Vec<ResourceView>,
    /// The number of resources that are 0 on all nodes, and that nothing declares or requests.
    leftovers: usize,
    #[serde(skip)]
    leftover: Leftover,
    /// What it means that there are no resources.
    #[serde(skip)]
    none: &'static str,
}

/// What is 0 on all nodes, and where.
#[derive(Debug, Default)]
struct Leftover {
    resources: Vec<String>,
    nodes: BTreeSet<String>,
}

pub(crate) async fn run(args: Args) -> Result<(), AnswerError> {
    match args.by {
        None => args.common.answer(&args.repeat, |inventory| Ok(top(inventory, args.sort_by))).await,
        Some(By::Namespace) => args.common.answer(&args.repeat, |inventory| Ok(Namespaces::new(inventory))).await,
    }
}

fn top(inventory: &Inventory, order: SortBy) -> Top {
    let uses = inventory.uses();
    let is_complete = inventory.knows_sources() && inventory.pods.is_some();
    let is_leftover = |of_resource: &Use<'_>| is_complete && of_resource.is_leftover();
    let mut leftover = Leftover::default();
    for (resource, of_resource) in uses.iter().filter(|(_, of_resource)| is_leftover(of_resource)) {
        leftover.resources.push((*resource).to_owned());
        leftover.nodes.extend(of_resource.shares.keys().map(ToString::to_string));
    }
    let mut shown: Vec<_> = uses.iter().filter(|(_, of_resource)| !is_leftover(of_resource)).collect();
    shown.sort_by(|(_, one), (_, other)| order.compare(one, other));
    let none = match is_complete {
        true => "No node has extended resources, and no rule or pod asks for any",
        false => "There are no extended resources in what can be listed",
    };
    Top {
        resources: shown
            .into_iter()
            .map(|(resource, of_resource)| ResourceView::new(inventory, resource, of_resource))
            .collect(),
        leftovers: leftover.resources.len(),
        leftover,
        none,
    }
}

/// Returns the part of a resource that pods request, as text.
fn of_total(resource: &ResourceView) -> String {
    let parsed = |text: Option<&String>| text.and_then(|text| text.parse().ok());
    let requested = parsed(resource.requested.as_ref());
    let total = parsed(resource.supply.as_ref().map(|supply| &supply.total));
    let percent = requested.zip(total).and_then(|(requested, total)| percent(requested, total));
    percent.map_or_else(|| UNKNOWN.to_owned(), |percent| format!("{percent}%"))
}

impl Answer for Top {
    const KIND: &'static str = "ExtendedResourceList";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let mut headings = vec!["RESOURCE", "RULES", "NODES", "TOTAL", "REQUESTED", "FREE", "LARGEST", "PENDING"];
        headings.extend(is_wide.then_some(["LARGEST ON", "%REQUESTED"]).into_iter().flatten());
        let rows = self.resources.iter().map(|resource| {
            let nodes = match &resource.supply {
                None => UNKNOWN.to_owned(),
                Some(Supply { nodes, expected_nodes, .. }) if nodes == expected_nodes => nodes.to_string(),
                Some(Supply { nodes, expected_nodes, .. }) => format!("{nodes}/{expected_nodes}"),
            };
            let (largest, node) = match (&resource.largest_free, &resource.free) {
                (Some(largest), _) => (largest.quantity.as_str(), largest.node.as_str()),
                (None, Some(_)) => ("0", ""),
                (None, None) => (UNKNOWN, ""),
            };
            let pending = match &resource.pending {
                None => Cell::from(UNKNOWN),
                Some(Pending { pods: 0, .. }) => Cell::from("0"),
                Some(Pending { pods, requested }) => {
                    let text = format!("{} ({requested})", plural(*pods, "pod", "pods"));
                    Cell::styled(text, AnsiColor::Yellow.on_default())
                }
            };
            let [total, requested, free] = resource.cells();
            let mut cells = vec![
                resource.resource.clone().into(),
                resource.owners.text(is_wide).into(),
                nodes.into(),
                total,
                requested,
                free,
                largest.into(),
                pending,
            ];
            cells.extend(is_wide.then(|| [node.into(), of_total(resource).into()]).into_iter().flatten());
            Row::new(cells)
        });
        (headings, rows.collect())
    }

    fn names(&self) -> Vec<String> {
        self.resources.iter().map(|resource| resource.resource.clone()).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = explain_marks(self.resources.iter().map(|resource| &resource.owners));
        if self.resources.is_empty() {
            remarks.push(self.none.to_owned());
        }
        for ResourceView { resource, free, free_on_unavailable_nodes, claimed, owners, .. } in &self.resources {
            if let (Some(blocked), Some(free)) = (free_on_unavailable_nodes, free) {
                remarks
                    .push(format!("{resource}: {blocked} of {free} free are on nodes that are not ready or cordoned"));
            }
            if let Some(claimed) = claimed {
                let class = owners.device_class.as_ref().map(|class| format!(" (DeviceClass {class})"));
                let class = class.unwrap_or_default();
                remarks.push(format!("{resource}: pods have {claimed} from DRA{class}, which is not counted"));
            }
        }
        let Leftover { resources, nodes } = &self.leftover;
        if !resources.is_empty() {
            let nodes: Vec<_> = nodes.iter().collect();
            remarks.push(format!(
                "Not shown, because nothing but 0 is left: {} (on {}). To see all zeros that can go, also others, run {}",
                few(resources, NAMED_LEFTOVERS, ", "),
                few(&nodes, NAMED_LEFTOVERS, ", "),
                hint::remove_zeros(&hint::node_flags(&nodes))
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::inspect::diff::rules::{ClusterRule, Rules, Standing, Unready};
    use crate::inspect::inventory::tests::{DONGLE, inventory, node, pod, rule};

    fn unready(reason: &str) -> Standing {
        let unready = Unready { reason: reason.to_owned(), message: String::new() };
        Standing { unready: Some(unready), ..Standing::default() }
    }

    #[test]
    fn rule_that_needs_attention_is_marked() {
        let cases = [
            (json!({"allNodes": true, "paused": true}), Standing::default(), Some("paused")),
            (
                json!({"allNodes": true}),
                Standing { conflicted: 2, ..Standing::default() },
                Some("in conflict on 2 nodes"),
            ),
            (
                json!({"allNodes": true}),
                Standing { is_stale: true, ..Standing::default() },
                Some("newer than its status"),
            ),
            (json!({"allNodes": true}), unready("PatchFailed"), Some("not Ready (PatchFailed).\n")),
            (json!({"allNodes": true, "paused": true}), unready("Paused"), Some("paused.\n")),
            (
                json!({"allNodes": true}),
                Standing { is_stale: true, ..unready("Progressing") },
                Some("newer than its status, which no controller has written since.\n"),
            ),
            (json!({"allNodes": true}), Standing::default(), None),
        ];
        for (spec, standing, why) in cases {
            let mut inventory = inventory(&[node("node-1", &json!({}), "4")], &[], vec![]);
            let name: Arc<str> = "dongle".into();
            let rule =
                ClusterRule { rule: Ok(rule(&name, &spec)), name, created: None, contested: Vec::new(), standing };
            inventory.rules = Some(Rules::from_cluster(vec![rule], Vec::new(), false));
            let text = top(&inventory, SortBy::Resource).text(false);
            assert_eq!(text.contains("dongle!"), why.is_some(), "{text}");
            assert!(why.is_none_or(|why| text.contains(&format!("! rule dongle is {why}"))), "{text}");
        }
    }

    #[test]
    fn leftovers_are_named_with_their_nodes_and_not_shown() {
        let zeros = |name: &str, resources: &[&str]| {
            let mut node = node(name, &json!({}), "4");
            for resource in resources {
                node["status"]["capacity"][*resource] = json!("0");
                node["status"]["allocatable"][*resource] = json!("0");
            }
            node
        };
        let nodes = [zeros("w-1", &["a.io/old", "a.io/wanted"]), zeros("w-2", &["b.io/old"])];
        let mut waits = pod("waits", "", "0");
        waits["spec"]["containers"][0]["resources"]["requests"] = json!({"a.io/wanted": "1"});
        let inventory = inventory(&nodes, &[waits], vec![]);
        let found = top(&inventory, SortBy::Resource);
        let text = found.text(true);
        let footer = "Not shown, because nothing but 0 is left: a.io/old, b.io/old (on w-1, w-2). To see all zeros that \
                      can go, also others, run ";
        let (table, command) = text.split_once(footer).unwrap_or_else(|| panic!("{text}"));
        assert!(table.contains("a.io/wanted") && !table.contains("old"), "{text}");
        for part in ["prune", "--zeros", "--dry-run", "--node w-1", "--node w-2"] {
            assert!(command.contains(part), "{text}");
        }
        assert_eq!(serde_json::to_value(&found).unwrap()["leftovers"], 2);
    }

    #[test]
    fn resources_are_sorted_by_a_column() {
        let mut node = node("node-1", &json!({}), "4");
        node["status"]["allocatable"] = json!({DONGLE: "4", "example.com/a": "9", "example.com/z": "1"});
        let pods = [pod("one", "node-1", "3"), pod("two", "", "3")];
        let inventory = inventory(&[node], &pods, vec![]);
        for (order, names) in [
            (SortBy::Resource, ["a", "dongle", "z"]),
            (SortBy::Total, ["a", "dongle", "z"]),
            (SortBy::Requested, ["dongle", "a", "z"]),
            (SortBy::Free, ["dongle", "z", "a"]),
            (SortBy::Pending, ["dongle", "a", "z"]),
        ] {
            let of_dongle = top(&inventory, order).text(true);
            assert!(of_dongle.contains("   node-1       75%\n"), "{of_dongle}");
            let found = top(&inventory, order).names();
            assert_eq!(found, names.map(|name| format!("example.com/{name}")), "{order:?}");
        }
    }
}
