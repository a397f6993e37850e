//! One pass of the baseline, one of the controller, and one of the baseline under the chart's
//! admission policy. Each starts and ends with nodes without the resource.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use node_resource_advertiser::model::api::ShrinkPolicy;
use serde_json::json;

use crate::baseline::{self, WatchAndPatch};
use crate::cluster::{self, Cluster};
use crate::controller::Controller;
use crate::edits;
use crate::machine::Cpu;
use crate::observer::{Observer, State};
use crate::overload;
use crate::pods;
use crate::policy;
use crate::proxy::Proxy;
use crate::sample::Sample;
use crate::span::Span;

pub const ADVERTISE: &str = "advertise";
pub const ADVERTISE_WITH_POLICY: &str = "advertise with policy";
pub const WITHDRAW: &str = "withdraw";
pub const WITHDRAW_WITH_POLICY: &str = "withdraw with policy";
pub const REPAIR: &str = "repair";
pub const NEW_NODE: &str = "new node";
pub const RELIST: &str = "relist";
pub const RESTART: &str = "restart";
pub const IDLE: &str = "idle";
pub const HANDOVER: &str = "handover";
pub const EDIT_NOTHING: &str = "edit nothing";
pub const EDIT_ALL: &str = "edit all";
pub const MEMORY: &str = "memory";
pub const APPEAR: &str = "appear";
pub const LOWER: &str = "lower";
pub const HOLD: &str = "hold";
pub const HELD: &str = "held";

pub const TIME: &str = "time";
const PEAK_MEMORY: &str = "peak memory";
const MIB: &str = "MiB";

/// How long a restarted controller is observed; it is expected to write nothing. The baseline idles for that time.
const AFTER_RESTART: Duration = Duration::from_secs(2);
/// Time for pending Events and statuses of the previous row to be written.
const BEFORE_IDLE: Duration = Duration::from_secs(5);
const IDLE_WINDOW: Duration = Duration::from_secs(15);
/// How long nodes that stay held are observed.
const HOLD_WINDOW: Duration = Duration::from_secs(20);

/// Rows that are measured together, in one pass of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of the nodes alone.
    Nodes,
    /// With the chart's admission policy.
    Policy,
    /// With pods on the nodes.
    Pods,
    /// With an overloaded API server.
    Overload,
    /// With many pods: the controller as it watches them, and as it does not.
    Watch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Controller,
    Baseline,
}

/// State that the passes share.
pub struct Bench {
    pub observer: Observer,
    pub proxy: Proxy,
    /// The number of pods in the part with many.
    pub pod_count: usize,
    /// Dropped last, because the others hold connections to it.
    pub cluster: Cluster,
}

impl Bench {
    /// Advertises and withdraws once, because the first requests to an API server take longer.
    pub async fn warm_up(&self) -> Result<()> {
        let mut discarded = Sample::default();
        let Self { cluster, .. } = self;
        self.flood(&cluster.client, ADVERTISE, State::Advertised, &mut discarded).await?;
        self.flood(&cluster.client, WITHDRAW, State::Vacant, &mut discarded).await
    }

    /// Measures one side of a pair.
    pub async fn measure(&self, part: Part, side: Side) -> Result<Sample> {
        self.observer.wait_all(State::Vacant, self.cluster.deadline()).await?;
        match (part, side) {
            (Part::Nodes, Side::Baseline) => self.baseline().await,
            (Part::Nodes, Side::Controller) => self.controller().await,
            (Part::Policy, Side::Baseline) => self.policy(false).await,
            (Part::Policy, Side::Controller) => self.policy(true).await,
            (Part::Pods, Side::Baseline) => self.baseline_with_pods().await,
            (Part::Pods, Side::Controller) => self.controller_with_pods().await,
            (Part::Watch, Side::Baseline) => self.watch_pods(ShrinkPolicy::Immediate).await,
            (Part::Watch, Side::Controller) => self.watch_pods(ShrinkPolicy::WhenFree).await,
            (Part::Overload, Side::Baseline) => Ok(Sample::default()),
            (Part::Overload, Side::Controller) => overload::measure(&self.cluster, &self.observer, &self.proxy).await,
        }
    }

