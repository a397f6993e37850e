//! What the watch of pods costs: the controller under `WhenFree`, which watches pods, against the same under `Immediate`,
//! which does not.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use node_resource_advertiser::model::api::ShrinkPolicy;

use crate::cluster::Cluster;
use crate::controller::Controller;
use crate::observer::State;
use crate::other;
use crate::pair::{Bench, TIME};
use crate::pods::{self, BoundPod};
use crate::sample::Sample;
use crate::span::Span;

/// One pod in this number requests the resource.
const REQUESTING_SHARE: usize = 25;
const MAX_CONCURRENT_REQUESTS: usize = 16;

const LIST_OTHERS: &str = "list of others";
const LIST: &str = "list";
const MEMORY: &str = "memory of the watch";
/// The rows about events, with the events per second, of pods that request nothing and of those that do.
const OTHER_EVENTS: [(&str, u32); 2] = [("120/s, others", 120), ("1,000/s, others", 1000)];
const REQUESTING_EVENTS: [(&str, u32); 2] = [("120/s, requesting", 120), ("1,000/s, requesting", 1000)];
const WINDOW: Duration = Duration::from_secs(20);

const EVENTS: &str = "events";
const PEAK_MEMORY: &str = "peak memory";
const MIB: &str = "MiB";
const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;

fn requesting_count(pod_count: usize) -> usize {
    pod_count.div_ceil(REQUESTING_SHARE)
}

/// Lists pods that are spread over all nodes.
fn spread(app: &str, count: usize, node_count: usize, amount: i64) -> Vec<BoundPod> {
    let pods = (0..count).map(|number| {
        let (place, node) = (number / node_count, number % node_count);
        BoundPod { app: format!("{app}-{place}"), node, amount }
    });
    pods.collect()
}

fn others(pod_count: usize, node_count: usize) -> Vec<BoundPod> {
    spread("service", pod_count - requesting_count(pod_count), node_count, 0)
}

/// Creates the pods that request nothing, which stay.
pub async fn create_others(cluster: &Cluster, pod_count: usize) -> Result<()> {
    let start = Instant::now();
    pods::create(&cluster.client, others(pod_count, cluster.node_count).into_iter()).await?;
    eprintln!("    they took {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

impl Bench {
    /// Measures the lists without pods that request the resource and with them, and then events.
    pub async fn watch_pods(&self, policy: ShrinkPolicy) -> Result<Sample> {
        let Self { cluster, pod_count, .. } = self;
        let mut sample = Sample::default();
        let controller = self.list(LIST_OTHERS, policy, &mut sample).await?;
        self.stop(controller).await?;

        let requesting = spread("worker", requesting_count(*pod_count), cluster.node_count, 1);
        pods::create(&cluster.client, requesting.iter().cloned()).await?;
        let controller = self.list(LIST, policy, &mut sample).await?;
        let others = others(*pod_count, cluster.node_count);
        for (rows, pods) in [(OTHER_EVENTS, &others), (REQUESTING_EVENTS, &requesting)] {
            for (row, rate) in rows {
                let span = Span::open(row, cluster, &[controller.cpu()]).await?;
                sample.record(row, EVENTS, EVENTS, change_pods(cluster, pods, rate).await? as f64);
                span.close(cluster, &[controller.cpu()], &mut sample).await?;
            }
        }
        self.stop(controller).await?;
        stream::iter(&requesting)
            .map(|pod| pods::end(&cluster.client, pod))
            .buffer_unordered(MAX_CONCURRENT_REQUESTS)
            .try_collect::<()>()
            .await?;
        Ok(sample)
    }

    /// Starts a controller, creates the rule, and measures until all nodes have the value and the controller knows the
    /// pods, if it watches them.
    async fn list(&self, row: &'static str, policy: ShrinkPolicy, sample: &mut Sample) -> Result<Controller> {
        let Self { cluster, observer, pod_count, .. } = self;
        let (controller, _) = Controller::start(cluster)?;
        controller.wait_leader(cluster.deadline())?;
        let span = Span::open(row, cluster, &[controller.cpu()]).await?;
        let start = Instant::now();
        cluster.create_rule_with(policy).await?;
        observer.wait_all(State::Advertised, cluster.deadline()).await?;
        if policy == ShrinkPolicy::WhenFree {
            let requested = if row == LIST { requesting_count(*pod_count) } else { 0 };
            controller.wait_requested(i64::try_from(requested)?, cluster.deadline())?;
        }
        sample.record_seconds(row, TIME, start.elapsed());
        sample.record(row, PEAK_MEMORY, MIB, controller.peak_memory_mib()?);
        span.close(cluster, &[controller.cpu()], sample).await?;
        Ok(controller)
    }

    /// Withdraws the value, and stops the controller.
    async fn stop(&self, controller: Controller) -> Result<()> {
        let Self { cluster, observer, .. } = self;
        cluster.delete_rule().await?;
        observer.wait_all(State::Vacant, cluster.deadline()).await?;
        controller.stop()
    }

    /// Records what the watch alone costs: what the controller used with it, minus the same without it.
    pub fn record_watch(&self, sample: &mut Sample, unwatched: &Sample) {
        let more = |row: &str, measure: &str| {
            let [with, without] = [&*sample, unwatched].map(|sample| sample.find(row, measure));
            Some(with? - without?)
        };
        let each = |row: &str, measure: &str| {
            let each = |sample: &Sample| Some(sample.find(row, measure)? / sample.find(row, EVENTS)?);
            Some((each(sample)? - each(unwatched)?) * 1e6)
        };
        let requesting = requesting_count(self.pod_count);
        let of_others = more(LIST_OTHERS, PEAK_MEMORY);
        let of_requesting = more(LIST, PEAK_MEMORY).zip(of_others).map(|(all, others)| all - others);
        let per_pod = |mib: Option<f64>, count: usize| mib.map(|mib| mib * BYTES_PER_MIB / count as f64);
        let mut costs = vec![
            (MEMORY, "per pod that requests".to_owned(), "B", per_pod(of_requesting, requesting)),
            (MEMORY, "per other pod".to_owned(), "B", per_pod(of_others, self.pod_count - requesting)),
        ];
        for measure in ["apiserver CPU", "client CPU"] {
            costs.push((LIST, format!("{measure} of the watch"), "s", more(LIST, measure)));
            let rows = OTHER_EVENTS.into_iter().chain(REQUESTING_EVENTS);
            costs.extend(rows.map(|(row, _)| (row, format!("{measure} per event"), "µs", each(row, measure))));
        }
        for (row, measure, unit, cost) in costs {
            if let Some(cost) = cost {
                sample.record(row, &measure, unit, cost);
            }
        }
    }
}

/// Changes the status of one pod after another, so many times a second, as far as the API server can. Returns the number
/// of changes.
async fn change_pods(cluster: &Cluster, pods: &[BoundPod], rate: u32) -> Result<usize> {
    let changes = other::ticks(rate).zip(stream::iter(pods.iter().cycle())).take_until(tokio::time::sleep(WINDOW));
    let changes = changes.enumerate().map(|(number, ((), pod))| pods::change(&cluster.client, pod, number));
    let sent = changes.buffer_unordered(MAX_CONCURRENT_REQUESTS).try_fold(0, |sent, ()| async move { Ok(sent + 1) });
    let sent = sent.await?;
    (0..sent).for_each(|_| cluster.count_own_request("PATCH pods/status"));
    Ok(sent)
}
