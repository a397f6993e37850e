//! The table, and the same as JSON.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

pub struct Report {
    pub nodes: usize,
    pub rows: Vec<Row>,
}

/// One thing that was measured, once a turn.
pub struct Row {
    name: &'static str,
    unit: &'static str,
    value: Spread,
    samples: Vec<f64>,
    floor: Option<Spread>,
    ratio: Option<Spread>,
}

#[derive(Clone, Copy)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Row {
    pub fn new(name: &'static str, unit: &'static str, samples: &[f64]) -> Self {
        let value = Spread::of(samples);
        Self { name, unit, value, samples: samples.to_vec(), floor: None, ratio: None }
    }

    /// Compares with the floor, which was measured as often: the ratio is the median over the pairs.
    pub fn over(mut self, floor: &[f64]) -> Self {
        let ratios = self.samples.iter().zip(floor).map(|(value, floor)| value / floor);
        self.ratio = Some(Spread::of(&ratios.collect::<Vec<_>>()));
        self.floor = Some(Spread::of(floor));
        self
    }

    fn to_json(&self, nodes: usize) -> Value {
        let Self { name, unit, value, floor, ratio, .. } = self;
        json!({
            "name": name,
            "nodes": nodes,
            "value": round(value.median),
            "min": round(value.min),
            "max": round(value.max),
            "unit": unit,
            "floor": floor.map(|floor| round(floor.median)),
            "ratio": ratio.map(|ratio| round(ratio.median)),
        })
    }
}

impl Spread {
    fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
        let middle = sorted.len() / 2;
        let lower = if sorted.len().is_multiple_of(2) { middle.saturating_sub(1) } else { middle };
        Self {
            median: f64::midpoint(at(lower), at(middle)),
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        }
    }
}

/// Some three digits, or a whole number.
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

impl Report {
    pub fn write(&self, path: &Path) -> Result<()> {
        let rows: Vec<_> = self.rows.iter().map(|row| row.to_json(self.nodes)).collect();
        let text = format!("{:#}\n", Value::from(rows));
        let context = || format!("cannot write {}", path.display());
        fs::create_dir_all(path.parent().with_context(context)?).with_context(context)?;
        fs::write(path, text).with_context(context)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, nodes: &str, unit: &str, cells: [&str; 3]| {
            let [value, floor, ratio] = cells;
            writeln!(f, "{name:<31} {nodes:>5}  {value:<20} {unit:<11} {floor:<20} {ratio}")
        };
        line("name", "nodes", "unit", ["median (min–max)", "floor", "ratio"])?;
        let nodes = self.nodes.to_string();
        for Row { name, unit, value, floor, ratio, .. } in &self.rows {
            let [floor, ratio] = [floor, ratio]
                .map(|spread| spread.map_or_else(|| "-".to_owned(), |spread| spread.to_string()));
            line(name, &nodes, unit, [&value.to_string(), &floor, &ratio])?;
        }
        Ok(())
    }
}

/// The least of the values that `share` of them are not above, in milliseconds.
pub fn percentile(values: &[Duration], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = (share * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(place.saturating_sub(1)).copied().unwrap_or_default();
    value.as_secs_f64() * 1000.0
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
