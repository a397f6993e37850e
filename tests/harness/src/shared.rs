//! Clusters that the tests of one program reuse, because starting an API server takes most of a short
//! test's time.

// For tests, which fail with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::{Cluster, builder};

/// Idle clusters.
static IDLE: Mutex<Vec<Cluster>> = Mutex::new(Vec::new());

/// The kinds whose objects are deleted after each test.
const DELETED: [&str; 6] = [
    "/apis/noderesource.dev/v1alpha1/nodeextendedresources",
    "/api/v1/namespaces/default/pods?gracePeriodSeconds=0",
    "/api/v1/nodes",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/events.k8s.io/v1/namespaces/default/events",
];

/// A cluster that one test at a time uses, and a later test uses again.
#[derive(Debug)]
pub struct SharedCluster(Option<Cluster>);

impl Cluster {
    /// Returns an API server with the CRD: that of an earlier test, or a new one. A test may create rules,
    /// nodes, pods, DeviceClasses, Events and Leases there. A test that changes anything else, such as CRDs,
    /// policies and namespaces, must start its own cluster.
    #[must_use]
    pub fn shared() -> SharedCluster {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(cluster) = &idle {
            fs::remove_file(cluster.control_plane.dir().join(builder::IDLE_MARKER)).unwrap();
        }
        SharedCluster(Some(idle.unwrap_or_else(Self::start)))
    }

    fn delete_objects(&self) -> Result<()> {
        DELETED.into_iter().try_for_each(|path| self.control_plane.delete_all(path))?;
        fs::write(self.control_plane.dir().join(builder::IDLE_MARKER), "")?;
        Ok(())
    }
}

impl Deref for SharedCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.0.as_ref().expect("a cluster until it is dropped")
    }
}

impl Drop for SharedCluster {
    fn drop(&mut self) {
        // After a failure the control plane keeps its logs and ends.
        if std::thread::panicking() {
            return;
        }
        if let Some(cluster) = self.0.take()
            && cluster.delete_objects().is_ok()
        {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(cluster);
        }
    }
}
