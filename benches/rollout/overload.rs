//! Rows of an overloaded API server: for a minute, a proxy in front of it rejects or delays what the controller sends,
//! while the rule gets another quantity and kubelets restart. Without a baseline: what counts is how many requests the
//! controller sends, how much memory it takes, and how soon all is as declared afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::http::StatusCode;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Api;
use kube::api::{Patch, PatchParams};
use node_resource_advertiser::model::node::ApiNode;
use serde_json::json;

use crate::cluster::{self, Cluster};
use crate::controller::Controller;
use crate::edits;
use crate::machine::Cpu;
use crate::nodes;
use crate::observer::{Observer, State};
use crate::proxy::{Fault, Proxy};
use crate::sample::{REQUESTS, Sample};

/// How long an overload lasts.
const OVERLOAD: Duration = Duration::from_secs(60);
const RESTART_INTERVAL: Duration = Duration::from_secs(1);
const LATENCY: Duration = Duration::from_secs(10);
const WATCH_LASTS: Duration = Duration::from_secs(1);
const FAULTS: [(&str, Option<Fault>); 6] = [
    ("overload: none", None),
    ("overload: 429 with Retry-After: 10", Some(Fault::Rejects(StatusCode::TOO_MANY_REQUESTS, Some(10)))),
    ("overload: 500", Some(Fault::Rejects(StatusCode::INTERNAL_SERVER_ERROR, None))),
    ("overload: responses take 10 s", Some(Fault::RespondsLate(LATENCY))),
    ("overload: processed after 10 s", Some(Fault::ProcessesLate(LATENCY))),
    ("overload: watches expire after a second", Some(Fault::ExpiresWatches(WATCH_LASTS))),
];
const LABELS: &str = "labels that change";
/// More do not make an API server on a few cores faster.
const MAX_CONCURRENT_CHANGES: usize = 16;

/// Measures all rows.
pub async fn measure(cluster: &Cluster, observer: &Observer, proxy: &Proxy) -> Result<Sample> {
    let mut sample = Sample::default();
    for (row, fault) in FAULTS {
        let overload = async {
            proxy.set_fault(fault);
            cluster.edit_rule(json!({"quantity": cluster::RAISED})).await?;
            restart_kubelets(cluster).await
        };
        run(row, overload, State::Raised, (cluster, observer, proxy), &mut sample).await?;
    }
    let changes = async {
        let changes = change_labels(cluster).await?;
        eprintln!("    {changes} changes of labels");
        Ok(())
    };
    run(LABELS, changes, State::Advertised, (cluster, observer, proxy), &mut sample).await?;
    Ok(sample)
}

/// Measures one overload, which leaves nodes as `state` says.
async fn run(
    row: &str,
    overload: impl Future<Output = Result<()>>,
    state: State,
    (cluster, observer, proxy): (&Cluster, &Observer, &Proxy),
    sample: &mut Sample,
) -> Result<()> {
    eprintln!("==> {row}");
    let deadline = cluster.deadline();
    let (controller, _) = Controller::start_with(cluster, &proxy.kubeconfig)?;
    controller.wait_leader(deadline)?;
    cluster.create_rule().await?;
    observer.wait_all(State::Advertised, deadline).await?;
    cluster.wait_rule_ready().await?;
    controller.reset_peak_memory()?;
    proxy.take_requests();
    let apiserver = Cpu::Process(cluster.control_plane.apiserver_pid());
    let before = apiserver.used_s()?;

    overload.await?;

    sample.record(row, "apiserver CPU", "s", apiserver.used_s()? - before);
    for (request, count) in proxy.take_requests() {
        sample.record(row, &request, REQUESTS, count as f64);
    }
    proxy.set_fault(None);
    let start = Instant::now();
    observer.wait_all(state, deadline).await?;
    cluster.wait_rule_ready().await?;
    sample.record_seconds(row, "time until as declared", start.elapsed());
    sample.record(row, "peak memory", "MiB", controller.peak_memory_mib()?);
    cluster.delete_rule().await?;
    observer.wait_all(State::Vacant, deadline).await?;
    controller.stop()
}

/// For the time of the overload, resets the value of one node after another.
async fn restart_kubelets(cluster: &Cluster) -> Result<()> {
    let end = Instant::now() + OVERLOAD;
    let mut ticks = tokio::time::interval(RESTART_INTERVAL);
    for number in (0..cluster.node_count).cycle() {
        ticks.tick().await;
        if Instant::now() >= end {
            break;
        }
        edits::reset(cluster, number).await?;
    }
    Ok(())
}

/// For the time of the overload, lets one node after another leave the rule's selector and enter it again, as fast as
/// the API server can; finally, all nodes are selected. Returns the number of changes.
async fn change_labels(cluster: &Cluster) -> Result<usize> {
    let end = Instant::now() + OVERLOAD;
    let api = &Api::<ApiNode>::all(cluster.client.clone());
    let mut changes = 0;
    while Instant::now() < end {
        for system in ["none", "linux"] {
            let patch = &Patch::Merge(json!({"metadata": {"labels": {"kubernetes.io/os": system}}}));
            stream::iter(0..cluster.node_count)
                .map(|number| async move {
                    let name = nodes::name(number);
                    let patched = api.patch_metadata(&name, &PatchParams::default(), patch).await;
                    patched.with_context(|| format!("cannot label {name}"))?;
                    anyhow::Ok(())
                })
                .buffer_unordered(MAX_CONCURRENT_CHANGES)
                .try_collect::<()>()
                .await?;
            changes += cluster.node_count;
        }
    }
    Ok(changes)
}
