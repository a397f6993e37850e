//! The measurements and their summary: `soak.json`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use crate::machine;
use crate::replicas::KEPT;

/// Maximum ratio of the memory in the last third to that in the first.
const MAX_GROWTH: f64 = 1.2;
/// The warm-up, which belongs to no third.
const WARM_UP: f64 = 0.1;

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema_version: u32,
    pub date: String,
    /// Cargo's profile of the program.
    pub profile: &'static str,
    pub kubernetes: String,
    pub machine: Machine,
    pub minutes: f64,
    pub nodes: usize,
    pub seed: u64,
    pub summary: Summary,
    /// The number of each of the load's operations.
    pub operations: BTreeMap<&'static str, u64>,
    pub disruptions: Vec<Disruption>,
    pub convergences: Vec<Convergence>,
    pub repairs: Vec<Repair>,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub cpu: String,
    pub memory_gib: f64,
    /// Before and after the run; it includes other programs.
    pub load_average: [f64; 2],
}

/// The state of the machine and the replicas at one moment.
#[derive(Debug, Default, Serialize)]
pub struct Sample {
    /// Seconds since the start, as everywhere here.
    pub at: f64,
    /// Resident memory of the replica that is killed repeatedly, and of the one that is kept.
    pub memory_mib: [f64; 2],
    /// The replica that leads.
    pub leader: Option<usize>,
    /// The controllers' requests since the last sample, by verb, resource and code.
    pub requests_per_s: BTreeMap<String, f64>,
}

/// A deliberate disruption.
#[derive(Clone, Debug, Serialize)]
pub struct Disruption {
    pub at: f64,
    pub until: f64,
    pub name: String,
}

/// The time that the cluster took to converge after the end of a load.
#[derive(Debug, Serialize)]
pub struct Convergence {
    pub at: f64,
    pub seconds: f64,
}

/// The time from sending a reset until a watch showed its repair.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Repair {
    pub at: f64,
    pub ms: f64,
    /// Whether there was a disruption since the cluster was last as declared.
    pub disturbed: bool,
}

#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub undisturbed_repairs: Spread,
    pub disturbed_repairs: Spread,
    pub longest_convergence_s: f64,
    /// Medians of the kept replica: in the first third after the warm-up, and in the last.
    pub memory_mib: [f64; 2],
    pub requests_per_s: BTreeMap<String, f64>,
}

#[derive(Debug, Default, Serialize)]
pub struct Spread {
    pub count: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Spread {
    fn of(repairs: &[Repair], disturbed: bool) -> Self {
        let values = repairs.iter().filter(|repair| repair.disturbed == disturbed);
        let values: Vec<_> = values.map(|repair| repair.ms).collect();
        let [p50_ms, p99_ms, max_ms] = [0.5, 0.99, 1.0].map(|share| quantile(&values, share));
        Self { count: values.len(), p50_ms, p99_ms, max_ms }
    }
}

/// Returns the value below which this share of the values lies; 0 without values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

impl Summary {
    pub fn new(samples: &[Sample], repairs: &[Repair], convergences: &[Convergence]) -> Self {
        let end = samples.last().map_or(0.0, |sample| sample.at);
        let third = (1.0 - WARM_UP) / 3.0;
        let memory = |from: f64, until: f64| {
            let within = samples
                .iter()
                .filter(|sample| (from * end..=until * end).contains(&sample.at))
                .filter_map(|sample| sample.memory_mib.get(KEPT).copied());
            quantile(&within.collect::<Vec<_>>(), 0.5)
        };
        let mut requests_per_s = BTreeMap::<_, f64>::new();
        for (kind, rate) in samples.iter().flat_map(|sample| &sample.requests_per_s) {
            *requests_per_s.entry(kind.clone()).or_default() += rate / samples.len() as f64;
        }
        Self {
            undisturbed_repairs: Spread::of(repairs, false),
            disturbed_repairs: Spread::of(repairs, true),
            longest_convergence_s: convergences.iter().fold(0.0, |most, it| it.seconds.max(most)),
            memory_mib: [memory(WARM_UP, WARM_UP + third), memory(1.0 - third, 1.0)],
            requests_per_s,
        }
    }

    /// Fails if memory grows.
    pub fn check(&self) -> Result<()> {
        let [first, last] = self.memory_mib;
        let growth = last / first;
        ensure!(growth <= MAX_GROWTH, "memory grows: {first:.1} MiB in the first third, {last:.1} MiB in the last");
        Ok(())
    }
}

impl Report {
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Machine {
    pub fn new() -> Result<Self> {
        Ok(Self {
            cores: machine::cores(),
            cpu: machine::cpu_model(),
            memory_gib: machine::memory_gib(),
            load_average: [machine::load_average()?; 2],
        })
    }
}
