//! Rolls a rule out over many nodes of a real API server, and compares that with the floor: the
//! same patches from the same client library, sent with nothing else to do.
//!
//! ```text
//! for each pair, in turn and in alternating order:
//!   floor       one watch, and a flood of what `plan` gives ─┐
//!   controller  the release binary, and a rule applied      ─┼─▶ observer: when the last node has it
//!   policy      the floor's flood, confined by the chart    ─┘
//! ```
//!
//! `make bench` runs it. Times decide nothing; wrong numbers of writes make it fail.

mod cluster;
mod controller;
mod fleet;
mod floor;
mod observer;
mod policy;
mod report;
mod turns;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use cluster::Cluster;
use report::{Report, Row};
use turns::{ControllerTurn, FloorTurn, PolicyTurn};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench/results.json");

fn main() -> ExitCode {
    if !env::args().any(|arg| arg == "--bench") {
        eprintln!("this measures release builds: run `make bench`");
        return ExitCode::SUCCESS;
    }
    match bench() {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            complaints.iter().for_each(|complaint| eprintln!("error: {complaint}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and tells what is wrong with the counts.
fn bench() -> Result<Vec<String>> {
    let nodes = number("NODES", 1000)?;
    let pairs = number("PAIRS", 5)?;
    // One thread, as the controller has.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (floors, turns, policies) = runtime.block_on(measure(nodes, pairs))?;
    let report = report(nodes, &floors, &turns, &policies);
    print!("{report}");
    report.write(Path::new(RESULTS))?;
    eprintln!("==> {RESULTS}");
    Ok(complaints(nodes, &turns))
}

fn number(name: &str, default: usize) -> Result<usize> {
    let Some(text) = env::var(name).ok().filter(|text| !text.is_empty()) else {
        return Ok(default);
    };
    let number = text.parse().with_context(|| format!("{name}={text} is not a number"))?;
    ensure!(number > 0, "{name} must be 1 or more");
    Ok(number)
}

async fn measure(
    nodes: usize,
    pairs: usize,
) -> Result<(Vec<FloorTurn>, Vec<ControllerTurn>, Vec<PolicyTurn>)> {
    eprintln!("==> booting etcd and kube-apiserver");
    let cluster = Cluster::start(nodes).await?;
    eprintln!("==> making {nodes} nodes");
    let size = fleet::create(&cluster.client, nodes).await?;
    eprintln!("    one is {size} bytes of JSON");
    let observer = cluster.observer().await?;

    eprintln!("==> warming up");
    turns::floor(&cluster, &observer).await?;
    let (mut floors, mut turns, mut policies) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        // What drifts in the course of the run is to weigh on both alike.
        let (floor, turn) = if pair % 2 == 0 {
            let floor = turns::floor(&cluster, &observer).await?;
            (floor, turns::controller(&cluster, &observer).await?)
        } else {
            let turn = turns::controller(&cluster, &observer).await?;
            (turns::floor(&cluster, &observer).await?, turn)
        };
        eprintln!(
            "==> pair {} of {pairs}: rollout {:.3} s, floor {:.3} s; withdrawal {:.3} s, floor {:.3} s",
            pair + 1,
            turn.rollout.as_secs_f64(),
            floor.rollout.as_secs_f64(),
            turn.withdrawal.as_secs_f64(),
            floor.withdrawal.as_secs_f64(),
        );
        floors.push(floor);
        turns.push(turn);
        policies.push(turns::policy(&cluster, &observer).await?);
    }
    Ok((floors, turns, policies))
}

fn report(
    nodes: usize,
    floors: &[FloorTurn],
    turns: &[ControllerTurn],
    policies: &[PolicyTurn],
) -> Report {
    let floor = |value: fn(&FloorTurn) -> f64| floors.iter().map(value).collect::<Vec<_>>();
    let turn = |value: fn(&ControllerTurn) -> f64| turns.iter().map(value).collect::<Vec<_>>();
    let policy = |value: fn(&PolicyTurn) -> f64| policies.iter().map(value).collect::<Vec<_>>();
    let per_node = |count: u64| count as f64 / nodes as f64;
    let patches: Vec<_> = turns.iter().map(|turn| per_node(turn.patches)).collect();

    let mut rows = vec![
        Row::new("rollout", "s", &turn(|turn| turn.rollout.as_secs_f64()))
            .over(&floor(|turn| turn.rollout.as_secs_f64())),
        Row::new("withdrawal", "s", &turn(|turn| turn.withdrawal.as_secs_f64()))
            .over(&floor(|turn| turn.withdrawal.as_secs_f64())),
        Row::new("rollout, server CPU", "ms", &turn(|turn| turn.rollout_cpu))
            .over(&floor(|turn| turn.rollout_cpu)),
        Row::new("withdrawal, server CPU", "ms", &turn(|turn| turn.withdrawal_cpu))
            .over(&floor(|turn| turn.withdrawal_cpu)),
        Row::new("rollout confined, server CPU", "ms", &policy(|turn| turn.rollout_cpu))
            .over(&floor(|turn| turn.rollout_cpu)),
        Row::new("withdrawal confined, server CPU", "ms", &policy(|turn| turn.withdrawal_cpu))
            .over(&floor(|turn| turn.withdrawal_cpu)),
        Row::new("patches", "PATCH/node", &patches).over(&vec![1.0; patches.len()]),
        Row::new("restart, converged", "writes", &turn(|turn| turn.restart_writes as f64)),
        Row::new("restart until ready", "s", &turn(|turn| turn.restart.as_secs_f64()))
            .over(&floor(|turn| turn.list.as_secs_f64())),
    ];
    for (name, share) in [("repair, p50", 0.50), ("repair, p99", 0.99)] {
        let values = turns.iter().map(|turn| report::percentile(&turn.repairs, share));
        let floor = floors.iter().map(|turn| report::percentile(&turn.repairs, share));
        let row = Row::new(name, "ms", &values.collect::<Vec<_>>());
        rows.push(row.over(&floor.collect::<Vec<_>>()));
    }
    rows.push(Row::new("peak memory", "MiB", &turn(|turn| turn.peak_memory)));
    Report { nodes, rows }
}

/// What no time excuses.
fn complaints(nodes: usize, turns: &[ControllerTurn]) -> Vec<String> {
    let mut complaints = Vec::new();
    for turn in turns {
        if turn.patches != nodes as u64 {
            complaints.push(format!("{} PATCH requests for {nodes} nodes", turn.patches));
        }
        if turn.restart_writes != 0 {
            let writes = turn.restart_writes;
            complaints.push(format!("{writes} writes after a restart with nothing to do"));
        }
    }
    complaints
}
