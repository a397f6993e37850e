//! The meaning of responses.

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

/// The status of an admission webhook's response is passed on, with the webhook's name.
#[tokio::test]
async fn denial_by_a_webhook_for_now_is_about_the_one_node() {
    let says = "admission webhook \"x.example.com\" denied the request: too many changes of this node";
    let details = json!({"retryAfterSeconds": 300});
    for code in [429, 503] {
        let (reply, _) = reply(vec![Some((code, "300", &status(code, says, &details)))]).await;
        let Reply::Deferred { message, retry_after } = reply else { panic!("{reply:?}") };
        assert!(message.contains(says), "{message}");
        assert_eq!(retry_after, Some(Duration::from_secs(300)));
    }
    // A webhook that cannot be called is needed for every node.
    let says = "Internal error occurred: failed calling webhook \"x.example.com\": connection refused";
    let (reply, _) = reply(vec![Some((500, "", &status(500, says, &json!({}))))]).await;
    assert!(matches!(reply, Reply::Failed { .. }), "{reply:?}");
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
