//! What was measured, and what follows from it: `soak.json`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use crate::machine;
use crate::replicas::KEPT;

/// How much more memory the last third may take than the first.
const MAX_GROWTH: f64 = 1.2;
/// So much of the beginning belongs to no third.
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
    /// How often the load did what.
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
    /// Before and after: other programs' share in it is not known.
    pub load_average: [f64; 2],
}

/// What the machine and the replicas were like at one moment.
#[derive(Debug, Default, Serialize)]
pub struct Sample {
    /// Seconds since the start, as everywhere here.
    pub at: f64,
    /// Resident memory of the replica that is killed now and then, and of the one that is kept.
    pub memory_mib: [f64; 2],
    /// Which of them leads.
    pub leader: Option<usize>,
    /// The controllers' requests since the last sample, by verb, resource and code.
    pub requests_per_s: BTreeMap<String, f64>,
}

/// What was broken on purpose.
#[derive(Clone, Debug, Serialize)]
pub struct Disruption {
    pub at: f64,
    pub until: f64,
    pub name: String,
}

/// How long the cluster took to be as declared, after the end of a load.
#[derive(Debug, Serialize)]
pub struct Convergence {
    pub at: f64,
    pub seconds: f64,
}

/// From the moment that a reset was sent until its repair was seen in a watch.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Repair {
    pub at: f64,
    pub ms: f64,
    /// Whether something was broken on purpose since the last time that the cluster was as declared.
    pub disturbed: bool,
}

#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub undisturbed_repairs: Spread,
    pub disturbed_repairs: Spread,
    pub longest_convergence_s: f64,
    /// Medians of the replica that is kept: of the first third after the warm-up, and of the last.
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

/// Returns the value below which this share of the values is; 0 of none.
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

    /// Fails where memory grows.
    pub fn check(&self) -> Result<()> {
        let [first, last] = self.memory_mib;
        let growth = last / first;
        ensure!(
            growth <= MAX_GROWTH,
            "memory grows: {first:.1} MiB in the first third, {last:.1} MiB in the last"
        );
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
