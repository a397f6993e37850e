//! What two states have to have in common to be the same: everything but moments, which count from now, and numbers
//! that only grow.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::world::{NODES, World};
use crate::reconciler::{Now, Reconciler};

/// Moments; resource versions; numbers of requests; and what else only grows.
static NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r"Instant \{ tv_sec: (\d+), tv_nsec: (\d+) \}",
        r"|\b(1\d{6})\b",
        r"|\bnumber: (\d+)",
        r"|\b(?:taken|attempts): (\d+)",
        r"|(?:sequence: |seed: (?:Some\()?|\((?:Repair|Changed|Replan), )(\d+)",
    );
    Regex::new(pattern).unwrap()
});

/// What is longer ago than anything is remembered: contests are, for ten minutes.
const FORGOTTEN_AFTER_MS: i128 = 700_000;

/// After so many tries pauses grow no longer.
const MAX_COUNT: u64 = 8;

/// What a number in the text is.
enum Found {
    /// Milliseconds from now.
    Moment(i128),
    /// A resource version, or the number of a request: only its rank matters.
    Version(u64),
    Request(u64),
    Count(u64),
    /// It only grows, and decides nothing.
    Ignored,
}

impl World {
    pub(super) fn fingerprint(&self) -> u64 {
        let text = format!("{:?} {}", self.facts(), reconciler(&self.reconciler, self.now));
        let now = moment(&NUMBERS.captures(&format!("{:?}", self.now.instant)).unwrap());
        let found: Vec<_> = NUMBERS
            .captures_iter(&text)
            .map(|captures| {
                let whole = captures.get(1).and(captures.get(0));
                let number = whole.or_else(|| captures.iter().flatten().last()).unwrap();
                (number.range(), Found::of(&captures, now))
            })
            .collect();
        let [mut versions, mut requests] = [BTreeSet::new(), BTreeSet::new()];
        for (_, found) in &found {
            match found {
                Found::Version(number) => versions.insert(*number),
                Found::Request(number) => requests.insert(*number),
                _ => false,
            };
        }
        let mut hasher = DefaultHasher::new();
        let mut end = 0;
        for (range, found) in found {
            text[end..range.start].hash(&mut hasher);
            end = range.end;
            match found {
                Found::Moment(since) => since.hash(&mut hasher),
                Found::Version(number) => versions.range(..number).count().hash(&mut hasher),
                Found::Request(number) => requests.range(..number).count().hash(&mut hasher),
                Found::Count(count) => count.hash(&mut hasher),
                Found::Ignored => {}
            }
        }
        text[end..].hash(&mut hasher);
        hasher.finish()
    }
}

impl Found {
    fn of(captures: &Captures<'_>, now: i128) -> Self {
        let number = |group| number(captures, group);
        if captures.get(1).is_some() {
            let since = ((moment(captures) - now) / 1_000_000).max(-FORGOTTEN_AFTER_MS);
            // Pauses have some randomness, so that those of the same kind are not as long.
            return Self::Moment(if since.abs() < 10_000 { since } else { since / 10_000 * 10_000 });
        }
        let version = number(3).map(Self::Version);
        let request = || number(4).map(Self::Request);
        let count = || number(5).map(|count| Self::Count(count.min(MAX_COUNT)));
        version.or_else(request).or_else(count).unwrap_or(Self::Ignored)
    }
}

/// What decides what the reconciler does, and nothing that is only reported.
fn reconciler(reconciler: &Reconciler, now: Now) -> String {
    let Reconciler { rules, fleet, statuses, report, usage, .. } = reconciler;
    // How old the Lease is does not matter.
    let leads = reconciler.leads(now.instant);
    let nodes: Vec<_> = fleet.nodes().iter().map(|(_, state)| state).collect();
    let schedule = format!("{:?} {:?}", fleet.schedule(), fleet.rollouts());
    let (before, places) = schedule.split_once("places: {").unwrap();
    let (places, after) = places.split_once("}, ready: ").unwrap();
    let (forbidden, statuses) = (report.is_forbidden(), statuses.writes().without_unwritten());
    let pods = (NODES.map(|node| usage.on(node, now.instant)), usage.next_change(now.instant), usage.broken());
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
