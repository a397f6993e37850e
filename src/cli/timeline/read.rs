//! Reads what a timeline is built from: one object and three lists, each of which may fail on its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::{Event, Node as K8sNode};
use kube::api::{GetParams, ListParams};
use kube::core::{DeserializeGuard, Request};
use kube::{Client, Resource as _, ResourceExt as _};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::records::{Records, RuleObject};
use crate::cluster::paging::{self, EVENT_PAGE_SIZE, PAGE_SIZE};
use crate::cluster::requests::{RequestError, Requests};
use crate::cluster::stored::{Stored, remove_odd_times};
use crate::model::api::NodeExtendedResource;
use crate::model::label;
use crate::model::ledger::Ledger;
use crate::model::node::{ApiNode, Interner, Node};
use crate::model::spelling::closest;
use crate::planner::rules::Rule;

/// Longer than any page takes on a server that responds at all.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The namespace of Events about cluster-scoped objects.
const NAMESPACE: &str = "default";

/// Why a node's past cannot be read.
#[derive(Debug, Error)]
pub(in crate::cli) enum ReadError {
    #[error("there is no node {name}{}", .close.as_ref().map(|close| format!("; is it {close}?")).unwrap_or_default())]
    NoNode { name: String, close: Option<String> },
    #[error("you have no right to get the node {name}: ask for the verb get on nodes. The server says: {why}")]
    Forbidden { name: String, why: String },
    #[error("cannot {what}: {why}")]
    Failed { what: String, why: String },
}

/// A node, and what was read about it.
pub(in crate::cli) struct Material {
    pub(in crate::cli) node: Node,
    pub(in crate::cli) records: Records,
    /// What could not be read; sentences without a period.
    pub(in crate::cli) gaps: Vec<String>,
}

/// Reads everything about the node of this name.
pub(in crate::cli) async fn material(client: &Client, name: &str) -> Result<Material, ReadError> {
    let requests = Requests::new(client.clone(), TIMEOUT);
    let (object, node) = node(&requests, name).await?;
    let (on_node, on_rules, rules) = tokio::join!(
        events(&requests, format!("involvedObject.kind=Node,involvedObject.name={name}")),
        events(&requests, "involvedObject.kind=NodeExtendedResource".to_owned()),
        rules(&requests),
    );
    let mut gaps = Vec::new();
    let on_node = granted(on_node, &mut gaps)?;
    let on_rules = granted(on_rules, &mut gaps)?;
    gaps.dedup();
    let rules = match rules {
        Ok(rules) => Some(of_node(&node, rules, &on_node, &mut gaps)),
        Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => {
            gaps.push(
                "the cluster has no CustomResourceDefinition of rules: node-resource-advertiser is not installed"
                    .to_owned(),
            );
            Some(Vec::new())
        }
        Err(error) if is_forbidden(&error) => {
            gaps.push(format!(
                "you have no right to list nodeextendedresources: what happened to the rules of the node is missing (the \
                 server says: {error})"
            ));
            None
        }
        Err(error) => return Err(failed("list rules", &error)),
    };
    Ok(Material { node, records: Records { object, rules, on_node, on_rules }, gaps })
}

/// Returns the Events, or none and a gap if the cluster does not grant the right to them.
fn granted(events: Result<Vec<Event>, RequestError>, gaps: &mut Vec<String>) -> Result<Vec<Event>, ReadError> {
    match events {
        Err(error) if is_forbidden(&error) => {
            gaps.push(format!(
                "you have no right to list events in the namespace {NAMESPACE}: Events about the node and its rules are \
                 missing (the server says: {error})"
            ));
            Ok(Vec::new())
        }
        events => events.map_err(|error| failed("list events", &error)),
    }
}

fn is_forbidden(error: &RequestError) -> bool {
    error.code() == Some(StatusCode::FORBIDDEN)
}

fn failed(what: &str, error: &RequestError) -> ReadError {
    ReadError::Failed { what: what.to_owned(), why: error.to_string() }
}

