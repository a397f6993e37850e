//! `node`: the extended resources of one node, down to the pods.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{Answer, AnswerError, Common, Repeat, ShownPods, strip_kind};
use super::view::{NodeStateView, Owners, PodView, ShareView, explain_marks};
use crate::cli::table::Row;
use crate::inspect::diff::order::NodeName;
use crate::inspect::inventory::Inventory;
use crate::inspect::inventory::why::unmet;
use crate::model::spelling::closest;

/// Show the extended resources of one node, and the pods that request them
#[derive(Debug, clap::Args)]
#[command(after_help = super::answer::help(
    "Examples:
  # What node-1 has, and the pods of one namespace that use it
  node-resource-advertiser node node-1 -n team-a",
))]
pub(crate) struct Args {
    /// Name of the node, or node/NAME
    name: String,
    #[command(flatten)]
    shown: ShownPods,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
struct NodeAnswer {
    node: String,
    #[serde(flatten)]
    state: Option<NodeStateView>,
    resources: Vec<NodeResource>,
    /// Why the node does not have what rules declare there, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unmet: BTreeMap<String, String>,
    /// What it means that there are no resources.
    #[serde(skip)]
    none: &'static str,
}

#[derive(Debug, Serialize)]
struct NodeResource {
    resource: String,
    #[serde(flatten)]
    owners: Owners,
    #[serde(flatten)]
    share: ShareView,
}

pub(crate) async fn run(args: Args) -> Result<(), AnswerError> {
    let name = strip_kind(&args.name, "node", "no");
    args.common.answer(&args.repeat, |inventory| answer(inventory, name, args.shown.namespace())).await
}

fn answer(inventory: &Inventory, name: &str, namespace: Option<&str>) -> Result<NodeAnswer, AnswerError> {
    let node = NodeName(name.into());
    if let Some(nodes) = &inventory.nodes
        && !nodes.contains_key(&node)
    {
        let close = closest(name, nodes.keys().map(|name| &*name.0));
        let close = close.map(|close| format!("; is it {close}?")).unwrap_or_default();
        let selected = if inventory.is_part { " among those that -l selects" } else { "" };
        return Err(AnswerError::NotFound(format!("there is no node {name}{selected}{close}")));
    }
    let uses = inventory.uses();
    let here = uses.iter().filter_map(|(resource, of_resource)| {
        let share = of_resource.shares.get(&node)?;
        let mut owners = Owners::new(inventory, of_resource);
        // Which rules select a node that cannot be listed is unknown.
        let entry = inventory.node(name).filter(|_| inventory.rules.is_some());
        owners.rules = entry.map(|entry| {
            let declaring = inventory.declaring_resource(&entry.node, resource).into_iter();
            declaring.map(|rule| rule.name.to_string()).collect()
        });
        owners.managers = share.manager.iter().map(ToString::to_string).collect();
        // The share has it of this node.
        owners.leaving = 0;
        Some(NodeResource {
            resource: (*resource).to_owned(),
            owners,
            share: ShareView::new(inventory, share, namespace),
        })
    });
    let none = match (&inventory.nodes, &inventory.pods) {
        (Some(_), Some(_)) => {
            "The node has no extended resources, and no pod on it requests any; names below kubernetes.io, which no \
             rule can declare, are not looked at"
        }
        (Some(_), None) => {
            "The node has no extended resources; names below kubernetes.io, which no rule can declare, are not looked \
             at"
        }
        (None, _) => "No pod on the node requests extended resources, if the node exists",
    };
    let state = NodeStateView::of(inventory, &node);
    Ok(NodeAnswer { node: name.to_owned(), state, resources: here.collect(), unmet: unmet(inventory, &node), none })
}

impl Answer for NodeAnswer {
    const KIND: &'static str = "NodeResources";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let state = self.state.as_ref().map(NodeStateView::cell).unwrap_or_default();
        let root = Row::new([self.node.clone().into(), "".into(), "".into(), "".into(), state]);
        let mut rows = vec![root];
        for NodeResource { resource, owners, share } in &self.resources {
            let [total, requested, free] = share.cells();
            let remark = share.remark().map(|remark| format!("; {remark}"));
            let info = format!("{}{}", owners.text(is_wide), remark.unwrap_or_default());
            rows.push(Row::below(1, [resource.clone().into(), total, requested, free, info.into()]));
            rows.extend(share.pods.iter().map(|pod: &PodView| pod.row(2)));
        }
        (vec!["NAME", "TOTAL", "REQUESTED", "FREE", "STATE OR RULES"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.resources.iter().map(|resource| resource.resource.clone()).collect()
    }

    fn remarks(&self) -> Vec<String> {
        match self.resources.is_empty() {
            true => vec![self.none.to_owned()],
            false => {
                let unmet = self.unmet.iter().map(|(resource, why)| format!("{resource}: {why}"));
                let marks = explain_marks(self.resources.iter().map(|resource| &resource.owners));
                marks.into_iter().chain(unmet).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::inspect::diff::rules::{ClusterRule, Rules, Standing};
    use crate::inspect::inventory::tests::{DONGLE, inventory, node, rule};

    fn remarks(node: Value, spec: &Value) -> Vec<String> {
        let mut inventory = inventory(&[node], &[], vec![]);
        let name: Arc<str> = "dongle".into();
        let rule = Ok(rule(&name, spec));
        let standing = Standing::default();
        let rule = ClusterRule { rule, name, created: None, contested: Vec::new(), standing };
        inventory.rules = Some(Rules::from_cluster(vec![rule], Vec::new(), false));
        answer(&inventory, "node-1", None).unwrap().remarks()
    }

    #[test]
    fn value_that_is_not_as_declared_has_its_reason() {
        let spec = json!({"allNodes": true});
        let declared = node("node-1", &json!({}), "4");
        let mut unreadable = node("node-1", &json!({}), "9");
        unreadable["metadata"]["annotations"] = json!({"noderesource.dev/advertised": "[]"});
        let mut absent = declared.clone();
        absent["status"] = json!({});
        for (node, spec, reason) in [
            (declared.clone(), &spec, None),
            (absent.clone(), &spec, Some("which is not on the node yet")),
            (absent.clone(), &json!({"allNodes": true, "paused": true}), Some("paused")),
            (
                absent,
                &json!({"allNodes": true, "quantity": null, "quantityFrom": {"nodeLabel": {"key": "a"}, "max": 9}}),
                Some("has no label a"),
            ),
            (node("node-1", &json!({}), "9"), &spec, Some("conflict")),
            (unreadable, &spec, Some("the annotation of the node cannot be read")),
        ] {
            let remarks = remarks(node, spec);
            let unmet: Vec<_> = remarks.iter().filter(|remark| remark.starts_with(DONGLE)).collect();
            assert_eq!(unmet.len(), usize::from(reason.is_some()), "{remarks:?}");
            assert!(reason.is_none_or(|reason| unmet[0].contains(reason)), "{reason:?}: {unmet:?}");
        }
    }

    #[test]
    fn node_without_resources_says_how_far_was_looked() {
        let mut bare = node("node-1", &json!({}), "4");
        bare["status"] = json!({});
        let mut inventory = inventory(&[bare], &[], vec![]);
        let remarks = |inventory: &Inventory| answer(inventory, "node-1", None).unwrap().remarks();
        let with_pods = "The node has no extended resources, and no pod on it requests any; names below kubernetes.io, \
                         which no rule can declare, are not looked at";
        assert_eq!(remarks(&inventory), [with_pods]);
        inventory.pods = None;
        let without_pods = "The node has no extended resources; names below kubernetes.io, which no rule can declare, \
                            are not looked at";
        assert_eq!(remarks(&inventory), [without_pods]);
        inventory.nodes = None;
        let unlisted = "No pod on the node requests extended resources, if the node exists";
        assert_eq!(remarks(&inventory), [unlisted]);
    }
}
