//! Reads an inventory from a cluster: four lists at once, each of which may fail on its own.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::{Node as K8sNode, Pod as K8sPod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use kube::{Client, Resource as _, ResourceExt as _};
use serde::Deserialize;
use thiserror::Error;

use super::pods::{PodEntry, Pods};
use super::{Inventory, NodeEntry};
use crate::cli::diff::cluster::{self, ClusterError};
use crate::cli::diff::label_filter::LabelFilter;
use crate::cli::diff::order::NodeName;
use crate::cli::diff::rules::Rules;
use crate::cluster::error::describe;
use crate::cluster::node_client::{POD_PAGE_SIZE, UNFINISHED};
use crate::cluster::paging::{self, PAGE_SIZE, Page};
use crate::cluster::requests::{RequestError, Requests};
use crate::model::label;
use crate::model::node::object::NodeObject;
use crate::model::node::{Interner, Node};
use crate::model::pod::object::PodObject;

/// Longer than any page takes on a server that responds at all.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a cluster cannot be read. That it grants no right to list something is no such reason.
#[derive(Debug, Error)]
pub(in crate::cli) enum ReadError {
    /// Neither nodes nor pods can be listed.
    #[error("you have no right to list nodes, nor pods: ask for the verb list on both. The server says: {0}")]
    Nothing(String),
    /// Nodes cannot be selected by their labels.
    #[error("you have no right to list nodes, which -l needs. The server says: {0}")]
    Selector(String),
    #[error("cannot get the pod {pod}: {why}")]
    Pod { pod: String, why: String },
    #[error("cannot list {kind}: {why}")]
    List { kind: &'static str, why: String },
    #[error(transparent)]
    Rules(#[from] ClusterError),
}

/// Reads the nodes with these labels, and everything else.
pub(in crate::cli) async fn inventory(client: &Client, labels: &LabelFilter) -> Result<Inventory, ReadError> {
    let requests = Requests::new(client.clone(), TIMEOUT);
    let (nodes, pods, classes, rules) =
        tokio::join!(nodes(&requests, labels), pods(&requests), classes(&requests), cluster::rules(client));
    let mut gaps = Vec::new();
    let refusal = nodes.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let nodes = granted("nodes", "what nodes have, and so what is free, is unknown", nodes, &mut gaps)?;
    if nodes.is_none() && !labels.is_empty() {
        return Err(ReadError::Selector(refusal));
    }
    let pods = granted("pods", "what pods request, and so what is free, is unknown", pods, &mut gaps)?;
    if nodes.is_none() && pods.is_none() {
        return Err(ReadError::Nothing(refusal));
    }
    let classes = match classes {
        // Before 1.34, or without DRA.
        Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => Some(BTreeMap::new()),
        classes => granted("deviceclasses", "whether DRA provides a resource is unknown", classes, &mut gaps)?,
    };
    let rules = match rules {
        Ok(Some(rules)) => Some(Rules::from_cluster(rules, Vec::new(), false)),
        Ok(None) => {
            gaps.push(
                "the cluster has no CustomResourceDefinition of rules: node-resource-advertiser is not installed"
                    .to_owned(),
            );
            Some(Rules::default())
        }
        Err(ClusterError::Rules(error)) if is_forbidden(&error) => {
            gaps.push(gap("nodeextendedresources", "who declares a resource is unknown", &describe(&error)));
            None
        }
        Err(error) => return Err(error.into()),
    };
    gaps.extend(rules.iter().flat_map(Rules::notes).map(|note| note.message.clone()));
    Ok(Inventory { nodes, is_part: !labels.is_empty(), pods, rules, classes, gaps })
}

/// Reads one pod, whatever it requests; `None` if there is no such pod.
pub(in crate::cli) async fn pod(client: &Client, namespace: &str, name: &str) -> Result<Option<PodEntry>, ReadError> {
    if !label::is_dns_subdomain(name) || !label::is_dns_subdomain(namespace) {
        return Ok(None);
    }
    let requests = Requests::new(client.clone(), TIMEOUT);
    let request = Request::new(K8sPod::url_path(&(), Some(namespace))).get(name, &GetParams::default());
    match requests.send::<PodObject>(request).await {
        Ok(object) => Ok(Some(Pods::default().entry(object))),
        Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => Ok(None),
        Err(error) => Err(ReadError::Pod { pod: format!("{namespace}/{name}"), why: error.to_string() }),
    }
}

/// Returns the list, or `None` and a gap if the cluster does not grant the right to it.
fn granted<T>(
    kind: &'static str,
    lack: &str,
    list: Result<T, RequestError>,
    gaps: &mut Vec<String>,
) -> Result<Option<T>, ReadError> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(error) if error.code() == Some(StatusCode::FORBIDDEN) => {
            gaps.push(gap(kind, lack, &error.to_string()));
            Ok(None)
        }
        Err(error) => Err(ReadError::List { kind, why: error.to_string() }),
    }
}

