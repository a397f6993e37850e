//! Whether the watches of nodes and rules work, and since when not.
//!
//! A process whose watch stays broken sees no change, and repairs nothing. If it can renew the Lease all the same, the cause
//! may be local, and another replica is given a turn.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use super::effect::{Now, Watched};
use crate::response::error::{STABLE, describe_watch, is_expired, is_failing, is_missing, is_outage, is_silent};

/// How long a watch may be broken until the process counts as not ready.
const UNREADY_AFTER: Duration = Duration::from_secs(5 * 60);
/// How long a watch of nodes may be silent until it counts as broken. A kubelet writes its node's status every five minutes
/// (`nodeStatusReportFrequency`), and somewhat later at times; bookmarks may be rarer.
const SILENT_AFTER: Duration = Duration::from_secs(10 * 60);
/// The pause after which the Lease is given away again; each is twice the previous one. If the watch is broken on every
/// replica, leadership moves this rarely.
const MIN_YIELD_INTERVAL: Duration = Duration::from_secs(5 * 60);
const MAX_YIELD_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How long a leader waits at least until it lets another process lead because a watch is broken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    nodes: Duration,
    rules: Duration,
}

impl Patience {
    /// Returns the patience of a leader whose Lease lasts so long. Who knows the rules serves better than another one that has
    /// yet to list them, and only repairs until then.
    pub(super) fn new(lease: Duration, knows_rules: bool) -> Self {
        Self { nodes: lease, rules: if knows_rules { lease.max(UNREADY_AFTER) } else { lease } }
    }

    pub(super) fn of(self, watched: Watched) -> Duration {
        match watched {
            Watched::Nodes => self.nodes,
            Watched::Rules => self.rules,
        }
    }
}

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
    /// The failure, until a watch that the API server accepts has lasted.
    broken: Option<Broken>,
    /// The silence, until the watch shows something: an error in between may end it for moments only.
    silent: Option<Broken>,
    /// When the watch began, if it has not proved to work yet.
    began: Option<Instant>,
    /// When the watch expired first since it worked. Once is normal.
    expired: Option<Now>,
    reported: Report,
}

#[derive(Clone, Debug)]
struct Broken {
    since: Now,
    /// When a part of a list came last, since the failure. Those that take the place of a silent watch do not count.
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
    /// The API server accepts the watch of nodes, and it shows nothing. Lists show every minute or two what has changed.
    Silent,
    Other,
}

impl Cause {
    /// Returns how long the process may serve like this; `None` forever.
    fn unready_after(self) -> Option<Duration> {
        match self {
            // Without an API server, no replica is better, and the controller continues where it was.
            Self::Unreachable | Self::Failing => None,
            Self::Silent => Some(SILENT_AFTER),
            Self::Missing | Self::Other => Some(UNREADY_AFTER),
        }
    }

    /// Returns how long the process waits at least until it lets another one lead; `None` if no other one is better.
    fn yields_after(self) -> Option<Duration> {
        match self {
            Self::Missing => None,
            // Every replica meets an overload, and not the failure of one API server of several.
            Self::Failing => Some(UNREADY_AFTER),
            Self::Silent => Some(SILENT_AFTER),
            Self::Unreachable | Self::Other => Some(Duration::ZERO),
        }
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

/// How a watch ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It has shown nothing, and nothing may have changed.
    Quiet,
    /// Its version is too old, which is normal once.
    Expired {
        /// Whether the watch had worked until then.
        is_first: bool,
    },
    /// It fails.
    Broken {
        /// Whether the watch had worked until then.
        is_first: bool,
        /// Whether the message differs from the previous one.
        is_new: bool,
        message: String,
    },
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
            Event::Apply(_) | Event::Delete(_) => {
                (state.silent, state.broken, state.began, state.expired) = Default::default();
            }
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
        state.conclude(now.instant);
        state.began = None;
        let first = if is_expired(error) { state.expired.replace(now) } else { Some(now) };
        let Some(first) = first else { return Failed::Expired { is_first: state.is_well() } };
        let message = format!("{}: {}", watched.name(), describe_watch(error, watched.remedy()));
        let is_first = state.is_well();
        let (failure, cause) = match error {
            // Nobody may have edited any, and lists follow that show it.
            error if is_silent(error) && watched == Watched::Rules => return Failed::Quiet,
            error if is_silent(error) => (&mut state.silent, Cause::Silent),
            // The list took longer than the API server remembers.
            error if is_failing(error) || is_expired(error) => (&mut state.broken, Cause::Failing),
            error if is_outage(error) => (&mut state.broken, Cause::Unreachable),
            error if is_missing(error) => (&mut state.broken, Cause::Missing),
            _ => (&mut state.broken, Cause::Other),
        };
        let before = failure.take();
        let is_new = before.as_ref().is_none_or(|before| before.message != message);
        let (since, listed) = before.map_or((first, now.instant), |before| (before.since, before.listed));
        *failure = Some(Broken { since, listed, message: message.clone(), cause });
        Failed::Broken { is_first, is_new, message }
    }

