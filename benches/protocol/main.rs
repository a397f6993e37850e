//! What the encoding of nodes costs: JSON against protobuf, which the controller reads.
//!
//! ```text
//! for each round, in alternating order: JSON, protobuf
//!   list     all nodes, in the controller's pages: CPU of the API server, of receiving, and of decoding
//!   watch    every node is patched while a second watch is open, beside one of a kubelet, scheduler or controller
//!            manager, which read protobuf: CPU of the API server beyond that with the first watch alone
//! ```
//!
//! `make bench-protocol` runs it. Nothing passes or fails.

// Shared with the rollout bench, which uses more of them.
#[allow(dead_code)]
#[path = "../rollout/machine.rs"]
mod machine;
#[allow(dead_code)]
#[path = "../rollout/nodes.rs"]
mod nodes;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use harness::ControlPlane;
use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ObjectList;
use kube::{Api, Client, Config};
use machine::Cpu;
use node_resource_advertiser::cluster::protobuf::{Objects, object_to_json};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::{Value, json};

/// The controller's.
const PAGE_SIZE: u32 = 200;
const CONCURRENCY: usize = 4;
/// Idle time of the API server before its CPU time is read.
const REST: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// The cost of one list: CPU in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct ListCost {
    mib: f64,
    apiserver_ms: f64,
    receiving_ms: f64,
    decoding_ms: f64,
}

struct Bench {
    control_plane: ControlPlane,
    client: Client,
    node_count: usize,
    patches: AtomicUsize,
}

fn main() -> ExitCode {
    if !env::args().any(|arg| arg == "--bench") {
        eprintln!("this measures release builds: run `make bench-protocol`");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let number = |name: &str, default: usize| {
        let text = env::var(name).ok().filter(|text| !text.is_empty());
        text.map_or(Ok(default), |text| text.parse().with_context(|| format!("{name}={text}")))
    };
    let (node_count, rounds) = (number("NODES", 1000)?, number("ROUNDS", 5)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(node_count, rounds))
}

async fn measure(node_count: usize, rounds: usize) -> Result<()> {
    let control_plane = ControlPlane::builder().start()?;
    let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig()).context("cannot read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let size = nodes::create_all(&client, node_count).await?;
    eprintln!("==> {node_count} nodes of {size} bytes");
    let bench = Bench { control_plane, client, node_count, patches: AtomicUsize::new(0) };
    // One-time allocations.
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        bench.list(encoding).await?;
        bench.watched_patches(Some(encoding)).await?;
    }
    let (mut lists, mut watches): ([Vec<ListCost>; 2], [Vec<f64>; 3]) = Default::default();
    for round in 0..rounds {
        let mut order = [Encoding::Json, Encoding::Protobuf];
        order.rotate_left(round % 2);
        for encoding in order {
            lists[encoding as usize].push(bench.list(encoding).await?);
        }
        let mut order = [None, Some(Encoding::Json), Some(Encoding::Protobuf)];
        order.rotate_left(round % 3);
        for encoding in order {
            watches[encoding.map_or(2, |encoding| encoding as usize)].push(bench.watched_patches(encoding).await?);
        }
    }
    println!("| {node_count} nodes, median of {rounds} (minimum–maximum) | JSON | protobuf | JSON / protobuf |");
    println!("|---|---|---|---|");
    let per_node = 1000.0 / node_count as f64;
    let row = |name: &str, of: fn(&ListCost) -> f64, scale: f64| {
        let [json, protobuf] = lists.each_ref().map(|costs| costs.iter().map(|cost| of(cost) * scale).collect());
        print_row(name, json, protobuf);
    };
    row("list: MiB", |cost| cost.mib, 1.0);
    row("list: API server, µs per node", |cost| cost.apiserver_ms, per_node);
    row("list: receiving, µs per node", |cost| cost.receiving_ms, per_node);
    row("list: decoding, µs per node", |cost| cost.decoding_ms, per_node);
    let [json, protobuf, alone] = watches;
    print_row("patch with one more watch: API server, µs each", json, protobuf);
    println!("| the same without: {} | | | |", summary(&alone));
    println!("\nload average at the end: {:.2}", machine::load_average()?);
    Ok(())
}

fn print_row(name: &str, json: Vec<f64>, protobuf: Vec<f64>) {
    let ratios: Vec<_> = json.iter().zip(&protobuf).map(|(json, protobuf)| json / protobuf).collect();
    println!("| {name} | {} | {} | {} |", summary(&json), summary(&protobuf), summary(&ratios));
}

