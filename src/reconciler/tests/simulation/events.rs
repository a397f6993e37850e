//! I10: Events are what happened, and what happened has its Event: judged by the history of writes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::events::v1::Event;
use serde_json::Value;
use simulator::invariants::{Change, Declared, declared, ledger, units};
use simulator::{Key, Kind};

use super::checks::{Checks, Sent};
use super::world::{Millis, World};

/// As many Events with one reason may go out before one is withheld.
const BURST: u64 = 10;
/// A contest is one after so many repairs.
const MIN_REPAIRS: u64 = 5;

/// A resource on a node, and the reason of an Event about it.
type Place = (String, String, String);

#[derive(Default)]
pub(super) struct Events {
    /// Those that are to be sent.
    expected: Vec<Expected>,
    /// How many each process has sent, by reason.
    sent: BTreeMap<(usize, String), u64>,
    /// What Events have been sent about, by any process.
    subjects: BTreeSet<Place>,
    /// How often Events that were stored have reported something.
    reported: BTreeMap<(String, String, &'static str), u64>,
    /// The nodes where patches of a process have failed.
    failed: BTreeSet<(usize, String)>,
}

/// The Event of a change: with one of these reasons.
struct Expected {
    process: usize,
    leads_since: Option<Millis>,
    node: String,
    version: String,
    resource: String,
    reasons: &'static [&'static str],
    /// Whether the process has got the response.
    is_known: bool,
}

/// What an Event is about: its node, if it is about one, and the resource that its note names.
fn subject(event: &Event) -> (Option<String>, String) {
    let regarding = event.regarding.clone().unwrap_or_default();
    let node = regarding.name.filter(|_| regarding.kind.as_deref() == Some("Node"));
    let note = event.note.as_deref().unwrap_or_default();
    let mut words = note.split([' ', ':', ';', ',']);
    (node, words.find(|word| word.starts_with("example.com/")).unwrap_or_default().to_owned())
}

fn reason(event: &Event) -> String {
    event.reason.clone().unwrap_or_default()
}

