//! Requests about a node and its pods.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use json_patch::Patch as JsonPatch;
use k8s_openapi::api::core::v1::{Node as K8sNode, Pod as K8sPod};
use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams, Request as ApiRequest};
use kube::core::{ObjectList, Resource};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

use super::requests::Requests as ApiRequests;
use crate::model::api::FIELD_MANAGER;
use crate::model::node::ApiNode;
use crate::model::pod::NodeRequests;
use crate::model::pod::object::PodObject;
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;

/// The page size of the list of all pods.
pub(crate) const POD_PAGE_SIZE: u32 = 500;
/// Finished pods stay until they are deleted, and there may be many.
pub(crate) const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Which pods use a node: those that are bound to one, and have not finished.
pub(crate) const BOUND: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
/// The page size of the first list of a watch of all pods. For each page, the API server copies all pods that are left.
pub(crate) const BOUND_PAGE_SIZE: u32 = 2500;

/// The label that [`NodeClient::try_label`] adds.
const SELF_TEST_LABEL: &str = "noderesource.dev/self-test";

/// Sends requests about nodes, each within a time limit.
#[derive(Clone)]
pub(crate) struct NodeClient {
    requests: ApiRequests,
}

impl NodeClient {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self { requests: ApiRequests::new(client, timeout) }
    }

    /// Patches a node's status. If a `test` operation of the patch fails, reads the current node.
    pub(crate) async fn patch(self, node: Arc<str>, patch: JsonPatch) -> Reply {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = nodes().patch_subresource("status", &node, &params, &Patch::Json::<()>(patch));
        match self.requests.send(request).await {
            Ok(node) => Reply::Patched(Box::new(node)),
            Err(error) if error.is_stale() => Reply::stale(&error, self.get(&node).await),
            Err(error) => error.into(),
        }
    }

    /// Adds a label to a node through a patch of its status, as a dry run: the API server runs every check, and stores
    /// nothing.
    pub(crate) async fn try_label(self, node: Arc<str>, value: String) -> Result<(), RequestError> {
        let params =
            PatchParams { dry_run: true, field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        // Unlike a JSON Patch, a merge patch does not depend on the contents of the node.
        let label = json!({"metadata": {"labels": {SELF_TEST_LABEL: value}}});
        let request = nodes().patch_subresource("status", &node, &params, &Patch::Merge(label));
        self.requests.send::<IgnoredAny>(request).await.map(drop)
    }

    /// Reads a node. An error is never [`Reply::Patched`] or [`Reply::Stale`].
    pub(crate) async fn get(&self, node: &str) -> Result<Box<ApiNode>, Reply> {
        let request = nodes().get(node, &GetParams::default());
        self.requests.send(request).await.map(Box::new).map_err(Reply::from)
    }

    /// Returns the requests of the unfinished pods that are assigned to a node.
    pub(crate) async fn pods(self, node: Arc<str>) -> Result<NodeRequests, RequestError> {
        Ok(NodeRequests::from_pods(&self.list_pods(&node).await?))
    }

    /// Returns the unfinished pods that are assigned to a node.
    pub(crate) async fn pod_objects(self, node: Arc<str>) -> Result<Vec<PodObject>, RequestError> {
        Ok(self.list_pods::<ObjectList<PodObject>>(&node).await?.items)
    }

    async fn list_pods<L: DeserializeOwned>(&self, node: &str) -> Result<L, RequestError> {
        let fields = format!("spec.nodeName={node},{UNFINISHED}");
        self.requests.send(pods().list(&ListParams::default().fields(&fields))).await
    }
}

/// Describes why pods cannot be listed.
pub(crate) fn describe_pods_error(error: &RequestError) -> String {
    match error {
        RequestError::Api { code: StatusCode::FORBIDDEN, status, .. } => {
            format!("no permission to list pods: {}; grant the verb list on pods", status.message)
        }
        error => format!("cannot list pods: {error}"),
    }
}

fn pods() -> ApiRequest {
    ApiRequest::new(K8sPod::url_path(&(), None))
}

fn nodes() -> ApiRequest {
    ApiRequest::new(K8sNode::url_path(&(), None))
}

#[cfg(test)]
mod tests;
