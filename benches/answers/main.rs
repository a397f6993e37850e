//! `kubectl ner` in a large cluster: its CPU time compared with decoding the same lists, and its memory.
//!
//! A server in this process has the cluster, as pages of JSON. The release build runs against it, in turns with a loop
//! that only decodes the same pages into the same types. `make bench-answers` runs it, and writes
//! `target/bench/answers.json`.

mod cluster;
#[allow(dead_code)] // the rollout bench uses more
#[path = "../rollout/machine.rs"]
mod machine;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use harness::project_file;
use node_resource_advertiser::model::node::object::NodeObject;
use node_resource_advertiser::model::pod::object::PodObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use cluster::{Cluster, NODE_PAGE, POD_PAGE};
use machine::Cpu;

/// The questions, each with the part of its output that shows that it counted everything.
const QUESTIONS: [&[&str]; 3] = [&["top"], &["node", "node-00000"], &["why", "default/pending"]];

fn main() -> ExitCode {
    if !env::args().any(|arg| arg == "--bench") {
        eprintln!("this runs for minutes: run `make bench-answers`");
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
    let (nodes, pods, pairs) = (number("NODES", 5000)?, number("PODS", 150_000)?, number("PAIRS", 3)?);
    let folder = project_file("target/bench");
    fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let cluster = Cluster::new(nodes, pods);
    println!("{nodes} nodes of {} bytes, {pods} pods of {} bytes", cluster.node_bytes(), cluster.pod_bytes());
    let server = cluster.clone().serve()?;
    let kubeconfig = folder.join("answers.kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig().to_string()).context("cannot write a kubeconfig")?;
    let mut rows = Vec::new();
    println!("{:32} {:>8} {:>9} {:>6} {:>8} {:>9}", "command", "CPU s", "decode s", "ratio", "MiB", "requests");
    for question in QUESTIONS {
        for _ in 0..pairs {
            let decoding = decode(&cluster)?;
            let before = server.requests();
            let run = ask(&kubeconfig, question, nodes)?;
            let requests = server.requests() - before;
            let (command, ratio) = (question.join(" "), run.cpu_s / decoding);
            println!(
                "{command:32} {:>8.2} {decoding:>9.2} {ratio:>6.2} {:>8.1} {requests:>9}",
                run.cpu_s, run.peak_mib
            );
            rows.push(json!({"command": command, "cpu_s": run.cpu_s, "decoding_s": decoding, "ratio": ratio,
                "peak_mib": run.peak_mib, "requests": requests}));
        }
    }
    let report = json!({"schema_version": 1, "nodes": nodes, "pods": pods, "rows": rows,
        "machine": {"cpu": machine::cpu_model(), "cores": machine::cores()}});
    fs::write(folder.join("answers.json"), format!("{report:#}\n"))
        .context("cannot write target/bench/answers.json")?;
    println!("==> target/bench/answers.json");
    Ok(())
}

fn number(name: &str, default: usize) -> Result<usize> {
    let text = env::var(name).unwrap_or_default();
    if text.is_empty() {
        return Ok(default);
    }
    text.parse().with_context(|| format!("{name}={text:?}: expected a number"))
}

/// A list, as the program decodes it.
#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// Decodes the objects of a page, and drops them.
fn read<T: DeserializeOwned>(page: &str) -> Result<()> {
    let list: List<T> = serde_json::from_str(page)?;
    ensure!(!list.items.is_empty(), "an empty page");
    Ok(())
}

/// Returns the CPU time that decoding all pages takes.
fn decode(cluster: &Cluster) -> Result<f64> {
    let cpu = Cpu::this_thread()?;
    let mut used = 0.0;
    let mut measured = |decode: &mut dyn FnMut() -> Result<()>| {
        let before = cpu.used_s()?;
        decode()?;
        used += cpu.used_s()? - before;
        Ok::<_, anyhow::Error>(())
    };
    // Many pages at once: the clock has ticks of 10 ms.
    for pages in chunks(cluster.nodes.div_ceil(NODE_PAGE)) {
        let pages: Vec<_> = pages.map(|page| cluster.node_page(page * NODE_PAGE, NODE_PAGE)).collect();
        measured(&mut || pages.iter().try_for_each(|page| read::<NodeObject>(page)))?;
    }
    for pages in chunks(cluster.pods.div_ceil(POD_PAGE)) {
        let pages: Vec<_> = pages.map(|page| cluster.pod_page(page * POD_PAGE, POD_PAGE)).collect();
        measured(&mut || pages.iter().try_for_each(|page| read::<PodObject>(page)))?;
    }
    Ok(used)
}

fn chunks(count: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..count).step_by(50).map(move |first| first..(first + 50).min(count))
}

struct Run {
    cpu_s: f64,
    peak_mib: f64,
}

/// Runs the program, and checks that its answer counts the whole cluster.
fn ask(kubeconfig: &Path, question: &[&str], nodes: usize) -> Result<Run> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
    program.args(question).args(["-o", "json"]).env("KUBECONFIG", kubeconfig);
    let output = project_file("target/bench/answer.json");
    program.stdout(fs::File::create(&output)?).stderr(Stdio::inherit());
    let mut child = program.spawn().context("cannot start the program")?;
    let run = observe(&child)?;
    // 1 is an answer of `why`.
    let code = child.wait()?.code();
    ensure!(matches!(code, Some(0 | 1)), "{question:?}: exit code {code:?}");
    let answer: Value = serde_json::from_str(&fs::read_to_string(&output)?)?;
    let resource = &answer["resources"][0];
    let is_whole = match question[0] {
        "top" => resource["nodes"] == nodes && resource["requested"] == *cluster::requested(nodes).to_string(),
        "node" => resource["pods"].as_array().is_some_and(|pods| pods.len() == 1),
        _ => answer["nodes"].as_array().is_some_and(|answers| answers.len() == nodes),
    };
    if !is_whole {
        bail!("{question:?}: {answer:#}");
    }
    Ok(run)
}

/// Returns the CPU time and the peak memory of a process, once it has ended.
fn observe(child: &Child) -> Result<Run> {
    let pid = child.id().try_into().context("the process id")?;
    let mut peak_mib = 0.0;
    // A process that has ended, and has not been waited for, has no memory, and still its CPU time.
    while let Ok(peak) = machine::peak_memory_mib(pid) {
        peak_mib = peak;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Run { cpu_s: Cpu::Process(pid).used_s()?, peak_mib })
}
