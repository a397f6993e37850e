//! A process: a reconciler with watches of its own, a clock of its own, and requests in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use simulator::Kind;

use super::confinement::LastTest;
use super::stream::Stream;
use super::world::{Due, Millis, World};
use crate::election::Candidate;
use crate::reconciler::effect::{Completion, Now, Observation};
use crate::reconciler::happening::Happening;
use crate::reconciler::readiness::Readiness;
use crate::reconciler::{Options, Reconciler, RolloutLimits};

/// The Lease, by namespace and name.
pub(super) const LEASE: (&str, &str) = ("system", "lease");
/// Shorter than what is usual, so that runs reach its end.
pub(super) const MASS_WITHDRAWAL_DELAY: Duration = Duration::from_secs(60);

/// How often the API server sends a bookmark.
pub(super) const BOOKMARKS: Millis = 60_000;
/// The streams of rules and of pods.
pub(super) const RULES: usize = 1;
pub(super) const PODS: usize = 3;

pub(super) struct Process {
    pub(super) name: Arc<str>,
    pub(super) reconciler: Reconciler,
    pub(super) streams: [Stream; 4],
    /// For how long its clock has stood still.
    pub(super) stood: Millis,
    /// When it went on after that, unless it has renewed the Lease since: until then it may take itself for the leader
    /// for longer than it is.
    pub(super) stood_since_renewal: Option<Millis>,
    /// By how much its clock on the wall is ahead.
    skew: SignedDuration,
    /// After how many failed nodes it stops a rollout.
    pub(super) max_failed_nodes: usize,
    /// Whether it keeps the condition of nodes.
    pub(super) keeps_condition: bool,
    /// Whether it tests the confinement of its account, when it did so last, and what it shows.
    pub(super) tests_confinement: bool,
    pub(super) last_test: Option<LastTest>,
    /// What it shows of what has happened.
    pub(super) readiness: Readiness,
    pub(super) is_dead: bool,
    pub(super) is_paused: bool,
    /// Since when its clock has been standing still.
    standing_since: Option<Millis>,
    /// What has come for it while it was paused.
    pub(super) held_back: Vec<Due>,
    wake_at: Option<Millis>,
    /// Since when it has led, as it sees it itself.
    pub(super) leads_since: Option<Millis>,
    /// Whether its watch has listed all rules since then.
    pub(super) knows_rules: bool,
}

impl World {
    /// Starts a process.
    pub(super) fn start_process(&mut self) {
        let number = self.processes.len();
        let name: Arc<str> = format!("pod-{}", number + 1).into();
        self.count("process started");
        let skew = self.choices.one_of(&[0, 2, -2, 30]);
        let keeps_condition = self.choices.percent(30);
        let tests_confinement = self.choices.percent(50);
        self.record(|| {
            let condition = if keeps_condition { ", keeps the condition of nodes" } else { "" };
            let test = if tests_confinement { ", tests the confinement" } else { "" };
            format!("{name} starts{condition}{test}")
        });
        let max_failed_nodes = self.choices.one_of(&[usize::MAX, 3, 2, 1]);
        let options = Options {
            concurrency: self.choices.one_of(&[16, 2, 1]),
            rollouts: RolloutLimits {
                patches_per_second: self.choices.one_of(&[None, Some(1), Some(50)]),
                max_failed_nodes,
            },
            request_timeout: Duration::from_secs(15),
            mass_withdrawal_delay: MASS_WITHDRAWAL_DELAY,
            confinement_test: tests_confinement,
            protection: crate::reconciler::ExpectedPolicy::Auto,
            node_condition: keeps_condition,
            max_rules_memory: 64 << 20,
            seed: 7 + number as u64 * 1000,
        };
        let candidate = Candidate::for_test(&name);
        self.processes.push(Process {
            name,
            reconciler: Reconciler::new(candidate, options),
            streams: [Kind::Lease, Kind::Rule, Kind::Node, Kind::Pod].map(Stream::new),
            stood: 0,
            stood_since_renewal: None,
            skew: SignedDuration::from_secs(skew),
            max_failed_nodes,
            keeps_condition,
            tests_confinement,
            last_test: None,
            readiness: Readiness::default(),
            is_dead: false,
            is_paused: false,
            standing_since: None,
            held_back: Vec::new(),
            wake_at: None,
            leads_since: None,
            knows_rules: false,
        });
        for stream in 0..3 {
            self.after(1, Due::Watch(number, stream));
        }
        self.after(BOOKMARKS, Due::Bookmark(number));
        self.act(number);
    }

    pub(super) fn clock(&self, process: usize) -> Now {
        let Process { stood, skew, .. } = &self.processes[process];
        Now { instant: self.instant(*stood), wall: self.wall() + *skew }
    }

    pub(super) fn wake(&mut self, process: usize) {
        if self.processes[process].wake_at == Some(self.now) {
            self.act(process);
        }
    }

    pub(super) fn observe(&mut self, process: usize, observation: Observation) {
        let now = self.clock(process);
        self.processes[process].reconciler.observe(observation, now);
        self.act(process);
    }

