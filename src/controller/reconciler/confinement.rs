//! The self-test of the policy that confines this account: at most one request per minute, and only while this process
//! leads. Nothing waits for the test.

use tokio::time::Instant;
use tracing::{info, warn};

use super::{Now, Reconciler, Request, Step};
use crate::cluster::requests::RequestError;
use crate::controller::confinement::State;
use crate::controller::metrics;

impl Reconciler {
    /// Sends the test if it is due.
    pub(super) fn test_confinement(&mut self, deadline: Instant, now: Now, step: &mut Step) {
        let test = self.cluster.confinement.next(&self.nodes, now);
        step.requests.extend(test.map(|effect| Request { effect, deadline }));
        self.report_confinement();
    }

    /// Handles the response to a test.
    pub(super) fn confinement_tested(&mut self, number: u64, reply: Result<(), RequestError>) {
        let result = self.cluster.confinement.tested(number, reply);
        self.diagnostics.metrics.confinement_tests.get_or_create(&[("result", result)]).inc();
        self.report_confinement();
    }

    /// Reports the state of the tests if it has changed.
    pub(super) fn report_confinement(&mut self) {
        let Some(state) = self.cluster.confinement.take_change() else { return };
        let text = state.to_string();
        match state {
            State::Unconfined => warn!("confinement: {text}"),
            // The initial state, or the state after a loss of leadership.
            State::Standby => {}
            _ => info!("confinement: {text}"),
        }
        let states = State::NAMES.map(|name| (name, usize::from(name == state.name())));
        metrics::set_all(&self.diagnostics.metrics.confinement, "state", states);
        self.set_ready(|readiness| readiness.confinement = text);
    }
}
