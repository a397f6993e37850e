//! One node against an API server of a few lines, on a paused clock: for what a real one cannot be made
//! to answer.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::model::ledger::ANNOTATION;

/// What becomes of one PATCH.
enum Answer {
    /// It succeeds.
    Applied,
    /// It is rejected with this code and message.
    Rejected(u16, &'static str),
    /// It is rejected by admission, and by then another field manager has made the node like this.
    RejectedAfter(Value),
    /// There is no response, and nothing is written.
    Lost,
    /// It succeeds, but the response is lost.
    AppliedUnanswered,
    /// There is no response, and by then another field manager has made the node like this.
    LostAfter(Value),
    /// A `test` fails, since the node is like this by now; null: it is gone.
    Stale(Value),
}

/// The node of the API server, null once it is gone, and the requests.
struct Server {
    node: Value,
    answers: VecDeque<Answer>,
    log: Vec<String>,
    /// What else happens when the node is read.
    on_get: Option<Box<dyn Fn() + Send>>,
}

fn node(amount: &str, annotation: &str) -> Value {
    json!({
        "metadata": {
            "name": "node-1", "uid": "u", "resourceVersion": "1",
            "annotations": {ANNOTATION: annotation},
            "managedFields": [{
                "manager": "node-resource-advertiser",
                "fieldsV1": {"f:status": {"f:capacity": {"f:example.com/dongle": {}}}},
            }],
        },
        "status": {
            "capacity": {"example.com/dongle": amount},
            "allocatable": {"example.com/dongle": amount},
        },
    })
}

const LEDGER: &str = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;

fn advertising() -> Value {
    node("4", LEDGER)
}

fn pruned() -> Value {
    json!({"metadata": {"name": "node-1", "uid": "u", "resourceVersion": "2", "annotations": {}}})
}

fn service(server: Arc<Mutex<Server>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (parts, body) = request.into_parts();
            let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
            let answer = server.lock().unwrap().answer(&parts.method, &body);
            let Some((code, body)) = answer else { return std::future::pending().await };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    Client::new(service, "default")
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8]) -> Option<(u16, Value)> {
        if *method == Method::GET {
            self.log.push("GET".to_owned());
            if let Some(on_get) = &self.on_get {
                on_get();
            }
            let missing = json!({"code": 404, "reason": "NotFound", "message": "not found", "details": {"kind": "nodes"}});
            return Some(if self.node.is_null() {
                (404, missing)
            } else {
                (200, self.node.clone())
            });
        }
        self.log.push(format!("PATCH {}", String::from_utf8_lossy(body)));
        match self.answers.pop_front().expect("an answer for every patch") {
            Answer::Applied => {
                self.node = pruned();
                Some((200, self.node.clone()))
            }
            Answer::Rejected(code, message) => {
                Some((code, json!({"code": code, "message": message})))
            }
            Answer::RejectedAfter(node) => {
                self.node = node;
                Some((403, json!({"code": 403, "message": "denied by a policy"})))
            }
            Answer::Lost => None,
            Answer::AppliedUnanswered => {
                self.node = pruned();
                None
            }
            Answer::LostAfter(node) => {
                self.node = node;
                None
            }
            Answer::Stale(node) => {
                self.node = node;
                Some((422, json!({"code": 422, "message": "the server rejected our request"})))
            }
        }
    }
}

/// Prunes the node, and returns the result with the requests that it took.
async fn prune_with(
    node: Value,
    repair_ledgers: bool,
    answers: impl IntoIterator<Item = Answer>,
) -> (Result<Vec<String>, String>, Vec<String>) {
    let answers = answers.into_iter().collect();
    let server = Arc::new(Mutex::new(Server { node, answers, log: Vec::new(), on_get: None }));
    let client = service(Arc::clone(&server));
    let scope = Scope { nodes: vec!["node-1".to_owned()], repair_ledgers, ..Scope::default() };
    let plan = plan_prune(&client, &scope, |_| {}).await.unwrap();
    let guard = LeaseGuard::none();
    let mut results = Vec::new();
    prune(&client, &scope, plan.planned, &guard, |result| results.push(result)).await;
    let [NodeResult { node, result }] = &results[..] else { panic!("{results:?}") };
    assert_eq!(&**node, "node-1");
    let texts = |pruned: &Pruned| match pruned {
        Pruned::Changed(changes) => changes.iter().map(ToString::to_string).collect(),
        unchanged => vec![format!("{unchanged:?}")],
    };
    let log = server.lock().unwrap().log.split_off(1);
    (result.as_ref().map(texts).map_err(Clone::clone), log)
}

fn patches(log: &[String]) -> usize {
    log.iter().filter(|line| line.starts_with("PATCH")).count()
}

const WITHDREW: &str = "withdrew example.com/dongle (rule dongle)";

