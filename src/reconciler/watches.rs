//! Whether the watches of nodes and rules work, and since when not.
//!
//! A process whose watch stays broken sees no change, and repairs nothing. If it can renew the Lease all the same, the cause
//! may be local, and another replica is given a turn.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::effect::{Now, Watched};
use crate::response::error::{STABLE, describe_watch, is_expired, is_failing, is_missing, is_outage};

/// How long a watch may be broken until the process counts as not ready.
const UNREADY_AFTER: Duration = Duration::from_secs(5 * 60);
/// The pause after which the Lease is given away again; each is twice the previous one. If the watch is broken on every
/// replica, leadership moves this rarely.
const MIN_YIELD_INTERVAL: Duration = Duration::from_secs(5 * 60);
const MAX_YIELD_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The watches, by resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    states: [State; 2],
    /// How often the Lease was given away since all watches worked, and when it may be given away again.
    yields: u32,
    yields_not_before: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// `None` while the watch works.
    broken: Option<Broken>,
    /// When the watch began, if it has not proved to work yet.
    began: Option<Instant>,
    reported: Report,
}

#[derive(Clone, Debug)]
struct Broken {
    since: Now,
    /// When a part of a list came last, since the failure.
    listed: Instant,
    message: String,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The API server is unreachable, perhaps from here only.
    Unreachable,
    /// The API server is overloaded or fails, probably for every client.
    Failing,
    /// The API server does not serve the resource, for any client.
    Missing,
    Other,
}

impl Cause {
    /// Returns whether no replica is better, as far as this one can see.
    fn is_outage(self) -> bool {
        matches!(self, Self::Unreachable | Self::Failing)
    }
}

/// What is reported of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Since when it is broken.
    pub(super) broken_since: Option<Timestamp>,
    /// Why the process is not ready.
    pub(super) unready: Option<String>,
}

/// What is new in a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// Whether the watch had worked until then.
    pub(super) is_first: bool,
    /// Whether the message differs from the previous one.
    pub(super) is_new: bool,
    /// The error, unless the watch merely expired.
    pub(super) message: Option<String>,
}

impl Watches {
    /// Returns what a watch shows, or what is new in its failure. It restarts then.
    pub(super) fn shown<T>(
        &mut self,
        watched: Watched,
        event: watcher::Result<Event<T>>,
        now: Now,
    ) -> Result<Event<T>, Failed> {
        let event = event.map_err(|error| self.failed(watched, &error, now))?;
        let state = self.state(watched);
        match &event {
            Event::Apply(_) | Event::Delete(_) => (state.broken, state.began) = (None, None),
            // A list may fail like the previous one, behind its first page, and the watch that follows may be rejected.
            Event::Init => state.began = None,
            Event::InitApply(_) | Event::InitDone => {
                state.broken.iter_mut().for_each(|broken| broken.listed = now.instant);
            }
        }
        Ok(event)
    }

    /// Records a failure. The watch restarts.
    fn failed(&mut self, watched: Watched, error: &watcher::Error, now: Now) -> Failed {
        let state = self.state(watched);
        if is_expired(error) {
            state.began = None;
            return Failed { is_first: state.broken.is_none(), is_new: false, message: None };
        }
        let message = format!("{}: {}", watched.name(), describe_watch(error, watched.remedy()));
        state.conclude(now.instant);
        state.began = None;
        let cause = match error {
            error if is_failing(error) => Cause::Failing,
            error if is_outage(error) => Cause::Unreachable,
            error if is_missing(error) => Cause::Missing,
            _ => Cause::Other,
        };
        let before = state.broken.take();
        let failed = Failed {
            is_first: before.is_none(),
            is_new: before.as_ref().is_none_or(|before| before.message != message),
            message: Some(message.clone()),
        };
        let (since, listed) = before.map_or((now, now.instant), |before| (before.since, before.listed));
        state.broken = Some(Broken { since, listed, message, cause });
        failed
    }

    /// Records that the API server has accepted the watch: it works if it lasts.
    pub(super) fn began(&mut self, watched: Watched, now: Instant) {
        self.state(watched).began = Some(now);
    }

    /// Returns the report about a watch, if it has changed.
    pub(super) fn take_report(&mut self, watched: Watched, now: Instant) -> Option<Report> {
        let state = self.state(watched);
        state.conclude(now);
        let report = state.report(now);
        let is_new = report != state.reported;
        state.reported.clone_from(&report);
        is_new.then_some(report)
    }

    /// Returns the broken watch because of which a process that has led since `led_since` should let another replica lead,
    /// once. `patience` is how long it should wait.
    pub(super) fn take_yield(&mut self, led_since: Instant, patience: Duration, now: Instant) -> Option<Watched> {
        if self.states.iter().all(|state| state.broken.is_none()) {
            self.yields = 0;
        }
        let (at, watched) = self.next_yield(led_since, patience)?;
        if now < at {
            return None;
        }
        let interval = MIN_YIELD_INTERVAL * 2_u32.saturating_pow(self.yields.min(8));
        self.yields += 1;
        self.yields_not_before = Some(now + interval.min(MAX_YIELD_INTERVAL));
        Some(watched)
    }

    fn next_yield(&self, led_since: Instant, patience: Duration) -> Option<(Instant, Watched)> {
        let broken = Watched::ALL.into_iter().filter_map(|watched| {
            let broken = self.states[watched as usize].broken.as_ref()?;
            let patience = match broken.cause {
                Cause::Missing => return None,
                // Every replica meets an overload, and not the failure of one API server of several.
                Cause::Failing => patience.max(UNREADY_AFTER),
                Cause::Unreachable | Cause::Other => patience,
            };
            // No replica lists faster than one that lists already.
            Some((broken.listed.max(led_since) + patience, watched))
        });
        let (at, watched) = broken.min_by_key(|(at, _)| *at)?;
        Some((self.yields_not_before.map_or(at, |not_before| at.max(not_before)), watched))
    }

    /// Returns when time alone changes something; `led_since` and `patience` as above.
    pub(super) fn next_change(&self, led_since: Option<Instant>, patience: Duration, now: Instant) -> Option<Instant> {
        let states = self.states.iter().filter_map(State::next_change);
        let next_yield = led_since.and_then(|led_since| self.next_yield(led_since, patience));
        states.chain(next_yield.map(|(at, _)| at)).filter(|at| now < *at).min()
    }

    fn state(&mut self, watched: Watched) -> &mut State {
        &mut self.states[watched as usize]
    }
}

impl State {
    /// Ends the outage if the watch has lasted.
    fn conclude(&mut self, now: Instant) {
        if self.began.is_some_and(|began| began + STABLE <= now) {
            (self.broken, self.began) = (None, None);
        }
    }

    fn report(&self, now: Instant) -> Report {
        let Some(Broken { since, message, cause, .. }) = &self.broken else { return Report::default() };
        // Without an API server, no replica is better, and the controller continues where it was.
        let is_unready = !cause.is_outage() && since.instant + UNREADY_AFTER <= now;
        Report { broken_since: Some(since.wall), unready: is_unready.then(|| message.clone()) }
    }

    fn next_change(&self) -> Option<Instant> {
        let broken = self.broken.as_ref()?;
        let unready = (!broken.cause.is_outage()).then_some(broken.since.instant + UNREADY_AFTER);
        // Whichever is in the past has happened.
        let works = self.began.map(|began| began + STABLE);
        if self.reported.unready.is_some() { works } else { works.into_iter().chain(unready).min() }
    }
}
