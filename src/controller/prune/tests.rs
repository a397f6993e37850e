//! One node against an API server of a few lines, on a paused clock: for what a real one cannot be made
//! to answer.

use std::collections::VecDeque;

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::election::AtEnd;
use crate::model::ledger::ANNOTATION;
use crate::model::node::Interner;
use crate::planner::tests::try_apply;
use crate::reconciler::pruner::{CHANGING, TRIES};

/// What becomes of one PATCH.
enum Answer {
    /// It is applied, if its tests hold.
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
    /// It is applied, if its tests hold on the node as it is by now; null: it is gone.
    After(Value),
    /// It succeeds, and something in between has undone it on its way.
    Undone,
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

/// A node with two resources.
fn two() -> Value {
    let ledger =
        r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"},"example.com/key":{"quantity":"4","rule":"key"}}"#;
    let mut node = node("4", ledger);
    for map in ["capacity", "allocatable"] {
        node["status"][map]["example.com/key"] = json!("4");
    }
    node
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
            return Some(self.read());
        }
        self.log.push(format!("PATCH {}", String::from_utf8_lossy(body)));
        let failed = |code: u16, message: &str| (code, json!({"code": code, "message": message}));
        match self.answers.pop_front().expect("an answer for every patch") {
            Answer::Applied => Some(self.apply(body)),
            Answer::Rejected(code, message) => Some(failed(code, message)),
            Answer::RejectedAfter(node) => {
                self.node = node;
                Some(failed(403, "denied by a policy"))
            }
            Answer::Lost => None,
            Answer::AppliedUnanswered => {
                self.apply(body);
                None
            }
            Answer::LostAfter(node) => {
                self.node = node;
                None
            }
            Answer::After(node) => {
                self.node = node;
                Some(self.apply(body))
            }
            Answer::Undone => Some(self.read()),
        }
    }

    fn read(&self) -> (u16, Value) {
        let missing = json!({"code": 404, "reason": "NotFound", "message": "not found", "details": {"kind": "nodes"}});
        if self.node.is_null() { (404, missing) } else { (200, self.node.clone()) }
    }

    fn apply(&mut self, body: &[u8]) -> (u16, Value) {
        let patch: json_patch::Patch = serde_json::from_slice(body).unwrap();
        let mut node = self.node.clone();
        if !node.is_null() && try_apply(&mut node, &patch).is_err() {
            return (422, json!({"code": 422, "message": "the server rejected our request"}));
        }
        self.node = node;
        self.read()
    }
}

/// Prunes the node, and returns what came of it with the requests that it took.
async fn prune_all(
    node: Value,
    repair_ledgers: bool,
    answers: impl IntoIterator<Item = Answer>,
) -> (NodeResult, Vec<String>) {
    let answers = answers.into_iter().collect();
    let server = Server { node: node.clone(), answers, log: Vec::new(), on_get: None };
    let scope = Scope { repair_ledgers, ..Scope::everything() };
    let granted = futures::stream::iter([Permission::Granted(None)]);
    let (mut results, _, log) = prune_under(granted, server, vec![node], scope).await;
    assert_eq!((results.len(), &*results[0].node), (1, "node-1"));
    (results.remove(0), log)
}

/// The same: what was done, or why not.
async fn prune_with(
    node: Value,
    repair_ledgers: bool,
    answers: impl IntoIterator<Item = Answer>,
) -> (Result<Vec<String>, String>, Vec<String>) {
    let (NodeResult { changes, outcome, .. }, log) = prune_all(node, repair_ledgers, answers).await;
    let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
    let result = match outcome {
        NodeOutcome::Pruned => Ok(changes),
        NodeOutcome::Gone => Ok(vec!["gone".to_owned()]),
        NodeOutcome::Failed(message) => Err(message),
    };
    (result, log)
}

/// Prunes nodes with these permissions.
async fn prune_under(
    permissions: impl Stream<Item = Permission>,
    server: Server,
    nodes: Vec<Value>,
    scope: Scope,
) -> (Vec<NodeResult>, PruneEnd, Vec<String>) {
    let server = Arc::new(Mutex::new(server));
    let client = service(Arc::clone(&server));
    let planned = nodes.into_iter().map(|node| {
        let node = serde_json::from_value(node).unwrap();
        NodePrune::new(node, &scope, &mut Interner::default())
    });
    let (planned, mut results) = (planned.collect(), Vec::new());
    let ended = prune(client, scope, planned, permissions, |result| results.push(result)).await;
    let log = server.lock().unwrap().log.clone();
    (results, ended, log)
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
    assert!(result.unwrap_err().contains("no response within 15s"));
}