    pub(super) fn complete(&mut self, process: usize, completion: Completion) {
        let now = self.clock(process);
        self.processes[process].reconciler.complete(completion, now);
        self.act(process);
    }

    /// Lets a process do what there is to do, as `controller::run` does.
    fn act(&mut self, number: usize) {
        let now = self.clock(number);
        for _ in 0..10_000 {
            let step = self.processes[number].reconciler.next(now);
            self.follow_happenings(number);
            if let Some(what) = self.processes[number].reconciler.missed_wake(&step, now) {
                let name = Arc::clone(&self.processes[number].name);
                self.violate(format!("I8: {name} sleeps through {what}"));
            }
            self.follow_leadership(number);
            if self.processes[number].streams[PODS].turn(step.watches_pods) {
                self.count(if step.watches_pods { "pods watched" } else { "pods watched no more" });
                self.wake_watches(number);
            }
            if step.relists_nodes {
                self.count("nodes are listed for what rules read");
                self.processes[number].streams[2].restart();
                self.wake_watches(number);
            }
            if step.relists_rules {
                self.count("rules are listed anew");
                self.processes[number].streams[RULES].restart();
                self.wake_watches(number);
            }
            for request in step.requests {
                self.send(number, request);
            }
            if step.done {
                return self.kill(number, "ends");
            }
            let at = step.wake.map(|wake| self.moment(wake, self.processes[number].stood));
            match at {
                Some(at) if at <= self.now => continue,
                Some(at) => {
                    let process = &mut self.processes[number];
                    if process.wake_at != Some(at) {
                        process.wake_at = Some(at);
                        self.at(at, Due::Wake(number));
                    }
                }
                None => self.processes[number].wake_at = None,
            }
            let process = &mut self.processes[number];
            if let Some(lost) = process.reconciler.lost_node(now) {
                let name = Arc::clone(&process.name);
                self.violate(format!("I8: {name} has lost {lost}"));
            }
            return;
        }
        self.violate(format!("I8: {} never comes to rest", self.processes[number].name));
    }

    /// Shows what has happened to a process, and checks the changes that it logs (I10).
    fn follow_happenings(&mut self, number: usize) {
        for happening in self.processes[number].reconciler.take_happenings() {
            self.processes[number].readiness.follow(&happening);
            if let Happening::Changed { node, change } = happening
                && self.checks.is_invented(&node.name, &change)
            {
                let name = Arc::clone(&self.processes[number].name);
                self.violate(format!("I10: {name} logs on {} what has never been so: {change}", node.name));
            }
        }
    }

    fn follow_leadership(&mut self, number: usize) {
        let now = self.clock(number).instant;
        let process = &mut self.processes[number];
        let leads = process.reconciler.leads(now);
        if leads == process.leads_since.is_some() {
            return;
        }
        process.knows_rules = false;
        process.leads_since = leads.then_some(self.now);
        let name = Arc::clone(&process.name);
        self.count(if leads { "leadership gained" } else { "leadership lost" });
        let what = if leads { "leads" } else { "leads no longer" };
        self.record(|| format!("{name} {what}"));
    }

    pub(super) fn kill(&mut self, number: usize, how: &str) {
        let process = &mut self.processes[number];
        (process.is_dead, process.leads_since) = (true, None);
        let name = Arc::clone(&process.name);
        self.record(|| format!("{name} {how}"));
    }

    /// Stops a process for a while; with its clock, as a machine that is suspended does.
    pub(super) fn pause(&mut self, number: usize, time: Millis, with_clock: bool) {
        let process = &mut self.processes[number];
        if process.is_dead || process.is_paused {
            return;
        }
        process.is_paused = true;
        process.standing_since = with_clock.then_some(self.now);
        let name = Arc::clone(&process.name);
        let clock = if with_clock { ", and its clock with it" } else { "" };
        self.count(if with_clock { "process suspended with its clock" } else { "process paused" });
        self.record(|| format!("{name} is stopped for {} s{clock}", time as f64 / 1000.0));
        self.after(time, Due::Resume(number));
    }

    pub(super) fn resume(&mut self, number: usize) {
        let now = self.now;
        let process = &mut self.processes[number];
        if process.is_dead || !process.is_paused {
            return;
        }
        process.is_paused = false;
        let stood = process.standing_since.take().map_or(0, |since| now - since);
        process.stood += stood;
        if stood > 0 {
            process.stood_since_renewal = Some(now);
        }
        process.wake_at = None;
        let mut held_back: VecDeque<Due> = std::mem::take(&mut process.held_back).into();
        let name = Arc::clone(&process.name);
        self.record(|| format!("{name} goes on"));
        // What a response waits for is seen before its deadline is.
        held_back.make_contiguous().sort_by_key(|due| matches!(due, Due::Expire(_)));
        for due in held_back {
            match due {
                Due::Wake(_) => {}
                // By a clock that has stood still the deadline is not yet reached.
                Due::Expire(_) => self.after(stood, due),
                due => self.after(0, due),
            }
        }
        self.act(number);
    }
}
