//! The measurements of one side of a pair, and the statistics over all pairs.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The unit of counts by verb and resource.
pub const REQUESTS: &str = "requests";

/// Identifies one number of the bench. A row is a span of time, such as the rollout of a rule, and has
/// everything measured in that span.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub row: String,
    pub measure: String,
    pub unit: String,
}

/// The measure of the machine's load.
pub const LOAD_AVERAGE: &str = "load average";

impl Key {
    pub fn is_load_average(&self) -> bool {
        self.measure.starts_with(LOAD_AVERAGE)
    }
}

/// One pass of the controller, or of the baseline.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<(Key, f64)>);

impl Sample {
    pub fn record(&mut self, row: &str, measure: &str, unit: &str, value: f64) {
        let key = Key { row: row.to_owned(), measure: measure.to_owned(), unit: unit.to_owned() };
        self.0.push((key, value));
    }

    pub fn record_seconds(&mut self, row: &str, measure: &str, duration: Duration) {
        self.record(row, measure, "s", duration.as_secs_f64());
    }

    /// Records the median and the 99th percentile.
    pub fn record_latencies(&mut self, row: &str, latencies: &[Duration]) {
        for (measure, share) in [("p50", 0.50), ("p99", 0.99)] {
            self.record(row, measure, "ms", percentile_ms(latencies, share));
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn find(&self, row: &str, measure: &str) -> Option<f64> {
        self.0.iter().find(|(key, _)| key.row == row && key.measure == measure).map(|(_, value)| *value)
    }

    /// Returns the value, or 0 for requests that were never sent.
    pub fn get(&self, key: &Key) -> Option<f64> {
        let value = self.0.iter().find(|(other, _)| other == key).map(|(_, value)| *value);
        let has_row = || self.keys().any(|other| other.row == key.row);
        value.or_else(|| (key.unit == REQUESTS && has_row()).then_some(0.0))
    }

    /// Returns the sum over all requests in a row that `is_counted` accepts by verb and resource.
    pub fn sum_requests(&self, row: &str, is_counted: impl Fn(&str, &str) -> bool) -> f64 {
        let requests = self.0.iter().filter(|(key, _)| {
            let (verb, resource) = key.measure.split_once(' ').unwrap_or_default();
            key.row == row && key.unit == REQUESTS && is_counted(verb, resource)
        });
        // An empty sum is -0, which would print as such.
        requests.map(|(_, value)| value).sum::<f64>() + 0.0
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Lists the keys of all samples, rows in the order in which they first appear.
pub fn all_keys(samples: &[Sample]) -> Vec<Key> {
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    let mut keys = Vec::new();
    for key in samples.iter().flat_map(Sample::keys) {
        if !rows.contains(&key.row) {
            rows.push(key.row.clone());
        }
        if seen.insert(key.clone()) {
            keys.push(key.clone());
        }
    }
    // A request that only a later pair sent still belongs in its row.
    keys.sort_by_key(|key| rows.iter().position(|row| *row == key.row));
    keys
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn new(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let upper = sorted.get(sorted.len() / 2)?;
        let lower = sorted.get((sorted.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(*lower, *upper), min: *sorted.first()?, max: *sorted.last()? })
    }
}

/// Returns the smallest value that at least `share` of all values do not exceed.
fn percentile_ms(values: &[Duration], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = (share * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(place.saturating_sub(1)).copied().unwrap_or_default();
    value.as_secs_f64() * 1000.0
}
