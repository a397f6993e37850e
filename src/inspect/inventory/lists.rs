//! The lists that an inventory is made of, each of which may be refused on its own. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::device_classes::{DeviceClass, by_resource};
use super::error::ReadError;
use super::pods::PodEntry;
use super::{Inventory, NodeEntry};
use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::rules::{ClusterRule, Rules};
use crate::inspect::lists::{NOT_INSTALLED, Refusal};
use crate::model::compute::Compute;

/// The lists of a cluster at about one moment.
#[derive(Debug)]
pub(super) struct Lists {
    /// The selected nodes.
    pub(super) nodes: Result<BTreeMap<NodeName, Arc<NodeEntry>>, Refusal>,
    /// The pods' requests for the cpu and memory of each node, if they have been counted.
    pub(super) compute: Option<HashMap<NodeName, Compute>>,
    /// The pods that count, by namespace and name.
    pub(super) pods: Result<Vec<Arc<PodEntry>>, Refusal>,
    pub(super) classes: Result<Vec<DeviceClass>, Refusal>,
    /// `None` if the cluster does not serve the kind.
    pub(super) rules: Result<Option<Vec<ClusterRule>>, Refusal>,
}

impl Lists {
    /// Returns the inventory. If `is_part`, nodes are selected by their labels.
    ///
    /// # Errors
    /// If the refusals leave nothing to answer with.
    pub(super) fn inventory(self, is_part: bool) -> Result<Inventory, ReadError> {
        if let Err(refusal) = &self.nodes {
            match (is_part, &self.pods) {
                (true, _) => return Err(ReadError::Selector(refusal.0.clone())),
                (_, Err(_)) => return Err(ReadError::Nothing(refusal.0.clone())),
                _ => {}
            }
        }
        Ok(self.around_pod(is_part))
    }

    /// Returns what is known, and what is not.
    pub(super) fn around_pod(self, is_part: bool) -> Inventory {
        let mut gaps = Vec::new();
        if is_part && self.nodes.as_ref().is_ok_and(BTreeMap::is_empty) {
            gaps.push("no node has the labels that -l selects".to_owned());
        }
        let mut lacks = |kind: &str, lack: &str, refusal: &Refusal| gaps.push(refusal.gap(kind, lack));
        if let Err(refusal) = &self.nodes {
            lacks("nodes", "what nodes have, and so what is free, is unknown", refusal);
        }
        if let Err(refusal) = &self.pods {
            lacks("pods", "what pods request, and so what is free, is unknown", refusal);
        }
        if let Err(refusal) = &self.classes {
            lacks("deviceclasses", "whether DRA provides a resource is unknown", refusal);
        }
        if let Err(refusal) = &self.rules {
            lacks("nodeextendedresources", "who declares a resource is unknown", refusal);
        }
        if let Ok(None) = &self.rules {
            gaps.push(NOT_INSTALLED.to_owned());
        }
        let rules = self.rules.ok().map(|rules| Rules::from_cluster(rules.unwrap_or_default(), Vec::new(), false));
        gaps.extend(rules.iter().flat_map(Rules::notes).map(|note| note.message.clone()));
        let (nodes, pods, classes) = (self.nodes.ok(), self.pods.ok(), self.classes.ok().map(by_resource));
        Inventory { nodes, is_part, pods, compute: self.compute, rules, classes, gaps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_lists_are_unknown_and_said_so() {
        let refused = || Refusal("403 Forbidden: no".to_owned());
        let lists = |nodes: bool, pods: bool| Lists {
            nodes: if nodes { Ok(BTreeMap::new()) } else { Err(refused()) },
            pods: if pods { Ok(Vec::new()) } else { Err(refused()) },
            compute: None,
            classes: Err(refused()),
            rules: Err(refused()),
        };
        let inventory = lists(true, false).inventory(true).unwrap();
        assert!(inventory.pods.is_none() && inventory.rules.is_none() && inventory.classes.is_none());
        assert_eq!(inventory.gaps.len(), 4, "{:?}", inventory.gaps);
        assert_eq!(inventory.gaps[0], "no node has the labels that -l selects");
        assert!(inventory.gaps[1..].iter().all(|gap| gap.ends_with("(the server says: 403 Forbidden: no)")));
        assert!(matches!(lists(false, true).inventory(true), Err(ReadError::Selector(_))));
        assert!(matches!(lists(false, false).inventory(false), Err(ReadError::Nothing(_))));
        assert_eq!(lists(false, false).around_pod(false).gaps.len(), 4, "of a pod, its own requests are known");
        assert_eq!(lists(false, true).inventory(false).unwrap().gaps.len(), 3);
        let unserved = Lists { rules: Ok(None), ..lists(true, true) }.inventory(false).unwrap();
        assert!(unserved.rules.is_some_and(|rules| rules.all().next().is_none()), "there are none, and that is known");
    }
}