fn gap(kind: &str, lack: &str, refusal: &str) -> String {
    format!("you have no right to list {kind}: {lack} (the server says: {refusal})")
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

async fn nodes(requests: &Requests, labels: &LabelFilter) -> Result<BTreeMap<NodeName, NodeEntry>, RequestError> {
    let mut interner = Interner::default();
    let mut nodes = BTreeMap::new();
    let path = Request::new(K8sNode::url_path(&(), None));
    let page = ListParams::default().limit(PAGE_SIZE);
    let on_page = |page: Page<NodeObject>| match page {
        Page::Restarted => nodes.clear(),
        Page::Items(objects) => {
            let selected = objects.into_iter().filter(|object| labels.matches(object.node.labels()));
            nodes.extend(selected.map(|NodeObject { node, readiness }| {
                let node = Node::new(node, &mut interner);
                (NodeName(node.name.clone()), NodeEntry { node, readiness })
            }));
        }
    };
    paging::list_at(requests, &path, page, on_page).await?;
    Ok(nodes)
}

async fn pods(requests: &Requests) -> Result<Vec<PodEntry>, RequestError> {
    let mut pods = Pods::default();
    let path = Request::new(K8sPod::url_path(&(), None));
    let page = ListParams::default().fields(UNFINISHED).limit(POD_PAGE_SIZE);
    let on_page = |page: Page<PodObject>| match page {
        Page::Restarted => pods.clear(),
        Page::Items(objects) => objects.into_iter().for_each(|object| pods.add(object)),
    };
    paging::list_at(requests, &path, page, on_page).await?;
    Ok(pods.finish())
}

/// A DeviceClass.
#[derive(Deserialize)]
struct DeviceClass {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    extended_resource_name: Option<String>,
}

/// Returns the DeviceClass of each resource that one maps.
async fn classes(requests: &Requests) -> Result<BTreeMap<String, String>, RequestError> {
    let mut classes = Vec::new();
    let path = Request::new("/apis/resource.k8s.io/v1/deviceclasses");
    let on_page = |page: Page<DeviceClass>| match page {
        Page::Restarted => classes.clear(),
        Page::Items(objects) => classes.extend(objects),
    };
    paging::list_at(requests, &path, ListParams::default().limit(PAGE_SIZE), on_page).await?;
    Ok(by_resource(classes))
}

/// Of several classes that map a resource, the scheduler takes the youngest, and of those the first by name (KEP-5004).
fn by_resource(mut classes: Vec<DeviceClass>) -> BTreeMap<String, String> {
    let age = |class: &DeviceClass| class.metadata.creation_timestamp;
    classes.sort_by(|one, other| age(one).cmp(&age(other)).then_with(|| other.metadata.name.cmp(&one.metadata.name)));
    // A later entry replaces an earlier one.
    let mapped = classes.into_iter();
    mapped.filter_map(|class| Some((class.spec.extended_resource_name?, class.metadata.name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn youngest_device_class_of_a_resource_wins_then_the_first_by_name() {
        let class = |name: &str, minute: u8| {
            let created = format!("2026-01-01T00:{minute:02}:00Z");
            let object = json!({"metadata": {"name": name, "creationTimestamp": created},
                "spec": {"extendedResourceName": "example.com/dongle"}});
            serde_json::from_value::<DeviceClass>(object).unwrap()
        };
        let none = serde_json::from_value(json!({"metadata": {"name": "z"}})).unwrap();
        for (classes, winner) in [
            (vec![class("a", 1), class("b", 2), none], "b"),
            (vec![class("b", 2), class("a", 1)], "b"),
            (vec![class("b", 1), class("a", 1)], "a"),
        ] {
            assert_eq!(by_resource(classes)["example.com/dongle"], winner);
        }
    }
}