/// I10: what has become a value that pods keep is not withdrawn.
#[tokio::test(start_paused = true)]
async fn value_that_is_to_leave_by_now_is_left_with_the_reason() {
    let kept = LEDGER.replace("}}", r#","whenUnused":true}}"#);
    let (result, _) = prune_with(advertising(), false, [Answer::After(node("4", &kept))]).await;
    let message = result.unwrap_err();
    assert!(message.contains("the pods' requests"), "{message}");
}

/// Two resources, of which one is rejected wherever it is patched.
#[tokio::test(start_paused = true)]
async fn rejected_resource_holds_up_no_other() {
    let denied = || Answer::Rejected(403, "denied by a policy");
    let mut answers = vec![denied(), denied(), Answer::Applied];
    answers.extend((1..TRIES).map(|_| denied()));
    let (NodeResult { changes, outcome, .. }, log) = prune_all(two(), false, answers).await;
    let changes: Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes, ["withdrew example.com/key (rule key)"]);
    let NodeOutcome::Failed(message) = outcome else { panic!("{outcome:?}") };
    assert!(message.contains("denied by a policy"), "{message}");
    assert_eq!(patches(&log), 2 + TRIES, "one for both, one for the key: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn patch_that_is_undone_on_its_way_is_given_up() {
    let answers = (0..20).map(|_| Answer::Undone);
    let (NodeResult { changes, outcome, .. }, log) = prune_all(advertising(), false, answers).await;
    let NodeOutcome::Failed(message) = outcome else { panic!("{outcome:?}") };
    assert!(message.contains("something between") && changes.is_empty(), "{message}: {changes:?}");
    assert_eq!(patches(&log), TRIES, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn node_that_changes_again_and_again_is_given_up_with_that_reason() {
    let mut answers: Vec<_> = (0..5).map(|_| Answer::Rejected(500, "etcd is away")).collect();
    answers
        .extend((5..20).map(|value| Answer::After(node(&value.to_string(), &LEDGER.replace('4', &value.to_string())))));
    let (result, _) = prune_with(advertising(), false, answers).await;
    let message = result.unwrap_err();
    assert!(message.contains(CHANGING), "{message}");
}

/// The response for one resource is lost, and the other is rejected again and again.
#[tokio::test(start_paused = true)]
async fn what_was_done_is_reported_where_the_rest_failed() {
    let denied = || Answer::Rejected(403, "denied by a policy");
    let mut answers = vec![denied(), Answer::AppliedUnanswered, Answer::Applied];
    answers.extend((0..TRIES).map(|_| denied()));
    let granted = futures::stream::iter([Permission::Granted(None)]);
    let server = Server { node: two(), answers: answers.into(), log: Vec::new(), on_get: None };
    let (results, ended, log) = prune_under(granted, server, vec![two()], Scope::everything()).await;
    let changes: Vec<_> = results[0].changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes, [WITHDREW], "{log:?}");
    assert!(matches!(results[0].outcome, NodeOutcome::Failed(_)), "{results:?}");
    assert_eq!(ended.at_end, AtEnd::Release, "what was lost has been applied");
}

#[tokio::test(start_paused = true)]
async fn outage_ends_the_work_on_all_nodes() {
    let nodes = (0..200).map(|number| {
        let mut node = advertising();
        node["metadata"]["name"] = json!(format!("node-{number}"));
        node
    });
    let answers = (0..5000).map(|_| Answer::Rejected(503, "etcd is away")).collect();
    let server = Server { node: Value::Null, answers, log: Vec::new(), on_get: None };
    let granted = futures::stream::iter([Permission::Granted(None)]);
    let start = Instant::now();
    let (results, ended, log) = prune_under(granted, server, nodes.collect(), Scope::everything()).await;
    assert_eq!(results.len(), 200);
    assert!(start.elapsed() < Duration::from_secs(90), "{:?}", start.elapsed());
    assert!(patches(&log) < 200 * (TRIES - 1), "the limit falls: {}", patches(&log));
    for NodeResult { outcome, .. } in &results {
        let NodeOutcome::Failed(message) = outcome else { panic!("{outcome:?}") };
        assert!(message.contains("etcd is away"), "{message}");
    }
    assert_eq!(ended.at_end, AtEnd::Expire, "what answered 503 may still be applied");
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_an_error_at_once() {
    let message = "nodes \"node-1\" is forbidden: User \"u\" cannot patch resource \"nodes/status\"";
    let (result, log) = prune_with(advertising(), false, [Answer::Rejected(403, message)]).await;
    assert_eq!(result.unwrap_err(), format!("no permission to patch nodes/status: {message}"));
    assert_eq!(patches(&log), 1);
}

#[tokio::test(start_paused = true)]
async fn unanswered_patch_is_followed_by_a_fresh_plan() {
    let (result, log) = prune_with(advertising(), false, [Answer::Lost, Answer::Applied]).await;
    assert_eq!(result.unwrap(), [WITHDREW]);
    assert_eq!(log[0], log[1], "the first may be applied yet: the tests of one hold");

    // What the lost response was about has happened.
    let (result, log) = prune_with(advertising(), false, [Answer::AppliedUnanswered, Answer::Applied]).await;
    assert_eq!(result.unwrap(), [WITHDREW]);
    assert_eq!((patches(&log), log.last().map(String::as_str)), (2, Some("GET")), "{log:?}");

    // The node is another one by now: the last patch is about that.
    let ledger = r#"{"example.com/dongle":{"quantity":"9","rule":"other"}}"#;
    let answers = [Answer::LostAfter(node("9", ledger)), Answer::Applied, Answer::Applied];
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
    let answers = [Answer::LostAfter(other), Answer::Applied, Answer::Applied];
    let (result, _) = prune_with(advertising(), false, answers).await;
    assert_eq!(result.unwrap(), [WITHDREW, "withdrew example.com/key (rule key)"]);
}

#[tokio::test(start_paused = true)]
async fn unanswered_patch_of_a_node_created_again_is_not_reported() {
    let mut again = pruned();
    again["metadata"]["uid"] = json!("v");
    let answers = [Answer::LostAfter(again), Answer::Applied];
    let (result, _) = prune_with(advertising(), false, answers).await;
    assert!(result.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn node_that_is_gone_or_has_nothing_left_is_unchanged() {
    for (now, says) in [(pruned(), &[][..]), (Value::Null, &["gone"])] {
        let (result, _) = prune_with(advertising(), false, [Answer::After(now)]).await;
        assert_eq!(result.unwrap(), says);
    }
    // A patch that was denied has done nothing, whoever has.
    let answers = [Answer::RejectedAfter(pruned()), Answer::Applied];
    let (result, _) = prune_with(advertising(), false, answers).await;
    assert!(result.unwrap().is_empty());
}

mod leadership;
mod ledger_repair;