    async fn baseline(&self) -> Result<Sample> {
        let Self { cluster, proxy, .. } = self;
        let deadline = cluster.deadline();
        let mut sample = Sample::default();

        self.idle(&[], &mut sample).await?;
        self.flood(&cluster.client, ADVERTISE, State::Advertised, &mut sample).await?;
        {
            let client = WatchAndPatch::start(cluster.config.clone(), deadline).await?;
            self.edit([REPAIR, NEW_NODE], client.cpu, &mut sample).await?;
            if self.has_rows_in_rollouts() {
                self.baseline_in_rollouts(client.cpu, &mut sample).await?;
            }
        }
        {
            let config = cluster::read_config(&proxy.kubeconfig).await?;
            let client = WatchAndPatch::start(config, deadline).await?;
            self.relist(client.cpu, &mut sample).await?;
        }
        let client = [Cpu::this_thread()?];
        let span = Span::open(RESTART, cluster, &client).await?;
        let start = Instant::now();
        cluster.list_nodes().await?;
        sample.record_seconds(RESTART, TIME, start.elapsed());
        tokio::time::sleep(AFTER_RESTART).await;
        span.close(cluster, &client, &mut sample).await?;

        self.flood(&cluster.client, EDIT_ALL, State::Raised, &mut sample).await?;
        self.flood(&cluster.client, WITHDRAW, State::Vacant, &mut sample).await?;
        Ok(sample)
    }

    async fn baseline_with_pods(&self) -> Result<Sample> {
        let client = &self.cluster.client;
        let mut sample = Sample::default();
        self.flood(client, APPEAR, State::Advertised, &mut sample).await?;
        self.flood(client, LOWER, State::Lowered, &mut sample).await?;
        self.baseline_held(&mut sample).await?;
        self.flood(client, WITHDRAW, State::Vacant, &mut Sample::default()).await?;
        Ok(sample)
    }

    /// Measures the baseline's patches as the chart's ServiceAccount sends them, with the policy or without it: what
    /// differs is the policy alone.
    async fn policy(&self, in_force: bool) -> Result<Sample> {
        let Self { cluster, .. } = self;
        let client = policy::client(cluster).await?;
        if in_force {
            policy::bind(cluster, &client).await?;
        }
        let mut sample = Sample::default();
        // The first requests of a client take longer.
        let mut discarded = Sample::default();
        self.flood(&client, ADVERTISE_WITH_POLICY, State::Advertised, &mut discarded).await?;
        self.flood(&client, WITHDRAW_WITH_POLICY, State::Vacant, &mut discarded).await?;
        self.flood(&client, ADVERTISE_WITH_POLICY, State::Advertised, &mut sample).await?;
        self.flood(&client, WITHDRAW_WITH_POLICY, State::Vacant, &mut sample).await?;
        if in_force {
            policy::unbind(cluster, &client).await?;
        }
        Ok(sample)
    }

