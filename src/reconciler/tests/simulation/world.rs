//! A world: an API server, what runs on it, and what is due at which moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use simulator::{ApiServer, Failure, Key, Kind, Selector, Watch, WatchEvent};
use tokio::time::Instant;

use super::actors::Machine;
use super::checks::Checks;
use super::choices::Choices;
use super::network::InFlight;
use super::process::Process;
use super::queue::Queue;
use super::story::Story;

/// A moment, or a span, in milliseconds.
pub(super) type Millis = u64;

/// What is due at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A process has more to do.
    Wake(usize),
    /// A watch of a process shows what comes next, or its list goes on.
    Watch(usize, usize),
    /// The watch of pods of a process sends a bookmark.
    Bookmark(usize),
    /// A request comes to the API server.
    Arrive(u64),
    /// Its response comes to the process.
    Answer(u64),
    /// It counts as unanswered.
    Expire(u64),
    /// A process that was killed is started again; or one more.
    Start,
    /// A process goes on.
    Resume(usize),
    /// A kubelet compares its node with what it reports.
    Tick(usize),
    /// A kubelet reports the boot of its machine.
    Boot(usize),
    /// A kubelet decides about a pod.
    Admit(u64),
    /// A pod that was admitted starts.
    Run(u64),
    /// A pod that a starting kubelet does not admit fails.
    Reject(u64),
    /// A pod ends by itself.
    End(u64),
    /// The scheduler looks at the pods that wait.
    Schedule,
    /// The CustomResourceDefinition is there again.
    Crd,
}

pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) now: Millis,
    pub(super) choices: Choices,
    pub(super) story: Story,
    pub(super) checks: Checks,
    pub(super) processes: Vec<Process>,
    pub(super) machines: Vec<Machine>,
    pub(super) in_flight: BTreeMap<u64, InFlight>,
    pub(super) requests: u64,
    /// How many in a hundred requests have a fault.
    pub(super) faults: u32,
    /// Until when every request waits in a queue.
    pub(super) queued_until: Millis,
    /// Whether the CustomResourceDefinition is missing.
    pub(super) crd_missing: bool,
    /// Whether a policy confines the account of the processes.
    pub(super) is_confined: bool,
    /// The pods that wait for a node.
    pub(super) queue: Option<Queue>,
    /// Patches of this node, and those that write this resource, are rejected by an admission webhook.
    pub(super) rejected: BTreeSet<String>,
    /// The rules that are restored with it.
    pub(super) backup: Vec<Arc<Value>>,
    /// How many objects have been created, for their names.
    pub(super) names: u64,
    pub(super) violation: Option<String>,
    agenda: BTreeMap<(Millis, u64), Due>,
    sequence: u64,
    started: Instant,
    epoch: Timestamp,
    second: Millis,
    changes: [Watch; 3],
}

impl World {
    pub(super) fn new(choices: Choices, is_recorded: bool) -> Self {
        let server = ApiServer::default();
        let changes = [Kind::Node, Kind::Rule, Kind::Pod].map(|kind| server.watch(kind, Selector::default(), 0));
        Self {
            server,
            now: 0,
            choices,
            story: Story { is_recorded, ..Story::default() },
            checks: Checks::default(),
            processes: Vec::new(),
            machines: Vec::new(),
            in_flight: BTreeMap::new(),
            requests: 0,
            faults: 0,
            queued_until: 0,
            crd_missing: false,
            is_confined: false,
            rejected: BTreeSet::new(),
            queue: None,
            backup: Vec::new(),
            names: 0,
            violation: None,
            agenda: BTreeMap::new(),
            sequence: 0,
            started: Instant::now(),
            epoch: "2026-02-01T00:00:00Z".parse().unwrap(),
            second: Millis::MAX,
            changes,
        }
    }

    /// A moment by a clock that has stood still for `stood`.
    pub(super) fn instant(&self, stood: Millis) -> Instant {
        self.started + Duration::from_millis(self.now - stood)
    }

    /// The first moment that is no earlier than one by such a clock.
    pub(super) fn moment(&self, instant: Instant, stood: Millis) -> Millis {
        let since = instant.saturating_duration_since(self.started);
        Millis::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap() + stood
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.epoch + SignedDuration::from_millis(self.now as i64)
    }