    /// Records that the API server has accepted the watch: it works if it lasts.
    pub(super) fn began(&mut self, watched: Watched, now: Instant) {
        self.state(watched).began = Some(now);
    }

    /// Records that the watch has shown something since it began. It may have been an error, so that only silence ends.
    pub(super) fn heard(&mut self, watched: Watched) {
        self.state(watched).silent = None;
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
    /// once.
    pub(super) fn take_yield(&mut self, led_since: Instant, patience: Patience, now: Instant) -> Option<Watched> {
        if self.states.iter().all(State::is_well) {
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

    fn next_yield(&self, led_since: Instant, patience: Patience) -> Option<(Instant, Watched)> {
        let failures = Watched::ALL
            .into_iter()
            .flat_map(|watched| self.states[watched as usize].failures().map(move |broken| (watched, broken)));
        let broken = failures.filter_map(|(watched, broken)| {
            let patience = broken.cause.yields_after()?.max(patience.of(watched));
            // No replica lists faster than one that lists already.
            Some((broken.listed.max(led_since) + patience, watched))
        });
        let (at, watched) = broken.min_by_key(|(at, _)| *at)?;
        Some((self.yields_not_before.map_or(at, |not_before| at.max(not_before)), watched))
    }

    /// Returns when time alone changes something; `led_since` and `patience` as above.
    pub(super) fn next_change(&self, led_since: Option<Instant>, patience: Patience, now: Instant) -> Option<Instant> {
        let states = self.states.iter().flat_map(State::next_changes);
        let next_yield = led_since.and_then(|led_since| self.next_yield(led_since, patience));
        states.chain(next_yield.map(|(at, _)| at)).filter(|at| now < *at).min()
    }

    fn state(&mut self, watched: Watched) -> &mut State {
        &mut self.states[watched as usize]
    }
}

impl State {
    fn is_well(&self) -> bool {
        self.failures().next().is_none()
    }

    fn failures(&self) -> impl Iterator<Item = &Broken> {
        self.broken.iter().chain(&self.silent)
    }

    /// Returns when the watch that has begun will have lasted for long enough.
    fn lasts_from(&self) -> Option<Instant> {
        self.began.map(|began| began + STABLE)
    }

    /// Ends the failure if the watch has lasted.
    fn conclude(&mut self, now: Instant) {
        if self.lasts_from().is_some_and(|from| from <= now) {
            (self.broken, self.began, self.expired) = Default::default();
        }
    }

    fn report(&self, now: Instant) -> Report {
        let is_unready = |broken: &&Broken| broken.unready_from().is_some_and(|from| from <= now);
        // An outage may begin with silence.
        let is_outage = self.broken.as_ref().is_some_and(|broken| broken.cause.unready_after().is_none());
        let unready = self.failures().find(is_unready).filter(|_| !is_outage);
        Report {
            broken_since: self.broken.as_ref().or(unready).map(|broken| broken.since.wall),
            unready: unready.map(|broken| broken.message.clone()),
        }
    }

    /// Returns when time alone changes something.
    fn next_changes(&self) -> impl Iterator<Item = Instant> {
        self.failures().filter_map(Broken::unready_from).chain(self.lasts_from().filter(|_| self.broken.is_some()))
    }
}

impl Broken {
    /// Returns from when on the process is not ready.
    fn unready_from(&self) -> Option<Instant> {
        self.cause.unready_after().map(|after| self.since.instant + after)
    }
}
