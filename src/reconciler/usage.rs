//! What pods on each node request, from one watch of all pods that are bound and unfinished.
//!
//! ```text
//! off ──follow──▶ listing ──InitDone──▶ live ◀──frame──▶ stale (nothing heard for 90 s)
//!  ▲                                     ▲
//!  └──follow                             └──frame, or a new list── broken ◀──error, in any state but off
//! ```
//!
//! A watch that is open again for a few seconds counts as a frame (`pod_watch.rs`).
//!
//! Whoever asks gets what is known, or why it may be out of date. While the watch lists again, the pods of the previous
//! list serve.

use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;

use crate::model::pod::NodeRequests;
use crate::model::pod::pod_use::{ApiPod, PodInterner, PodUid, PodUse};
use crate::planner::input::PodUsage;
use crate::response::error::{describe_watch, is_expired};

/// How long the watch may be silent: the API server sends a bookmark about every minute.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// A pod from the API server, which may be one that cannot be decoded.
pub(crate) type PodObject = DeserializeGuard<ApiPod>;

#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    source: Source,
    pods: Pods,
    /// The pods of a list that is not complete yet.
    listing: Pods,
    interner: PodInterner,
    /// Whether a pod that cannot be decoded has been reported.
    is_reported: bool,
}

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Off,
    Listing,
    Live {
        /// When the watch showed something last, even a bookmark.
        heard: Instant,
    },
    Broken {
        why: Arc<str>,
        /// Of the first error, and of the last one.
        began: Instant,
        since: Instant,
        /// Whether there has been a complete list.
        has_listed: bool,
    },
}

#[derive(Clone, Debug, Default)]
struct Pods {
    by_node: HashMap<Arc<str>, Vec<PodUse>>,
    /// The pods that cannot be decoded, and why.
    unreadable: HashMap<PodUid, Arc<str>>,
}

/// The nodes for which what is known has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Woken {
    Nothing,
    Node(Arc<str>),
    All,
}

impl Usage {
    /// Returns whether pods are watched.
    pub(super) fn is_on(&self) -> bool {
        !matches!(self.source, Source::Off)
    }

    /// Begins or ends the watch. What is known is forgotten when it ends.
    pub(super) fn follow(&mut self, is_wanted: bool) {
        match (&self.source, is_wanted) {
            (Source::Off, true) => self.source = Source::Listing,
            (Source::Listing | Source::Live { .. } | Source::Broken { .. }, false) => *self = Self::default(),
            _ => {}
        }
    }

    /// Handles an event of the watch.
    pub(super) fn observe(&mut self, event: watcher::Result<Event<PodObject>>, now: Instant) -> Woken {
        let event = match event {
            Ok(event) => event,
            // It lists again.
            Err(error) if is_expired(&error) => return Woken::Nothing,
            Err(error) => return self.broke(format!("pods: {}", describe_watch(&error, "")).into(), now),
        };
        let Self { pods, listing, interner, .. } = self;
        match event {
            Event::Init => *listing = Pods::default(),
            Event::InitApply(object) => _ = listing.apply(object, interner),
            Event::InitDone => {
                *pods = std::mem::take(listing);
                self.source = Source::Live { heard: now };
                return Woken::All;
            }
            Event::Apply(object) => {
                let woken = pods.apply(object, interner);
                return self.heard(now).or(woken);
            }
            Event::Delete(object) => {
                let woken = pods.delete(&object);
                return self.heard(now).or(woken);
            }
        }
        Woken::Nothing
    }

    /// Records that the watch has shown something, even a bookmark.
    pub(super) fn heard(&mut self, at: Instant) -> Woken {
        let was_stale = match &mut self.source {
            Source::Live { heard } => {
                let silence = at.saturating_duration_since(*heard);
                *heard = at.max(*heard);
                silence >= MAX_SILENCE
            }
            // What came before the error says nothing about what comes after it.
            Source::Broken { since, has_listed: true, .. } if at > *since => {
                self.source = Source::Live { heard: at };
                true
            }
            Source::Off | Source::Listing | Source::Broken { .. } => false,
        };
        if was_stale { Woken::All } else { Woken::Nothing }
    }

    fn broke(&mut self, why: Arc<str>, now: Instant) -> Woken {
        let (is_new, began, has_listed) = match &self.source {
            Source::Off => return Woken::Nothing,
            Source::Listing => (true, now, false),
            Source::Live { .. } => (true, now, true),
            Source::Broken { why: before, began, has_listed, .. } => (*before != why, *began, *has_listed),
        };
        self.source = Source::Broken { why, began, since: now, has_listed };
        if is_new { Woken::All } else { Woken::Nothing }
    }

    /// Handles the silence of the watch: what it has shown may be out of date.
    pub(super) fn expire(&mut self, now: Instant) -> Woken {
        match self.source {
            Source::Live { heard } if self.next_change(now).is_none() => self.broke(silent(), heard),
            _ => Woken::Nothing,
        }
    }