impl World {
    /// A patch has changed something that an Event reports, once its sender has the response.
    pub(super) fn expect_event(&mut self, process: usize, after: &Value, change: &Change, sent: &Sent) {
        if change.reasons.is_empty() || sent.leads_since.is_none() {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.checks.events.expected.push(Expected {
            process,
            leads_since: sent.leads_since,
            node: text(&after["metadata"]["name"]),
            version: text(&after["metadata"]["resourceVersion"]),
            resource: change.resource.clone(),
            reasons: change.reasons,
            is_known: false,
        });
    }

    /// A process gets the response to a patch. Only the leader reports, on nodes that exist.
    pub(super) fn confirm_events(&mut self, number: usize, node: &Value) {
        let now = self.clock(number).instant;
        let process = &self.processes[number];
        let leads_since = process.leads_since.filter(|_| process.reconciler.leads(now));
        let found = self.server.get(Kind::Node, &Key::of(node));
        let exists = found.is_ok_and(|found| found["metadata"]["uid"] == node["metadata"]["uid"]);
        for expected in &mut self.checks.events.expected {
            let is_it = expected.process == number && node["metadata"]["resourceVersion"] == *expected.version;
            expected.is_known |= is_it && exists && leads_since.is_some() && expected.leads_since == leads_since;
        }
    }

    pub(super) fn patch_failed(&mut self, process: usize, node: &str) {
        self.checks.events.failed.insert((process, node.to_owned()));
    }

    /// A process sends an Event.
    pub(super) fn event_is_sent(&mut self, process: usize, event: &Event) {
        let (node, resource) = subject(event);
        let reason = reason(event);
        let Some(node) = node else { return };
        if reason == "PatchFailed" && !self.checks.events.failed.contains(&(process, node.clone())) {
            self.violate(format!("I10: an Event of a failed patch, and none of {node} has failed: {:?}", event.note));
        }
        let leads_since = self.processes[process].leads_since;
        let events = &mut self.checks.events;
        // What happened in an earlier term may have no Event.
        let is_it = |expected: &Expected| {
            let is_place = expected.node == node && expected.resource == resource;
            let is_of_term = expected.process == process && expected.leads_since == leads_since;
            expected.is_known && is_of_term && is_place && expected.reasons.contains(&&*reason)
        };
        if let Some(place) = events.expected.iter().position(is_it) {
            events.expected.remove(place);
        }
        *events.sent.entry((process, reason.clone())).or_default() += 1;
        events.subjects.insert((node, resource, reason));
    }

    /// In the end, everything that has happened in a term that goes on has its Event.
    pub(super) fn check_events(&mut self) {
        let events = &self.checks.events;
        let sent = |process: usize, reason: &str| events.sent.get(&(process, reason.to_owned())).copied();
        let is_limited = |process: usize, reason: &str| sent(process, reason).unwrap_or_default() >= BURST;
        let missing = events.expected.iter().find(|expected| {
            let process = &self.processes[expected.process];
            let goes_on = !process.is_dead && process.leads_since == expected.leads_since;
            let is_limited = expected.reasons.iter().any(|reason| is_limited(expected.process, reason));
            expected.is_known && goes_on && !is_limited
        });
        if let Some(Expected { node, resource, reasons, .. }) = missing {
            let what = format!("I10: no Event reports one of {reasons:?} of {resource} on {node}");
            return self.violate(what);
        }
        for rule in self.objects(Kind::Rule) {
            let resource = rule["spec"]["resourceName"].as_str().unwrap_or_default();
            for problem in rule["status"]["problems"].as_array().into_iter().flatten() {
                let [node, reason] = ["node", "reason"].map(|field| problem[field].as_str().unwrap_or_default());
                let place = (node.to_owned(), resource.to_owned(), reason.to_owned());
                let is_limited = (0..self.processes.len()).any(|process| is_limited(process, reason));
                let has_event = ["Conflict", "Contested", "PatchFailed"].contains(&reason);
                if has_event && !is_limited && !self.checks.events.subjects.contains(&place) {
                    return self.violate(format!("I10: no Event reports {reason} of {resource} on {node}"));
                }
            }
        }
    }

    /// An Event is stored: what it reports has been done, or has been so.
    pub(super) fn check_event(&mut self, event: &Event) {
        if let Some(what) = self.checks.wrong_note(event) {
            return self.violate(format!("I10: an Event states {what}: {:?}", event.note));
        }
        let done: (_, &[&'static str]) = match &*reason(event) {
            // Where the node had changed before the patch arrived, such as by a kubelet that copies capacity, what is
            // reported is what was seen.
            "Repaired" => ("event: repaired", &["repaired", "repeated", "lost", "unseen"]),
            "TakenOver" => {
                ("event: taken over", &["taken over", "adopted from a kubelet", "repeated", "unseen", "listing lost"])
            }
            "Withdrawn" => ("event: withdrawn", &["withdrawn", "unlisted"]),
            "Released" => ("event: released", &["released", "unlisted"]),
            "Adopted" => ("event: adopted", &["adopted", "adopted from a kubelet", "listing lost", "unseen"]),
            "Held" => ("event: held", &["held", "listing lost", "unseen"]),
            _ => return self.check_state(event),
        };
        self.count(done.0);
        let (Some(node), resource) = subject(event) else { return };
        let done = done.1;
        let times = |what: &&'static str| self.checks.changes.get(&(node.clone(), resource.clone(), *what)).copied();
        let times: u64 = done.iter().filter_map(times).sum();
        // By others: where a response is lost, a node that is as was asked for counts as patched.
        let others = match done[0] {
            "withdrawn" => self.checks.times_unlisted(&node, &resource, |is_there| !is_there),
            "released" => self.checks.times_unlisted(&node, &resource, |_| true),
            _ => 0,
        };
        let times = times + others;
        let reported = self.checks.events.reported.entry((node, resource, done[0])).or_default();
        *reported += 1;
        if *reported > times {
            let (reported, note) = (*reported, event.note.clone().unwrap_or_default());
            self.violate(format!("I10: {reported} Events of what was done {times} times: {note}"));
        }
    }

    /// An Event of a state, which has been one.
    fn check_state(&mut self, event: &Event) {
        let (node, resource) = subject(event);
        let node = node.unwrap_or_default();
        let rules = || self.checks.all_rules().filter(|rule| rule["spec"]["resourceName"] == *resource);
        let (name, is_true) = match &*reason(event) {
            "Conflict" if node.is_empty() => ("event: conflict", true),
            "Conflict" => ("event: conflict", self.checks.is_ever_foreign(&node, &resource)),
            // What it states of the value is checked by its note.
            "Leaving" => ("event: leaving", node.is_empty() || self.checks.was_to_leave(&node, &resource)),
            "Contested" if node.is_empty() => ("event: contested", true),
            "Contested" => ("event: contested", self.checks.times_changed(&node, &resource) >= MIN_REPAIRS),
            "PatchFailed" => ("event: patch failed", true),
            "InvalidLedger" => {
                let is_unreadable = self.checks.versions(&node).any(|node| ledger(node).is_none());
                ("event: invalid ledger", is_unreadable)
            }
            "InvalidSpec" => {
                let is_invalid = |rule: &Value| declared(rule, &Value::Null) == Declared::Invalid;
                let regarding = event.regarding.clone().unwrap_or_default().name;
                let mut own =
                    self.checks.all_rules().filter(|rule| rule["metadata"]["name"].as_str() == regarding.as_deref());
                ("event: invalid rule", own.any(|rule| is_invalid(rule)))
            }
            "EqualPriority" => ("event: equal priority", self.checks.all_rules().count() > 1),
            "RolloutStopped" => ("event: rollout stopped", !self.checks.events.failed.is_empty()),
            _ => ("event: of something else", false),
        };
        let is_declared =
            !matches!(name, "event: conflict" | "event: contested") || node.is_empty() || rules().next().is_some();
        self.count(name);
        if !(is_true && is_declared) {
            self.violate(format!("I10: an Event of what has never been so: {event:?}"));
        }
    }
}

impl Checks {
    /// Whether a resource of a node has ever had a value, not 0, that the ledger did not list.
    fn is_ever_foreign(&self, node: &str, resource: &str) -> bool {
        self.versions(node).any(|node| {
            let is_listed = ledger(node).is_none_or(|ledger| ledger.contains_key(resource));
            let mut values = ["capacity", "allocatable"].into_iter().map(|map| units(&node["status"][map][resource]));
            !is_listed && values.any(|value| value.is_some_and(|value| value != 0))
        })
    }

    /// Whether the ledger of a node has ever recorded that a value leaves when it is unused.
    fn was_to_leave(&self, node: &str, resource: &str) -> bool {
        let entries = self.versions(node).filter_map(|node| ledger(node)?.remove(resource));
        entries.into_iter().any(|(_, _, rest)| rest["whenUnused"] == true)
    }

    /// How often a resource of a node was changed, or may have been.
    fn times_changed(&self, node: &str, resource: &str) -> u64 {
        let of_it = self.changes.iter().filter(|((other, name, _), _)| other == node && name == resource);
        of_it.map(|(_, times)| times).sum()
    }

    /// How often a resource of a node has lost its entry, or its value, with a value that counts, by whether it is there.
    fn times_unlisted(&self, node: &str, resource: &str, counts: impl Fn(bool) -> bool) -> u64 {
        let versions = self.versions(node).map(|object| {
            let is_listed = ledger(object).is_none_or(|ledger| ledger.contains_key(resource));
            let is_there = !object["status"]["capacity"][resource].is_null();
            !is_listed && counts(is_there)
        });
        let versions: Vec<_> = versions.collect();
        versions.windows(2).map(|pair| u64::from(!pair[0] && pair[1])).sum()
    }
}
