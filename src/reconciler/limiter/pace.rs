//! A maximum rate.

use std::time::Duration;

use tokio::time::Instant;

/// Permits a number of events per second, of which those of one second may come at once.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// The interval between events; `None` for no limit.
    interval: Option<Duration>,
    /// How far `full_at` may lie ahead.
    tolerance: Duration,
    /// When the events so far would have ended at the maximum rate (the generic cell rate algorithm).
    full_at: Option<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: Option<u32>) -> Self {
        let interval = per_second.map(|rate| Duration::from_secs(1) / rate.max(1));
        let tolerance = interval.map_or(Duration::ZERO, |interval| Duration::from_secs(1).saturating_sub(interval));
        Self { interval, tolerance, full_at: None }
    }

    /// Returns whether an event may take place now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| next <= now)
    }

    /// Records an event.
    pub(super) fn take(&mut self, now: Instant) {
        if let Some(interval) = self.interval {
            self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + interval);
        }
    }

    /// Returns the earliest time of the next event.
    pub(super) fn next(&self) -> Option<Instant> {
        self.full_at.map(|full_at| full_at.checked_sub(self.tolerance).unwrap_or(full_at))
    }
}
