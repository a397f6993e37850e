//! Reads what decides whether a value may be removed. Where a part cannot be read, nothing is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::ListParams;
use serde::{Deserialize as _, de::Error as _};
use serde_json::Value;

use super::error::UnrecordedError;
use super::scope::Scope;
use crate::cli::prune::choice::NodeChoice;
use crate::cluster::node_client::describe_pods_error;
use crate::cluster::requests::Requests;
use crate::inspect::adopt::snapshot::{Entry, Object};
use crate::inspect::diff::order::NodeName;
use crate::inspect::doctor::read::{rules, version};
use crate::inspect::doctor::snapshot::Rules;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::read::pods;
use crate::inspect::lists::{self, NODES};
use crate::inspect::timeline::field_owners::owners;
use crate::model::node::{FactNames, Interner};
use crate::response::request_error::RequestError;

/// The nodes that have the resource, and all that may speak against its removal.
#[derive(Default)]
pub(super) struct Snapshot {
    /// The number of nodes read.
    pub(super) nodes: usize,
    pub(super) found: Vec<Found>,
    /// When each manager wrote the resource last, on any node of the cluster.
    pub(super) writers: BTreeMap<String, Timestamp>,
    /// `None` if the cluster does not serve the kind.
    pub(super) rules: Option<Rules>,
    /// The unfinished pods that request extended resources.
    pub(super) pods: Vec<Arc<PodEntry>>,
    /// The time of the API server, whose times are compared with it.
    pub(super) now: Timestamp,
}

/// A node that has the resource.
pub(super) struct Found {
    pub(super) entry: Entry,
    /// Who wrote the value last; `None` if managedFields do not say.
    pub(super) writer: Option<Writer>,
}

/// Who wrote a value last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) manager: String,
    /// The time of the manager's last change to anything in the node's status.
    pub(super) time: Timestamp,
}

/// A node, and its value if it has one.
pub(super) struct Listed {
    name: String,
    found: Option<Found>,
    /// Whether it has the labels.
    pub(super) is_selected: bool,
}

/// Reads the cluster. Of nodes that are not selected, only the writers count.
pub(super) async fn snapshot(client: &Client, scope: &Scope) -> Result<Snapshot, UnrecordedError> {
    let requests = &lists::requests(client);
    let unread = |why: &dyn std::fmt::Display| UnrecordedError::Unread(why.to_string());
    let (nodes, rules, pods, (version, now)) =
        tokio::join!(nodes(requests, scope), rules(requests), pods(requests), version(requests));
    version.map_err(|why| unread(&why))?;
    let rules = rules.map_err(|why| unread(&why))?;
    let (pods, _) = pods.map_err(|error| unread(&describe_pods_error(&error)))?;
    let nodes = nodes.map_err(|error| unread(&format!("nodes cannot be listed: {error}")))?;
    let writers = last_writes(nodes.iter().filter_map(|node| node.found.as_ref()));
    let nodes = chosen(nodes, &scope.choice)?;
    let count = nodes.len();
    let found = nodes.into_iter().filter_map(|node| node.found).collect();
    Ok(Snapshot { nodes: count, found, writers, rules, pods, now })
}

/// Returns the nodes that the flags choose, in the order of other commands.
pub(super) fn chosen(mut nodes: Vec<Listed>, choice: &NodeChoice) -> Result<Vec<Listed>, UnrecordedError> {
    let names: BTreeSet<_> = choice.names.iter().map(String::as_str).collect();
    if let Some(missing) = names.iter().find(|name| nodes.iter().all(|node| node.name != **name)) {
        return Err(UnrecordedError::NoNode((*missing).to_owned()));
    }
    nodes.retain(|node| node.is_selected && (names.is_empty() || names.contains(node.name.as_str())));
    if nodes.is_empty() && !choice.labels.is_empty() {
        return Err(UnrecordedError::NoNodes(choice.labels.clone()));
    }
    nodes.sort_by_cached_key(|node| NodeName(node.name.as_str().into()));
    Ok(nodes)
}

/// Returns when each manager wrote last.
pub(super) fn last_writes<'f>(found: impl Iterator<Item = &'f Found>) -> BTreeMap<String, Timestamp> {
    let mut writers = BTreeMap::<String, Timestamp>::new();
    for Writer { manager, time } in found.filter_map(|found| found.writer.as_ref()) {
        let last = writers.entry(manager.clone()).or_insert(*time);
        *last = (*time).max(*last);
    }
    writers
}

/// Lists the nodes, and keeps those in full that have the resource.
async fn nodes(requests: &Requests, scope: &Scope) -> Result<Vec<Listed>, RequestError> {
    let mut interner = Interner::keeping(FactNames::All);
    let mut odd = None;
    let keep = |object: Value| match listed(object, scope, &mut interner) {
        Ok(listed) => Some(listed),
        Err(error) => {
            odd = Some(error);
            None
        }
    };
    let nodes = lists::list(requests, NODES, ListParams::default(), keep).await?;
    match odd {
        Some(error) => Err(RequestError::Transport(format!("unreadable node: {error}"))),
        None => Ok(nodes),
    }
}

pub(super) fn listed(object: Value, scope: &Scope, interner: &mut Interner) -> serde_json::Result<Listed> {
    let labels = object.pointer("/metadata/labels").map(BTreeMap::deserialize).transpose()?.unwrap_or_default();
    let (name, found) = found(object, scope.resource.as_str(), interner)?;
    Ok(Listed { name, found, is_selected: scope.choice.labels.matches(&labels) })
}

/// Returns the name of a node, and the node if it has the resource.
pub(super) fn found(
    object: Value,
    resource: &str,
    interner: &mut Interner,
) -> serde_json::Result<(String, Option<Found>)> {
    let metadata = object.get("metadata").ok_or_else(|| serde_json::Error::custom("it has no metadata"))?;
    let metadata = ObjectMeta::deserialize(metadata)?;
    let entry = Entry::new(serde_json::from_value::<Object>(object)?, interner);
    let found = entry.node.values(resource).iter().any(Option::is_some);
    let found = found.then(|| Found { entry, writer: writer(&metadata, resource) });
    Ok((metadata.name.unwrap_or_default(), found))
}

/// Returns who wrote a value last. A kubelet copies capacity to allocatable, so that the managers of capacity decide.
fn writer(metadata: &ObjectMeta, resource: &str) -> Option<Writer> {
    let field = format!("f:{resource}");
    let last = |map| {
        let owners = owners(metadata).filter(|owner| owner.field(&["f:status", map, &field]).is_some());
        let times = owners.filter_map(|owner| {
            Some(Writer { manager: owner.name().to_owned(), time: owner.entry().time.as_ref()?.0 })
        });
        times.max_by_key(|writer| writer.time)
    };
    last("f:capacity").or_else(|| last("f:allocatable"))
}
