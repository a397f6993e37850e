//! What two states have to have in common to be the same: everything but moments, which count from now, and numbers
//! that only grow.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::world::{NODE, World};
use crate::controller::reconciler::{Now, Reconciler};

/// Moments; resource versions; numbers of requests; and what else only grows.
static NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r"Instant \{ tv_sec: (\d+), tv_nsec: (\d+) \}",
        r"|\b(1\d{6})\b",
        r"|\bnumber: (\d+)",
        r"|\b(?:taken|attempts): (\d+)",
        r"|sequence: \d+|seed: (?:Some\()?\d+|\((?:Repair|Changed|Replan), \d+\)",
    );
    Regex::new(pattern).unwrap()
});

/// What is longer ago than anything is remembered: contests are, for ten minutes.
const FORGOTTEN_AFTER_MS: i128 = 700_000;

/// After so many tries pauses grow no longer.
const MAX_COUNT: u64 = 8;

impl World {
    pub(super) fn fingerprint(&self) -> u64 {
        let text = format!("{:?} {}", self.facts(), reconciler(&self.reconciler, self.now));
        let now = moment(&NUMBERS.captures(&format!("{:?}", self.now.instant)).unwrap());
        let ranks = [3, 4].map(|group| {
            let found = NUMBERS.captures_iter(&text).filter_map(|found| number(&found, group));
            found.collect::<BTreeSet<_>>()
        });
        let text = NUMBERS.replace_all(&text, |found: &Captures<'_>| {
            if found.get(1).is_some() {
                let since = ((moment(found) - now) / 1_000_000).max(-FORGOTTEN_AFTER_MS);
                // Pauses have some randomness, so that those of the same kind are not as long.
                let since = if since.abs() < 10_000 { since } else { since / 10_000 * 10_000 };
                return format!("{since}ms");
            }
            if let Some(count) = number(found, 5) {
                return format!("{}x", count.min(MAX_COUNT));
            }
            let rank = |place: usize| {
                let number = number(found, place + 3)?;
                Some(ranks[place].range(..number).count().to_string())
            };
            let name = found[0].split([':', ',']).next().unwrap_or_default().to_owned();
            rank(0).or_else(|| rank(1)).unwrap_or(name)
        });
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    }
}

/// What decides what the reconciler does, and nothing that is only reported.
fn reconciler(reconciler: &Reconciler, now: Now) -> String {
    let Reconciler { rules, nodes, schedule, reports, usage, .. } = reconciler;
    // How old the Lease is does not matter.
    let leads = reconciler.leads(now.instant);
    let nodes: Vec<_> = nodes.iter().map(|(_, state)| state).collect();
    let schedule = format!("{schedule:?}");
    let (before, places) = schedule.split_once("places: {").unwrap();
    let (places, after) = places.split_once("}, ready: ").unwrap();
    let (forbidden, statuses) = (&reports.forbidden, reports.statuses.without_unwritten());
    let pods = (usage.on(NODE, now.instant), usage.next_change(now.instant), usage.broken());
    format!("{leads} {rules:?} {nodes:?} {before} {places} {after} {forbidden:?} {statuses:?} {pods:?}")
}

fn number(found: &Captures<'_>, group: usize) -> Option<u64> {
    found.get(group)?.as_str().parse().ok()
}

/// Nanoseconds since whenever the clock began.
fn moment(found: &Captures<'_>) -> i128 {
    let [seconds, nanos] = [1, 2].map(|group| i128::from(number(found, group).unwrap_or_default()));
    seconds * 1_000_000_000 + nanos
}
