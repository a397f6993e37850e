//! The rules and nodes of the cluster.

use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use thiserror::Error;

use super::held::NodePods;
use super::rules::{ClusterRule, ClusterRules, Standing, Unready};
use super::{NotPlanned, Preview};
use crate::cluster::node_client::{NodeClient, describe_pods_error};
use crate::cluster::paging::{self, Page};
use crate::inspect::lists::Refusal;
use crate::inspect::timeline::field_owners::owners;
use crate::model::api::{self, NodeExtendedResource, NodeExtendedResourceStatus, Reason};
use crate::model::node::{ApiNode, FactNames, Interner, Node};
use crate::model::pod::object::PodObject;
use crate::model::resource_name::is_extended;
use crate::planner::input::PodUsage;
use crate::planner::rules::{InvalidRule, Rule};
use crate::response;
use crate::response::error::describe;

/// The number of concurrent pod lists, which are the largest responses.
const PODS_AT_ONCE: usize = 4;

/// Why the cluster cannot be read.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// Rules cannot be listed.
    #[error("cannot list rules: {}", describe(.0))]
    Rules(#[source] Box<kube::Error>),
    /// Nodes cannot be listed.
    #[error("cannot list nodes: {}", describe(.0))]
    Nodes(#[source] Box<kube::Error>),
    /// The API server returned an object that is not a valid node.
    #[error("the API server returned {0}")]
    Odd(#[from] NotPlanned),
}

impl ClusterError {
    /// Returns the refusal, if the cluster does not grant permission to list rules.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Rules(error) if matches!(&**error, kube::Error::Api(status) if status.code == 403) => {
                Some(Refusal(describe(error)))
            }
            _ => None,
        }
    }
}

/// Lists the rules; `None` if the cluster does not serve the kind.
///
/// # Errors
/// If they cannot be listed.
pub async fn rules(client: &Client) -> Result<Option<ClusterRules>, ClusterError> {
    let api = Api::<DeserializeGuard<NodeExtendedResource>>::all(client.clone());
    let mut rules = ClusterRules::default();
    let on_page = |page: Page<DeserializeGuard<NodeExtendedResource>>| match page {
        Page::Restarted => rules = ClusterRules::default(),
        Page::Items(objects) => {
            for object in objects {
                // It counts as gone, as in the controller.
                match api::waits_for(object.meta()) {
                    Some(waits_for) => drop(rules.deleting.insert(object.name_any().into(), waits_for)),
                    None => rules.present.push(present(object)),
                }
            }
        }
    };
    match paging::list(&api, on_page).await {
        Ok(()) => Ok(Some(rules)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(ClusterError::Rules(Box::new(error))),
    }
}

/// Compiles a rule of the cluster.
pub(crate) fn present(object: DeserializeGuard<NodeExtendedResource>) -> ClusterRule {
    let name: Arc<str> = object.name_any().into();
    let created = object.meta().creation_timestamp.as_ref().map(|time| time.0);
    let generation = object.meta().generation;
    let edited = last_edit(object.meta());
    let (rule, resource, status) = match object.0 {
        Ok(object) => (Rule::new(&object), Some(object.spec.resource_name), object.status),
        Err(invalid) => (Err(InvalidRule::Malformed(invalid.error)), None, None),
    };
    let counts = status.as_ref().and_then(|status| status.nodes.as_ref());
    let observed = status.as_ref().and_then(|status| status.observed_generation);
    let standing = Standing {
        is_stale: observed != generation,
        conflicted: counts.map(|counts| counts.conflicted).unwrap_or_default(),
        edited,
        resource: resource.filter(|name| is_extended(name)).map(Into::into),
        unready: status.as_ref().and_then(unready),
    };
    let problems = status.into_iter().flat_map(|status| status.problems);
    let contested = problems.filter(|problem| problem.reason == Reason::Contested.as_str());
    let contested = contested.map(|problem| problem.node.into()).collect();
    ClusterRule { name, created, rule, contested, standing }
}

/// Returns why a rule is not Ready.
fn unready(status: &NodeExtendedResourceStatus) -> Option<Unready> {
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "False")?;
    Some(Unready { reason: ready.reason.clone(), message: ready.message.clone() })
}

/// Returns when a manager of the spec has last written the object, apart from its status.
fn last_edit(metadata: &ObjectMeta) -> Option<Timestamp> {
    let of_spec =
        owners(metadata).filter(|owner| owner.field(&["f:spec"]).is_some() && owner.entry().subresource.is_none());
    of_spec.filter_map(|owner| owner.entry().time.as_ref().map(|time| time.0)).max()
}

