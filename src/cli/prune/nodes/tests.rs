use http::Response;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::planner::withdraw::Withdrawal;

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
    let withdrawal = Withdrawal { rules, zeros: false };
    let scope = Scope { nodes: vec!["node-1".to_owned()], withdrawal, ..Scope::default() };
    let plan = plan_prune(&Client::new(service, "default"), &scope, |_| {}).await.unwrap();
    assert_eq!(plan.unlisted_rules.into_iter().collect::<Vec<_>>(), ["nosuch"]);
}
