//! Sends requests and returns their completions. The reconciler has already decided about leadership, slots and pauses;
//! the executor only enforces deadlines.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use json_patch::Patch as JsonPatch;
use k8s_openapi::api::events::v1::Event as KubeEvent;
use kube::api::{Patch, PatchParams, PostParams, Request as ApiRequest};
use kube::core::Resource as _;
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use tokio::time::Instant;

use crate::cluster::lease;
use crate::cluster::node_client::NodeClient;
use crate::cluster::requests::Requests;
use crate::model::api::{FIELD_MANAGER, NodeExtendedResource, NodeExtendedResourceStatus};
use crate::model::resource_version;
use crate::reconciler::effect::{Completion, Effect, Request, WrittenStatus};
use crate::reconciler::rules::ObservedStatus;
use crate::reconciler::status::status_patch;
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;

/// A request in flight.
pub(super) type InFlight = BoxFuture<'static, Completion>;

pub(super) struct Executor {
    client: Client,
}

impl Executor {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Sends a request. The future completes by the deadline of the request.
    pub(super) fn send(&self, request: Request) -> InFlight {
        let Request { effect, deadline } = request;
        let started = Instant::now();
        let timeout = deadline.saturating_duration_since(started);
        let requests = Requests::new(self.client.clone(), timeout);
        let nodes = NodeClient::new(self.client.clone(), timeout);
        match effect {
            Effect::WriteLease(write) => {
                let started = write.sent;
                let write = lease::send(&self.client, write, timeout);
                let completion = move |(written, found): (_, Option<_>)| {
                    let found = found.map(Box::new);
                    Completion::LeaseWritten { started, written, found }
                };
                write.map(completion).boxed()
            }
            Effect::ReleaseLease(election) => {
                let ended = lease::end_election(self.client.clone(), *election);
                ended.map(|_| Completion::LeaseReleased).boxed()
            }
            Effect::PatchNode { slot, node, patch } => async move {
                let reply = patch_node(nodes, Arc::clone(&node), patch, deadline, timeout).await;
                Completion::NodePatched { slot, node, reply }
            }
            .boxed(),
            Effect::PatchStatus { slot, rule, uid, status } => async move {
                let result = patch_status(requests, &rule, uid.as_deref(), &status).await;
                Completion::StatusPatched { slot, rule, uid, result }
            }
            .boxed(),
            Effect::CreateEvent { slot, event } => async move {
                let result = create_event(requests, &event).await;
                Completion::EventCreated { slot, event, result }
            }
            .boxed(),
            Effect::TestConfinement { number, node, label } => {
                let tested = nodes.try_label(node, label);
                tested.map(move |reply| Completion::ConfinementTested { number, reply }).boxed()
            }
        }
    }
}

async fn patch_node(
    nodes: NodeClient,
    node: Arc<str>,
    patch: JsonPatch,
    deadline: Instant,
    timeout: Duration,
) -> Reply {
    let failed = |message, maybe_applied| Reply::Failed { message, retry_after: None, maybe_applied };
    // The process may have been suspended since the decision.
    if deadline <= Instant::now() {
        return failed("the patch was not sent in time".to_owned(), false);
    }
    let reply = tokio::time::timeout_at(deadline, nodes.patch(node, patch)).await;
    reply.unwrap_or_else(|_| failed(format!("no response within {timeout:?}"), true))
}

async fn patch_status(
    requests: Requests,
    rule: &str,
    uid: Option<&str>,
    status: &NodeExtendedResourceStatus,
) -> Result<WrittenStatus, RequestError> {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let rules = ApiRequest::new(NodeExtendedResource::url_path(&(), None));
    let request = status_patch(uid, status)
        .map_err(kube::core::request::Error::SerializeBody)
        .and_then(|patch| rules.patch_subresource("status", rule, &params, &Patch::Json::<()>(patch)));
    let stored = requests.send::<Stored>(request).await?;
    let version = stored.metadata.resource_version.as_deref().and_then(resource_version::number);
    Ok(WrittenStatus { status: ObservedStatus::new(status), version })
}

/// A rule in the response to a write, of which only the version matters.
#[derive(Deserialize)]
struct Stored {
    metadata: StoredMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMetadata {
    resource_version: Option<String>,
}

async fn create_event(requests: Requests, event: &KubeEvent) -> Result<(), RequestError> {
    let namespace = event.namespace();
    let events = ApiRequest::new(KubeEvent::url_path(&(), namespace.as_deref()));
    let request = match serde_json::to_vec(event) {
        Ok(body) => events.create(&PostParams::default(), body),
        Err(error) => Err(kube::core::request::Error::SerializeBody(error)),
    };
    requests.send::<serde::de::IgnoredAny>(request).await.map(|_| ())
}
