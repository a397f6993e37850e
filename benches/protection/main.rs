//! Measures the cost in the API server of the policy that protects values across reboots
//! (`deploy/protect.yaml`), for each write of a kubelet.
//!
//! ```text
//! for each round, one after another, in alternating order: without the policy, with the policy
//!   heartbeat     every kubelet reports its node's status, as every five minutes and on each change
//!   registration  every kubelet resets its node's resources, as after a reboot
//! ```
//!
//! `make bench-protection` runs it. Times have no limits; wrong values on the nodes make it fail.

// Shared with the rollout bench, which uses more of them.
#[allow(dead_code)]
#[path = "../rollout/machine.rs"]
mod machine;
#[allow(dead_code)]
#[path = "../rollout/nodes.rs"]
mod nodes;

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use harness::{Cluster, ControlPlane, protection};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use machine::Cpu;
use node_resource_advertiser::model::ledger::ANNOTATION;
use serde_json::{Value, json};

const CONCURRENCY: usize = 4;
/// Idle time of the API server before its CPU time is read.
const REST: Duration = Duration::from_millis(500);
const CANARY: &str = "canary";

fn main() -> Result<()> {
    let number = |name: &str, default: usize| {
        let text = env::var(name).ok().filter(|text| !text.is_empty());
        text.map_or(Ok(default), |text| text.parse().with_context(|| format!("{name}={text}")))
    };
    let rounds = number("ROUNDS", 10)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!(
        "API server CPU, ms per write of a kubelet: median of {rounds} rounds (minimum, maximum)\n\n\
         | write | resources listed | writes each | without | with | medians | minima |\n\
         |---|---|---|---|---|---|---|"
    );
    for (node_count, resources) in [(number("NODES", 200)?, 5), (20, 500)] {
        runtime.block_on(measure(node_count, resources, rounds))?;
    }
    println!("\nload average at the end: {:.2}", machine::load_average()?);
    Ok(())
}

/// A write of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Heartbeat,
    Registration,
}

impl Write {
    /// Number of writes per kubelet between two readings of the CPU time, whose unit is a hundredth of a second. A
    /// value can be reset only once.
    fn times(self) -> usize {
        match self {
            Self::Heartbeat => 5,
            Self::Registration => 1,
        }
    }
}

struct Bench {
    cluster: Cluster,
    admin: Client,
    kubelets: Vec<Client>,
    /// The resources that each node has, and its ledger lists.
    names: Vec<String>,
    heartbeats: u32,
}

async fn measure(node_count: usize, resources: usize, rounds: usize) -> Result<()> {
    let mut bench = Bench::start(node_count, resources).await?;
    bench.bind(false)?;
    for write in [Write::Heartbeat, Write::Registration] {
        // Warm-up, for one-time allocations.
        bench.cpu_ms(write, false).await?;
    }
    let mut samples = BTreeMap::<_, [Vec<f64>; 2]>::new();
    for round in 0..rounds {
        for protected in [round % 2 == 0, round % 2 != 0] {
            bench.bind(protected)?;
            for write in [Write::Heartbeat, Write::Registration] {
                let ms = bench.cpu_ms(write, protected).await?;
                samples.entry(write).or_default()[usize::from(protected)].push(ms);
            }
        }
    }
    for (write, [without, with]) in samples {
        let writes = rounds * write.times() * node_count;
        // Other load on the machine only increases a round's cost, so take the minimum.
        let more = |of: fn(&[f64]) -> f64| 100.0 * (of(&with) / of(&without) - 1.0);
        println!(
            "| {write:?} | {resources} | {writes} | {} | {} | {:+.1} % | {:+.1} % |",
            summary(&without),
            summary(&with),
            more(median),
            more(least)
        );
    }
    Ok(())
}

