//! Backoff after failures: without it, a failing API server would receive requests as fast as it responds.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

const INITIAL_DELAY: Duration = Duration::from_millis(500);
/// The first delay of a watch, since the cache is stale until the watch works again.
const INITIAL_WATCH_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Growing pauses between attempts.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    pauses: ExponentialBuilder,
    taken: usize,
}

impl Backoff {
    /// Returns pauses that double from half a second to a minute, plus up to the same at random, so that nodes that
    /// fail together do not retry together.
    pub(crate) fn new(seed: u64) -> Self {
        Self::from(INITIAL_DELAY, seed)
    }

    /// Returns pauses that start at a tenth of a second, for watches.
    pub(crate) fn of_a_watch(seed: u64) -> Self {
        Self::from(INITIAL_WATCH_DELAY, seed)
    }

    fn from(initial: Duration, seed: u64) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(initial)
            .with_max_delay(MAX_DELAY)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed);
        Self { pauses: builder, taken: 0 }
    }

    /// Returns the next pause, no shorter than the one that the API server requests.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        let pause = self.pauses.build().nth(self.taken).unwrap_or(MAX_DELAY);
        self.taken += 1;
        pause.max(retry_after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_bound_and_honours_retry_after() {
        let mut backoff = Backoff::new(7);
        let pauses: Vec<_> = (0..20).map(|_| backoff.next(None)).collect();
        assert!(pauses[0] >= INITIAL_DELAY && pauses[0] <= 2 * INITIAL_DELAY);
        assert!(pauses[19] >= MAX_DELAY && pauses[19] <= 2 * MAX_DELAY);
        assert_eq!(Backoff::new(7).next(Some(Duration::from_secs(9))), Duration::from_secs(9));
        assert_ne!(pauses[0], Backoff::new(8).next(None), "seeds distinguish nodes");
    }
}
