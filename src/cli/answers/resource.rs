//! `resource`: one extended resource, down to the pods.

use serde::Serialize;

use super::answer::{Answer, AnswerError, Common, Repeat, ShownPods};
use super::view::{MISSING, NodeStateView, PodView, ResourceView, ShareView, explain_marks};
use crate::cli::diff::rules::Rules;
use crate::cli::inventory::Inventory;
use crate::cli::table::Row;
use crate::model::count::plural;
use crate::model::spelling::closest_resource;

/// The most lines of nodes, and of pods without one, that a table has without `-o wide`.
const LINES: usize = 15;
const PODS: usize = 5;

/// Show one extended resource: every node that has it, and the pods that request it
#[derive(Debug, clap::Args)]
#[command(after_help = super::answer::help(
    "Examples:
  # Who uses the dongles
  node-resource-advertiser resource example.com/dongle

  # Every node that has some, by name
  node-resource-advertiser resource example.com/dongle -o name",
))]
pub(in crate::cli) struct Args {
    /// Name of the resource, such as example.com/dongle
    name: String,
    #[command(flatten)]
    shown: ShownPods,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceAnswer {
    #[serde(flatten)]
    resource: ResourceView,
    shares: Vec<NodeShare>,
    pending_pods: Vec<PodView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claiming_pods: Vec<PodView>,
}

#[derive(Debug, Serialize)]
struct NodeShare {
    node: String,
    #[serde(flatten)]
    state: Option<NodeStateView>,
    /// Whether pods are assigned to the node, and it is not in the list of nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missing: bool,
    #[serde(flatten)]
    share: ShareView,
}

pub(super) async fn run(args: Args) -> Result<(), AnswerError> {
    args.common.answer(&args.repeat, |inventory| answer(inventory, &args.name, args.shown.namespace())).await
}

fn answer(inventory: &Inventory, name: &str, namespace: Option<&str>) -> Result<ResourceAnswer, AnswerError> {
    let uses = inventory.uses();
    let Some(of_resource) = uses.get(name) else {
        if !name.contains('/') && closest_resource(name, uses.keys().copied()).is_none() {
            let help = "an extended resource has a domain, such as example.com/dongle; for cpu, memory and other native \
                        resources, see kubectl describe node";
            return Err(AnswerError::NotFound(format!("{name} is no extended resource: {help}")));
        }
        let close = closest_resource(name, uses.keys().copied());
        let close = close.map(|close| format!("; is it {close}?")).unwrap_or_default();
        let valid = if inventory.rules.as_ref().is_some_and(Rules::has_frozen) { "valid " } else { "" };
        let no_rule = format!("no {valid}rule declares it");
        let known = [
            (inventory.nodes.is_some(), "no node has it"),
            (inventory.rules.is_some(), &*no_rule),
            (inventory.pods.is_some(), "no pod requests it"),
        ];
        let known: Vec<_> = known.into_iter().filter(|(is_known, _)| *is_known).map(|(_, fact)| fact).collect();
        let gaps: String = inventory.gaps.iter().map(|gap| format!("; {gap}")).collect();
        return Err(AnswerError::NotFound(format!("{name} is nowhere: {}{close}{gaps}", known.join(", "))));
    };
    let shares = of_resource.shares.iter().map(|(node, share)| NodeShare {
        node: node.to_string(),
        state: NodeStateView::of(inventory, node),
        missing: share.is_missing,
        share: ShareView::new(inventory, share, namespace),
    });
    Ok(ResourceAnswer {
        resource: ResourceView::new(inventory, name, of_resource),
        shares: shares.collect(),
        pending_pods: PodView::list(&of_resource.waiting, namespace),
        claiming_pods: PodView::list(&of_resource.claimed, namespace),
    })
}

impl Answer for ResourceAnswer {
    const KIND: &'static str = "ExtendedResource";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let ResourceView { resource, owners, .. } = &self.resource;
        let [total, requested, free] = self.resource.cells();
        let mut rows = vec![Row::new([resource.clone().into(), total, requested, free, owners.text(is_wide).into()])];
        let most = if is_wide { usize::MAX } else { LINES };
        for (at, share) in self.shares.iter().enumerate() {
            let of_node = share.rows();
            // The first is shown in any case.
            if at > 0 && rows.len() + of_node.len() > most {
                let more = format!("… and {} (-o wide)", plural(self.shares.len() - at, "more node", "more nodes"));
                rows.push(Row::below(1, [more.into()]));
                break;
            }
            rows.extend(of_node);
        }
        let most = if is_wide { usize::MAX } else { PODS };
        let pending = self.resource.pending.as_ref().map(|pending| &pending.requested);
        for (pods, name, requested) in [
            (&self.pending_pods, "<no node>", pending),
            (&self.claiming_pods, "<from DRA>", self.resource.claimed.as_ref()),
        ] {
            if !pods.is_empty() {
                let requested = requested.map(String::as_str).unwrap_or_default();
                rows.push(Row::below(1, [name.into(), "".into(), requested.into()]));
                rows.extend(pods.iter().take(most).map(|pod| pod.row(2)));
                let more = pods.len().saturating_sub(most);
                let more = (more > 0).then(|| format!("… and {} (-o wide)", plural(more, "more pod", "more pods")));
                rows.extend(more.map(|more| Row::below(2, [more.into()])));
            }
        }
        (vec!["NAME", "TOTAL", "REQUESTED", "FREE", "RULES OR STATE"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.shares.iter().map(|share| format!("node/{}", share.node)).collect()
    }

    fn remarks(&self) -> Vec<String> {
        explain_marks([&self.resource.owners])
    }
}

impl NodeShare {
    /// Returns the lines of the node and of its pods.
    fn rows(&self) -> Vec<Row> {
        let Self { node, state, missing, share } = self;
        let [total, requested, free] = share.cells();
        let missing = if *missing { MISSING } else { "" };
        let state = state.as_ref().map_or_else(|| missing.into(), NodeStateView::cell);
        let row = Row::below(1, [node.clone().into(), total, requested, free, state]);
        std::iter::once(row).chain(share.pods.iter().map(|pod| pod.row(2))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::inventory::tests::{DONGLE, inventory, node, pod};

    #[test]
    fn table_of_many_nodes_and_pods_fits_on_a_screen() {
        let nodes: Vec<_> = (1..=800).map(|number| node(&format!("w-{number}"), &json!({}), "4")).collect();
        let mut pods: Vec<_> = (1..=30).map(|number| pod(&format!("waits-{number}"), "", "5")).collect();
        pods.extend((1..=30).map(|number| pod(&format!("runs-{number}"), "w-1", "0")));
        pods.push(pod("runs", "w-2", "1"));
        let answer = answer(&inventory(&nodes, &pods, vec![]), DONGLE, None).unwrap();
        let text = answer.text(false);
        assert!(text.lines().count() <= 24, "{text}");
        for more in ["… and 787 more nodes (-o wide)", "… and 25 more pods (-o wide)"] {
            assert!(text.contains(more), "{text}");
        }
        assert_eq!(answer.text(true).lines().count(), 1 + 1 + 801 + 1 + 30);
    }
}
