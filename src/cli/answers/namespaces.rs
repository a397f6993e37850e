//! `top --by namespace`: who uses up a resource.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anstyle::AnsiColor;
use serde::Serialize;

use super::answer::Answer;
use super::view::UNKNOWN;
use crate::cli::table::{Cell, Row};
use crate::inspect::inventory::Inventory;
use crate::inspect::inventory::share::Use;
use crate::model::count::plural;
use crate::model::quantity::Quantity;

/// What each namespace requests, by resource; the largest first.
#[derive(Debug, Serialize)]
pub(super) struct Namespaces {
    namespaces: Vec<NamespaceView>,
    /// What it means that there are none.
    #[serde(skip)]
    none: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceView {
    resource: String,
    namespace: String,
    /// The pods with a node.
    pods: usize,
    requested: String,
    /// Of the total in allocatable, in percent; absent if there is none, or it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u64>,
    /// The pods without a node, and what they request.
    pending_pods: usize,
    pending: String,
}

/// What one namespace requests of one resource.
#[derive(Default)]
struct Sums {
    pods: usize,
    requested: Quantity,
    pending_pods: usize,
    pending: Quantity,
}

/// Returns a part of a total in percent, rounded down, as kubectl prints it.
pub(super) fn percent(part: Quantity, total: Quantity) -> Option<u64> {
    let [part, total] = [part, total].map(|quantity| quantity.whole());
    let percent = part?.checked_mul(100)?.checked_div(total?)?;
    u64::try_from(percent).ok()
}

impl Namespaces {
    pub(super) fn new(inventory: &Inventory) -> Self {
        let of_resource = |(resource, of_resource): (&str, &Use<'_>)| {
            let total = inventory.nodes.is_some().then(|| of_resource.total());
            let mut namespaces: Vec<_> = sums(of_resource).into_iter().collect();
            namespaces.sort_by_key(|(_, sums)| Reverse((sums.requested, sums.pending)));
            let view = |(namespace, sums): (&str, Sums)| NamespaceView {
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                pods: sums.pods,
                requested: sums.requested.to_string(),
                percent: total.and_then(|total| percent(sums.requested, total)),
                pending_pods: sums.pending_pods,
                pending: sums.pending.to_string(),
            };
            namespaces.into_iter().map(view).collect::<Vec<_>>()
        };
        let uses = inventory.uses();
        let none = match inventory.pods {
            Some(_) => "No pod requests an extended resource",
            None => "Which pods request extended resources is unknown",
        };
        Self { namespaces: uses.iter().flat_map(|(resource, uses)| of_resource((resource, uses))).collect(), none }
    }
}

fn sums<'i>(of_resource: &Use<'i>) -> BTreeMap<&'i str, Sums> {
    let mut namespaces = BTreeMap::<_, Sums>::new();
    let shares = of_resource.shares.values().filter(|share| !share.is_missing);
    for (pod, quantity) in shares.flat_map(|share| &share.pods) {
        let sums = namespaces.entry(&*pod.namespace).or_default();
        sums.pods += 1;
        sums.requested = sums.requested.saturating_add(*quantity);
    }
    for (pod, quantity) in &of_resource.waiting {
        let sums = namespaces.entry(&*pod.namespace).or_default();
        sums.pending_pods += 1;
        sums.pending = sums.pending.saturating_add(*quantity);
    }
    namespaces
}

impl Answer for Namespaces {
    const KIND: &'static str = "ExtendedResourceNamespaceList";

    fn table(&self, _is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let rows = self.namespaces.iter().map(|view| {
            let percent = view.percent.map_or_else(|| UNKNOWN.to_owned(), |percent| format!("{percent}%"));
            let pending = match view.pending_pods {
                0 => Cell::from("0"),
                pods => {
                    let text = format!("{} ({})", plural(pods, "pod", "pods"), view.pending);
                    Cell::styled(text, AnsiColor::Yellow.on_default())
                }
            };
            let [resource, namespace] = [&view.resource, &view.namespace].map(|name| Cell::from(name.as_str()));
            let [pods, requested] = [view.pods.to_string(), view.requested.clone()].map(Cell::from);
            Row::new([resource, namespace, pods, requested, percent.into(), pending])
        });
        (vec!["RESOURCE", "NAMESPACE", "PODS", "REQUESTED", "%TOTAL", "PENDING"], rows.collect())
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.namespaces.iter().map(|view| format!("namespace/{}", view.namespace)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn remarks(&self) -> Vec<String> {
        let none = self.namespaces.is_empty().then(|| self.none.to_owned());
        none.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inspect::inventory::tests::{inventory, node, pod};

    #[test]
    fn namespace_has_its_part_of_the_total_and_its_pending_pods() {
        let in_namespace = |namespace: &str, name: &str, node: &str, quantity: &str| {
            let mut pod = pod(name, node, quantity);
            pod["metadata"]["namespace"] = json!(namespace);
            pod
        };
        let pods = [
            in_namespace("a", "one", "node-1", "1"),
            in_namespace("b", "two", "node-1", "2"),
            in_namespace("b", "three", "node-2", "2"),
            in_namespace("b", "four", "", "3"),
            in_namespace("c", "five", "", "9"),
            in_namespace("d", "six", "gone", "9"),
        ];
        let nodes = [node("node-1", &json!({}), "4"), node("node-2", &json!({}), "4")];
        let answer = Namespaces::new(&inventory(&nodes, &pods, vec![]));
        let expected = "\
RESOURCE             NAMESPACE   PODS   REQUESTED   %TOTAL   PENDING
example.com/dongle   b           2      4           50%      1 pod (3)
example.com/dongle   a           1      1           12%      0
example.com/dongle   c           0      0           0%       1 pod (9)
";
        assert_eq!(answer.text(false), expected);
        assert_eq!(answer.names(), ["namespace/a", "namespace/b", "namespace/c"]);
        let none = Namespaces::new(&inventory(&nodes, &[], vec![]));
        assert_eq!(none.text(false), "No pod requests an extended resource.\n");
        let mut unlisted = inventory(&nodes, &pods, vec![]);
        unlisted.pods = None;
        let unknown = "Which pods request extended resources is unknown.\n";
        assert_eq!(Namespaces::new(&unlisted).text(false), unknown);
    }

    #[test]
    fn percent_of_nothing_or_of_part_of_one_is_unknown() {
        let of = |part: &str, total: &str| percent(part.parse().unwrap(), total.parse().unwrap());
        let cases = [("3", "4", Some(75)), ("9", "4", Some(225)), ("1", "0", None), ("400Gi", "800Gi", Some(50))];
        for (part, total, expected) in cases {
            assert_eq!(of(part, total), expected, "{part} of {total}");
        }
        assert_eq!(of("9223372036854775807", "9223372036854775807"), Some(100));
    }
}
