//! Requests about a node and its pods, and the meaning of their responses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use json_patch::Patch as JsonPatch;
use k8s_openapi::api::core::v1::{Node as K8sNode, Pod as K8sPod};
use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams, Request as ApiRequest};
use kube::core::{Resource, Status};
use serde::de::IgnoredAny;
use serde_json::json;

use super::requests::{Page, RequestError, Requests as ApiRequests};
use crate::model::api::FIELD_MANAGER;
use crate::model::node::ApiNode;
use crate::model::pod::{Pod, PodList, Requests};

/// The default timeout of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);
/// The page size of the list of all pods.
pub(crate) const POD_PAGE_SIZE: u32 = 500;
/// Finished pods stay until they are deleted, and there may be many.
pub(crate) const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The label that [`NodeClient::try_label`] adds.
const SELF_TEST_LABEL: &str = "noderesource.dev/self-test";

/// Sends requests about nodes, each within a time limit.
#[derive(Clone)]
pub(crate) struct NodeClient {
    requests: ApiRequests,
}

/// The response to a patch.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Applied; this is the patched node.
    Patched(Box<ApiNode>),
    /// Not applied: the node has changed since it was observed.
    Stale {
        /// The current node.
        node: Box<ApiNode>,
        /// The message of the API server.
        message: String,
    },
    /// The node does not exist.
    NotFound,
    /// The controller has no permission to patch nodes.
    Forbidden(String),
    /// The API server rejects the change: by admission, or by the validation of the node.
    Rejected(String),
    /// Failed, but may succeed later.
    Failed {
        /// The error.
        message: String,
        /// The pause that the API server requests.
        retry_after: Option<Duration>,
        /// Whether the patch may have been applied anyway: there was no response, or the server failed.
        maybe_applied: bool,
    },
}

impl Reply {
    /// Returns the reply to a patch that failed because the node has changed, with the result of reading the node.
    pub(crate) fn stale(error: &RequestError, read: Result<Box<ApiNode>, Self>) -> Self {
        match read {
            Ok(node) => Self::Stale { node, message: error.to_string() },
            Err(Self::Failed { message, retry_after, .. }) => {
                Self::Failed { message, retry_after, maybe_applied: false }
            }
            Err(reply) => reply,
        }
    }

    /// Returns the result for the metrics.
    pub(crate) fn result(&self) -> &'static str {
        match self {
            Self::Patched(_) => "patched",
            Self::Stale { .. } => "stale",
            Self::NotFound => "not_found",
            Self::Forbidden(_) => "forbidden",
            Self::Rejected(_) | Self::Failed { .. } => "failed",
        }
    }
}

/// The unfinished pods that are assigned to one node, or to any.
#[derive(Debug, Default)]
pub(crate) struct PodsByNode {
    /// What they request on each node; nodes without such requests may be absent.
    pub(crate) requests: HashMap<Arc<str>, Requests>,
    /// How many they are on all nodes, if those of all nodes were listed.
    pub(crate) total: Option<usize>,
}

impl PodsByNode {
    /// The pods of one node.
    pub(crate) fn of(node: Arc<str>, requests: Requests) -> Self {
        Self { requests: [(node, requests)].into(), total: None }
    }

    /// Those of all nodes, as far as they are listed: none yet.
    pub(crate) fn all() -> Self {
        Self { total: Some(0), ..Self::default() }
    }

    pub(crate) fn add(&mut self, pod: &Pod) {
        self.total = self.total.map(|total| total + 1);
        if let Some(node) = pod.node()
            && Requests::of(pod).iter().next().is_some()
        {
            self.requests.entry(node.into()).or_default().add_pod(pod);
        }
    }
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
    pub(crate) async fn pods(self, node: Arc<str>) -> Result<Requests, RequestError> {
        let fields = format!("spec.nodeName={node},{UNFINISHED}");
        let pods: PodList = self.requests.send(pods().list(&ListParams::default().fields(&fields))).await?;
        Ok(Requests::from_pods(&pods))
    }

    /// Returns the unfinished pods that are assigned to nodes, from a list in pages.
    pub(crate) async fn pods_by_node(self) -> Result<PodsByNode, RequestError> {
        let fields = format!("spec.nodeName!=,{UNFINISHED}");
        let mut page = ListParams::default().fields(&fields).limit(POD_PAGE_SIZE);
        let mut listed = PodsByNode::all();
        let mut restarted = false;
        loop {
            let pods: Page<Pod> = match self.requests.send(pods().list(&page)).await {
                // The list took so long that its rest has expired: it is started again, once.
                Err(error) if error.is_expired() && page.continue_token.is_some() && !restarted => {
                    restarted = true;
                    listed = PodsByNode::all();
                    page.continue_token = None;
                    continue;
                }
                pods => pods?,
            };
            pods.items.iter().for_each(|pod| listed.add(pod));
            page.continue_token = pods.next();
            if page.continue_token.is_none() {
                return Ok(listed);
            }
        }
    }
}

