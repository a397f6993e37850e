//! Two replicas of the program, each behind its own faulty network.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use harness::{ControlPlane, Controller, Fault, FaultProxy, wait_until};

use crate::machine;

/// The replica that is killed and restarted.
pub const KILLED: usize = 0;
/// The replica that runs from beginning to end: its memory must not grow.
pub const KEPT: usize = 1;

/// The default of `--leader-elect-lease-duration`, plus a margin.
pub const LEASE: Duration = Duration::from_secs(20);

pub struct Replicas {
    replicas: [Replica; 2],
    /// The logs of killed replicas.
    logs: Vec<String>,
}

struct Replica {
    name: &'static str,
    proxy: FaultProxy,
    controller: Option<Controller>,
}

impl Replicas {
    pub fn start(control_plane: &ControlPlane) -> Result<Self> {
        let server = control_plane.apiserver_address()?;
        let replica = |name| -> Result<Replica> {
            let proxy = FaultProxy::start(server)?;
            let controller = Some(spawn(control_plane, &proxy, name)?);
            Ok(Replica { name, proxy, controller })
        };
        Ok(Self { replicas: [replica("killed")?, replica("kept")?], logs: Vec::new() })
    }

    /// Sets a network fault for these replicas, or none.
    pub fn set_fault(&self, replicas: &[usize], fault: Option<Fault>) {
        for (number, replica) in self.replicas.iter().enumerate() {
            if replicas.contains(&number) {
                replica.proxy.set(fault);
                if fault == Some(Fault::Refuse) {
                    // Otherwise open connections would continue to work.
                    replica.proxy.cut();
                }
            }
        }
    }

    /// Kills a replica, and restarts it.
    pub fn kill(&mut self, control_plane: &ControlPlane) -> Result<()> {
        let [replica, _] = &mut self.replicas;
        if let Some(controller) = replica.controller.take() {
            self.logs.push(controller.log());
            controller.kill();
        }
        replica.controller = Some(spawn(control_plane, &replica.proxy, replica.name)?);
        Ok(())
    }

    /// Returns the replica that leads according to its own metrics.
    pub fn leader(&self) -> Option<usize> {
        self.replicas.iter().position(|replica| {
            let metrics = replica.controller.as_ref().and_then(|it| it.get("/metrics").ok());
            metrics.is_some_and(|(_, text)| text.contains("node_resource_advertiser_leader 1\n"))
        })
    }

    /// Waits until this replica leads.
    pub fn wait_leader(&self, number: usize) -> Result<()> {
        wait_until("another replica to lead", || Ok((self.leader() == Some(number)).then_some(())))
    }

    /// Returns the resident memory of each replica.
    pub fn memory_mib(&self) -> Result<[f64; 2]> {
        let [killed, kept] = &self.replicas;
        Ok([killed.memory_mib()?, kept.memory_mib()?])
    }

    /// Stops both replicas; fails if one has panicked.
    pub fn stop(self) -> Result<()> {
        let mut logs = self.logs;
        for replica in self.replicas {
            let controller = replica.controller.context("no such replica")?;
            logs.push(controller.log());
            controller.terminate()?;
        }
        for log in logs {
            let panic = log.lines().find(|line| line.contains("panicked at"));
            ensure!(panic.is_none(), "a replica has panicked: {panic:?}");
        }
        Ok(())
    }
}

impl Replica {
    fn memory_mib(&self) -> Result<f64> {
        let controller = self.controller.as_ref().context("no such replica")?;
        machine::memory_mib(controller.pid())
    }
}

fn spawn(control_plane: &ControlPlane, proxy: &FaultProxy, name: &str) -> Result<Controller> {
    let kubeconfig = proxy.kubeconfig(&control_plane.kubeconfig())?;
    Controller::spawn(&control_plane.logs(), &kubeconfig, &["run", "--identity", name], &[])
}
