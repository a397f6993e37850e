//! Reads an inventory from a cluster: four lists at once, each of which may fail on its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as K8sPod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{GetParams, ListParams};
use kube::core::{Request, Selector};
use kube::{Client, Resource as _, ResourceExt as _};
use serde::Deserialize as _;
use serde_json::Value;

use super::device_classes::{DEVICE_CLASSES, DeviceClass};
use super::error::ReadError;
use super::lists::Lists;
use super::placement::Placement;
use super::pods::{PodEntry, Pods};
use super::{Inventory, NodeEntry};
use crate::cluster::node_client::{POD_PAGE_SIZE, UNFINISHED};
use crate::cluster::paging::{self, Page};
use crate::cluster::requests::Requests;
use crate::inspect::diff::cluster;
use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::diff::order::NodeName;
use crate::inspect::lists::{self, NODES, Refusal, requests};
use crate::model::compute::Compute;
use crate::model::label;
use crate::model::node::object::NodeObject;
use crate::model::node::{FactNames, Interner};
use crate::model::pod::object::PodObject;
use crate::response::request_error::RequestError;

/// The pods that wait for a node.
const WAITING: &str = "spec.nodeName=,status.phase=Pending";

/// Reads the nodes with these labels, and everything else.
pub(crate) async fn inventory(client: &Client, labels: &LabelFilter) -> Result<Inventory, ReadError> {
    read(client, labels).await?.inventory(!labels.is_empty())
}

/// The same, for a question about a pod that has been read: something is known, whatever cannot be listed.
pub(crate) async fn around_pod(client: &Client, labels: &LabelFilter) -> Result<Inventory, ReadError> {
    Ok(read(client, labels).await?.around_pod(!labels.is_empty()))
}

async fn read(client: &Client, labels: &LabelFilter) -> Result<Lists, ReadError> {
    let requests = requests(client);
    let (nodes, pods, classes, rules) =
        tokio::join!(nodes(&requests, labels), pods(&requests), classes(&requests), cluster::rules(client));
    let rules = match rules {
        Err(error) => Err(error.refusal().ok_or(error)?),
        Ok(rules) => Ok(rules.map(|rules| rules.present)),
    };
    let pods = granted("pods", pods)?.map(|(pods, compute)| (pods, Some(compute)));
    let (pods, compute) = match pods {
        Ok((pods, compute)) => (Ok(pods), compute),
        Err(refusal) => (Err(refusal), None),
    };
    Ok(Lists { nodes: granted("nodes", nodes)?, compute, pods, classes: granted("deviceclasses", classes)?, rules })
}

