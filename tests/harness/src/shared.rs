//! Clusters that the tests of one program reuse, because starting an API server takes most of a short
//! test's time.

// For tests, which fail with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};

use crate::reset::Snapshot;
use crate::{Builder, Cluster, ControlPlane, builder};

/// How many clusters stay idle: each takes half a gigabyte, and most tests use one of a few kinds.
const MAX_IDLE: usize = 6;

/// Idle clusters, the one that was used last at the end.
static IDLE: Mutex<Vec<Reusable>> = Mutex::new(Vec::new());

/// A cluster, how it was started, and its state then.
#[derive(Debug)]
struct Reusable {
    builder: Builder,
    cluster: Cluster,
    snapshot: Snapshot,
}

/// A cluster that one test at a time uses, and a later test uses again.
#[derive(Debug)]
pub struct SharedCluster(Option<Reusable>);

impl Cluster {
    /// Returns an API server with the CRD, and with a user `limited`, whose only permissions are those that the test
    /// grants: that of an earlier test, or a new one. The test may do anything there: afterwards, all objects are as
    /// they were.
    #[must_use]
    pub fn shared() -> SharedCluster {
        Self::shared_with(ControlPlane::builder())
    }

    /// Does the same, without the CRD.
    #[must_use]
    pub fn shared_without_crd() -> SharedCluster {
        let cluster = Self::shared();
        cluster.delete_crd();
        cluster
    }

    /// Returns a cluster as `builder` describes it, and else the same.
    #[must_use]
    pub fn shared_with(builder: Builder) -> SharedCluster {
        let builder = builder.user("limited");
        let idle = {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            let found = idle.iter().rposition(|idle| idle.builder == builder);
            found.map(|index| idle.remove(index))
        };
        let idle = idle.map(|mut idle| {
            fs::remove_file(idle.marker()).unwrap();
            // No test is charged with the time since the last one.
            for part in idle.cluster.control_plane.parts() {
                part.process.take_uncharged();
            }
            idle
        });
        SharedCluster(Some(idle.unwrap_or_else(|| Reusable::start(builder))))
    }
}

impl Reusable {
    fn start(builder: Builder) -> Self {
        let cluster = Cluster::start_with(builder.clone());
        cluster.wait_served(true);
        let snapshot = cluster.control_plane.snapshot().expect("the state of a new control plane");
        Self { builder, cluster, snapshot }
    }

    fn reset(&mut self) -> Result<()> {
        self.cluster.control_plane.reset(&self.snapshot)?;
        self.cluster.control_plane.begin_history()?;
        self.cluster.control_plane.parts().for_each(|part| part.process.charge());
        fs::write(self.marker(), "").context("cannot mark the control plane as idle")
    }

    fn marker(&self) -> std::path::PathBuf {
        self.cluster.control_plane.dir().join(builder::IDLE_MARKER)
    }
}

/// Keeps a cluster for later tests, and returns the one that ends for it.
fn keep(cluster: Reusable) -> Option<Reusable> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.push(cluster);
    (idle.len() > MAX_IDLE).then(|| idle.remove(0))
}

impl Deref for SharedCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0.as_ref().expect("a cluster until it is dropped").cluster
    }
}

impl DerefMut for SharedCluster {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.0.as_mut().expect("a cluster until it is dropped").cluster
    }
}

impl Drop for SharedCluster {
    fn drop(&mut self) {
        // After a failure the control plane keeps its logs and ends.
        if std::thread::panicking() {
            return;
        }
        // After a violation, dropping it fails.
        let Some(mut reusable) = self.0.take().filter(|it| it.cluster.control_plane.judge().is_ok()) else { return };
        match reusable.reset() {
            Ok(()) => drop(keep(reusable)),
            // The next test starts another.
            Err(error) => eprintln!("the control plane cannot be used again: {error:#}"),
        }
    }
}
