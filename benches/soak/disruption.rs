//! Deliberate disruptions.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use harness::{ControlPlane, Fault};

use crate::replicas::{KEPT, KILLED, LEASE, Replicas};

const BOTH: &[usize] = &[KILLED, KEPT];

#[derive(Clone, Copy, Debug)]
pub enum Disruption {
    /// The network of both replicas fails.
    Fault(Fault),
    /// The API server is killed and restarted.
    ApiServer,
    /// The leader is killed.
    Leader,
    /// The replica that is never killed leads: its network stalls until the other one leads, which is then killed.
    Isolation,
}

/// The sequence of disruptions: all of them, in a new random order each time.
pub struct Disruptions {
    random: fastrand::Rng,
    next: Vec<Disruption>,
}

impl Disruptions {
    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), next: Vec::new() }
    }

    pub fn next(&mut self, replicas: &Replicas) -> Disruption {
        if self.next.is_empty() {
            self.next = [
                Fault::Refuse,
                Fault::Delay(Duration::from_millis(200)),
                Fault::Truncate(20_000),
                Fault::Stall,
                Fault::Reset,
            ]
            .map(Disruption::Fault)
            .into();
            self.next.extend([Disruption::ApiServer, Disruption::Leader]);
            self.random.shuffle(&mut self.next);
        }
        match self.next.pop() {
            Some(Disruption::Leader) | None if replicas.leader() != Some(KILLED) => Disruption::Isolation,
            next => next.unwrap_or(Disruption::Leader),
        }
    }
}

impl Disruption {
    /// The minimum duration.
    pub fn duration(self) -> Duration {
        match self {
            Self::Fault(_) => Duration::from_secs(8),
            Self::ApiServer | Self::Leader => Duration::from_secs(1),
            Self::Isolation => LEASE,
        }
    }

    pub fn begin(self, control_plane: &mut ControlPlane, replicas: &mut Replicas) -> Result<()> {
        match self {
            Self::Fault(fault) => replicas.set_fault(BOTH, Some(fault)),
            Self::ApiServer => {
                control_plane.kill_apiserver()?;
                control_plane.restart_apiserver()?;
            }
            Self::Leader => replicas.kill(control_plane)?,
            Self::Isolation => replicas.set_fault(&[KEPT], Some(Fault::Stall)),
        }
        Ok(())
    }

    pub fn end(self, control_plane: &ControlPlane, replicas: &mut Replicas) -> Result<()> {
        match self {
            Self::Fault(_) => replicas.set_fault(BOTH, None),
            Self::ApiServer | Self::Leader => {}
            Self::Isolation => {
                replicas.wait_leader(KILLED)?;
                replicas.set_fault(&[KEPT], None);
                replicas.kill(control_plane)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fault(Fault::Refuse) => "connections refused",
            Self::Fault(Fault::Delay(_)) => "responses late",
            Self::Fault(Fault::Truncate(_)) => "responses cut",
            Self::Fault(Fault::Stall) => "responses stalled",
            Self::Fault(Fault::Reset) => "connections reset",
            Self::Fault(Fault::Hold) => "requests held",
            Self::ApiServer => "API server killed",
            Self::Leader => "leader killed",
            Self::Isolation => "leader isolated, the next killed",
        })
    }
}
