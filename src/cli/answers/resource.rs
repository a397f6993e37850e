//! `resource`: one extended resource, down to the pods.

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Serialize;

use super::answer::{Answer, AnswerError, Common, Repeat, ShownPods};
use super::view::{MISSING, NodeStateView, PodView, ResourceView, ShareView, explain_marks};
use crate::cli::age::age;
use crate::cli::table::Row;
use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::rules::Rules;
use crate::inspect::doctor::finding::ObjectName;
use crate::inspect::doctor::guards;
use crate::inspect::doctor::snapshot::{Read, Uncounted};
use crate::inspect::hint;
use crate::inspect::inventory::Inventory;
use crate::inspect::inventory::share::Share;
use crate::inspect::lists;
use crate::model::count::plural;
use crate::model::ledger::Ledger;
use crate::model::quantity::Quantity;
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
pub(crate) struct Args {
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
    /// The pods that a guard of the resource selects, and that do not count; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncounted_pods: Option<Vec<UncountedView>>,
    /// Why the pods that do not count are unknown.
    #[serde(skip)]
    uncounted_error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct UncountedView {
    #[serde(flatten)]
    pod: ObjectName,
    guard: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

#[derive(Debug, Serialize)]
struct HeldView {
    rule: String,
    declared: String,
    /// When the rule was last edited: it has not been held by what the rule declares now for longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct NodeShare {
    node: String,
    #[serde(flatten)]
    state: Option<NodeStateView>,
    /// Whether pods are assigned to the node, and it is not in the list of nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missing: bool,
    /// The rule that declares less than the node has, because its pods request more.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<HeldView>,
    #[serde(flatten)]
    share: ShareView,
}

pub(crate) async fn run(args: Args) -> Result<(), AnswerError> {
    let client = args.common.connect().await?;
    // No watch follows the policies.
    let uncounted = match args.repeat.watch {
        true => Ok(None),
        false => uncounted(&client, &args.name, args.shown.namespace()).await.map(Some),
    };
    let answer = |inventory: &Inventory| {
        let mut answer = answer(inventory, &args.name, args.shown.namespace())?;
        match &uncounted {
            Ok(uncounted) => answer.uncounted_pods.clone_from(uncounted),
            Err(error) => answer.uncounted_error = Some(error.to_string()),
        }
        Ok(answer)
    };
    args.common.answer_from(&client, &args.repeat, answer).await
}

/// Returns the pods, of one namespace or of all, that a guard of the resource selects, and that do not count.
async fn uncounted(client: &Client, resource: &str, namespace: Option<&str>) -> Read<Vec<UncountedView>> {
    let requests = lists::requests(client);
    let guards = guards::guards(&requests).await;
    let pods = guards::uncounted(&requests, &guards, Some(resource)).await?;
    let shown = pods.into_iter().filter(|found| namespace.is_none() || found.pod.namespace.as_deref() == namespace);
    Ok(shown.map(|Uncounted { guard, pod, node, .. }| UncountedView { pod, guard, node }).collect())
}

fn answer(inventory: &Inventory, name: &str, namespace: Option<&str>) -> Result<ResourceAnswer, AnswerError> {
    let uses = inventory.uses();
    let Some(of_resource) = uses.get(name) else {
        if !name.contains('/') && closest_resource(name, uses.keys().copied()).is_none() {
            let help = format!(
                "an extended resource has a domain, such as example.com/dongle; for cpu, memory and other native \
                 resources, see {}",
                hint::kubectl("describe node")
            );
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
        held: HeldView::of(inventory, name, node, share),
        share: ShareView::new(inventory, share, namespace),
    });
    Ok(ResourceAnswer {
        resource: ResourceView::new(inventory, name, of_resource),
        shares: shares.collect(),
        pending_pods: PodView::list(&of_resource.waiting, namespace),
        claiming_pods: PodView::list(&of_resource.claimed, namespace),
        uncounted_pods: None,
        uncounted_error: None,
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
        rows.extend(uncounted_rows(self.uncounted_pods.as_deref().unwrap_or_default(), most));
        (vec!["NAME", "TOTAL", "REQUESTED", "FREE", "RULES OR STATE"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.shares.iter().map(|share| format!("node/{}", share.node)).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let unknown = self
            .uncounted_error
            .iter()
            .map(|error| format!("whether a guard selects pods that do not count is unknown: {error}"));
        explain_marks([&self.resource.owners]).into_iter().chain(unknown).collect()
    }
}

impl HeldView {
    fn remark(&self) -> String {
        let Self { rule, declared, edited } = self;
        let edited = edited.map(|edited| format!(", edited {} ago,", age(Timestamp::now(), edited)));
        format!("held: rule {rule}{} declares {declared}", edited.unwrap_or_default())
    }

    /// Returns whether the controller keeps more on a node than its rule declares, as long as pods request it.
    fn of(inventory: &Inventory, resource: &str, node: &NodeName, share: &Share<'_>) -> Option<Self> {
        let node = &inventory.node(&node.0)?.node;
        let ledger = Ledger::parse(node.ledger.as_deref()).ok()?;
        let recorded = ledger.get(resource)?.quantity.parse::<Quantity>().ok()?;
        let rule = *inventory.declaring_resource(node, resource).first()?;
        let declared = rule.quantity.known_on(node)?;
        let is_held = declared < recorded && recorded <= share.requested;
        let edited = inventory.rules.as_ref().and_then(|rules| rules.edited(&rule.name));
        is_held.then(|| Self { rule: rule.name.to_string(), declared: declared.to_string(), edited })
    }
}

/// Returns the lines of pods that do not count.
fn uncounted_rows(pods: &[UncountedView], most: usize) -> Vec<Row> {
    let heading = || Row::below(1, ["<not counted>".into(), "".into(), "0".into()]);
    let shown = pods.iter().take(most).map(|UncountedView { pod, guard, node }| {
        let node = node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let info = format!("selected by guard {guard}{node}");
        Row::below(2, [pod.to_string().into(), "".into(), "0".into(), "".into(), info.into()])
    });
    let more = pods.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("… and {} (-o wide)", plural(more, "more pod", "more pods")));
    let rows = shown.chain(more.map(|more| Row::below(2, [more.into()])));
    (!pods.is_empty()).then(heading).into_iter().chain(rows).collect()
}

impl NodeShare {
    /// Returns the lines of the node and of its pods.
    fn rows(&self) -> Vec<Row> {
        let Self { node, state, missing, held, share } = self;
        let [total, requested, free] = share.cells();
        let missing = if *missing { MISSING } else { "" };
        let held = held.as_ref().map(HeldView::remark);
        let remarks: Vec<_> = held.into_iter().chain(share.remark()).collect();
        let remark = (!remarks.is_empty()).then(|| remarks.join(", "));
        let state = match (remark, state) {
            (remark, Some(state)) => state.cell_with(remark),
            (remark, None) => remark.unwrap_or_else(|| missing.to_owned()).into(),
        };
        let row = Row::below(1, [node.clone().into(), total, requested, free, state]);
        std::iter::once(row).chain(share.pods.iter().map(|pod| pod.row(2))).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::inspect::inventory::tests::{DONGLE, inventory, node, pod, rule};

    #[test]
    fn table_shows_what_is_held_exceeded_or_not_counted() {
        let mut held = node("w-1", &json!({}), "4");
        let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
        held["metadata"]["annotations"] = json!({"noderesource.dev/advertised": ledger});
        let pods = [pod("a", "w-1", "4"), pod("b", "w-2", "9")];
        let rules = vec![rule("dongle", &json!({"quantity": 2, "allNodes": true}))];
        let inventory = inventory(&[held, node("w-2", &json!({}), "4")], &pods, rules);
        let mut answer = answer(&inventory, DONGLE, None).unwrap();
        let uncounted = |name: &str| UncountedView {
            pod: ObjectName::namespaced("Pod", "media", name),
            guard: "guard".to_owned(),
            node: Some("w-2".to_owned()),
        };
        answer.uncounted_pods = Some((1..=7).map(|number| uncounted(&format!("r-{number}"))).collect());
        let text = answer.text(false);
        for part in [
            "held: rule dongle declares 2",
            "pods request 5 more than there is",
            "<not counted>",
            "media/r-5",
            "selected by guard guard on w-2",
            "… and 2 more pods (-o wide)",
        ] {
            assert!(text.contains(part), "{text}\nlacks {part}");
        }
        assert_eq!(text.matches("held:").count(), 1, "{text}");
        assert!(!text.contains("media/r-6"), "{text}");
        let object = serde_json::to_value(&answer).unwrap();
        assert_eq!(object["shares"][0]["held"], json!({"rule": "dongle", "declared": "2"}));
        assert_eq!(object["uncountedPods"][0]["guard"], "guard");
    }

    #[test]
    fn capacity_that_differs_from_what_can_be_requested_is_shown() {
        let mut broken = node("w-1", &json!({}), "4");
        broken["status"]["capacity"][DONGLE] = json!("9");
        let mut unknown = node("w-2", &json!({}), "4");
        unknown["status"]["capacity"].as_object_mut().unwrap().remove(DONGLE);
        let nodes = [broken, unknown, node("w-3", &json!({}), "4")];
        let text = answer(&inventory(&nodes, &[], vec![]), DONGLE, None).unwrap().text(false);
        let ends = |name: &str, end: &str| text.lines().any(|line| line.contains(name) && line.ends_with(end));
        assert!(ends("w-1", "capacity 9") && ends("w-2", "capacity absent"), "{text}");
        assert_eq!(text.matches("capacity").count(), 2, "{text}");
    }

    #[test]
    fn held_value_is_shown_with_the_last_edit_of_its_rule() {
        let hours = Timestamp::now() - SignedDuration::from_hours(30);
        let held = |edited| HeldView { rule: "dongle".to_owned(), declared: "2".to_owned(), edited }.remark();
        assert_eq!(held(Some(hours)), "held: rule dongle, edited 30h ago, declares 2");
        assert_eq!(held(None), "held: rule dongle declares 2");
    }

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
