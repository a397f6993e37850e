//! The floor: what the same client library takes for the same patches, with nothing else to do but
//! a watch on nodes, as any controller must have.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use json_patch::Patch as JsonPatch;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use node_resource_advertiser::model::api::FIELD_MANAGER;
use node_resource_advertiser::model::node::{ApiNode, Node, Strings};
use node_resource_advertiser::planner::input::Circumstances;
use node_resource_advertiser::planner::plan;
use node_resource_advertiser::planner::rules::RuleSet;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::{QUANTITY, RESOURCE, watch_nodes};
use crate::observer::State;

/// As the controller's `--concurrency`.
pub const CONCURRENCY: usize = 16;

pub struct NodePatch {
    pub node: Arc<str>,
    pub patch: JsonPatch,
}

/// What the controller would send.
pub fn patches(nodes: &[Node], rules: &RuleSet) -> Vec<NodePatch> {
    let patches = nodes.iter().filter_map(|node| {
        let patch = plan(node, rules, &Circumstances::default()).patch?;
        Some(NodePatch { node: Arc::clone(&node.name), patch })
    });
    patches.collect()
}

/// Sends them all; when the first was sent.
pub async fn flood(client: &Client, patches: Vec<NodePatch>) -> Result<Instant> {
    let api = Api::<ApiNode>::all(client.clone());
    let start = Instant::now();
    stream::iter(patches)
        .map(|NodePatch { node, patch }| send(&api, node, patch))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    Ok(start)
}

async fn send(api: &Api<ApiNode>, node: Arc<str>, patch: JsonPatch) -> Result<()> {
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Json::<()>(patch);
    let answer = api.patch_status(&node, &params, &patch).await;
    answer.with_context(|| format!("a patch of {node} failed"))?;
    Ok(())
}

/// A task that ends with this.
pub struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A watch on nodes, open and decoded.
pub async fn watch(client: &Client, deadline: Duration) -> Result<Task> {
    spawn_on_watch(client, deadline, |_| std::future::ready(())).await
}

/// The bare loop that a repair is compared with: a node that a watch shows to be changed is put
/// right at once.
pub async fn repair_loop(client: &Client, deadline: Duration) -> Result<Task> {
    let api = Api::<ApiNode>::all(client.clone());
    spawn_on_watch(client, deadline, move |node| {
        let api = api.clone();
        async move {
            if State::of(&node) == State::Advertised {
                return;
            }
            if let Err(error) = repair(&api, node).await {
                eprintln!("error: {error:#}");
            }
        }
    })
    .await
}

async fn repair(api: &Api<ApiNode>, node: Node) -> Result<()> {
    let quantity = QUANTITY.to_string();
    let path = RESOURCE.replace('/', "~1");
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": node.uid},
        {"op": "add", "path": format!("/status/capacity/{path}"), "value": quantity},
        {"op": "add", "path": format!("/status/allocatable/{path}"), "value": quantity},
    ]);
    send(api, node.name, serde_json::from_value(patch)?).await
}

/// Runs `seen` for every change of a node, once all have been listed.
async fn spawn_on_watch<F, Fut>(client: &Client, deadline: Duration, seen: F) -> Result<Task>
where
    F: Fn(Node) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (sender, listed) = oneshot::channel();
    let mut sender = Some(sender);
    let events = watch_nodes(client);
    let task = Task(tokio::spawn(async move {
        let mut strings = Strings::default();
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitDone) => {
                    let _ = sender.take().map(|sender| sender.send(()));
                }
                Ok(Event::Apply(node)) => seen(Node::new(node, &mut strings)).await,
                Ok(_) => {}
                Err(error) => eprintln!("    the floor's watch: {error}"),
            }
        }
    }));
    match tokio::time::timeout(deadline, listed).await {
        Ok(Ok(())) => Ok(task),
        Ok(Err(_)) => bail!("the floor's watch has ended"),
        Err(_) => bail!("waited {deadline:?} in vain for the floor's watch to list the nodes"),
    }
}
