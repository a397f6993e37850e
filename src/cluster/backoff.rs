//! How long a node waits after a failure: without it an API server in trouble
//! would be asked as fast as it answers.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// Growing pauses between tries at one thing.
#[derive(Debug)]
pub(crate) struct Backoff(ExponentialBackoff);

impl Backoff {
    /// Pauses that double from half a second to a minute, with as much again at random, so that
    /// nodes which failed together do not return together.
    pub(crate) fn new(seed: u64) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(FIRST)
            .with_max_delay(LONGEST)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed);
        Self(builder.build())
    }

    /// The next pause, no shorter than what the server asked for.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Duration {
        self.0.next().unwrap_or(LONGEST).max(retry_after.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_a_bound_and_honours_the_server() {
        let mut backoff = Backoff::new(7);
        let pauses: Vec<_> = (0..20).map(|_| backoff.next(None)).collect();
        assert!(pauses[0] >= FIRST && pauses[0] <= 2 * FIRST);
        assert!(pauses[19] >= LONGEST && pauses[19] <= 2 * LONGEST);
        assert_eq!(Backoff::new(7).next(Some(Duration::from_secs(9))), Duration::from_secs(9));
        assert_ne!(pauses[0], Backoff::new(8).next(None), "seeds tell nodes apart");
    }
}
