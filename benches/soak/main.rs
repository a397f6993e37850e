//! Runs two replicas on a real control plane under continuous load, with failures of the network, the API server and
//! leaders: checks that memory does not grow, and that the cluster always converges.
//!
//! ```text
//! repeatedly, for the given number of minutes:
//!   load         resets, foreign writes, edits of rules, created and deleted nodes: at random, from a seed
//!   disruption   meanwhile: the leader is isolated and its successor killed, the API server is killed and restarted,
//!                or connections are refused, delayed, cut, stalled or reset
//!   calm         until every node is as declared
//! ```
//!
//! The modules, each below those that import it:
//!
//! ```text
//! disruption · recorder · plot
//! load · report
//! replicas · observer · world
//! machine
//! ```
//!
//! `make soak` runs it. It fails if a node does not become as declared, memory grows, or a replica ends. It writes
//! `target/soak/soak.json` and `soak.svg`.

mod disruption;
mod load;
mod machine;
mod observer;
mod plot;
mod recorder;
mod replicas;
mod report;
mod world;

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use harness::{ControlPlane, DEADLINE, project_file};
use k8s_openapi::jiff::Timestamp;

use disruption::Disruptions;
use load::Load;
use observer::Observer;
use recorder::Recorder;
use replicas::Replicas;
use report::{Convergence, Machine, Report, Summary};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/soak");

/// Duration of the load before and after a disruption.
const UNDISTURBED: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    if !env::args().any(|arg| arg == "--bench") {
        eprintln!("this runs for an hour: run `make soak`");
        return ExitCode::SUCCESS;
    }
    match soak() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn setting<T: FromStr>(name: &str, default: T) -> Result<T> {
    let Some(text) = env::var(name).ok().filter(|text| !text.is_empty()) else {
        return Ok(default);
    };
    text.parse().ok().with_context(|| format!("{name}={text} is not a number"))
}

fn soak() -> Result<()> {
    let (minutes, nodes) = (setting("MINUTES", 60.0)?, setting("NODES", 200)?);
    let seed = setting("SEED", 1)?;
    let mut machine = Machine::new()?;
    let mut soak = Soak::start(seed, nodes)?;
    while soak.recorder.seconds() < minutes * 60.0 {
        soak.cycle()?;
    }
    let Soak { control_plane, replicas, load, recorder, .. } = soak;
    let Recorder { samples, repairs, disruptions, convergences, .. } = recorder;
    replicas.stop()?;
    machine.load_average[1] = machine::load_average()?;
    let version: serde_json::Value = serde_json::from_str(&control_plane.get("/version")?)?;
    let report = Report {
        schema_version: 1,
        date: Timestamp::now().to_string(),
        profile: if cfg!(debug_assertions) { "dev" } else { "release" },
        kubernetes: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
        machine,
        minutes,
        nodes,
        seed,
        summary: Summary::new(&samples, &repairs, &convergences),
        operations: load.operations,
        disruptions,
        convergences,
        repairs,
        samples,
    };
    let folder = Path::new(RESULTS);
    std::fs::create_dir_all(folder).context("cannot make a folder for the results")?;
    report.write(&folder.join("soak.json"))?;
    plot::write(&report, &folder.join("soak.svg"))?;
    println!("{}", serde_json::to_string_pretty(&report.summary)?);
    println!("{RESULTS}/soak.json, {RESULTS}/soak.svg");
    report.summary.check()
}

struct Soak {
    control_plane: ControlPlane,
    replicas: Replicas,
    load: Load,
    observer: Observer,
    recorder: Recorder,
    disruptions: Disruptions,
}

impl Soak {
    fn start(seed: u64, node_count: usize) -> Result<Self> {
        eprintln!("==> starting etcd, kube-apiserver and two replicas, for {node_count} nodes");
        let control_plane = ControlPlane::builder().start()?;
        let crd = project_file("crds/noderesource.dev_nodeextendedresources.yaml");
        control_plane.kubectl(&["apply", "-f", crd.to_str().context("a path not in UTF-8")?])?;
        let established = ["--for=condition=Established", "crd", "--all", "--timeout=180s"];
        control_plane.kubectl(&[&["wait"], &established[..]].concat())?;
        let mut load = Load::new(seed, node_count);
        load.populate(&control_plane)?;
        let replicas = Replicas::start(&control_plane)?;
        let observer = Observer::start()?;
        let recorder = Recorder::start(&control_plane)?;
        let disruptions = Disruptions::new(seed);
        let mut soak = Self { control_plane, replicas, load, observer, recorder, disruptions };
        soak.wait_converged()?;
        Ok(soak)
    }

    /// One cycle: a load with a disruption in the middle, and a calm.
    fn cycle(&mut self) -> Result<()> {
        self.load_for(UNDISTURBED)?;
        let disruption = self.disruptions.next(&self.replicas);
        let duration = disruption.duration();
        eprintln!("==> {:.0} s: {disruption}", self.recorder.seconds());
        self.recorder.disrupted(disruption.to_string(), duration);
        disruption.begin(&mut self.control_plane, &mut self.replicas)?;
        self.load_for(duration)?;
        disruption.end(&self.control_plane, &mut self.replicas)?;
        self.load_for(UNDISTURBED)?;
        self.wait_converged()
    }

    fn load_for(&mut self, duration: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < duration {
            self.tick()?;
            let is_undisturbed = !self.recorder.is_disturbed;
            self.load.step(&self.control_plane, &self.observer, is_undisturbed)?;
            std::thread::sleep(self.load.pause());
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        let Self { control_plane, replicas, load, observer, recorder, .. } = self;
        recorder.tick(control_plane, replicas, load, observer)
    }

    /// Waits until every node is as declared, and every repair has been seen.
    fn wait_converged(&mut self) -> Result<()> {
        let (start, at) = (Instant::now(), self.recorder.seconds());
        loop {
            self.tick()?;
            let difference = self.load.difference(&self.control_plane)?;
            let pending = self.observer.pending();
            if difference.is_none() && pending.is_none() {
                break;
            }
            if start.elapsed() > DEADLINE {
                let logs = self.control_plane.logs();
                bail!("not as declared after {DEADLINE:?}: {difference:?}, {pending:?}; see {logs:?}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.recorder.take_repairs(&self.observer);
        self.recorder.is_disturbed = false;
        self.recorder.convergences.push(Convergence { at, seconds: start.elapsed().as_secs_f64() });
        Ok(())
    }
}
