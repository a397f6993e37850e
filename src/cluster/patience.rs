//! How long a command waits for an API server that does not respond.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, timeout};
use tower::BoxError;

use super::config::Timeout;

/// A limit for the time until a response begins, or a credential plugin ends.
#[derive(Clone)]
pub(super) struct Patience {
    limit: Duration,
    /// When a request has been waited for in vain; `None` if each request is waited for anew.
    lost_at: Option<Arc<Mutex<Option<Instant>>>>,
}

/// A response that has not begun in time.
#[derive(Debug, Error)]
#[error("no response within {}s", .0.as_secs_f64())]
struct NoAnswer(Duration);

impl Patience {
    /// Waits for each request anew, or once: where a request has been waited for in vain, those that begin within the same
    /// time then fail at once, so that a command of many requests ends after one limit.
    pub(super) fn new(timeout: Timeout) -> Self {
        match timeout {
            Timeout::EachRequest(limit) => Self { limit, lost_at: None },
            Timeout::AllRequests(limit) => Self { limit, lost_at: Some(Arc::default()) },
        }
    }

    /// Waits for a response.
    pub(super) async fn wait<T>(&self, response: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
        self.limit(response).await.unwrap_or_else(|limit| Err(NoAnswer(limit).into()))
    }

    /// Returns what the work returns, or the limit that it has passed.
    pub(super) async fn limit<T>(&self, work: impl Future<Output = T>) -> Result<T, Duration> {
        if self.is_lost() {
            return Err(self.limit);
        }
        timeout(self.limit, work).await.map_err(|_| {
            self.lose();
            self.limit
        })
    }

    fn is_lost(&self) -> bool {
        let lost_at = self.lost_at.as_ref().and_then(|at| *at.lock().unwrap_or_else(PoisonError::into_inner));
        lost_at.is_some_and(|at| at.elapsed() < self.limit)
    }

    fn lose(&self) {
        if let Some(lost_at) = &self.lost_at {
            *lost_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// Returns how long a request was waited for that gets no response.
    async fn waited(patience: &Patience) -> Duration {
        let start = Instant::now();
        let error = patience.wait(pending::<Result<(), BoxError>>()).await.unwrap_err();
        assert_eq!(error.to_string(), "no response within 5s");
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_after_one_that_got_no_response_are_not_waited_for() {
        let patience = Patience::new(Timeout::AllRequests(LIMIT));
        assert_eq!(waited(&patience).await, LIMIT);
        assert_eq!(waited(&patience).await, Duration::ZERO);
        // A command that watches tries again.
        tokio::time::advance(LIMIT).await;
        assert!(patience.wait(ready(Ok(()))).await.is_ok());
        assert_eq!(waited(&patience).await, LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn controller_waits_for_each_request() {
        let patience = Patience::new(Timeout::EachRequest(LIMIT));
        assert_eq!(waited(&patience).await, LIMIT);
        assert_eq!(waited(&patience).await, LIMIT);
    }
}