    /// Returns what pods on a node request.
    pub(super) fn on(&self, node: &str, now: Instant) -> PodUsage {
        let why = match &self.source {
            Source::Off | Source::Listing => return PodUsage::NotFetched,
            Source::Live { .. } if self.next_change(now).is_some() => return PodUsage::Known(self.pods.on(node)),
            Source::Live { .. } => silent(),
            Source::Broken { why, has_listed: false, .. } => return PodUsage::Unavailable(Arc::clone(why)),
            Source::Broken { why, .. } => Arc::clone(why),
        };
        PodUsage::LastKnown { requests: self.pods.on(node), why }
    }

    /// Returns whether it is not known yet what pods request, but will be.
    pub(super) fn is_listing(&self) -> bool {
        matches!(self.source, Source::Listing)
    }

    /// Returns whether it is known what pods request now.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        matches!(self.source, Source::Live { .. }) && self.next_change(now).is_some()
    }

    /// Returns why nothing is lowered, if the watch is broken.
    pub(super) fn broken(&self) -> Option<&Arc<str>> {
        match &self.source {
            Source::Broken { why, .. } => Some(why),
            Source::Off | Source::Listing | Source::Live { .. } => None,
        }
    }

    /// Returns since when the watch is broken.
    pub(super) fn broken_since(&self) -> Option<Instant> {
        match self.source {
            Source::Broken { began, .. } => Some(began),
            Source::Off | Source::Listing | Source::Live { .. } => None,
        }
    }

    /// Returns when the watch becomes stale if nothing is heard, unless it is.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        match self.source {
            Source::Live { heard } => Some(heard + MAX_SILENCE).filter(|at| now < *at),
            Source::Off | Source::Listing | Source::Broken { .. } => None,
        }
    }

    /// Returns how many pods cannot be decoded. What they request is not known.
    pub(super) fn unreadable(&self) -> usize {
        self.pods.unreadable.len()
    }

    /// Returns why a pod cannot be decoded, once.
    pub(super) fn take_unreadable(&mut self) -> Option<Arc<str>> {
        let error = self.pods.unreadable.values().next().filter(|_| !self.is_reported)?;
        self.is_reported = true;
        Some(Arc::clone(error))
    }
}

fn silent() -> Arc<str> {
    format!("the watch of pods has shown nothing for {} s", MAX_SILENCE.as_secs()).into()
}

impl Woken {
    fn or(self, other: Self) -> Self {
        if self == Self::Nothing { other } else { self }
    }
}

impl Pods {
    fn apply(&mut self, object: PodObject, interner: &mut PodInterner) -> Woken {
        let uid = PodUid::of(object.meta());
        let object = match object.0 {
            Ok(object) => object,
            Err(invalid) => {
                // What was known of it still holds: requests do not change.
                self.unreadable.insert(uid, invalid.error.into());
                return Woken::Nothing;
            }
        };
        self.unreadable.remove(&uid);
        let pod = match PodUse::new(&object, interner) {
            Ok(Some(pod)) => pod,
            Ok(None) => return object.node().map_or(Woken::Nothing, |node| self.remove(node, &uid)),
            Err(error) => {
                self.unreadable.insert(uid, error.to_string().into());
                return Woken::Nothing;
            }
        };
        let node = Arc::clone(&pod.node);
        let here = self.by_node.entry(Arc::clone(&node)).or_default();
        match here.iter_mut().find(|known| known.uid == uid) {
            Some(known) if *known == pod => return Woken::Nothing,
            Some(known) => *known = pod,
            None => here.push(pod),
        }
        Woken::Node(node)
    }

    fn delete(&mut self, object: &PodObject) -> Woken {
        let uid = PodUid::of(object.meta());
        self.unreadable.remove(&uid);
        match &object.0 {
            // Without a node it requests nothing, and never has.
            Ok(object) => object.node().map_or(Woken::Nothing, |node| self.remove(node, &uid)),
            Err(_) => {
                let mut nodes = self.by_node.iter();
                let node = nodes.find_map(|(node, pods)| pods.iter().any(|pod| pod.uid == uid).then_some(node));
                node.cloned().map_or(Woken::Nothing, |node| self.remove(&node, &uid))
            }
        }
    }

    fn remove(&mut self, node: &str, uid: &PodUid) -> Woken {
        let Some(here) = self.by_node.get_mut(node) else { return Woken::Nothing };
        let Some(place) = here.iter().position(|pod| pod.uid == *uid) else { return Woken::Nothing };
        let node = here.swap_remove(place).node;
        if here.is_empty() {
            self.by_node.remove(&node);
        }
        Woken::Node(node)
    }

    fn on(&self, node: &str) -> NodeRequests {
        let mut total = NodeRequests::default();
        for pod in self.by_node.get(node).into_iter().flatten() {
            total.add(&pod.requests, pod.has_started);
        }
        total
    }
}

#[cfg(test)]
mod tests;
