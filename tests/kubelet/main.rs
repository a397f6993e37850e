//! Tests on a real kubelet: how it changes extended resources, and which running pods survive.
//!
//! Method: each test starts its own etcd, API server and kubelets. It needs neither the scheduler nor the
//! controller manager: it binds pods to their node, and writes what the node controller writes about a
//! node that is down.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

mod device_plugin;
mod host_isolation;
mod no_leader;
mod protection;
mod reboot;
mod registration;
mod shrink;
mod started;

/// How fast this machine lets any client write.
mod bare_client;
/// Pods on a real kubelet, and whether they survive its restart.
mod pod_fate;
/// How fast a reset value is repaired, and whether a killed pod counts.
mod repair_race;
