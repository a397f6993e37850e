//! On a real node with real containers: what a user does, from `helm install` to `helm uninstall`,
//! with the image of `make image`.
//!
//! Each test has namespaces of its own, and in them a control plane, containerd and a kubelet.
//! Images have the names that the chart and the examples say, and are on the node already: no
//! registry is asked.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

/// The story.
mod story;

#[path = "../e2e/cluster.rs"]
#[allow(dead_code)] // the end-to-end tests use the rest
mod cluster;
#[path = "../e2e/helm.rs"]
#[allow(dead_code)] // the end-to-end tests use the rest
mod helm;
mod machine;
mod pods;
