//! The baseline: the same patches from the same client library, with no other work except a watch on nodes,
//! which every controller needs.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use json_patch::Patch as JsonPatch;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config};
use node_resource_advertiser::cluster::client::with_config;
use node_resource_advertiser::model::api::FIELD_MANAGER;
use node_resource_advertiser::model::ledger;
use node_resource_advertiser::model::node::{ApiNode, Interner, Node};
use node_resource_advertiser::model::pod::NodeRequests;
use node_resource_advertiser::planner::input::{PlanningInput, PodUsage};
use node_resource_advertiser::planner::rules::RuleSet;
use node_resource_advertiser::planner::{patch, plan};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::{MAX_CONCURRENT_PATCHES, QUANTITY, RAISED, RESOURCE, RULE, watch_nodes, watch_pods};
use crate::machine::Cpu;
use crate::observer::State;

pub struct NodePatch {
    pub node: Arc<str>,
    pub patch: JsonPatch,
}

/// Returns the patches that the controller would send if pods request less than declared.
pub fn patches(nodes: &[Node], rules: &RuleSet) -> Vec<NodePatch> {
    let pods = PodUsage::Known(NodeRequests::default());
    let input = PlanningInput { pods, ..PlanningInput::default() };
    let patches = nodes.iter().filter_map(|node| {
        let plan = plan(node, rules, &input);
        if plan.changes().is_empty() {
            return None;
        }
        let patch = patch(node, plan.changes()).ok()?;
        Some(NodePatch { node: Arc::clone(&node.name), patch })
    });
    patches.collect()
}

/// Sends all patches. Returns the time at which the first was sent.
pub async fn flood(client: &Client, patches: Vec<NodePatch>) -> Result<Instant> {
    let api = Api::<ApiNode>::all(client.clone());
    let start = Instant::now();
    stream::iter(patches)
        .map(|NodePatch { node, patch }| send(&api, node, patch))
        .buffer_unordered(MAX_CONCURRENT_PATCHES)
        .try_collect::<()>()
        .await?;
    Ok(start)
}

async fn send(api: &Api<ApiNode>, node: Arc<str>, patch: JsonPatch) -> Result<()> {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Json::<()>(patch);
    let patched = api.patch_status(&node, &params, &patch).await;
    patched.with_context(|| format!("a patch of {node} failed"))?;
    Ok(())
}

/// A task that ends when this value is dropped.
pub struct Task(JoinHandle<()>);

impl Task {
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a watch on nodes and decodes its events.
pub async fn watch(client: &Client, deadline: Duration) -> Result<Task> {
    let (sender, listed) = oneshot::channel();
    let client = client.clone();
    let task = Task::spawn(async move {
        for_each_node(&client, sender, |_| std::future::ready(())).await;
    });
    wait_listed(listed, deadline).await?;
    Ok(task)
}

/// A bare watch-and-patch client on its own thread. It ends when this value is dropped.
pub struct WatchAndPatch {
    pub cpu: Cpu,
    _stop: oneshot::Sender<()>,
}

impl WatchAndPatch {
    /// Starts one that immediately patches a node that the list or the watch shows without the value.
    pub async fn start(config: Config, deadline: Duration) -> Result<Self> {
        Self::spawn(deadline, |listed| watch_and_patch(config, listed)).await
    }

    /// Starts one that watches pods, and immediately lowers the value of the node of each that ends by 1. All nodes have
    /// the raised quantity.
    pub async fn start_lowering(config: Config, deadline: Duration) -> Result<Self> {
        Self::spawn(deadline, |listed| watch_and_lower(config, listed)).await
    }