/// Describes why pods cannot be listed.
pub(crate) fn describe_pods_error(error: &RequestError) -> String {
    match error {
        RequestError::Api { code: StatusCode::FORBIDDEN, status, .. } => {
            format!("no right to list pods: {}; grant the verb list on pods", status.message)
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

impl RequestError {
    /// Returns whether the node differs from what the patch assumed: a conflict of resourceVersion or uid, or a failed
    /// `test`. The latter is a 422 without causes; with causes, the value is rejected.
    pub(crate) fn is_stale(&self) -> bool {
        match self {
            Self::Api { code: StatusCode::CONFLICT, .. } => true,
            Self::Api { code: StatusCode::UNPROCESSABLE_ENTITY, status, .. } => {
                status.details.as_ref().is_none_or(|details| details.causes.is_empty())
            }
            _ => false,
        }
    }
}

/// Returns whether the node itself is missing: a proxy or an admission webhook may respond with 404 too.
fn is_missing_node(code: StatusCode, status: &Status) -> bool {
    let kind = status.details.as_ref().map(|details| details.kind.as_str());
    code == StatusCode::NOT_FOUND && status.reason == "NotFound" && kind == Some("nodes")
}

/// Returns whether the permission is missing. Admission responds with 403 too, about the one object.
fn is_missing_right(code: StatusCode, status: &Status) -> bool {
    code == StatusCode::FORBIDDEN && status.message.contains("cannot patch resource")
}

/// Returns whether the API server rejects the content of the request, and would do so again.
fn is_rejected(code: StatusCode) -> bool {
    matches!(
        code,
        StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

impl From<RequestError> for Reply {
    fn from(error: RequestError) -> Self {
        let (message, retry_after) = (error.to_string(), error.retry_after());
        match error {
            RequestError::Api { code, status, .. } if is_missing_node(code, &status) => Self::NotFound,
            RequestError::Api { code, status, .. } if is_missing_right(code, &status) => {
                Self::Forbidden(status.message)
            }
            RequestError::Api { code, .. } if is_rejected(code) => Self::Rejected(message),
            RequestError::Api { code, .. } => {
                Self::Failed { message, retry_after, maybe_applied: code.is_server_error() }
            }
            RequestError::Transport(message) => Self::Failed { message, retry_after: None, maybe_applied: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::header::RETRY_AFTER;
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// The API server's answer about a node that does not exist.
    const GONE: &str = r#"{"kind":"Status","reason":"NotFound","code":404,"message":"nodes \"n\" not found",
        "details":{"name":"n","kind":"nodes"}}"#;

    /// A client whose requests are answered in turn by these; `None` is no answer at all. What it
    /// asks is kept. The answers are those of a real API server: `tests/e2e/answers.rs` holds them
    /// against one.
    fn answering(answers: Vec<Option<(u16, &str, &str)>>) -> (NodeClient, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut answers: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.map(|(code, retry, body)| (code, retry.to_owned(), body.to_owned())))
            .rev()
            .collect();
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            log.lock().unwrap().push(line);
            let answer = answers.pop().expect("an answer for every request");
            async move {
                let Some((code, retry, body)) = answer else {
                    return std::future::pending().await;
                };
                let mut response = Response::builder().status(code);
                if !retry.is_empty() {
                    response = response.header(RETRY_AFTER, retry);
                }
                Ok::<_, tower::BoxError>(response.body(Body::from(body.into_bytes()))?)
            }
        });
        let client = Client::new(service, "default");
        (NodeClient::new(client, Duration::from_secs(15)), asked)
    }

    async fn reply(answers: Vec<Option<(u16, &str, &str)>>) -> (Reply, Vec<String>) {
        let (requests, asked) = answering(answers);
        let reply = requests.patch("node-1".into(), JsonPatch::default()).await;
        let asked = asked.lock().unwrap().clone();
        (reply, asked)
    }

    fn status(code: u16, message: &str, details: &serde_json::Value) -> String {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "code": code, "details": details,
        })
        .to_string()
    }

    const NODE: &str = r#"{"metadata": {"name": "node-1", "uid": "u", "resourceVersion": "7"}}"#;
    const PATCH: &str = "PATCH /api/v1/nodes/node-1/status?&fieldManager=node-resource-advertiser";
    const GET: &str = "GET /api/v1/nodes/node-1";

    #[tokio::test]
    async fn successful_patch_costs_one_request() {
        let (reply, asked) = reply(vec![Some((200, "", NODE))]).await;
        assert!(matches!(reply, Reply::Patched(_)), "{reply:?}");
        assert_eq!(asked, [PATCH]);
    }

    #[tokio::test]
    async fn label_is_tried_as_a_dry_run_alone() {
        let (requests, asked) = answering(vec![Some((200, "", NODE))]);
        requests.try_label("node-1".into(), "a".to_owned()).await.unwrap();
        let dry_run = "PATCH /api/v1/nodes/node-1/status?&dryRun=All&fieldManager=node-resource-advertiser";
        assert_eq!(*asked.lock().unwrap(), [dry_run]);
    }

    #[tokio::test]
    async fn stale_patch_is_followed_by_a_get() {
        let failed_test = status(422, "the server rejected our request", &json!({}));
        let conflict = status(409, "Operation cannot be fulfilled", &json!({"name": "node-1"}));
        for (code, body) in [(422, failed_test), (409, conflict)] {
            let (reply, asked) = reply(vec![Some((code, "", &body)), Some((200, "", NODE))]).await;
            let Reply::Stale { message, .. } = &reply else { panic!("{reply:?}") };
            assert!(message.starts_with(&code.to_string()), "{message}");
            assert_eq!(asked, [PATCH, GET]);
            let (reply, _) = self::reply(vec![Some((code, "", &body)), Some((404, "", GONE))]).await;
            assert!(matches!(reply, Reply::NotFound), "{reply:?}");
            // A 404 of something in between says nothing about the node, and the patch was rejected.
            let (reply, _) = self::reply(vec![Some((code, "", &body)), Some((404, "", ""))]).await;
            assert!(matches!(reply, Reply::Failed { maybe_applied: false, .. }), "{reply:?}");
        }
    }

    #[tokio::test]
    async fn rejected_value_fails_with_the_reason_and_no_get() {
        let causes = json!({"causes": [{"reason": "FieldValueInvalid", "field": "status.capacity"}]});
        let invalid = status(422, "Node \"node-1\" is invalid: must be an integer", &causes);
        let (reply, asked) = reply(vec![Some((422, "", &invalid))]).await;
        let Reply::Rejected(message) = reply else { panic!("{reply:?}") };
        assert!(message.contains("must be an integer"), "{message}");
        assert_eq!(asked, [PATCH], "the picture was not stale");
    }

    #[tokio::test]
    async fn retry_after_of_the_apiserver_is_honoured() {
        let in_details = status(500, "try again", &json!({"retryAfterSeconds": 3}));
        for (code, header, body, seconds) in [
            (429, "7", "Too many requests, please try again later.", Some(7)),
            (500, "", in_details.as_str(), Some(3)),
            (503, "", "", None),
            (429, "36000", "Come back tomorrow.", Some(300)),
        ] {
            let (reply, _) = reply(vec![Some((code, header, body))]).await;
            let Reply::Failed { message, retry_after, .. } = reply else { panic!("{reply:?}") };
            assert!(message.starts_with(&code.to_string()), "{message}");
            assert_eq!(retry_after, seconds.map(Duration::from_secs));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn request_without_response_times_out() {
        let (reply, _) = reply(vec![None]).await;
        let Reply::Failed { message, .. } = reply else { panic!("{reply:?}") };
        assert_eq!(message, "no response within 15s");
    }

    #[tokio::test]
    async fn missing_permission_is_forbidden_and_webhook_denial_is_a_rejection() {
        let says = "nodes \"node-1\" is forbidden: User \"u\" cannot patch resource \"nodes/status\"";
        let (reply, _) = reply(vec![Some((403, "", &status(403, says, &json!({}))))]).await;
        let Reply::Forbidden(message) = reply else { panic!("{reply:?}") };
        assert_eq!(message, says);

        let says = "admission webhook \"x\" denied the request";
        let (reply, _) = self::reply(vec![Some((403, "", &status(403, says, &json!({}))))]).await;
        let Reply::Rejected(message) = reply else { panic!("{reply:?}") };
        assert!(message.contains(says), "it is about this node: {message}");
    }
}