/// Reads a node, as Kubernetes knows it and as planning does.
async fn node(requests: &Requests, name: &str) -> Result<(K8sNode, Node), ReadError> {
    let unreadable =
        |error: serde_json::Error| ReadError::Failed { what: format!("read the node {name}"), why: error.to_string() };
    // Another name would be another path.
    if label::is_dns_subdomain(name) {
        let request = Request::new(K8sNode::url_path(&(), None)).get(name, &GetParams::default());
        match requests.send::<Value>(request).await {
            Ok(mut object) => {
                remove_odd_times(&mut object);
                let node = ApiNode::deserialize(&object).map_err(unreadable)?;
                let node = Node::new(node, &mut Interner::default());
                return Ok((serde_json::from_value(object).map_err(unreadable)?, node));
            }
            Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => {}
            Err(error) if is_forbidden(&error) => {
                return Err(ReadError::Forbidden { name: name.to_owned(), why: error.to_string() });
            }
            Err(error) => return Err(failed(&format!("get the node {name}"), &error)),
        }
    }
    // Without the right to list nodes, the error lacks only a suggestion.
    let names = node_names(requests).await.unwrap_or_default();
    let close = closest(name, names.iter().map(String::as_str)).map(str::to_owned);
    Err(ReadError::NoNode { name: name.to_owned(), close })
}

async fn node_names(requests: &Requests) -> Result<Vec<String>, RequestError> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }

    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }

    let path = Request::new(K8sNode::url_path(&(), None));
    let page = ListParams::default().limit(PAGE_SIZE);
    paging::collect_at(requests, &path, page, |named: Named| Some(named.metadata.name)).await
}

async fn events(requests: &Requests, selector: String) -> Result<Vec<Event>, RequestError> {
    let path = Request::new(Event::url_path(&(), Some(NAMESPACE)));
    paging::collect_at(
        requests,
        &path,
        ListParams::default().fields(&selector).limit(EVENT_PAGE_SIZE),
        |Stored(event)| Some(event),
    )
    .await
}

async fn rules(requests: &Requests) -> Result<Vec<DeserializeGuard<NodeExtendedResource>>, RequestError> {
    let path = Request::new(NodeExtendedResource::url_path(&(), None));
    paging::collect_at(requests, &path, ListParams::default().limit(PAGE_SIZE), Some).await
}

/// Returns the rules that select the node, or that its ledger or an Event on it names: an edit may have excluded it.
fn of_node(
    node: &Node,
    rules: Vec<DeserializeGuard<NodeExtendedResource>>,
    on_node: &[Event],
    gaps: &mut Vec<String>,
) -> Vec<RuleObject> {
    let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
    let listed = ledger.entries().map(|(_, entry)| entry.rule.as_str());
    let related = on_node.iter().filter_map(|event| event.related.as_ref());
    let related = related.filter(|object| object.kind.as_deref() == Some(&*NodeExtendedResource::kind(&())));
    let named: BTreeSet<_> = listed.chain(related.filter_map(|object| object.name.as_deref())).collect();
    let mut objects = HashMap::new();
    for object in rules {
        let name: Arc<str> = object.name_any().into();
        let is_named = named.contains(&*name);
        let (metadata, conditions, selects) = match object.0 {
            Ok(object) => {
                let selects = Rule::new(&object).is_ok_and(|rule| rule.selection.selects(node));
                (object.metadata, object.status.unwrap_or_default().conditions, selects)
            }
            Err(invalid) => {
                gaps.push(format!("rule {name} is invalid, and its conditions are missing: {}", invalid.error));
                (invalid.metadata, Vec::new(), false)
            }
        };
        if is_named || selects {
            objects.insert(Arc::clone(&name), RuleObject { name, metadata, conditions });
        }
    }
    let mut objects: Vec<_> = objects.into_values().collect();
    objects.sort_by(|one, other| one.name.cmp(&other.name));
    objects
}