    /// Has the objects that are created now be older than the run.
    pub(super) fn set_age(&mut self, age: SignedDuration) {
        self.server.set_time(format!("{:.0}", self.epoch - age));
    }

    pub(super) fn at(&mut self, at: Millis, due: Due) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), due);
    }

    pub(super) fn after(&mut self, time: Millis, due: Due) {
        self.at(self.now + time, due);
    }

    pub(super) fn is_due(&self, due: Due) -> bool {
        self.agenda.values().any(|other| *other == due)
    }

    pub(super) fn record(&mut self, line: impl FnOnce() -> String) {
        self.story.record(self.now, line);
    }

    pub(super) fn count(&mut self, what: &'static str) {
        self.story.count(what);
    }

    /// An invariant does not hold.
    pub(super) fn violate(&mut self, what: String) {
        self.record(|| format!("VIOLATION: {what}"));
        self.violation.get_or_insert(what);
    }

    /// Lets everything happen that is due by then.
    pub(super) fn run_until(&mut self, end: Millis) {
        while self.violation.is_none()
            && let Some(entry) = self.agenda.first_entry()
        {
            let (at, _) = *entry.key();
            if at > end {
                break;
            }
            let due = entry.remove();
            self.set_now(at);
            self.happen(due);
        }
        self.set_now(end);
    }

    fn set_now(&mut self, now: Millis) {
        self.now = self.now.max(now);
        if self.second != self.now / 1000 {
            self.second = self.now / 1000;
            let time = self.epoch + SignedDuration::from_secs(self.second as i64);
            self.server.set_time(format!("{time:.0}"));
        }
    }

    fn happen(&mut self, due: Due) {
        self.count("steps");
        let process = match due {
            Due::Wake(process) | Due::Watch(process, _) | Due::Bookmark(process) => Some(process),
            Due::Answer(number) | Due::Expire(number) => self.in_flight.get(&number).map(|request| request.process),
            _ => None,
        };
        if let Some(process) = process.and_then(|process| self.processes.get_mut(process)) {
            if process.is_dead {
                return;
            }
            if process.is_paused {
                process.held_back.push(due);
                return;
            }
        }
        match due {
            Due::Wake(process) => self.wake(process),
            Due::Watch(process, stream) => self.show(process, stream),
            Due::Bookmark(process) => self.bookmark(process),
            Due::Arrive(number) => self.arrive(number),
            Due::Answer(number) => self.answer(number),
            Due::Expire(number) => self.expire(number),
            Due::Start => self.start_process(),
            Due::Resume(process) => self.resume(process),
            Due::Tick(machine) => self.tick(machine),
            Due::Boot(machine) => self.boot(machine),
            Due::Admit(job) => self.admit(job),
            Due::Run(job) => self.run_pod(job),
            Due::Reject(job) => self.reject(job),
            Due::End(job) => self.end_pod(job),
            Due::Schedule => self.bind_queued(),
            Due::Crd => self.install_crd(),
        }
    }

    /// Something has been written: watches show it after a while.
    pub(super) fn written(&mut self) {
        for place in 0..self.changes.len() {
            let kind = [Kind::Node, Kind::Rule, Kind::Pod][place];
            while let Some(event) = self.server.next_event(&mut self.changes[place]) {
                let (object, exists) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                    WatchEvent::Deleted(object) => (object, false),
                    WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
                };
                let version = self.changes[place].position();
                let object = exists.then_some(&object).cloned().ok_or(Key::of(&object));
                self.checks.history(kind).push((version, object));
            }
        }
        for process in 0..self.processes.len() {
            self.wake_watches(process);
        }
    }

    /// Writes as an actor does. What the API server rejects has not happened.
    pub(super) fn write<T>(&mut self, write: impl FnOnce(&mut ApiServer) -> Result<T, Failure>) -> Option<T> {
        let written = write(&mut self.server).ok();
        self.written();
        written
    }

    pub(super) fn objects(&self, kind: Kind) -> Vec<Arc<Value>> {
        self.server.list(kind, &simulator::ListOptions::default()).map(|list| list.items).unwrap()
    }
}
