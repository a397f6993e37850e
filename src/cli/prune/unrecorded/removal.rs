//! The removal of one value.

use std::sync::Arc;

use json_patch::Patch;
use serde_json::{Value, json};

use super::survey::Removal;
use crate::cluster::node_client::{NodeClient, describe_pods_error};
use crate::model::ledger::ANNOTATION;
use crate::model::node::{ApiNode, Node};
use crate::planner::patch as operation;
use crate::response::reply::Reply;

/// What has become of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removed {
    Done,
    /// The node no longer exists.
    Gone,
    /// Pods request it by now.
    Used,
    Failed(String),
}

/// Removes a value, unless anything about it has changed since it was read.
pub(super) async fn remove(nodes: NodeClient, removal: &Removal, resource: &str) -> Removed {
    let node = &removal.node;
    // A pod may have come since all pods were listed.
    match nodes.clone().pods(Arc::clone(&node.name)).await {
        Ok(requests) if requests.bound.get(resource).is_zero() => {}
        Ok(_) => return Removed::Used,
        Err(error) => return Removed::Failed(describe_pods_error(&error)),
    }
    match nodes.patch(Arc::clone(&node.name), patch(node, resource)).await {
        Reply::Patched(node) if has(&node, resource) => {
            Removed::Failed("admission has kept the value: see its policies and webhooks".to_owned())
        }
        Reply::Patched(_) => Removed::Done,
        Reply::NotFound => Removed::Gone,
        Reply::Stale { node, .. } => Removed::Failed(match has(&node, resource) {
            true => "the value, the annotation or the node has changed since it was read".to_owned(),
            false => return Removed::Gone,
        }),
        Reply::Failed { message, maybe_applied: true, .. } => {
            Removed::Failed(format!("{message} (the value may be gone all the same)"))
        }
        Reply::Forbidden(message)
        | Reply::Rejected(message)
        | Reply::Deferred { message, .. }
        | Reply::Failed { message, .. } => Removed::Failed(message),
    }
}

fn has(node: &ApiNode, resource: &str) -> bool {
    node.values(resource).iter().any(Option::is_some)
}

/// Returns the patch, which tests the node, its ledger and both values.
pub(super) fn patch(node: &Node, resource: &str) -> Patch {
    let mut operations = vec![operation::test(["metadata", "uid"], json!(node.uid))];
    // A test of a key fails if its parent is absent.
    operations.push(match node.has_annotations {
        true => operation::test(["metadata", "annotations", ANNOTATION], json!(node.ledger)),
        false => operation::test(["metadata", "annotations"], Value::Null),
    });
    let (maps, values) = ([&node.capacity, &node.allocatable], node.values(resource));
    let mut removals = Vec::new();
    for ((name, map), value) in ["capacity", "allocatable"].into_iter().zip(maps).zip(values) {
        operations.push(match map {
            Some(_) => operation::test(["status", name, resource], json!(value)),
            None => operation::test(["status", name], Value::Null),
        });
        removals.extend(value.map(|_| operation::remove(["status", name, resource])));
    }
    operations.append(&mut removals);
    Patch(operations)
}
