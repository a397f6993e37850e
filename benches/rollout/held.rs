//! The row about a value that pods hold above its declaration: it goes down each time that one of them ends.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::baseline::WatchAndPatch;
use crate::cluster::{Cluster, LOWERED, RAISED};
use crate::controller::Controller;
use crate::machine::Cpu;
use crate::observer::State;
use crate::pair::{Bench, EDIT_ALL, HELD};
use crate::pods::{self, BoundPod};
use crate::sample::Sample;
use crate::span::Span;

/// The nodes whose values are held take turns, so that the patches of one are not close together.
const MAX_NODES: usize = 10;
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the number of pods that end.
pub fn count(node_count: usize) -> usize {
    held_nodes(node_count) * usize::try_from(RAISED - LOWERED).unwrap_or(0)
}

fn held_nodes(node_count: usize) -> usize {
    pods::requesting_nodes(node_count).min(MAX_NODES)
}

/// Lists pods that request 1 each and hold, with the pods that are there, the raised quantity.
fn holders(node_count: usize) -> Vec<BoundPod> {
    let nodes = held_nodes(node_count);
    let pods = (0..count(node_count)).map(|number| {
        let (app, node) = (format!("holder-{}", number / nodes), pods::requesting_node(number % nodes));
        BoundPod { app, node, amount: 1 }
    });
    pods.collect()
}

impl Bench {
    /// Measures the row while a bare loop lowers the values.
    pub async fn baseline_held(&self, sample: &mut Sample) -> Result<()> {
        let Self { cluster, .. } = self;
        self.flood(&cluster.client, EDIT_ALL, State::Raised, &mut Sample::default()).await?;
        let holders = holders(cluster.node_count);
        pods::create(&cluster.client, holders.iter().cloned()).await?;
        let client = WatchAndPatch::start_lowering(cluster.config.clone(), cluster.deadline()).await?;
        self.end_each(&holders, client.cpu, sample).await
    }

    /// Measures the row after the quantity is lowered to what the other pods request. A pod that the controller does not
    /// know by then would not hold the value.
    pub async fn controller_held(&self, controller: &Controller, sample: &mut Sample) -> Result<()> {
        let Self { cluster, observer, .. } = self;
        self.roll_out(controller, EDIT_ALL, State::Raised, &mut Sample::default()).await?;
        let holders = holders(cluster.node_count);
        pods::create(&cluster.client, holders.iter().cloned()).await?;
        let others = LOWERED * i64::try_from(pods::requesting_nodes(cluster.node_count))?;
        controller.wait_requested(others + i64::try_from(holders.len())?, cluster.deadline())?;
        cluster.edit_rule(json!({"quantity": LOWERED})).await?;
        let held = held_nodes(cluster.node_count);
        observer.wait_count(State::Lowered, cluster.node_count - held, cluster.deadline()).await?;
        cluster.wait_held(held).await?;
        self.end_each(&holders, controller.cpu(), sample).await
    }

    /// Ends one pod after another. Measures from the response until the observer sees the lower value.
    async fn end_each(&self, pods: &[BoundPod], client: Cpu, sample: &mut Sample) -> Result<()> {
        let Self { cluster, observer, .. } = self;
        let span = Span::open(HELD, cluster, &[client]).await?;
        let mut latencies = Vec::with_capacity(pods.len());
        for pod in pods {
            let before = observer.seen();
            end(cluster, pod).await?;
            let start = Instant::now();
            let lowered = observer.wait_drop(&before, DEADLINE).await?;
            latencies.push(lowered.saturating_duration_since(start));
        }
        sample.record_latencies(HELD, &latencies);
        span.close(cluster, &[client], sample).await
    }
}

async fn end(cluster: &Cluster, pod: &BoundPod) -> Result<()> {
    pods::end(&cluster.client, pod).await?;
    cluster.count_own_request("DELETE pods");
    Ok(())
}