    async fn controller(&self) -> Result<Sample> {
        let Self { cluster, proxy, .. } = self;
        let deadline = cluster.deadline();
        let mut sample = Sample::default();

        let (controller, _) = Controller::start(cluster)?;
        self.roll_out(&controller, ADVERTISE, State::Advertised, &mut sample).await?;
        sample.record(MEMORY, "peak", MIB, controller.peak_memory_mib()?);
        controller.stop()?;

        let (controller, _) = Controller::start_with(cluster, &proxy.kubeconfig)?;
        controller.wait_leader(deadline)?;
        controller.reset_peak_memory()?;
        self.relist(controller.cpu(), &mut sample).await?;
        sample.record(RELIST, PEAK_MEMORY, MIB, controller.peak_memory_mib()?);
        // Otherwise the next controller would finish this one's pending writes.
        cluster.wait_rule_ready().await?;
        controller.stop()?;

        let span = Span::open(RESTART, cluster, &[]).await?;
        let (controller, time) = Controller::start(cluster)?;
        sample.record_seconds(RESTART, TIME, time);
        tokio::time::sleep(AFTER_RESTART).await;
        sample.record(RESTART, PEAK_MEMORY, MIB, controller.peak_memory_mib()?);
        span.close(cluster, &[controller.cpu()], &mut sample).await?;

        self.edit([REPAIR, NEW_NODE], controller.cpu(), &mut sample).await?;
        tokio::time::sleep(BEFORE_IDLE).await;
        self.idle(&[controller.cpu()], &mut sample).await?;

        let (standby, _) = Controller::start(cluster)?;
        let span = Span::open(HANDOVER, cluster, &[standby.cpu()]).await?;
        let start = Instant::now();
        controller.terminate()?;
        standby.wait_leader(deadline)?;
        sample.record_seconds(HANDOVER, TIME, start.elapsed());
        span.close(cluster, &[standby.cpu()], &mut sample).await?;
        controller.stop()?;

        self.edit_nothing(&standby, &mut sample).await?;
        let unlimited = if self.has_rows_in_rollouts() {
            let controller = self.controller_in_rollouts(standby, &mut sample).await?;
            tokio::time::sleep(BEFORE_IDLE).await;
            controller
        } else {
            standby
        };
        self.roll_out(&unlimited, EDIT_ALL, State::Raised, &mut sample).await?;
        self.roll_out(&unlimited, WITHDRAW, State::Vacant, &mut sample).await?;
        unlimited.stop()?;
        Ok(sample)
    }

    async fn controller_with_pods(&self) -> Result<Sample> {
        let Self { cluster, .. } = self;
        let (controller, _) = Controller::start(cluster)?;
        // After the same process has withdrawn a value, pods may still use it, however young the node is.
        self.roll_out(&controller, ADVERTISE, State::Advertised, &mut Sample::default()).await?;
        self.roll_out(&controller, WITHDRAW, State::Vacant, &mut Sample::default()).await?;

        let mut sample = Sample::default();
        self.roll_out(&controller, APPEAR, State::Advertised, &mut sample).await?;
        tokio::time::sleep(BEFORE_IDLE).await;
        self.roll_out(&controller, LOWER, State::Lowered, &mut sample).await?;
        self.hold(&controller, &mut sample).await?;
        self.controller_held(&controller, &mut sample).await?;
        self.roll_out(&controller, WITHDRAW, State::Vacant, &mut Sample::default()).await?;
        sample.record(HOLD, PEAK_MEMORY, MIB, controller.peak_memory_mib()?);
        controller.stop()?;
        Ok(sample)
    }

    /// Lowers the quantity below what pods on some nodes request, until the rule's status reports them, and for as long as
    /// the window lasts.
    async fn hold(&self, controller: &Controller, sample: &mut Sample) -> Result<()> {
        let Self { cluster, .. } = self;
        let span = Span::open(HOLD, cluster, &[controller.cpu()]).await?;
        let start = Instant::now();
        cluster.edit_rule(json!({"quantity": cluster::HELD})).await?;
        cluster.wait_held(1).await?;
        sample.record_seconds(HOLD, "time of the first", start.elapsed());
        cluster.wait_held(pods::requesting_nodes(cluster.node_count)).await?;
        sample.record_seconds(HOLD, TIME, start.elapsed());
        tokio::time::sleep(HOLD_WINDOW).await;
        span.close(cluster, &[controller.cpu()], sample).await
    }

    /// Edits the rule, and measures until every node is as declared.
    pub async fn roll_out(
        &self,
        controller: &Controller,
        row: &'static str,
        state: State,
        sample: &mut Sample,
    ) -> Result<()> {
        let Self { cluster, observer, .. } = self;
        let mut span = Span::open(row, cluster, &[controller.cpu()]).await?;
        match state {
            State::Advertised => {
                span = span.until_rule_ready();
                cluster.create_rule().await?;
            }
            State::Raised | State::Lowered => {
                span = span.until_rule_ready();
                cluster.edit_rule(json!({"quantity": state.quantity()})).await?;
            }
            State::Vacant => cluster.delete_rule().await?,
        }
        let start = Instant::now();
        let last = observer.wait_all(state, cluster.deadline()).await?;
        sample.record_seconds(row, TIME, last.duration_since(start));
        span.close(cluster, &[controller.cpu()], sample).await
    }

