//! What `why` answers for each node, in the words of the scheduler, to be compared with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::rules::Rules;
use crate::inspect::inventory::placement::Obstacle;
use crate::inspect::inventory::pods::Pods;
use crate::inspect::inventory::why::{self, Counted};
use crate::inspect::inventory::{Inventory, NodeEntry, read};
use crate::model::node::{FactNames, Interner};

/// Returns for each of these nodes the filter of the scheduler that keeps the pod off it, according to `why`; `""` for none,
/// and `"unknown"` if that cannot be known.
///
/// # Errors
/// If an object cannot be read.
pub fn why_filters(
    pod: Value,
    nodes: Vec<Value>,
    pods: Vec<Value>,
) -> serde_json::Result<BTreeMap<String, &'static str>> {
    let mut interner = Interner::keeping(FactNames::All);
    let mut entries = BTreeMap::new();
    for node in nodes {
        let entry = NodeEntry::new(serde_json::from_value(node)?, &mut interner);
        entries.insert(NodeName(Arc::clone(&entry.node.name)), Arc::new(entry));
    }
    let mut others = Pods::default();
    for pod in pods {
        others.add(serde_json::from_value(pod)?);
    }
    let (pod, placement) = read::placed(pod)?;
    let inventory = Inventory {
        compute: Some(others.take_compute()),
        nodes: Some(entries),
        pods: Some(others.finish()),
        rules: Some(Rules::from_files(Vec::new())),
        classes: Some(BTreeMap::new()),
        ..Inventory::default()
    };
    let counted = Counted::new(&inventory);
    let answers: HashMap<_, _> = counted.nodes(&pod, None).into_iter().collect();
    let filter = |(name, entry): (&NodeName, &Arc<NodeEntry>)| {
        let filter = match (placement.obstacle(entry), answers.get(name)) {
            (Some(Obstacle::Cordoned), _) => "NodeUnschedulable",
            (Some(Obstacle::Taint(_)), _) => "TaintToleration",
            (Some(Obstacle::NodeSelector(_) | Obstacle::NodeAffinity(_)), _) => "NodeAffinity",
            (None, Some(why::Answer::Enough)) if counted.lacks(name, &pod).is_empty() => "",
            (None, Some(why::Answer::Enough | why::Answer::Short(_))) => "NodeResourcesFit",
            (None, Some(why::Answer::Unknown(_)) | None) => "unknown",
        };
        (name.to_string(), filter)
    };
    Ok(inventory.nodes.iter().flatten().map(filter).collect())
}
