//! On a real kubelet: what it does to extended resources, and what becomes of running pods.
//!
//! Every test boots its own etcd, API server and kubelets. Neither the scheduler nor the controller
//! manager is needed: pods are bound to their node by hand, and what the node controller writes when
//! a node is away, the tests write.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

/// A device plugin of the same name: beside it, against it, and after it.
mod device_plugin;
/// That all of this leaves the machine alone.
mod isolation;
/// Whether running pods outlive the reboot of their node.
mod reboot;
/// A value lowered below what pods use.
mod shrink;

#[path = "../e2e/cluster.rs"]
#[allow(dead_code)] // the end-to-end tests use the rest
mod cluster;
mod machine;
