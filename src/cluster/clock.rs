//! The wall clock: for times that are written into objects and compared with those of other processes.

use k8s_openapi::jiff::Timestamp;

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Timestamp::now()
}

/// A clock that follows tokio's clock, which tests pause.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;

    use k8s_openapi::jiff::Timestamp;
    use tokio::time::Instant;

    thread_local! {
        static START: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
    }

    /// Sets the thread's clock to the simulated one until dropped.
    pub(crate) struct SimulatedClock;

    /// Starts the simulated clock for this thread.
    pub(crate) fn start(at: Timestamp) -> SimulatedClock {
        START.set(Some((Instant::now(), at)));
        SimulatedClock
    }

    impl Drop for SimulatedClock {
        fn drop(&mut self) {
            START.set(None);
        }
    }

    pub(super) fn now() -> Option<Timestamp> {
        let (instant, wall) = START.get()?;
        Some(wall + instant.elapsed())
    }
}
