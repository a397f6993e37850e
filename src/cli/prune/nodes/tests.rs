use http::Response;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::planner::withdraw::{Recorded, Withdrawal};

fn named(name: &str) -> NodeChoice {
    NodeChoice { names: vec![name.to_owned()], ..NodeChoice::default() }
}

fn labelled(labels: &str) -> NodeChoice {
    NodeChoice { labels: labels.parse().unwrap(), ..NodeChoice::default() }
}

#[tokio::test]
async fn rules_that_no_node_lists_are_reported() {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let node = json!({"metadata": {
        "name": "node-1", "uid": "u", "annotations": {"noderesource.dev/advertised": ledger},
    }});
    let service = tower::service_fn(move |_| {
        let body = Body::from(node.to_string().into_bytes());
        async { Ok::<_, tower::BoxError>(Response::new(body)) }
    });
    let rules = ["dongle", "nosuch"].map(str::to_owned).into();
    let withdrawal = Withdrawal { recorded: Recorded::OfRules(rules), ..Withdrawal::default() };
    let scope = Scope { withdrawal, ..Scope::default() };
    let target = Target { choice: named("node-1"), scope };
    let plan = plan_prune(&Client::new(service, "default"), &target, |_| {}).await.unwrap();
    assert_eq!(plan.unlisted_rules.into_iter().collect::<Vec<_>>(), ["nosuch"]);
}

/// A kubelet has reset what the ledger records: that zero is none that a device plugin left.
#[tokio::test]
async fn zeros_that_stay_are_those_that_no_ledger_records() {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let zeros = json!({"example.com/dongle": "0", "example.com/old": "0"});
    let node = json!({
        "metadata": {"name": "node-1", "uid": "u", "annotations": {"noderesource.dev/advertised": ledger}},
        "status": {"capacity": zeros, "allocatable": zeros},
    });
    for rule in ["dongle", "other"] {
        let node = node.clone();
        let service = tower::service_fn(move |_| {
            let body = Body::from(node.to_string().into_bytes());
            async { Ok::<_, tower::BoxError>(Response::new(body)) }
        });
        let recorded = Recorded::OfRules([rule.to_owned()].into());
        let withdrawal = Withdrawal { recorded, ..Withdrawal::default() };
        let scope = Scope { withdrawal, ..Scope::default() };
        let target = Target { choice: named("node-1"), scope };
        let plan = plan_prune(&Client::new(service, "default"), &target, |_| {}).await.unwrap();
        let zeros: Vec<_> = plan.zeros.iter().map(|(_, resource)| &**resource).collect();
        assert_eq!(zeros, ["example.com/old"], "{rule}");
    }
}

/// What was read before a list expired and began again is not counted twice.
#[tokio::test]
async fn nodes_are_planned_once_if_their_list_begins_again() {
    let mut lists = 0;
    let service = tower::service_fn(move |request: http::Request<Body>| {
        lists += 1;
        let node = |name: &str| json!({"metadata": {"name": name, "uid": name}});
        let is_rest = request.uri().query().unwrap_or_default().contains("continue=");
        let (code, body) = match (is_rest, lists) {
            (false, _) => (200, json!({"metadata": {"continue": "more"}, "items": [node("node-1")]})),
            (true, 2) => (410, json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"})),
            (true, _) => (200, json!({"metadata": {}, "items": [node("node-2")]})),
        };
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async { Ok::<_, tower::BoxError>(response.unwrap()) }
    });
    let plan = plan_prune(&Client::new(service, "default"), &Target::default(), |_| {}).await.unwrap();
    assert_eq!(plan.nodes, 2);
}

#[tokio::test]
async fn nodes_of_a_plan_are_in_the_order_of_other_commands() {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let zeros = json!({"example.com/old": "0"});
    let node = |name: &str, ledger: &str| {
        json!({
            "metadata": {"name": name, "uid": name, "annotations": {"noderesource.dev/advertised": ledger}},
            "status": {"capacity": zeros, "allocatable": zeros},
        })
    };
    // As an API server lists them.
    let items = [node("a-10", "{"), node("a-9", "{"), node("n-1", ledger), node("n-10", ledger), node("n-2", ledger)];
    let list = json!({"metadata": {}, "items": items});
    let service = tower::service_fn(move |_| {
        let body = Body::from(list.to_string().into_bytes());
        async { Ok::<_, tower::BoxError>(Response::new(body)) }
    });
    let target = Target { scope: Scope::everything(), ..Target::default() };
    let plan = plan_prune(&Client::new(service, "default"), &target, |_| {}).await.unwrap();
    assert_eq!(plan.planned.iter().map(|planned| &*planned.node().name).collect::<Vec<_>>(), ["n-1", "n-2", "n-10"]);
    assert_eq!(plan.zeros.iter().map(|(node, _)| &**node).collect::<Vec<_>>(), ["n-1", "n-2", "n-10"]);
    assert_eq!(plan.unreadable.iter().map(|(node, _)| &**node).collect::<Vec<_>>(), ["a-9", "a-10"]);
}

#[tokio::test]
async fn nodes_without_the_labels_are_left() {
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let node = |name: &str, pool: &str| {
        json!({"metadata": {
            "name": name, "uid": name, "labels": {"pool": pool}, "annotations": {"noderesource.dev/advertised": ledger},
        }})
    };
    let list = json!({"metadata": {}, "items": [node("n-1", "a"), node("n-2", "b")]});
    let service = tower::service_fn(move |_| {
        let body = Body::from(list.to_string().into_bytes());
        async { Ok::<_, tower::BoxError>(Response::new(body)) }
    });
    let target = Target { choice: labelled("pool=b"), scope: Scope::everything() };
    let plan = plan_prune(&Client::new(service, "default"), &target, |_| {}).await.unwrap();
    assert_eq!(plan.nodes, 1);
    assert_eq!(plan.planned.iter().map(|planned| &*planned.node().name).collect::<Vec<_>>(), ["n-2"]);
}

/// A misspelled selector is no success.
#[tokio::test]
async fn selector_that_selects_no_node_is_an_error() {
    let list = json!({"metadata": {}, "items": [{"metadata": {"name": "n-1", "uid": "n-1", "labels": {"pool": "a"}}}]});
    let service = tower::service_fn(move |_| {
        let body = Body::from(list.to_string().into_bytes());
        async { Ok::<_, tower::BoxError>(Response::new(body)) }
    });
    let client = Client::new(service, "default");
    let target = |labels: &str| Target { choice: labelled(labels), ..Target::default() };
    let error = plan_prune(&client, &target("pol in (b,a)"), |_| {}).await.unwrap_err().to_string();
    assert_eq!(error, "no node has the labels pol in (a,b)");
    assert_eq!(plan_prune(&client, &target("pool=a"), |_| {}).await.unwrap().nodes, 1);
}
