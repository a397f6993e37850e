//! What has kept a node's patches from going through.

use std::time::Duration;

use crate::cluster::backoff::Backoff;
use crate::planner::Change;

/// How often in a row a patch may find the node changed before that counts as a failure.
const STALE_LIMIT: u32 = 3;

/// Why the last patches of a node did not go through, and how long it is let be for that.
#[derive(Debug)]
pub(super) struct Failure {
    /// In words for the rule's status; `None` while it is nothing to speak of.
    message: Option<String>,
    /// What the last patch that counts as failed was for.
    changes: Vec<Change>,
    /// How often in a row the node had changed meanwhile.
    stale: u32,
    backoff: Backoff,
}

impl Failure {
    pub(super) fn new(seed: u64) -> Box<Self> {
        Box::new(Self { message: None, changes: Vec::new(), stale: 0, backoff: Backoff::new(seed) })
    }

    /// The node had changed meanwhile. Gives how long to pause, but for the first time, and whether that
    /// is a failure now.
    pub(super) fn stale(&mut self, message: &str) -> (Option<Duration>, bool) {
        self.stale += 1;
        let is_failure = self.stale >= STALE_LIMIT;
        if self.stale == 1 {
            return (None, is_failure);
        }
        (Some(self.fail(is_failure.then(|| message.to_owned()), None)), is_failure)
    }

    /// A patch did not go through. Gives how long to pause.
    pub(super) fn fail(
        &mut self,
        message: Option<String>,
        retry_after: Option<Duration>,
    ) -> Duration {
        self.message = message;
        self.backoff.next(retry_after)
    }

    /// In words, unless it is nothing to speak of.
    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Notes what the last patch was for. Gives the message, and what of that has not failed before.
    pub(super) fn take_new(&mut self, changes: &[Change]) -> Option<(String, Vec<Change>)> {
        let message = self.message.clone()?;
        let before = std::mem::replace(&mut self.changes, changes.to_vec());
        let is_new = |change: &&Change| !before.contains(change);
        Some((message, changes.iter().filter(is_new).cloned().collect()))
    }
}
