//! What is sent, and read, by each request.

use kube::Client;

use super::*;
use crate::controller::executor::Executor;
use crate::model::api::NodeExtendedResourceStatus;
use crate::reconciler::Slot;
use crate::reconciler::effect::{Completion, Effect, Request};

async fn send(client: Client, effect: Effect) -> Completion {
    let deadline = Instant::now() + Duration::from_secs(15);
    Executor::new(client).send(Request { effect, deadline }).await
}

/// A rule that was deleted, and created again under its name, has a status of its own.
#[tokio::test(start_paused = true)]
async fn status_of_a_rule_that_is_gone_is_not_written() {
    let (network, _asked) = cluster(Fate::Answered);
    let client = client::over(network.connection("pod-1"));
    let status = NodeExtendedResourceStatus { total: Some("4/4".to_owned()), ..Default::default() };
    for (uid, is_written) in [("another", false), ("", true)] {
        let key = simulator::Key::named("dongle");
        let rule = network.read(|api| api.get(Kind::Rule, &key)).unwrap();
        let uid = if is_written { rule["metadata"]["uid"].as_str().unwrap() } else { uid };
        let (rule, status) = ("dongle".into(), Box::new(status.clone()));
        let slot = Slot::for_test();
        let effect = Effect::PatchStatus { slot, rule, uid: Some(uid.to_owned()), status };
        let patched = send(client.clone(), effect).await;
        let Completion::StatusPatched { result, .. } = patched else { panic!() };
        assert_eq!(result.is_ok(), is_written, "{:?}", result.err());
        let rule = network.read(|api| api.get(Kind::Rule, &key)).unwrap();
        assert_eq!(rule["status"]["total"].is_string(), is_written);
    }
}
