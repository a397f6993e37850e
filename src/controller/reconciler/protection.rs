//! Whether a policy keeps listed values when a kubelet resets them, and the resets that were observed.

use kube::runtime::watcher::{self, Event};
use tracing::{info, warn};

use super::{Now, Reconciler};
use crate::controller::metrics::{self, KEPT, RESET};
use crate::controller::nodes::{Seen, Start};
use crate::controller::protection::{Kind, PolicyObject, State};

impl Reconciler {
    pub(super) fn observe_protection(&mut self, kind: Kind, event: watcher::Result<Event<PolicyObject>>) {
        if !self.cluster.protection.observe(kind, event) {
            return;
        }
        let state = self.cluster.protection.state();
        info!("protection: {state}");
        let states = State::NAMES.map(|name| (name, usize::from(name == state.name())));
        metrics::set_all(&self.diagnostics.metrics.protection, "state", states);
        self.set_ready(|readiness| readiness.protection = state.to_string());
    }

    /// Reports whether listed values were kept when a kubelet started. Each replica observes that; only the leader
    /// counts it.
    pub(super) fn report_start(&self, seen: &Seen, now: Now) {
        let Some((node, start)) = &seen.started else { return };
        let state = self.cluster.protection.state();
        let starts = &self.diagnostics.metrics.kubelet_starts;
        let values = match start {
            Start::Kept => {
                info!(%node, "the node rebooted, and listed values were kept");
                KEPT
            }
            Start::Reset if matches!(state, State::Present(_)) => {
                warn!(%node, "the kubelet reset listed values despite the policy: {state}");
                RESET
            }
            Start::Reset => {
                info!(%node, "the kubelet reset listed values");
                RESET
            }
        };
        if self.leads(now.instant) {
            starts.get_or_create(&values).inc();
        }
    }
}
