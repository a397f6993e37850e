//! Tests on a real node with real containers: what a user does, from `helm install` to `helm
//! uninstall`, with the image of `make image`.
//!
//! Each test has namespaces of its own, and in them a control plane, containerd and a kubelet. The
//! images are on the node already, under the names in the chart and the examples: nothing is pulled.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

mod release;
mod upgrade;

/// What a test must leave on the machine as it was.
mod host_state;
/// The controller's pods.
mod replicas;