    /// Edits the rule so that every node is planned and none is changed, and measures until its status reports it.
    async fn edit_nothing(&self, controller: &Controller, sample: &mut Sample) -> Result<()> {
        let Self { cluster, .. } = self;
        let span = Span::open(EDIT_NOTHING, cluster, &[controller.cpu()]).await?;
        let start = Instant::now();
        cluster.edit_rule(json!({"priority": 1})).await?;
        cluster.wait_rule_ready().await?;
        sample.record_seconds(EDIT_NOTHING, TIME, start.elapsed());
        span.close(cluster, &[controller.cpu()], sample).await
    }

    /// Sends every node the patch that is planned for it, with one watch on nodes open.
    pub async fn flood(&self, client: &Client, row: &'static str, state: State, sample: &mut Sample) -> Result<()> {
        let Self { cluster, observer, .. } = self;
        let rules = cluster::rule_set(state.quantity())?;
        let patches = baseline::patches(&cluster.list_nodes().await?, &rules);
        ensure!(patches.len() == cluster.node_count, "{} patches are planned", patches.len());
        let deadline = cluster.deadline();
        let _watch = baseline::watch(&cluster.client, deadline).await?;
        let cpu = [Cpu::this_thread()?];
        let span = Span::open(row, cluster, &cpu).await?;
        let start = tokio::time::timeout(deadline, baseline::flood(client, patches))
            .await
            .with_context(|| format!("the flood has not ended after {deadline:?}"))??;
        let last = observer.wait_all(state, deadline).await?;
        sample.record_seconds(row, TIME, last.duration_since(start));
        span.close(cluster, &cpu, sample).await
    }

    /// Measures the rows about one node.
    pub async fn edit(&self, [repair, new_node]: [&'static str; 2], client: Cpu, sample: &mut Sample) -> Result<()> {
        let Self { cluster, observer, .. } = self;
        let span = Span::open(repair, cluster, &[client]).await?;
        sample.record_latencies(repair, &edits::repairs(cluster, observer).await?);
        span.close(cluster, &[client], sample).await?;
        let span = Span::open(new_node, cluster, &[client]).await?;
        sample.record_latencies(new_node, &edits::new_nodes(cluster, observer).await?);
        span.close(cluster, &[client], sample).await
    }

    async fn relist(&self, client: Cpu, sample: &mut Sample) -> Result<()> {
        let Self { cluster, observer, proxy, .. } = self;
        let span = Span::open(RELIST, cluster, &[client]).await?;
        let relist = edits::relist(cluster, observer, proxy).await?;
        sample.record_seconds(RELIST, TIME, relist.time);
        sample.record_seconds(RELIST, "time with backoff", relist.time_with_backoff);
        span.close(cluster, &[client], sample).await
    }

    async fn idle(&self, clients: &[Cpu], sample: &mut Sample) -> Result<()> {
        let span = Span::open(IDLE, &self.cluster, clients).await?;
        tokio::time::sleep(IDLE_WINDOW).await;
        sample.record_seconds(IDLE, "window", IDLE_WINDOW);
        span.close(&self.cluster, clients, sample).await
    }

    /// Records how much of the peak depends on the number of nodes, given the peak without nodes.
    pub fn record_memory_per_node(&self, sample: &mut Sample, empty_mib: f64) {
        let peak = sample.keys().find(|key| key.row == MEMORY && key.measure == "peak").cloned();
        let Some(peak) = peak.and_then(|key| sample.get(&key)) else { return };
        let thousands = self.cluster.node_count as f64 / 1000.0;
        sample.record(MEMORY, "without nodes", MIB, empty_mib);
        sample.record(MEMORY, "peak per 1,000 nodes", MIB, (peak - empty_mib) / thousands);
    }
}