impl Bench {
    async fn start(node_count: usize, resources: usize) -> Result<Self> {
        let cluster = Cluster::start_without_crd(ControlPlane::builder());
        protection::install(&cluster);
        let control_plane = &cluster.control_plane;
        let admin = client(&control_plane.kubeconfig()).await?;
        let size = nodes::create_all(&admin, node_count).await?;
        eprintln!("==> {node_count} nodes of {size} bytes, and {resources} resources each");
        let mut kubelets = Vec::new();
        for number in 0..node_count {
            let kubeconfig = control_plane.kubelet_kubeconfig(&nodes::name(number))?;
            kubelets.push(client(&kubeconfig).await?);
        }
        // As long as the controller's 500 longest entries.
        let names = (0..resources).map(|number| format!("vendor.example.com/{number:041}"));
        let names = names.collect();
        cluster.create_nodes([CANARY], &json!({}));
        let ledger = json!({ANNOTATION: protection::DONGLE_LEDGER});
        cluster.patch_status(CANARY, "merge", &json!({"metadata": {"annotations": ledger}}));
        let bench = Self { cluster, admin, kubelets, names, heartbeats: 0 };
        let entries = bench.names.iter();
        let entries = entries.map(|name| format!(r#""{name}":{{"quantity":"4","rule":"rule"}}"#));
        let ledger = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
        bench.write_all("4", &json!({"annotations": {ANNOTATION: ledger}})).await?;
        Ok(bench)
    }

    /// Binds the policy, or unbinds it, and waits until that takes effect.
    fn bind(&self, protected: bool) -> Result<()> {
        if protected {
            protection::apply(&self.cluster);
        } else {
            let binding = "mutatingadmissionpolicybinding/node-resource-advertiser-protect";
            let delete = ["delete", binding, "--ignore-not-found"];
            self.cluster.control_plane.kubectl(&delete)?;
        }
        protection::wait_effect(&self.cluster, CANARY, protected);
        Ok(())
    }

    /// Performs the write of every kubelet, and returns the API server's CPU time per write.
    async fn cpu_ms(&mut self, write: Write, protected: bool) -> Result<f64> {
        tokio::time::sleep(REST).await;
        let apiserver = Cpu::Process(self.cluster.control_plane.apiserver_pid());
        let before = apiserver.used_s()?;
        for _ in 0..write.times() {
            self.heartbeats += 1;
            let status = match write {
                Write::Heartbeat => heartbeat(self.heartbeats),
                Write::Registration => self.maps("0"),
            };
            let patch = Patch::Strategic(json!({ "status": status }));
            stream::iter(self.kubelets.iter().enumerate())
                .map(|(number, kubelet)| patch_status(kubelet, number, &patch))
                .buffer_unordered(CONCURRENCY)
                .try_collect::<()>()
                .await?;
        }
        let used_s = apiserver.used_s()? - before;
        if write == Write::Registration {
            self.check(if protected { "4" } else { "0" }).await?;
            self.write_all("4", &json!({})).await?;
        }
        Ok(used_s * 1000.0 / (write.times() * self.kubelets.len()) as f64)
    }

    fn maps(&self, value: &str) -> Value {
        let map: Value = self.names.iter().map(|name| (name.clone(), value)).collect();
        json!({"capacity": map, "allocatable": map})
    }

    /// Writes one value of all resources on all nodes, as the administrator.
    async fn write_all(&self, value: &str, metadata: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": metadata, "status": self.maps(value)}));
        for number in 0..self.kubelets.len() {
            patch_status(&self.admin, number, &patch).await?;
        }
        Ok(())
    }

    async fn check(&self, value: &str) -> Result<()> {
        for number in 0..self.kubelets.len() {
            let name = nodes::name(number);
            let node = Api::<Node>::all(self.admin.clone()).get_status(&name).await?;
            let status = node.status.context("a node without a status")?;
            let maps = [status.capacity, status.allocatable].map(Option::unwrap_or_default);
            let is_right = |name| maps.iter().all(|map| map.get(name).is_some_and(|it| it.0 == value));
            ensure!(self.names.iter().all(is_right), "{name} has not {value} of everything");
        }
        Ok(())
    }
}

/// Returns a kubelet's report without changes.
fn heartbeat(number: u32) -> Value {
    let time = format!("2026-01-02T{:02}:{:02}:{:02}Z", number / 3600, number / 60 % 60, number % 60);
    let kinds = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
    json!({
        "$setElementOrder/conditions": kinds.map(|kind| json!({"type": kind})),
        "conditions": kinds.map(|kind| json!({"type": kind, "lastHeartbeatTime": time})),
    })
}

async fn patch_status(client: &Client, number: usize, patch: &Patch<Value>) -> Result<()> {
    let params = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
    let api = Api::<Node>::all(client.clone());
    let name = nodes::name(number);
    api.patch_status(&name, &params, patch).await.with_context(|| format!("{name} is not written"))?;
    Ok(())
}

async fn client(kubeconfig: &std::path::Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("cannot read the kubeconfig")?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let pair = [sorted.len().saturating_sub(1) / 2, middle];
    pair.map(|index| sorted.get(index).copied().unwrap_or_default()).iter().sum::<f64>() / 2.0
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn summary(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({:.2}–{most:.2})", median(values), least(values))
}
