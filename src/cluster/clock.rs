//! The clock on the wall: what is written into objects, and compared with what others have written.

use k8s_openapi::jiff::Timestamp;

/// Reads it.
pub(crate) fn now() -> Timestamp {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Timestamp::now()
}

/// A clock that goes as tokio's does, which tests pause.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;

    use k8s_openapi::jiff::Timestamp;
    use tokio::time::Instant;

    thread_local! {
        static START: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
    }

    /// As long as this is there, the thread has the simulated clock.
    pub(crate) struct SimulatedClock;

    /// Sets it, for this thread.
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