    async fn spawn<F, Fut>(deadline: Duration, run: F) -> Result<Self>
    where
        F: FnOnce(oneshot::Sender<()>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>>,
    {
        let (sender, listed) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (started, cpu) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("baseline".to_owned()).spawn(move || {
            let _ = started.send(Cpu::this_thread());
            runtime.block_on(async {
                tokio::select! {
                    // An error means that the sender is dropped.
                    _ = stopped => {}
                    result = run(sender) => {
                        if let Err(error) = result {
                            eprintln!("error: the baseline: {error:#}");
                        }
                    }
                }
            });
        })?;
        wait_listed(listed, deadline).await?;
        Ok(Self { cpu: cpu.await??, _stop: stop })
    }
}

async fn watch_and_patch(config: Config, listed: oneshot::Sender<()>) -> Result<()> {
    let client = with_config(config).await?;
    let api = Api::<ApiNode>::all(client.clone());
    let patch = |node: Node| async {
        if State::of(&node) == Some(State::Advertised) {
            return;
        }
        if let Err(error) = patch_one(&api, node).await {
            eprintln!("error: {error:#}");
        }
    };
    for_each_node(&client, listed, patch).await;
    Ok(())
}

async fn patch_one(api: &Api<ApiNode>, node: Node) -> Result<()> {
    let [ledger, capacity, allocatable] = write(QUANTITY);
    let patch = json!([{"op": "test", "path": "/metadata/uid", "value": node.uid}, ledger, capacity, allocatable]);
    send(api, node.name, serde_json::from_value(patch)?).await
}

async fn watch_and_lower(config: Config, listed: oneshot::Sender<()>) -> Result<()> {
    let client = with_config(config).await?;
    let api = Api::<ApiNode>::all(client.clone());
    let mut listed = Some(listed);
    let mut values = HashMap::<Arc<str>, i64>::new();
    let mut events = pin!(watch_pods(&client));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitDone) => {
                let _ = listed.take().map(|listed| listed.send(()));
            }
            Ok(Event::Delete(pod)) => {
                let node: Arc<str> = pod.node().context("a pod without a node")?.into();
                let value = values.entry(Arc::clone(&node)).or_insert(RAISED);
                *value -= 1;
                send(&api, node, serde_json::from_value(json!(write(*value)))?).await?;
            }
            Ok(_) => {}
            Err(error) => eprintln!("    the baseline's watch: {error}"),
        }
    }
    Ok(())
}

/// Returns the operations that write the value and its entry in the ledger.
fn write(quantity: i64) -> [Value; 3] {
    let path = RESOURCE.replace('/', "~1");
    let value =
        |map: &str| json!({"op": "add", "path": format!("/status/{map}/{path}"), "value": quantity.to_string()});
    [write_ledger(quantity, &[(RESOURCE, RULE)]), value("capacity"), value("allocatable")]
}

/// Returns the operation that makes the ledger list these resources and their rules, each with the quantity.
pub fn write_ledger(quantity: i64, entries: &[(&str, &str)]) -> Value {
    let entry = |rule: &str| json!({"quantity": quantity.to_string(), "rule": rule});
    let ledger: Value = entries.iter().map(|&(resource, rule)| (resource, entry(rule))).collect();
    let path = format!("/metadata/annotations/{}", ledger::ANNOTATION.replace('/', "~1"));
    json!({"op": "add", "path": path, "value": ledger.to_string()})
}

/// Calls `on_node` for every listed or changed node, one after another.
async fn for_each_node<F, Fut>(client: &Client, listed: oneshot::Sender<()>, on_node: F)
where
    F: Fn(Node) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut listed = Some(listed);
    let mut strings = Interner::default();
    let mut events = pin!(watch_nodes(client));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitDone) => {
                let _ = listed.take().map(|listed| listed.send(()));
            }
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                on_node(Node::new(node, &mut strings)).await;
            }
            Ok(_) => {}
            // The watch restarts with a list.
            Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
            Err(error) => eprintln!("    the baseline's watch: {error}"),
        }
    }
}

async fn wait_listed(listed: oneshot::Receiver<()>, deadline: Duration) -> Result<()> {
    let listed = tokio::time::timeout(deadline, listed).await;
    let listed = listed.with_context(|| format!("no list after {deadline:?}"))?;
    listed.context("the baseline's watch has ended")
}
