//! `kubectl ner` in a large cluster: its CPU time and its instructions compared with decoding the same lists, and its
//! memory.
//!
//! A server in this process has the cluster, as pages of JSON. The release build runs against it, in turns with a loop
//! that only decodes the same pages into the same types. Valgrind counts the instructions of both in a cluster of a
//! tenth of the size: they depend on no other load, and not on how fast the server is. `make bench-answers` runs it, and
//! writes `target/bench/answers.json`.

mod cluster;
#[allow(dead_code)] // the rollout bench uses more
#[path = "../rollout/machine.rs"]
mod machine;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
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
    let result = match env::var_os(PAGES_FOLDER) {
        Some(folder) => decode_files(Path::new(&folder)),
        None => run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Where this program, started by itself, finds pages to decode.
const PAGES_FOLDER: &str = "ANSWERS_PAGES";
/// How much smaller the cluster is in which instructions are counted, which takes 50 times as long.
const SMALLER: usize = 10;

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
    let counts = count_instructions(&cluster, &folder)?;
    let report = json!({"schema_version": 2, "instructions": counts, "nodes": nodes, "pods": pods, "rows": rows,
        "machine": {"cpu": machine::cpu_model(), "cores": machine::cores()}});
    fs::write(folder.join("answers.json"), format!("{report:#}\n"))
        .context("cannot write target/bench/answers.json")?;
    println!("==> target/bench/answers.json");
    Ok(())
}

/// Returns the instructions of each question, and of decoding, in a smaller cluster.
fn count_instructions(cluster: &Cluster, folder: &Path) -> Result<Value> {
    let cluster = cluster.smaller(SMALLER);
    let pages = folder.join("answers-pages");
    let _ = fs::remove_dir_all(&pages);
    fs::create_dir_all(&pages)?;
    for first in (0..cluster.nodes).step_by(NODE_PAGE) {
        fs::write(pages.join(format!("nodes-{first}")), cluster.node_page(first, NODE_PAGE))?;
    }
    for first in (0..cluster.pods).step_by(POD_PAGE) {
        fs::write(pages.join(format!("pods-{first}")), cluster.pod_page(first, POD_PAGE))?;
    }
    let this = env::current_exe()?;
    let floor = instructions(&[this.as_os_str(), "--bench".as_ref()], (PAGES_FOLDER, &pages), folder)?;
    println!("{:32} {:>16} {:>16} {:>6}", "command", "instructions", "of decoding", "ratio");
    let server = cluster.clone().serve()?;
    let kubeconfig = folder.join("answers-smaller.kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig().to_string())?;
    let mut rows = Vec::new();
    for question in QUESTIONS {
        let program = [env!("CARGO_BIN_EXE_node-resource-advertiser")];
        let command = program.iter().chain(question).chain(&["-o", "json"]).map(OsStr::new);
        let count = instructions(&command.collect::<Vec<_>>(), ("KUBECONFIG", &kubeconfig), folder)?;
        let (command, ratio) = (question.join(" "), count as f64 / floor as f64);
        println!("{command:32} {count:>16} {floor:>16} {ratio:>6.2}");
        rows.push(json!({"command": command, "instructions": count, "decoding": floor, "ratio": ratio}));
    }
    fs::remove_dir_all(&pages)?;
    Ok(json!({"nodes": cluster.nodes, "pods": cluster.pods, "rows": rows}))
}

/// Returns the instructions of a command.
fn instructions(command: &[&OsStr], variable: (&str, &Path), folder: &Path) -> Result<u64> {
    let counts = folder.join("answers.callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", counts.display()));
    let output = valgrind.args(command).env(variable.0, variable.1).output().context("cannot run valgrind")?;
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&counts)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.context("Callgrind printed no total")
}

/// Decodes the pages in a folder.
fn decode_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let page = fs::read_to_string(entry.path())?;
        match entry.file_name().to_string_lossy().starts_with("nodes") {
            true => read::<NodeObject>(&page)?,
            false => read::<PodObject>(&page)?,
        }
    }
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

/// The number of pages to decode at once: the clock has ticks of 10 ms.
const PAGES: usize = 50;

/// Returns the CPU time that decoding all pages takes, while another thread makes the next ones, like the server.
fn decode(cluster: &Cluster) -> Result<f64> {
    let cpu = Cpu::this_thread()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(move || {
            let nodes =
                (0..cluster.nodes).step_by(NODE_PAGE).map(|first| Page::Nodes(cluster.node_page(first, NODE_PAGE)));
            let pods = (0..cluster.pods).step_by(POD_PAGE).map(|first| Page::Pods(cluster.pod_page(first, POD_PAGE)));
            let mut pages = nodes.chain(pods).peekable();
            while pages.peek().is_some() {
                if sender.send(pages.by_ref().take(PAGES).collect::<Vec<_>>()).is_err() {
                    break;
                }
            }
        });
        let mut used = 0.0;
        for pages in receiver {
            let before = cpu.used_s()?;
            for page in &pages {
                match page {
                    Page::Nodes(page) => read::<NodeObject>(page)?,
                    Page::Pods(page) => read::<PodObject>(page)?,
                }
            }
            used += cpu.used_s()? - before;
        }
        Ok(used)
    })
}

enum Page {
    Nodes(String),
    Pods(String),
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
        thread::sleep(Duration::from_millis(5));
    }
    Ok(Run { cpu_s: Cpu::Process(pid).used_s()?, peak_mib })
}
