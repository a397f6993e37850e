//! Measures the controller on a real API server, and compares it with the baseline: the same patches
//! from the same client library, with no other work.
//!
//! ```text
//! for each pair, one after another, in alternating order:
//!   baseline    one watch, and a flood of planned patches; a bare watch-and-patch client ─┐
//!   controller  the release binary, and a rule                                           ─┼─▶ observer:
//!   policy      the baseline's flood under the chart's admission policy                  ─┘   all nodes
//!                                                                                     as desired, when
//! ```
//!
//! The modules, each below those that import it:
//!
//! ```text
//! in_rollout · held · pod_watch ▶ pair  the passes, row by row
//! overload                              what a failing API server is asked
//! edits · span · policy                 one node at a time; requests and CPU time; admission
//! other                                 patches beside those that are measured
//! baseline · controller · proxy         the measured programs
//! observer · nodes · pods               the objects and their observation
//! cluster · machine
//! compare · plot ▶ report ▶ sample      values, statistics, the file
//! ```
//!
//! `make bench` runs it. Times have no limits; wrong numbers of requests make it fail.
//! `cargo bench --bench rollout -- --compare OLD.json [NEW.json]` compares two files of results, and
//! `-- --plot COST.svg RESULTS.json…` draws those of different numbers of nodes.

mod baseline;
mod cluster;
mod compare;
mod controller;
mod edits;
mod held;
mod in_rollout;
#[allow(dead_code)] // the soak uses more of it
mod machine;
mod nodes;
mod observer;
mod other;
mod overload;
mod pair;
mod plot;
mod pod_watch;
mod pods;
mod policy;
mod proxy;
mod report;
mod sample;
mod span;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};

use cluster::Cluster;
use compare::Comparison;
use controller::Controller;
use observer::Observer;
use pair::{Bench, Part, Side};
use proxy::Proxy;
use report::Report;
use sample::{Key, Sample};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results.json");
/// Some rows only, which are not to be compared with those of a whole run.
const NODES_RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results-nodes.json");
const POLICY_RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results-policy.json");
const PODS_RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results-pods.json");
const WATCH_RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results-watch.json");
const OVERLOAD_RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results-overload.json");

fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_bench = env::args().any(|arg| arg == "--bench");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["--compare", old] => compare(old, RESULTS),
        ["--compare", old, new] => compare(old, new),
        ["--plot", svg, ref results @ ..] if !results.is_empty() => plot(svg, results),
        [] if is_bench => bench(),
        _ => {
            eprintln!("this measures release builds: run `make bench`");
            return ExitCode::SUCCESS;
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare(old: &str, new: &str) -> Result<()> {
    let [old, new] = [old, new].map(|path| Report::read(Path::new(path)));
    print!("{}", Comparison { old: &old?, new: &new? });
    Ok(())
}

fn plot(svg: &str, results: &[&str]) -> Result<()> {
    let mut reports = results.iter().map(|path| Report::read(Path::new(path))).collect::<Result<Vec<_>>>()?;
    reports.sort_by_key(|report| report.nodes);
    plot::write(&reports, Path::new(svg))
}

fn bench() -> Result<()> {
    let nodes = number("NODES", 1000)?;
    let pairs = number("PAIRS", 5)?;
    // One thread, as the controller has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (parts, results): (&[Part], _) = match env::var("ONLY").as_deref() {
        Ok("nodes") => (&[Part::Nodes], NODES_RESULTS),
        Ok("policy") => (&[Part::Policy], POLICY_RESULTS),
        Ok("pods") => (&[Part::Pods], PODS_RESULTS),
        Ok("overload") => (&[Part::Overload], OVERLOAD_RESULTS),
        Ok("watch") => (&[Part::Watch], WATCH_RESULTS),
        Ok("") | Err(_) => (&[Part::Nodes, Part::Policy, Part::Pods], RESULTS),
        Ok(rows) => bail!("ONLY={rows} is not nodes, policy, pods, overload or watch"),
    };
    runtime.block_on(measure(nodes, pairs, parts, results))
}

fn number(name: &str, default: usize) -> Result<usize> {
    let Some(text) = env::var(name).ok().filter(|text| !text.is_empty()) else {
        return Ok(default);
    };
    let number = text.parse().with_context(|| format!("{name}={text} is not a number"))?;
    ensure!(number > 0, "{name} must be 1 or more");
    Ok(number)
}