#[tokio::test(start_paused = true)]
async fn failed_patch_is_sent_again() {
    for (code, message) in [(500, "etcd is away"), (429, "later"), (403, "denied by a policy")] {
        let answers = [Answer::Rejected(code, message), Answer::Applied];
        let (result, log) = prune_with(advertising(), false, answers).await;
        assert_eq!(result.unwrap(), [WITHDREW]);
        assert_eq!(patches(&log), 2, "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn patch_that_always_fails_is_an_error_with_the_reason() {
    let answers = (0..20).map(|_| Answer::Rejected(403, "denied by a policy"));
    let (result, log) = prune_with(advertising(), false, answers).await;
    let message = result.unwrap_err();
    assert!(message.contains("denied by a policy"), "{message}");
    assert_eq!(patches(&log), TRIES, "{log:?}");
    let (result, _) = prune_with(advertising(), false, (0..20).map(|_| Answer::Lost)).await;
    assert!(result.unwrap_err().contains("no answer within 15s"));
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_an_error_at_once() {
    let message =
        "nodes \"node-1\" is forbidden: User \"u\" cannot patch resource \"nodes/status\"";
    let (result, log) = prune_with(advertising(), false, [Answer::Rejected(403, message)]).await;
    assert_eq!((result.unwrap_err().as_str(), patches(&log)), (message, 1));
}

#[tokio::test(start_paused = true)]
async fn unanswered_patch_is_followed_by_a_fresh_plan() {
    let (result, log) = prune_with(advertising(), false, [Answer::Lost, Answer::Applied]).await;
    assert_eq!(result.unwrap(), [WITHDREW]);
    assert_eq!((log[1].as_str(), patches(&log)), ("GET", 2), "{log:?}");

    // What the lost response was about has happened.
    let (result, log) = prune_with(advertising(), false, [Answer::AppliedUnanswered]).await;
    assert_eq!(result.unwrap(), [WITHDREW]);
    assert_eq!(patches(&log), 1, "{log:?}");

    // The node is another one by now: the second patch is about that.
    let ledger = r#"{"example.com/dongle":{"quantity":"9","rule":"other"}}"#;
    let answers = [Answer::LostAfter(node("9", ledger)), Answer::Applied];
    let (result, log) = prune_with(advertising(), false, answers).await;
    assert_eq!(result.unwrap(), ["withdrew example.com/dongle (rule other)"]);
    assert!(log.last().unwrap().contains("other"), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_of_an_unanswered_patch_are_reported_with_those_of_the_next() {
    let mut other = node("2", r#"{"example.com/key":{"quantity":"2","rule":"key"}}"#);
    for map in ["capacity", "allocatable"] {
        other["status"][map] = json!({"example.com/key": "2"});
    }
    let answers = [Answer::LostAfter(other), Answer::Applied];
    let (result, _) = prune_with(advertising(), false, answers).await;
    assert_eq!(result.unwrap(), [WITHDREW, "withdrew example.com/key (rule key)"]);
}

#[tokio::test(start_paused = true)]
async fn unanswered_patch_of_a_node_created_again_is_not_reported() {
    let mut again = pruned();
    again["metadata"]["uid"] = json!("v");
    let (result, _) = prune_with(advertising(), false, [Answer::LostAfter(again)]).await;
    assert_eq!(result.unwrap(), ["NothingLeft"]);
}

#[tokio::test(start_paused = true)]
async fn node_that_is_gone_or_has_nothing_left_is_unchanged() {
    for (now, says) in [(pruned(), "NothingLeft"), (Value::Null, "Gone")] {
        let (result, _) = prune_with(advertising(), false, [Answer::Stale(now)]).await;
        assert_eq!(result.unwrap(), [says]);
    }
    // A patch that was denied has done nothing, whoever has.
    let (result, _) = prune_with(advertising(), false, [Answer::RejectedAfter(pruned())]).await;
    assert_eq!(result.unwrap(), ["NothingLeft"]);
}

/// A node whose annotation cannot be read, with the value of each map.
fn unreadable(capacity: &str, allocatable: &str) -> Value {
    let mut node = node(capacity, "not json");
    node["status"]["allocatable"]["example.com/dongle"] = json!(allocatable);
    node
}

#[tokio::test(start_paused = true)]
async fn ledger_repair_tests_the_values_it_removes() {
    let (result, log) = prune_with(unreadable("4", "3"), true, [Answer::Applied]).await;
    assert_eq!(result.unwrap(), ["withdrew example.com/dongle (rule unknown)"]);
    for (map, value) in [("capacity", "4"), ("allocatable", "3")] {
        let test = json!({
            "op": "test", "path": format!("/status/{map}/example.com~1dongle"), "value": value,
        });
        let patch: Value = serde_json::from_str(log[0].trim_start_matches("PATCH ")).unwrap();
        assert!(patch.as_array().unwrap().contains(&test), "{patch:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn ledger_repair_goes_by_the_present_managed_fields() {
    let mut taken = unreadable("7", "7");
    taken["metadata"]["managedFields"][0]["manager"] = json!("another");
    let answers = [Answer::Stale(taken), Answer::Applied];
    let (result, log) = prune_with(unreadable("4", "4"), true, answers).await;
    assert_eq!(result.unwrap(), ["removed the annotation"]);
    assert!(!log.last().unwrap().contains("dongle"), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn rules_that_no_node_lists_are_reported() {
    let server =
        Server { node: advertising(), answers: VecDeque::new(), log: Vec::new(), on_get: None };
    let rules = ["dongle", "nosuch"].map(str::to_owned).into();
    let withdrawal = Withdrawal { rules, zeros: false };
    let scope = Scope { nodes: vec!["node-1".to_owned()], withdrawal, ..Scope::default() };
    let client = service(Arc::new(Mutex::new(server)));
    let plan = plan_prune(&client, &scope, |_| {}).await.unwrap();
    assert_eq!(plan.unlisted_rules.into_iter().collect::<Vec<_>>(), ["nosuch"]);
}

mod leadership;
