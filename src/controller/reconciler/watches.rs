//! What follows from a broken watch.

use kube::runtime::watcher;
use tracing::{info, warn};

use super::{Failed, Now, Reconciler, Step, Watched};
use crate::cluster::error::{describe_watch, is_expired};

impl Reconciler {
    /// Handles the failure of a watch, which restarts. Returns the error, unless the watch merely expired.
    pub(super) fn watch_failed(
        &mut self,
        watched: Watched,
        error: &watcher::Error,
        missing: &str,
        now: Now,
    ) -> Option<String> {
        let resource = watched.name();
        if is_expired(error) {
            info!("{resource}: the watch is too old, listing again");
            if !self.watches.is_broken(watched) {
                self.diagnostics.metrics.restarted(resource);
            }
            return None;
        }
        let message = format!("{resource}: {}", describe_watch(error, missing));
        let Failed { is_first, is_new } = self.watches.failed(watched, error, &message, now);
        // An unreachable API server counts as one restart, however many attempts fail.
        if is_first {
            self.diagnostics.metrics.restarted(resource);
        }
        if is_new {
            warn!("{message}");
        }
        Some(message)
    }

    /// Reports broken watches. If this process can renew the Lease while a watch stays broken, another replica is given a
    /// turn: the cause may be local.
    pub(super) fn follow_watches(&mut self, now: Now, step: &mut Step) {
        for watched in Watched::ALL {
            let Some(report) = self.watches.take_report(watched, now.instant) else { continue };
            let since = report.broken_since.map_or(0, |since| since.as_second());
            self.diagnostics.metrics.watch_broken(watched.name(), since);
            let (is_listed, unready) = (self.is_listed(watched), report.unready);
            self.set_ready(|readiness| {
                let reason = match watched {
                    Watched::Nodes => &mut readiness.nodes,
                    Watched::Rules => &mut readiness.rules,
                };
                // Before the first list, the reason is that there is none.
                if is_listed {
                    *reason = unready;
                }
            });
        }
        let patience = self.leader.lease_duration();
        let led_since = self.leader.led_since();
        if let Some(led_since) = led_since
            && !self.leader.is_stopping()
            && let Some(watched) = self.watches.take_yield(led_since, patience, now.instant)
        {
            warn!(
                "the watch of {} has been broken for {patience:?} or longer while the lease could be renewed: letting \
                 another replica lead",
                watched.name()
            );
            self.leader.yield_lease(now.instant);
        }
        let wake = self.watches.next_change(led_since, patience, now.instant);
        step.wake = step.wake.into_iter().chain(wake).min();
    }

    fn is_listed(&self, watched: Watched) -> bool {
        match watched {
            Watched::Nodes => self.nodes.listed(),
            Watched::Rules => self.rules.listed(),
        }
    }
}