impl Bench {
    fn apiserver(&self) -> Cpu {
        Cpu::Process(self.control_plane.apiserver_pid())
    }

    async fn send(&self, encoding: Encoding, query: &str) -> Result<http::Response<Body>> {
        let request = Request::get(format!("/api/v1/nodes?{query}")).header(ACCEPT, encoding.accept());
        let response = self.client.send(request.body(Body::empty())?).await?;
        ensure!(response.status().is_success(), "{query}: {}", response.status());
        Ok(response)
    }

    /// Lists all nodes in pages.
    async fn list(&self, encoding: Encoding) -> Result<ListCost> {
        tokio::time::sleep(REST).await;
        let mut cost = ListCost::default();
        let (mut nodes, mut next) = (0, String::new());
        let server = self.apiserver().used_s()?;
        loop {
            let client = Cpu::this_thread()?.used_s()?;
            let response = self.send(encoding, &format!("limit={PAGE_SIZE}&continue={next}")).await?;
            let page = response.into_body().collect().await?.to_bytes();
            let received = Cpu::this_thread()?.used_s()?;
            let (count, token) = read_page(encoding, &page)?;
            cost.receiving_ms += 1000.0 * (received - client);
            cost.decoding_ms += 1000.0 * (Cpu::this_thread()?.used_s()? - received);
            cost.mib += page.len() as f64 / f64::from(1 << 20);
            nodes += count;
            next = token;
            if next.is_empty() {
                break;
            }
        }
        ensure!(nodes == self.node_count, "the list has {nodes} nodes");
        cost.apiserver_ms = 1000.0 * (self.apiserver().used_s()? - server);
        Ok(cost)
    }

    /// Patches every node once, while the watches are open. Returns the API server's CPU time, in µs for each.
    async fn watched_patches(&self, second: Option<Encoding>) -> Result<f64> {
        let patch = self.patches.fetch_add(1, Ordering::Relaxed);
        let page = self.send(Encoding::Json, "limit=1").await?.into_body().collect().await?.to_bytes();
        let page: ObjectList<ApiNode> = serde_json::from_slice(&page)?;
        let version = page.metadata.resource_version.context("a list without a version")?;
        let mut watches = Vec::new();
        for encoding in [Some(Encoding::Protobuf), second].into_iter().flatten() {
            let response = self.send(encoding, &format!("watch=true&resourceVersion={version}")).await;
            let mut body = response?.into_body();
            let received = Arc::new(AtomicUsize::new(0));
            let bytes = Arc::clone(&received);
            let task = tokio::spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    bytes.fetch_add(length, Ordering::Relaxed);
                }
            });
            watches.push((task, received));
        }
        tokio::time::sleep(REST).await;
        let before = self.apiserver().used_s()?;
        let annotations = json!({"metadata": {"annotations": {"example.com/patch": patch.to_string()}}});
        let (api, patch) = (Api::<Node>::all(self.client.clone()), Patch::Merge(annotations));
        stream::iter(0..self.node_count)
            .map(|number| patch_one(&api, number, &patch))
            .buffer_unordered(CONCURRENCY)
            .try_collect::<()>()
            .await?;
        tokio::time::sleep(REST).await;
        let used_s = self.apiserver().used_s()? - before;
        for (task, received) in watches {
            ensure!(received.load(Ordering::Relaxed) > 1000 * self.node_count, "a watch has shown nothing");
            task.abort();
        }
        Ok(used_s * 1e6 / self.node_count as f64)
    }
}

/// The response has only metadata, so that its encoding costs little.
async fn patch_one(api: &Api<Node>, number: usize, patch: &Patch<Value>) -> Result<()> {
    let name = nodes::name(number);
    let patched = api.patch_metadata(&name, &PatchParams::default(), patch).await;
    patched.with_context(|| format!("{name} is not patched"))?;
    Ok(())
}

/// Decodes a page as the controller does. Returns its number of nodes, and the token of the next one.
fn read_page(encoding: Encoding, page: &Bytes) -> Result<(usize, String)> {
    let list: ObjectList<ApiNode> = match encoding {
        Encoding::Json => serde_json::from_slice(page)?,
        Encoding::Protobuf => serde_json::from_slice(&object_to_json(page, Objects::Nodes)?)?,
    };
    Ok((list.items.len(), list.metadata.continue_.unwrap_or_default()))
}

fn summary(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return "-".to_owned() };
    let median = sorted[sorted.len() / 2];
    let digits = if *most >= 100.0 { 0 } else { 2 };
    format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
}
