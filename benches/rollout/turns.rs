//! One turn of the floor, one of the controller, and one of the floor under the chart's admission
//! policy: each starts with vacant nodes and leaves them so.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use node_resource_advertiser::model::node::ApiNode;
use node_resource_advertiser::planner::rules::RuleSet;
use serde_json::json;

use crate::cluster::{Cluster, RESOURCE, RULE, rule, rule_set};
use crate::controller::Controller;
use crate::observer::Observer;
use crate::{fleet, floor, policy};

/// How many values are repaired a turn.
const REPAIRS: usize = 200;
const REPAIR_DEADLINE: Duration = Duration::from_secs(30);
/// How long the API server is left alone before a measured time starts, to get over the lists
/// before it.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a controller that was started again has time to write something.
const IDLE: Duration = Duration::from_secs(2);

pub struct FloorTurn {
    pub rollout: Duration,
    /// What the rollout cost the API server, in milliseconds of CPU time.
    pub rollout_cpu: f64,
    pub withdrawal: Duration,
    /// What the withdrawal cost it.
    pub withdrawal_cpu: f64,
    pub list: Duration,
    pub repairs: Vec<Duration>,
}

pub struct ControllerTurn {
    pub rollout: Duration,
    /// What the rollout cost the API server, in milliseconds of CPU time.
    pub rollout_cpu: f64,
    pub withdrawal: Duration,
    /// What the withdrawal cost it.
    pub withdrawal_cpu: f64,
    pub patches: u64,
    pub restart: Duration,
    pub restart_writes: u64,
    pub repairs: Vec<Duration>,
    pub peak_memory: f64,
}

/// The floor's patches once more, as the chart's ServiceAccount sends them.
pub struct PolicyTurn {
    /// What the rollout cost the API server, in milliseconds of CPU time.
    pub rollout_cpu: f64,
    /// What the withdrawal cost it.
    pub withdrawal_cpu: f64,
}

pub async fn floor(cluster: &Cluster, observer: &Observer) -> Result<FloorTurn> {
    let deadline = cluster.deadline();
    observer.wait_vacant(deadline).await?;

    let (start, cpu) = flood(cluster, &cluster.client, &rule_set()?).await?;
    let rollout = observer.wait_advertised(deadline).await?.duration_since(start);
    let rollout_cpu = cluster.apiserver_cpu()? - cpu;

    let repairs = {
        let _loop = floor::repair_loop(&cluster.client, deadline).await?;
        repairs(cluster, observer).await?
    };

    let start = Instant::now();
    cluster.list().await?;
    let list = start.elapsed();

    let (start, cpu) = flood(cluster, &cluster.client, &RuleSet::default()).await?;
    let withdrawal = observer.wait_vacant(deadline).await?.duration_since(start);
    let withdrawal_cpu = cluster.apiserver_cpu()? - cpu;
    Ok(FloorTurn { rollout, rollout_cpu, withdrawal, withdrawal_cpu, list, repairs })
}

/// Sends every node what the plan for it gives; when it started to, and how much CPU time the API
/// server had used by then.
async fn flood(cluster: &Cluster, client: &Client, rules: &RuleSet) -> Result<(Instant, f64)> {
    let patches = floor::patches(&cluster.list().await?, rules);
    ensure!(patches.len() == cluster.nodes, "{} patches are planned", patches.len());
    let deadline = cluster.deadline();
    let _watch = floor::watch(&cluster.client, deadline).await?;
    tokio::time::sleep(SETTLE).await;
    let cpu = cluster.apiserver_cpu()?;
    let start = tokio::time::timeout(deadline, floor::flood(client, patches))
        .await
        .with_context(|| format!("waited {deadline:?} in vain for the flood to end"))??;
    Ok((start, cpu))
}

pub async fn policy(cluster: &Cluster, observer: &Observer) -> Result<PolicyTurn> {
    let deadline = cluster.deadline();
    observer.wait_vacant(deadline).await?;
    let client = policy::bind(cluster).await?;

    let (_, cpu) = flood(cluster, &client, &rule_set()?).await?;
    observer.wait_advertised(deadline).await?;
    let rollout_cpu = cluster.apiserver_cpu()? - cpu;

    let (_, cpu) = flood(cluster, &client, &RuleSet::default()).await?;
    observer.wait_vacant(deadline).await?;
    let withdrawal_cpu = cluster.apiserver_cpu()? - cpu;

    policy::unbind(cluster).await?;
    Ok(PolicyTurn { rollout_cpu, withdrawal_cpu })
}

pub async fn controller(cluster: &Cluster, observer: &Observer) -> Result<ControllerTurn> {
    let deadline = cluster.deadline();
    observer.wait_vacant(deadline).await?;
    let (controller, _) = Controller::start(cluster)?;

    let before = cluster.patches()?;
    tokio::time::sleep(SETTLE).await;
    let cpu = cluster.apiserver_cpu()?;
    let created = cluster.rules().create(&PostParams::default(), &rule()?).await;
    let start = Instant::now();
    created.context("the rule cannot be applied")?;
    let rollout = observer.wait_advertised(deadline).await?.duration_since(start);
    let rollout_cpu = cluster.apiserver_cpu()? - cpu;
    cluster.wait_rule_ready().await?;
    let patches = cluster.patches()? - before;
    let peak_memory = controller.peak_memory()?;
    controller.stop()?;

    let before = cluster.writes()?;
    let (controller, restart) = Controller::start(cluster)?;
    tokio::time::sleep(IDLE).await;
    let restart_writes = cluster.writes()? - before;

    let repairs = repairs(cluster, observer).await?;

    tokio::time::sleep(SETTLE).await;
    let cpu = cluster.apiserver_cpu()?;
    let deleted = cluster.rules().delete(RULE, &DeleteParams::default()).await;
    let start = Instant::now();
    deleted.context("the rule cannot be deleted")?;
    let withdrawal = observer.wait_vacant(deadline).await?.duration_since(start);
    let withdrawal_cpu = cluster.apiserver_cpu()? - cpu;
    controller.stop()?;
    Ok(ControllerTurn {
        rollout,
        rollout_cpu,
        withdrawal,
        withdrawal_cpu,
        patches,
        restart,
        restart_writes,
        repairs,
        peak_memory,
    })
}

/// Writes another value on a node, as somebody else would, and waits for the right one to be back;
/// from the answer to the one until the other is seen.
async fn repairs(cluster: &Cluster, observer: &Observer) -> Result<Vec<Duration>> {
    let api = Api::<ApiNode>::all(cluster.client.clone());
    let path = RESOURCE.replace('/', "~1");
    let operations = json!([
        {"op": "replace", "path": format!("/status/capacity/{path}"), "value": "3"},
        {"op": "replace", "path": format!("/status/allocatable/{path}"), "value": "3"},
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations)?);
    let params = PatchParams { field_manager: Some("other".to_owned()), ..PatchParams::default() };
    let mut latencies = Vec::with_capacity(REPAIRS);
    // More on one node would be a contest, and given way to.
    for number in 0..REPAIRS.min(4 * cluster.nodes) {
        let node = fleet::name(number * 7919 % cluster.nodes);
        let before = observer.seen();
        let written = api.patch_status(&node, &params, &patch).await;
        let start = Instant::now();
        written.with_context(|| format!("{node} cannot be changed"))?;
        let repaired = observer.wait_repaired(&before, REPAIR_DEADLINE).await?;
        latencies.push(repaired.saturating_duration_since(start));
    }
    Ok(latencies)
}
