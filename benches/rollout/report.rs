//! The results: a JSON file for comparisons, and a table for people.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::machine;
use crate::sample::{Key, Sample, Spread, all_keys};

/// The version of the file's schema, raised by each change that earlier readers would misread.
const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    schema_version: u32,
    pub date: String,
    /// The commit, with `-dirty` if files differ from it.
    pub commit: String,
    /// Git's hash of `src/` at that commit.
    src_tree: String,
    /// Cargo's profile of the controller and of the baseline.
    profile: String,
    kubernetes: String,
    machine: Machine,
    pub nodes: usize,
    pub pairs: usize,
    pub rows: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    cores: usize,
    cpu: String,
    memory_gib: f64,
}

/// One measure of one row, with a value for each pair.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    pub key: Key,
    pub controller: Values,
    pub baseline: Option<Values>,
    /// The controller's value divided by the baseline's, pair by pair.
    pub ratio: Option<Spread>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Values {
    values: Vec<f64>,
    #[serde(flatten)]
    pub spread: Spread,
}

impl Report {
    pub fn new(kubernetes: &str, nodes: usize, controllers: &[Sample], baselines: &[Sample]) -> Self {
        let keys = all_keys(controllers);
        Self {
            schema_version: SCHEMA_VERSION,
            date: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            commit: git(&["describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]),
            src_tree: git(&["rev-parse", "HEAD:src"]),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            kubernetes: kubernetes.to_owned(),
            machine: Machine { cores: machine::cores(), cpu: machine::cpu_model(), memory_gib: machine::memory_gib() },
            nodes,
            pairs: controllers.len(),
            rows: keys.iter().filter_map(|key| Row::new(key, controllers, baselines)).collect(),
        }
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let context = || format!("cannot write {}", path.display());
        fs::create_dir_all(path.parent().with_context(context)?).with_context(context)?;
        fs::write(path, text).with_context(context)
    }

    /// Returns one measure of one row.
    pub fn find(&self, row: &str, measure: &str) -> Option<&Row> {
        self.rows.iter().find(|it| it.key.row == row && it.key.measure == measure)
    }

    pub fn read(path: &Path) -> Result<Self> {
        let context = || format!("cannot read {}", path.display());
        let text = fs::read_to_string(path).with_context(context)?;
        let report: Self = serde_json::from_str(&text).with_context(context)?;
        ensure!(
            report.schema_version == SCHEMA_VERSION,
            "{} has schema version {}, not {SCHEMA_VERSION}",
            path.display(),
            report.schema_version,
        );
        Ok(report)
    }
}

impl Row {
    fn new(key: &Key, controllers: &[Sample], baselines: &[Sample]) -> Option<Self> {
        // The last pairs of an interrupted run lack some rows.
        let pairs = controllers.iter().zip(baselines);
        let pairs = pairs.filter_map(|(controller, baseline)| Some((controller.get(key)?, baseline.get(key))));
        let (controller, baseline): (Vec<_>, Vec<_>) = pairs.unzip();
        let baseline: Option<Vec<f64>> = baseline.into_iter().collect();
        let ratio = baseline.as_ref().filter(|_| !key.is_load_average());
        let ratio = ratio.and_then(|baseline| {
            let pairs = controller.iter().zip(baseline);
            // No ratio for a baseline of 0.
            let ratios = pairs.map(|(value, baseline)| (*baseline > 0.0).then(|| value / baseline));
            Spread::new(&ratios.collect::<Option<Vec<_>>>()?)
        });
        Some(Self {
            key: key.clone(),
            controller: Values::new(controller)?,
            baseline: baseline.and_then(Values::new),
            ratio: ratio.map(Spread::rounded),
        })
    }
}

impl Values {
    fn new(values: Vec<f64>) -> Option<Self> {
        let spread = Spread::new(&values)?.rounded();
        Some(Self { values: values.into_iter().map(round).collect(), spread })
    }
}

impl Spread {
    fn rounded(self) -> Self {
        Self { median: round(self.median), min: round(self.min), max: round(self.max) }
    }
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn git(args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

/// Formats with about three digits, or as a whole number.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, min, max } = self;
        let whole = [median, min, max].iter().all(|value| value.fract() == 0.0);
        let digits = match self.max {
            _ if whole => 0,
            max if max >= 100.0 => 0,
            max if max >= 10.0 => 1,
            max if max >= 1.0 => 2,
            _ => 3,
        };
        let text = if min.to_bits() == max.to_bits() {
            format!("{median:.digits$}")
        } else {
            format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
        };
        f.pad(&text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |row: &str, measure: &str, unit: &str, cells: [&str; 3]| {
            let [controller, baseline, ratio] = cells;
            writeln!(f, "{row:<21} {measure:<34} {unit:<9} {controller:<20} {baseline:<20} {ratio}")
        };
        let cells = ["controller (min–max)", "baseline", "ratio"];
        line("row", "measure", "unit", cells)?;
        let rows = self.rows.iter().filter(|row| !row.key.is_load_average());
        for Row { key, controller, baseline, ratio } in rows {
            let cell = |spread: Option<&Spread>| spread.map_or("-".to_owned(), Spread::to_string);
            let baseline = cell(baseline.as_ref().map(|values| &values.spread));
            let cells = [&controller.spread.to_string(), &baseline, &cell(ratio.as_ref())];
            line(&key.row, &key.measure, &key.unit, cells.map(String::as_str))?;
        }
        match self.load_average() {
            Some([least, most]) => writeln!(f, "load average {least} to {most} on {} cores", self.machine.cores),
            None => Ok(()),
        }
    }
}

impl Report {
    /// Returns the minimum and the maximum during the run, if the rows have it.
    fn load_average(&self) -> Option<[f64; 2]> {
        let rows = self.rows.iter().filter(|row| row.key.is_load_average());
        let spreads = rows.flat_map(|row| {
            let baseline = row.baseline.as_ref().map(|values| &values.spread);
            baseline.into_iter().chain([&row.controller.spread])
        });
        spreads.map(|spread| [spread.min, spread.max]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
    }
}
