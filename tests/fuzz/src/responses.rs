//! Responses of an API server, and files that contain them.

use std::fmt::Debug;

use kube::core::{DeserializeGuard, ObjectList, Status, WatchEvent};
use node_resource_advertiser::model::api::NodeExtendedResource;
use node_resource_advertiser::model::node::{ApiNode, Interner, Node};
use node_resource_advertiser::model::pod::{NodeRequests, PodList};
use node_resource_advertiser::planner::input::{PlanningInput, PodUsage};
use node_resource_advertiser::planner::rules::{Rule, RuleSet};
use node_resource_advertiser::planner::withdraw::{Recorded, Withdrawal, withdraw, withdraw_unreadable};
use node_resource_advertiser::planner::{patch, plan, plan_repairs, plan_resets};

use crate::limits::limited;

type GuardedRule = DeserializeGuard<NodeExtendedResource>;

/// A response is either decoded and usable, or rejected.
pub fn check(bytes: &[u8]) {
    limited(bytes.len(), 1, || {
        let mut interner = Interner::default();
        let (mut nodes, mut rules) = (Vec::new(), Vec::new());
        nodes.extend(serde_json::from_slice::<ApiNode>(bytes));
        nodes.extend(serde_json::from_slice::<ObjectList<ApiNode>>(bytes).into_iter().flat_map(|list| list.items));
        nodes.extend(serde_json::from_slice(bytes).ok().and_then(object));
        rules.extend(serde_json::from_slice::<GuardedRule>(bytes));
        rules.extend(serde_json::from_slice::<ObjectList<GuardedRule>>(bytes).into_iter().flat_map(|list| list.items));
        rules.extend(serde_json::from_slice(bytes).ok().and_then(object));
        let rules: Vec<_> = rules.into_iter().filter_map(|guarded| Rule::new(&guarded.0.ok()?).ok()).collect();
        let rules = RuleSet::new(rules.into_iter().map(Into::into), []);
        for node in nodes {
            let own = node.own_resources();
            let own: Vec<_> = own.iter().map(String::as_str).collect();
            let node = Node::new(node, &mut interner);
            let withdrawal = Withdrawal { recorded: Recorded::All, in_use: true, zeros: true };
            let plans = [
                plan(&node, &rules, &PlanningInput::default()),
                plan_repairs(&node, &PlanningInput::default().contested),
                plan_resets(&node),
                withdraw(&node, &withdrawal, &PodUsage::NotFetched),
                withdraw_unreadable(&node, &own, &withdrawal),
            ];
            for planned in plans.iter().filter(|planned| !planned.changes().is_empty()) {
                patch(&node, planned.changes()).expect("a plan has a patch");
            }
        }
        if let Ok(pods) = serde_json::from_slice::<PodList>(bytes) {
            let requests = NodeRequests::from_pods(&pods);
            requests.bound.iter().for_each(|(_, quantity)| drop(quantity.ceil().to_string()));
        }
        if let Ok(status) = serde_json::from_slice::<Status>(bytes) {
            drop(status.to_string());
        }
    });
}

/// The object in a line of a watch.
fn object<T: Debug>(event: WatchEvent<T>) -> Option<T> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => Some(object),
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
    }
}
