//! What happens in a run, in words, and how often.

use std::collections::BTreeMap;

/// How often something happened: an actor's doing, a fault, what came of it.
pub(super) type Tally = BTreeMap<&'static str, u64>;

#[derive(Debug, Default)]
pub(super) struct Story {
    /// Whether lines are kept.
    pub(super) is_told: bool,
    pub(super) lines: Vec<String>,
    pub(super) tally: Tally,
}

impl Story {
    pub(super) fn tell(&mut self, at: u64, line: impl FnOnce() -> String) {
        if self.is_told {
            self.lines.push(format!("{:>8.3}s  {}", at as f64 / 1000.0, line()));
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }
}