/// Lists and plans the nodes, with their pods if a value must be lowered. `progress` receives the number of planned
/// nodes.
///
/// # Errors
/// If nodes cannot be listed.
pub async fn nodes(
    client: &Client,
    preview: &mut Preview,
    mut progress: impl FnMut(usize),
) -> Result<(), ClusterError> {
    let mut interner = Interner::keeping(FactNames::All);
    let mut with_pods = Vec::new();
    let mut odd = None;
    let on_page = |page| match page {
        Page::Restarted => {
            preview.clear();
            with_pods.clear();
        }
        Page::Items(nodes) => {
            for node in nodes {
                if !preview.admits(&node) {
                    continue;
                }
                let node = Node::new(node, &mut interner);
                let plan = preview.plan(&node, PodUsage::NotFetched);
                if plan.needs_pods() {
                    with_pods.push(node);
                } else if let Err(error) = preview.add(&node, plan, None) {
                    odd = Some(error);
                }
            }
            progress(preview.len());
        }
    };
    let api = Api::<ApiNode>::all(client.clone());
    paging::list(&api, on_page).await.map_err(|error| ClusterError::Nodes(Box::new(error)))?;
    if let Some(odd) = odd {
        return Err(odd.into());
    }

    let mut with_pods = pin!(list_pods(client, with_pods, |node| &node.name));
    while let Some((node, pods)) = with_pods.next().await {
        let pod_usage = match &pods {
            Ok(pods) => PodUsage::Known(pods.requests.clone()),
            Err(why) => PodUsage::Unavailable(Arc::clone(why)),
        };
        let plan = preview.plan(&node, pod_usage);
        preview.add(&node, plan, pods.as_ref().ok())?;
        progress(preview.len());
    }
    Ok(())
}

/// Lists the unfinished pods of nodes, those of a few at the same time. Returns each node with its pods, or with why they
/// cannot be listed, in no particular order.
pub(crate) fn list_pods<T>(
    client: &Client,
    nodes: Vec<T>,
    name: impl Fn(&T) -> &Arc<str>,
) -> impl Stream<Item = (T, Result<NodePods, Arc<str>>)> {
    let requests = NodeClient::new(client.clone(), response::TIMEOUT);
    let lists = nodes.into_iter().map(move |node| {
        let pods = requests.clone().pod_objects(Arc::clone(name(&node)));
        async move {
            let on_node = |pods: Vec<PodObject>| {
                let mut on_node = NodePods::default();
                pods.iter().for_each(|pod| on_node.add(pod));
                on_node
            };
            (node, pods.await.map(on_node).map_err(|error| describe_pods_error(&error).into()))
        }
    });
    stream::iter(lists).buffer_unordered(PODS_AT_ONCE)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::inspect::diff::filter::Filter;
    use crate::inspect::diff::rules::Rules;
    use crate::inspect::diff::{Detail, Keep};
    use crate::model::ledger;

    /// A client of an API server with this answer to each path and query.
    fn client(answer: fn(&str) -> (u16, Value)) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, body) = answer(&request.uri().to_string());
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, tower::BoxError>(response.unwrap()) }
        });
        Client::new(service, "default")
    }

    fn rule(name: &str) -> Value {
        let spec = json!({"resourceName": "example.com/dongle", "quantity": 2, "allNodes": true});
        let metadata = json!({"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
        json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": metadata, "spec": spec})
    }

    #[tokio::test]
    async fn rules_of_all_pages_count_except_those_that_are_being_deleted() {
        let client = client(|path| {
            let mut deleted = rule("deleted");
            deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
            let (items, rest) = match path.contains("continue=") {
                false => (json!([rule("first"), deleted]), "more"),
                true => (json!([rule("second")]), ""),
            };
            (200, json!({"metadata": {"continue": rest}, "items": items}))
        });
        let rules = rules(&client).await.unwrap().unwrap().present;
        assert_eq!(rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>(), ["first", "second"]);
    }

    /// Pods that cannot be listed may use the value.
    #[tokio::test]
    async fn value_is_not_lowered_while_pods_cannot_be_listed() {
        let client = client(|path| {
            let status = json!({"kind": "Status", "status": "Failure", "message": "no right"});
            let amounts = json!({"example.com/dongle": "4"});
            let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
            let metadata = json!({"name": "node-1", "uid": "u", "annotations": {ledger::ANNOTATION: ledger}});
            let node = json!({"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}});
            match path.contains("/pods") {
                true => (403, status),
                false => (200, json!({"metadata": {}, "items": [node]})),
            }
        });
        let rules = vec![Rule::new(&serde_json::from_value(rule("dongle")).unwrap()).unwrap()];
        let detail = Detail { all: true, keep: Keep::Nodes };
        let mut preview = Preview::new(Rules::from_files(rules), Filter::default(), detail);
        nodes(&client, &mut preview, |_| {}).await.unwrap();
        let report = preview.finish().unwrap();
        assert_eq!(report.nodes[0].changes, [], "{report:?}");
    }
}
