//! Tests on a real node with real containers: what a user does, from `helm install` to `helm
//! uninstall`, with the image of `make image`.
//!
//! Method: each test runs in its own namespaces, with a control plane, containerd and a kubelet. The
//! images are preloaded under the names in the chart and the examples, so nothing is pulled.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

mod published;
mod release;
mod upgrade;

/// The state of the machine that a test must not change.
mod host_state;
/// The controller's pods.
mod replicas;
