//! The self-test: whether the API server rejects what the controller's account must never do.
//!
//! The account may patch `nodes/status`, which allows changing nearly all of a node; a `ValidatingAdmissionPolicy`
//! confines it to the purpose of the controller. Only a request shows whether the policy is in force: the leader sends
//! a dry run that must be rejected. The API server evaluates admission for it, and stores nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::effect::{Effect, Now};
use super::nodes::Nodes;
use crate::response::request_error::RequestError;

/// The interval of the test.
const INTERVAL: Duration = Duration::from_secs(60);

/// When the test is repeated that the API server accepts first: a policy takes effect a moment after it was created.
const REPETITION: Duration = Duration::from_secs(5);

/// The part of the rejection that shows a policy, whatever the policy's name.
const BY_A_POLICY: &str = "ValidatingAdmissionPolicy";
const REJECTION: &str = "node-resource-advertiser may not change metadata";

/// The result of the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The policy rejected the last test.
    Confined,
    /// The API server accepted the last test.
    Unconfined,
    /// The last test is inconclusive, for this reason.
    Unknown(String),
    /// There is no node to test with.
    NoNode,
    /// The test is disabled in the settings.
    Off,
    /// Another replica leads and tests.
    Standby,
}

impl State {
    /// The states in the metrics; a standby reports none.
    pub(crate) const NAMES: [&str; 5] = ["confined", "unconfined", "unknown", "no_node", "off"];
    /// The possible results of a test.
    pub(crate) const RESULTS: [&str; 3] = ["confined", "unconfined", "unknown"];

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Confined => "confined",
            Self::Unconfined => "unconfined",
            Self::Unknown(_) => "unknown",
            Self::NoNode => "no_node",
            Self::Off => "off",
            Self::Standby => "standby",
        }
    }

    /// Returns the state for the response to a test. Only the policy's own message shows that it is in force: the
    /// permission may be missing, or a webhook or another policy may reject the request, which does not apply to the
    /// next request.
    fn of(reply: Result<(), RequestError>) -> Self {
        match reply {
            Ok(()) => Self::Unconfined,
            Err(RequestError::Api { status, .. })
                if status.message.contains(BY_A_POLICY) && status.message.contains(REJECTION) =>
            {
                Self::Confined
            }
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confined => f.write_str(
                "the API server rejects changes by this account beyond extended resources: it rejected the last dry run of a \
                 label",
            ),
            Self::Unconfined => f.write_str(
                "the API server allows this account to change nodes beyond extended resources: it accepted the \
                 last dry run of a label. Check that the ValidatingAdmissionPolicy exists, is bound with the action \
                 Deny, and matches this account",
            ),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
            Self::NoNode => f.write_str("unknown: no node to test with"),
            Self::Off => f.write_str("not tested (--confinement-test=false)"),
            Self::Standby => f.write_str("tested by the leader"),
        }
    }
}

/// The state of the test, and when the next test is due.
#[derive(Clone, Debug)]
pub(super) struct Confinement {
    state: State,
    /// Whether the state has been reported.
    is_reported: bool,
    /// `None` if this process does not test.
    due: Option<Instant>,
    /// The number of tests sent. A response to any but the last is late and inconclusive.
    sent: u64,
    in_flight: bool,
    /// The node of the last test. The next test takes the next node, since a node may be special.
    node: Option<Arc<str>>,
}

impl Confinement {
    pub(super) fn new(is_tested: bool) -> Self {
        let state = if is_tested { State::Standby } else { State::Off };
        Self { state, is_reported: false, due: None, sent: 0, in_flight: false, node: None }
    }

    /// Returns the state, if it has changed since the last call.
    pub(super) fn take_change(&mut self) -> Option<&State> {
        let is_reported = std::mem::replace(&mut self.is_reported, true);
        (!is_reported).then_some(&self.state)
    }

    fn set(&mut self, state: State) {
        self.is_reported &= self.state == state;
        self.state = state;
    }

    /// Handles a change of leadership.
    pub(super) fn follow(&mut self, leads: bool, now: Instant) {
        if self.state == State::Off {
            return;
        }
        self.in_flight = false;
        self.due = leads.then_some(now);
        let untested = State::Unknown("not tested yet".to_owned());
        self.set(if leads { untested } else { State::Standby });
    }

    /// Returns the test that is due. A failed test is not repeated, but for the first that was accepted: the next one is due a
    /// minute later.
    pub(super) fn next(&mut self, nodes: &Nodes, now: Now) -> Option<Effect> {
        if !nodes.listed() || self.next_due().is_none_or(|due| due > now.instant) {
            return None;
        }
        self.due = Some(now.instant + INTERVAL);
        let Some(node) = nodes.name_after(self.node.as_deref()) else {
            self.set(State::NoNode);
            return None;
        };
        self.node = Some(Arc::clone(node));
        self.sent += 1;
        self.in_flight = true;
        // Each test has another value: a value that the node already has would be no change, and be accepted.
        let label = format!("{:x}-{:x}", now.wall.as_millisecond(), self.sent);
        Some(Effect::TestConfinement { number: self.sent, node: Arc::clone(node), label })
    }

    /// Returns when the next test is due, if none is in flight. Before nodes are listed, that is in the past.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.in_flight)
    }

    /// Handles the response to a test. Returns the result of the test: unknown if the response is late.
    pub(super) fn tested(&mut self, number: u64, reply: Result<(), RequestError>, now: Instant) -> &'static str {
        if number != self.sent || !self.in_flight {
            return State::Unknown(String::new()).name();
        }
        self.in_flight = false;
        let (before, state) = (self.state == State::Unconfined, State::of(reply));
        if state == State::Unconfined && !before {
            self.due = Some(now + REPETITION);
        }
        self.set(state);
        self.state.name()
    }
}

#[cfg(test)]
mod tests;
