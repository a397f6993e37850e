//! A watch of a process, as kube's `watcher` shows it: a list in pages, then what is written after it.

use std::sync::Arc;

use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use serde_json::Value;
use simulator::{Failure, Kind, ListOptions, Selector, Watch, WatchEvent};

use super::process::{BOOKMARKS, PODS};
use super::responses::{object, status_of};
use super::world::{Due, Millis, World};
use crate::cluster::node_client::BOUND;
use crate::reconciler::effect::Observation;

/// How many objects a page of a list has: few, so that lists have some.
const PAGE: usize = 2;

pub(super) struct Stream {
    kind: Kind,
    state: State,
    /// How long after a write it is shown.
    pub(super) lag: Millis,
    /// Until when it shows nothing at all.
    pub(super) silent_until: Millis,
    /// Until when lists fail.
    pub(super) fails_until: Millis,
    /// Up to which version everything has been shown.
    pub(super) position: u64,
    /// What it watches is not served any more: once it has shown everything it begins anew.
    pub(super) is_to_restart: bool,
    is_due: bool,
    /// Whether it is on.
    is_on: bool,
    pauses: Millis,
}

enum State {
    /// A list is to begin.
    Empty,
    Listing {
        token: Option<String>,
        since: Millis,
    },
    Watching(Watch),
}

impl Stream {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            state: State::Empty,
            lag: 2,
            silent_until: 0,
            fails_until: 0,
            position: 0,
            is_to_restart: false,
            is_due: kind != Kind::Pod,
            is_on: kind != Kind::Pod,
            pauses: 0,
        }
    }

    /// Ends what slows it down.
    pub(super) fn calm_down(&mut self, now: Millis) {
        (self.lag, self.fails_until) = (2, 0);
        if now < self.silent_until {
            // It was to go on at the end of its silence.
            (self.silent_until, self.is_due) = (now, false);
        }
    }

    /// Whether it is on, and a list has yet to end.
    pub(super) fn is_listing(&self) -> bool {
        self.is_on && !matches!(self.state, State::Watching(_))
    }

    /// It begins or ends. Returns whether it was the other way round.
    pub(super) fn turn(&mut self, is_on: bool) -> bool {
        if self.is_on == is_on {
            return false;
        }
        self.is_on = is_on;
        self.restart();
        true
    }

    /// The pods that a process watches; of other kinds, it watches all objects.
    fn selector(kind: Kind) -> Selector {
        let fields = if kind == Kind::Pod { BOUND } else { "" };
        Selector::parse(fields, "").unwrap()
    }

    /// It begins anew with a list.
    pub(super) fn restart(&mut self) {
        self.state = State::Empty;
    }
}

impl World {
    /// Has the watches of a process show what there is.
    pub(super) fn wake_watches(&mut self, process: usize) {
        if self.processes[process].is_dead {
            return;
        }
        for place in 0..4 {
            let stream = &mut self.processes[process].streams[place];
            if !stream.is_due && stream.is_on {
                stream.is_due = true;
                let at = (self.now + stream.lag).max(stream.silent_until);
                self.at(at, Due::Watch(process, place));
            }
        }
    }

