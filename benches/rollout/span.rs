//! The cost of a span of time: requests by verb and resource, and CPU time.
//!
//! ```text
//! open: count requests ─▶ rest ─▶ CPU time    … measured …    close: CPU time ─▶ rest ─▶ count requests
//! ```
//!
//! Counting itself costs CPU time in the API server, so it happens outside the span.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::cluster::Cluster;
use crate::machine::{self, Cpu};
use crate::sample::{LOAD_AVERAGE, REQUESTS, Sample};

/// Idle time of the API server before a span starts, and before requests are counted.
const REST: Duration = Duration::from_millis(500);

/// The resources that the controller reads or writes. Leases include the API server's own, a few every ten seconds.
const RESOURCES: [&str; 6] = ["nodes", "pods", "nodeextendedresources", "events", "leases", "deviceclasses"];

/// A started span of time.
pub struct Span {
    row: &'static str,
    requests: BTreeMap<String, f64>,
    own_requests: BTreeMap<String, u64>,
    load_average: f64,
    cpu_s: CpuSeconds,
    until_rule_ready: bool,
}

struct CpuSeconds {
    apiserver: f64,
    etcd: f64,
    client: f64,
}

impl CpuSeconds {
    fn read(cluster: &Cluster, clients: &[Cpu]) -> Result<Self> {
        let etcd = format!("--data-dir={}", cluster.control_plane.dir().join("etcd").display());
        Ok(Self {
            apiserver: Cpu::Process(cluster.control_plane.apiserver_pid()).used_s()?,
            etcd: Cpu::Process(machine::find_process(&etcd)?).used_s()?,
            client: clients.iter().map(|client| client.used_s()).sum::<Result<f64>>()?,
        })
    }
}

impl Span {
    /// Starts a row. `clients` are already running; a client that starts during the row has used no CPU time yet.
    pub async fn open(row: &'static str, cluster: &Cluster, clients: &[Cpu]) -> Result<Self> {
        let load_average = machine::load_average()?;
        let own_requests = cluster.own_requests();
        let requests = count_requests(cluster).await?;
        tokio::time::sleep(REST).await;
        let cpu_s = CpuSeconds::read(cluster, clients)?;
        Ok(Self { row, requests, own_requests, load_average, cpu_s, until_rule_ready: false })
    }

    /// For a rollout, whose time ends before the rule's status is written: the span then waits for that write before
    /// it counts requests.
    pub fn until_rule_ready(self) -> Self {
        Self { until_rule_ready: true, ..self }
    }

    /// Ends the row, and records its cost.
    pub async fn close(self, cluster: &Cluster, clients: &[Cpu], sample: &mut Sample) -> Result<()> {
        let cpu_s = CpuSeconds::read(cluster, clients)?;
        let Self { row, cpu_s: before, .. } = self;
        if self.until_rule_ready {
            cluster.wait_rule_ready().await?;
        }
        sample.record(row, "apiserver CPU", "s", cpu_s.apiserver - before.apiserver);
        sample.record(row, "etcd CPU", "s", cpu_s.etcd - before.etcd);
        sample.record(row, "client CPU", "s", cpu_s.client - before.client);

        // The metric counts a request some time after its response, and its effect is visible even before that.
        tokio::time::sleep(REST).await;
        let own = cluster.own_requests();
        let own = |request: &str| {
            let count = |counts: &BTreeMap<String, u64>| counts.get(request).copied().unwrap_or(0);
            (count(&own) - count(&self.own_requests)) as f64
        };
        for (request, after) in count_requests(cluster).await? {
            let before = self.requests.get(&request).copied().unwrap_or_default();
            let sent = after - before - own(&request);
            if sent > 0.0 {
                sample.record(row, &request, REQUESTS, sent);
            }
        }
        for (when, load) in [("before", self.load_average), ("after", machine::load_average()?)] {
            sample.record(row, &format!("{LOAD_AVERAGE} {when}"), "processes", load);
        }
        Ok(())
    }
}

/// Counts the requests so far, by `VERB resource/subresource`. A watch counts when it opens. Lists of pods also count
/// by what they are read from.
async fn count_requests(cluster: &Cluster) -> Result<BTreeMap<String, f64>> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let metrics = cluster.client.request_text(request).await.context("no metrics")?;
    let mut counts = BTreeMap::new();
    for line in metrics.lines() {
        let pods = line.strip_prefix("apiserver_storage_list_total{").filter(|line| line.contains("resource=\"pods\""));
        if let Some((labels, value)) = pods.and_then(|series| series.rsplit_once("} ")) {
            let storage = if labels.contains("storage=\"etcd\"") { "etcd" } else { "the watch cache" };
            let value: f64 = value.trim().parse().with_context(|| line.to_owned())?;
            *counts.entry(format!("LIST pods from {storage}")).or_default() += value;
        }
        // The total counts a watch when it ends, the gauge while it is open.
        let series = line.strip_prefix("apiserver_request_total{");
        let series = series.or_else(|| line.strip_prefix("apiserver_longrunning_requests{"));
        let Some((labels, value)) = series.and_then(|series| series.rsplit_once("} ")) else {
            continue;
        };
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split('"').next()
        };
        let (Some(verb), Some(resource)) = (label("verb"), label(",resource")) else { continue };
        if !RESOURCES.contains(&resource) {
            continue;
        }
        let subresource = label("subresource").filter(|name| !name.is_empty());
        let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        let value: f64 = value.trim().parse().with_context(|| line.to_owned())?;
        *counts.entry(format!("{verb} {resource}{subresource}")).or_default() += value;
    }
    Ok(counts)
}
