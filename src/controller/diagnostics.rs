//! Where the controller reports its own state, and what has happened.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::log::log;
use super::metrics::Metrics;
use crate::reconciler::happening::Happening;
use crate::reconciler::readiness::Readiness;

/// Where the controller reports its own state.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// Why the controller is not ready.
    pub readiness: watch::Sender<Readiness>,
    /// The time of the last iteration of the loop: at most ten seconds ago, unless the loop is stuck.
    pub heartbeat: watch::Sender<Instant>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

impl Diagnostics {
    /// Logs, counts and shows what has happened.
    pub(crate) fn report(&self, happenings: &[Happening]) {
        for happening in happenings {
            log(happening);
            self.metrics.count(happening);
            self.readiness.send_if_modified(|readiness| readiness.follow(happening));
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let (readiness, _) = watch::channel(Readiness::default());
        let (heartbeat, _) = watch::channel(Instant::now());
        Self { readiness, heartbeat, metrics: Arc::default() }
    }

    /// Records that so many plans took this long together.
    pub(super) fn report_plans(&self, plans: usize, time: Duration) {
        if plans > 0 {
            let time = time.as_secs_f64() / plans as f64;
            (0..plans).for_each(|_| self.metrics.plan.observe(time));
        }
    }
}