    /// A watch shows what comes next.
    pub(super) fn show(&mut self, process: usize, place: usize) {
        let now = self.now;
        let stream = &mut self.processes[process].streams[place];
        if now < stream.silent_until {
            let until = stream.silent_until;
            return self.at(until, Due::Watch(process, place));
        }
        stream.is_due = false;
        if !stream.is_on {
            return;
        }
        let (kind, lag) = (stream.kind, stream.lag);
        // What has piled up comes one after another: a response may come in between.
        let next = lag / 8;
        let mut again = lag;
        let mut listed_since = None;
        let observation = match &mut stream.state {
            State::Empty => {
                stream.state = State::Listing { token: None, since: now };
                again = 1;
                vec![observe(kind, Event::Init)]
            }
            State::Listing { token, since } => {
                let since = *since;
                let selector = Stream::selector(kind);
                let options = ListOptions { selector, limit: PAGE, token: token.clone(), ..ListOptions::default() };
                let is_missing = kind == Kind::Rule && self.crd_missing;
                let list = if is_missing {
                    Err(Failure::not_found(Kind::Rule, &simulator::Key::named("")))
                } else if now < stream.fails_until {
                    Err(Failure::internal("etcd"))
                } else {
                    self.server.list(kind, &options)
                };
                match list {
                    Ok(list) => {
                        let mut events: Vec<_> = list.items.iter().map(|item| apply(kind, item, true)).collect();
                        *token = list.next;
                        if token.is_none() {
                            events.push(observe(kind, Event::InitDone));
                            let selector = Stream::selector(kind);
                            stream.state = State::Watching(self.server.watch(kind, selector, list.version));
                            (stream.position, stream.pauses) = (list.version, 0);
                            listed_since = Some(since);
                        }
                        events
                    }
                    Err(failure) => {
                        stream.state = State::Empty;
                        stream.pauses = (stream.pauses * 2).clamp(200, 20_000);
                        again = stream.pauses;
                        let error = kube::Error::Api(status_of(&failure));
                        self.count("list of a watch failed");
                        vec![fail(kind, watcher::Error::InitialListFailed(error))]
                    }
                }
            }
            State::Watching(watch) => match self.server.next_event(watch) {
                None => {
                    stream.position = watch.position();
                    if !std::mem::take(&mut stream.is_to_restart) {
                        return;
                    }
                    stream.state = State::Empty;
                    vec![]
                }
                Some(WatchEvent::Error(failure)) => {
                    stream.state = State::Empty;
                    again = 200;
                    self.count("watch expired");
                    vec![fail(kind, watcher::Error::WatchError(status_of(&failure)))]
                }
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    (again, stream.position) = (next, watch.position());
                    vec![apply(kind, &object, false)]
                }
                Some(WatchEvent::Deleted(object)) => {
                    (again, stream.position) = (next, watch.position());
                    vec![delete(kind, &object)]
                }
                Some(WatchEvent::Bookmark(_)) => return,
            },
        };
        self.processes[process].streams[place].is_due = true;
        self.after(again, Due::Watch(process, place));
        if self.story.is_recorded {
            let name = Arc::clone(&self.processes[process].name);
            for event in &observation {
                let what = describe(event);
                self.record(|| format!("{name} sees {what}"));
            }
        }
        for event in observation {
            if matches!(event, Observation::Rule(Ok(Event::InitDone)))
                && let Some(since) = listed_since
            {
                self.rules_are_listed(process, since);
            }
            self.observe(process, event);
        }
        if kind == Kind::Pod && self.violation.is_none() {
            self.check_usage(process);
        }
    }

    /// The API server sends a bookmark in the watch of pods, even if nothing changes.
    pub(super) fn bookmark(&mut self, process: usize) {
        self.after(BOOKMARKS, Due::Bookmark(process));
        self.hear_of_pods(process);
    }

    /// The watch of pods brings a bookmark, unless it is silent.
    pub(super) fn hear_of_pods(&mut self, process: usize) {
        let stream = &self.processes[process].streams[PODS];
        if stream.is_on && self.now >= stream.silent_until && matches!(stream.state, State::Watching(_)) {
            let at = self.clock(process).instant;
            self.observe(process, Observation::PodsHeard(at));
        }
    }
}

/// An event without an object.
fn observe(kind: Kind, event: Event<()>) -> Observation {
    fn of<K>(event: &Event<()>) -> Event<K> {
        if matches!(event, Event::Init) { Event::Init } else { Event::InitDone }
    }
    match kind {
        Kind::Lease => Observation::Lease(Ok(of(&event))),
        Kind::Rule => Observation::Rule(Ok(of(&event))),
        Kind::Pod => Observation::Pods(Ok(of(&event))),
        _ => Observation::Node(Ok(of(&event))),
    }
}

fn apply(kind: Kind, value: &Value, is_list: bool) -> Observation {
    fn of<K: DeserializeOwned>(value: &Value, is_list: bool) -> watcher::Result<Event<K>> {
        let object = object(value);
        Ok(if is_list { Event::InitApply(object) } else { Event::Apply(object) })
    }
    match kind {
        Kind::Lease => Observation::Lease(of(value, is_list)),
        Kind::Rule => Observation::Rule(of(value, is_list)),
        Kind::Pod => Observation::Pods(of(value, is_list)),
        _ => Observation::Node(of(value, is_list)),
    }
}

fn delete(kind: Kind, value: &Value) -> Observation {
    match kind {
        Kind::Lease => Observation::Lease(Ok(Event::Delete(object(value)))),
        Kind::Rule => Observation::Rule(Ok(Event::Delete(object(value)))),
        Kind::Pod => Observation::Pods(Ok(Event::Delete(object(value)))),
        _ => Observation::Node(Ok(Event::Delete(object(value)))),
    }
}

fn fail(kind: Kind, error: watcher::Error) -> Observation {
    match kind {
        Kind::Lease => Observation::Lease(Err(error)),
        Kind::Rule => Observation::Rule(Err(error)),
        Kind::Pod => Observation::Pods(Err(error)),
        _ => Observation::Node(Err(error)),
    }
}

/// An event, for a story.
fn describe(observation: &Observation) -> String {
    fn of<K: kube::Resource>(event: &watcher::Result<Event<K>>) -> String {
        let name = |object: &K| {
            let meta = object.meta();
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{} at version {}", text(&meta.name), text(&meta.resource_version))
        };
        match event {
            Ok(Event::Init) => "a list begin".to_owned(),
            Ok(Event::InitDone) => "a list end".to_owned(),
            Ok(Event::InitApply(object)) => format!("a list with {}", name(object)),
            Ok(Event::Apply(object)) => name(object),
            Ok(Event::Delete(object)) => format!("{} deleted", name(object)),
            Err(error) => format!("a watch fail: {error}"),
        }
    }
    match observation {
        Observation::Lease(event) => format!("of Leases: {}", of(event)),
        Observation::Rule(event) => format!("of rules: {}", of(event)),
        Observation::Node(event) => format!("of nodes: {}", of(event)),
        Observation::Pods(event) => format!("of pods: {}", of(event)),
        _ => String::new(),
    }
}
