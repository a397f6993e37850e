//! The watch of pods: when it is on, and what follows from what it shows.

use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use kube::runtime::watcher::{self, Event};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Now, Rank, Reconciler, Step};
use crate::cluster::error::is_expired;
use crate::controller::standing::{Carries, State};
use crate::controller::status::Used;
use crate::controller::usage::{PodObject, Woken};
use crate::planner::input::PodUsage;

/// The resource, for metrics.
const PODS: &str = "pods";

impl Reconciler {
    /// Has pods watched while a leader has a rule that depends on them. Once a rule needs the watch, it stays until no
    /// such rule is left, also while a leader lists the rules again: to begin it costs a list of all pods.
    pub(super) fn follow_usage(&mut self, now: Now, step: &mut Step) {
        let is_on = self.usage.is_on();
        let may_begin = is_on || self.knows_all();
        let selects = |rule: &str| is_on || self.nodes.counts(rule).is_some_and(|counts| counts.selected() > 0);
        let is_wanted = self.leads(now.instant) && may_begin && self.rules.depend_on_pods(selects);
        if is_wanted != self.usage.is_on() {
            let before = self.usage.broken().cloned();
            self.usage.follow(is_wanted);
            self.report_usage(before.as_ref(), now);
            self.touch_all_statuses(now.instant);
        }
        step.watches_pods = is_wanted;
        step.wake = step.wake.into_iter().chain(self.usage.next_change(now.instant)).min();
    }

    /// Notices that the watch has been silent for long.
    pub(super) fn expire_usage(&mut self, now: Now) {
        let before = self.usage.broken().cloned();
        let woken = self.usage.expire(now.instant);
        self.report_usage(before.as_ref(), now);
        self.wake_usage(woken, now);
    }

    pub(super) fn observe_pods(&mut self, event: watcher::Result<Event<PodObject>>, now: Now) {
        let before = self.usage.broken().cloned();
        if before.is_none() && event.as_ref().is_err_and(is_expired) {
            self.diagnostics.metrics.restarted(PODS);
        }
        let woken = self.usage.observe(event, now.instant);
        self.report_usage(before.as_ref(), now);
        self.wake_usage(woken, now);
        self.diagnostics.metrics.unreadable_pods.set(self.usage.unreadable().try_into().unwrap_or(i64::MAX));
        if let Some(error) = self.usage.take_unreadable() {
            warn!("a pod cannot be decoded, and what it requests is not known: {error}");
        }
    }

    /// Handles the time at which the watch of pods showed anything last.
    pub(super) fn pods_heard(&mut self, at: Instant, now: Now) {
        let before = self.usage.broken().cloned();
        let woken = self.usage.heard(at);
        self.report_usage(before.as_ref(), now);
        self.wake_usage(woken, now);
    }

    /// Reports that the watch of pods has broken, or works again. That alone makes the process neither unready nor let another
    /// replica lead: repairs need no pods, and where the permission is missing, it is missing for all.
    fn report_usage(&mut self, before: Option<&Arc<str>>, now: Now) {
        let (why, metrics) = (self.usage.broken(), &self.diagnostics.metrics);
        if why == before {
            return;
        }
        match why {
            Some(why) => warn!("{why}"),
            None if self.usage.is_on() => info!("the watch of pods works again"),
            None => {}
        }
        if before.is_none() {
            metrics.restarted(PODS);
        }
        let ago = |since: Instant| SignedDuration::try_from(now.instant.saturating_duration_since(since)).ok();
        let since = self.usage.broken_since().map(|since| now.wall - ago(since).unwrap_or_default());
        metrics.watch_broken(PODS, since.map_or(0, |since| since.as_second()));
    }

    /// Plans the nodes again for which it is known now what pods request, or not anymore. What follows on a node that pods
    /// hold waits for no rollout.
    fn wake_usage(&mut self, woken: Woken, now: Now) {
        match woken {
            Woken::Nothing => {}
            Woken::Node(name) => {
                if let Some(state) = self.nodes.get_mut(&name)
                    && state.standings.iter().any(|(_, standing)| standing.state() == State::Held)
                {
                    state.follows_pods = true;
                }
                self.enqueue(&name, Rank::Changed, now);
            }
            Woken::All => {
                self.enqueue_all(now);
                self.touch_all_statuses(now.instant);
            }
        }
    }

    /// Records what pods on a node request of each rule's resource, where the rule has a value.
    pub(super) fn record_use(&mut self, name: &Arc<str>, pods: &PodUsage) {
        let (PodUsage::Known(requests) | PodUsage::LastKnown { requests, .. }) = pods else {
            return self.requested.record(name, Box::default());
        };
        let standings = self.nodes.get(name).into_iter().flat_map(|state| state.standings.iter());
        let valued = standings.filter(|(_, standing)| !matches!(standing.carries(), Carries::Nothing));
        let amounts = valued.filter_map(|(rule, _)| {
            let amount = requests.bound.get(self.rules.get(rule)?.resource()?);
            (!amount.is_zero()).then(|| (Arc::clone(rule), amount))
        });
        self.requested.record(name, amounts.collect());
    }

    /// Returns what is known of what pods request of a rule's resource.
    pub(super) fn used(&self, rule: &str, now: Instant) -> Used {
        match (self.usage.is_live(now), self.usage.is_listing()) {
            (true, _) => Used::Known(self.requested.of(rule)),
            (false, true) => Used::Listing,
            (false, false) => Used::Unknown,
        }
    }
}