async fn measure(node_count: usize, pairs: usize, parts: &[Part], results: &str) -> Result<()> {
    eprintln!("==> starting etcd and kube-apiserver");
    let cluster = Cluster::start(node_count).await?;
    policy::delete_binding(&cluster).await?;
    let kubernetes = cluster.client.apiserver_version().await?.git_version;

    let (controller, _) = Controller::start(&cluster)?;
    let empty_mib = controller.peak_memory_mib()?;
    controller.stop()?;

    eprintln!("==> creating {node_count} nodes");
    let size = nodes::create_all(&cluster.client, node_count).await?;
    eprintln!("    one is {size} bytes of JSON");
    let observer = Observer::start(cluster.config.clone(), node_count).await?;
    let proxy = Proxy::start(&cluster).await?;
    let bench = Bench { cluster, observer, proxy, pod_count: number("PODS", 15_000)? };

    eprintln!("==> warming up");
    bench.warm_up().await?;
    let [mut controllers, mut baselines] = [vec![Sample::default(); pairs], vec![Sample::default(); pairs]];
    for &part in parts {
        if part == Part::Pods {
            eprintln!("==> creating pods");
            pods::create_all(&bench.cluster.client, node_count).await?;
        }
        if part == Part::Watch {
            eprintln!("==> creating {} pods", bench.pod_count);
            pod_watch::create_others(&bench.cluster, bench.pod_count).await?;
        }
        for pair in 0..pairs {
            // Alternate, so that a drift of the machine during the run affects both equally.
            let mut sides = [(Side::Baseline, &mut baselines), (Side::Controller, &mut controllers)];
            sides.rotate_left(pair % 2);
            for (side, samples) in sides {
                let mut sample = bench.measure(part, side).await?;
                if (part, side) == (Part::Nodes, Side::Controller) {
                    bench.record_memory_per_node(&mut sample, empty_mib);
                }
                samples[pair].extend(sample);
            }
            if part == Part::Watch {
                bench.record_watch(&mut controllers[pair], &baselines[pair]);
            }
            // After every pair, so that an interrupted run keeps its results.
            let report = Report::new(&kubernetes, node_count, &controllers, &baselines);
            report.write(Path::new(results))?;
            eprintln!("==> pair {} of {pairs}: {}", pair + 1, progress(&report));
        }
    }
    print!("{}", Report::new(&kubernetes, node_count, &controllers, &baselines));
    eprintln!("==> {results}");
    controllers.iter().try_for_each(|controller| check_requests(node_count, controller, parts))
}

/// Returns the last ratio of each time.
fn progress(report: &Report) -> String {
    let times = report.rows.iter().filter(|row| {
        let Key { measure, .. } = &row.key;
        [pair::TIME, "p50"].contains(&measure.as_str())
    });
    let ratios = times.filter_map(|row| Some((&row.key.row, row.ratio.as_ref()?.median)));
    ratios.map(|(row, ratio)| format!("{row} {ratio:.2}")).collect::<Vec<_>>().join(", ")
}

/// Fails if the controller wrote more or less than it must, or listed pods except to begin its watch. These counts do not
/// depend on the machine's load.
fn check_requests(node_count: usize, controller: &Sample, parts: &[Part]) -> Result<()> {
    let is_write = |verb: &str, resource: &str| !matches!(verb, "GET" | "LIST" | "WATCH") && resource != "leases";
    let is_patch = |verb: &str, resource: &str| (verb, resource) == ("PATCH", "nodes/status");
    let (mut rollouts, mut unwritten) = (Vec::new(), Vec::new());
    if parts.contains(&Part::Nodes) {
        rollouts.extend([pair::ADVERTISE, pair::EDIT_ALL, pair::WITHDRAW]);
        unwritten.extend([pair::RESTART, pair::IDLE]);
        let is_node_request = |verb: &str, resource: &str| verb != "WATCH" && resource.starts_with("nodes");
        let requests = controller.sum_requests(pair::EDIT_NOTHING, is_node_request);
        ensure!(requests <= 0.0, "{}: {requests} requests about nodes", pair::EDIT_NOTHING);
    }
    if parts.contains(&Part::Pods) {
        rollouts.extend([pair::APPEAR, pair::LOWER]);
        let lists = [(pair::APPEAR, pods::pages(node_count)), (pair::LOWER, 0), (pair::HOLD, 0), (pair::HELD, 0)];
        for (row, expected) in lists {
            let lists = controller.sum_requests(row, |verb, resource| (verb, resource) == ("LIST", "pods"));
            if lists != expected as f64 {
                bail!("{row}: {lists} requests for lists of pods, not {expected}");
            }
        }
    }
    let mut patched: Vec<_> = rollouts.into_iter().map(|row| (row, node_count)).collect();
    if parts.contains(&Part::Pods) {
        patched.push((pair::HELD, held::count(node_count)));
    }
    for (row, expected) in patched {
        let patches = controller.sum_requests(row, is_patch);
        if patches != expected as f64 {
            bail!("{row}: {patches} PATCH requests, not {expected}");
        }
    }
    for row in unwritten {
        let writes = controller.sum_requests(row, is_write);
        if writes > 0.0 {
            bail!("{row}: {writes} writes with nothing to do");
        }
    }
    Ok(())
}