/// Reads one pod, whatever it requests, and where it may be; `None` if there is no such pod.
pub(crate) async fn pod(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<(PodEntry, Placement)>, ReadError> {
    if !label::is_dns_subdomain(name) || !label::is_dns_subdomain(namespace) {
        return Ok(None);
    }
    let requests = requests(client);
    let request = Request::new(K8sPod::url_path(&(), Some(namespace))).get(name, &GetParams::default());
    let failed = |why: String| ReadError::Pod { pod: format!("{namespace}/{name}"), why };
    let object = lists::found(requests.send(request).await).map_err(|error| failed(error.to_string()))?;
    object.map(placed).transpose().map_err(|error| failed(error.to_string()))
}

/// Reads the pods without a node, of one namespace or of all, whatever they request. `labels` selects some of them.
pub(crate) async fn waiting_pods(
    client: &Client,
    namespace: Option<&str>,
    labels: &Selector,
) -> Result<Vec<(PodEntry, Placement)>, ReadError> {
    let path = K8sPod::url_path(&(), namespace);
    let params = ListParams::default().fields(WAITING).labels_from(labels);
    let pods = lists::list(&requests(client), &path, params, |object| placed(object).ok()).await;
    let mut pods = pods.map_err(|error| ReadError::List { kind: "pods", why: error.to_string() })?;
    pods.sort_by(|(one, _), (other, _)| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    Ok(pods)
}

/// Reads the pods that kubelets have rejected since some time, of one namespace or of all. `labels` selects some of them.
pub(crate) async fn rejected_pods(
    client: &Client,
    namespace: Option<&str>,
    labels: &Selector,
    since: Timestamp,
) -> Result<Vec<(PodEntry, Placement)>, ReadError> {
    let path = K8sPod::url_path(&(), namespace);
    let params = ListParams::default().fields("status.phase=Failed").labels_from(labels);
    let pods = lists::list(&requests(client), &path, params, |object| rejected_since(since, object)).await;
    pods.map_err(|error| ReadError::List { kind: "pods", why: error.to_string() })
}

/// Reads a pod that a kubelet has rejected since some time.
fn rejected_since(since: Timestamp, object: Value) -> Option<(PodEntry, Placement)> {
    let time = |path: &str| object.pointer(path)?.as_str()?.parse::<Timestamp>().ok();
    let started = time("/status/startTime").or_else(|| time("/metadata/creationTimestamp"))?;
    let is_recent = started >= since;
    placed(object).ok().filter(|(pod, _)| is_recent && pod.is_rejected())
}

/// Reads a pod, and where it may be.
pub(crate) fn placed(object: Value) -> serde_json::Result<(PodEntry, Placement)> {
    let placement = Placement::of(&K8sPod::deserialize(&object)?);
    Ok((Pods::default().entry(serde_json::from_value::<PodObject>(object)?), placement))
}

/// Reads the names of the resources that nodes have or rules declare, as far as they can be listed.
pub(crate) async fn resource_names(client: &Client) -> BTreeSet<String> {
    let requests = requests(client);
    let labels = LabelFilter::default();
    let (nodes, rules) = tokio::join!(nodes(&requests, &labels), cluster::rules(client));
    let (nodes, rules) = (nodes.unwrap_or_default(), rules.unwrap_or_default().unwrap_or_default());
    let declared = rules.present.into_iter().filter_map(|rule| Some(rule.rule.ok()?.resource.as_str().to_owned()));
    let present = nodes.values().flat_map(|entry| entry.node.resources().into_keys()).map(str::to_owned);
    declared.chain(present).collect()
}

/// Returns the list, or that the cluster does not grant permission to list it.
fn granted<T>(kind: &'static str, list: Result<T, RequestError>) -> Result<Result<T, Refusal>, ReadError> {
    lists::granted(list).map_err(|error| ReadError::List { kind, why: error.to_string() })
}

async fn nodes(requests: &Requests, labels: &LabelFilter) -> Result<BTreeMap<NodeName, Arc<NodeEntry>>, RequestError> {
    let mut interner = Interner::keeping(FactNames::All);
    let keep = |object: NodeObject| {
        labels.matches(object.node.labels()).then(|| {
            let entry = NodeEntry::new(object, &mut interner);
            (NodeName(Arc::clone(&entry.node.name)), Arc::new(entry))
        })
    };
    Ok(lists::list(requests, NODES, ListParams::default(), keep).await?.into_iter().collect())
}

/// Returns the pods that count, and what all of them request of the cpu and memory of each node.
pub(crate) async fn pods(
    requests: &Requests,
) -> Result<(Vec<Arc<PodEntry>>, HashMap<NodeName, Compute>), RequestError> {
    let mut pods = Pods::default();
    let path = Request::new(K8sPod::url_path(&(), None));
    let page = ListParams::default().fields(UNFINISHED).limit(POD_PAGE_SIZE);
    let on_page = |page: Page<PodObject>| match page {
        Page::Restarted => pods.clear(),
        Page::Items(objects) => objects.into_iter().for_each(|object| pods.add(object)),
    };
    paging::list_at(requests, &path, page, on_page).await?;
    let compute = pods.take_compute();
    Ok((pods.finish(), compute))
}

/// Returns the DeviceClasses; none before Kubernetes 1.34, or without DRA.
pub(crate) async fn classes(requests: &Requests) -> Result<Vec<DeviceClass>, RequestError> {
    Ok(lists::found(lists::all(requests, DEVICE_CLASSES).await)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inspect::inventory::tests::pod;

    #[test]
    fn pod_that_ended_for_another_reason_or_earlier_is_not_rejected() {
        let since = "2026-01-01T01:00:00Z".parse().unwrap();
        for (reason, started, is_rejected) in [
            ("OutOfexample.com/dongle", "2026-01-01T01:30:00Z", true),
            ("OutOfexample.com/dongle", "2026-01-01T00:30:00Z", false),
            ("OutOfcpu", "2026-01-01T01:30:00Z", false),
            ("Evicted", "2026-01-01T01:30:00Z", false),
        ] {
            let mut failed = pod("failed", "node-1", "1");
            failed["status"] = json!({"phase": "Failed", "reason": reason, "startTime": started});
            assert_eq!(rejected_since(since, failed).is_some(), is_rejected, "{reason} {started}");
        }
    }
}
