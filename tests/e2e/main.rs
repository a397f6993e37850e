//! End to end: the program itself, against a real control plane.
//!
//! Every test boots its own etcd and API server (and, where pods have to run, the scheduler, the
//! controller manager and kubelets), so that none sees what another did.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

/// What the chart's policies let pass, and what they refuse.
mod admission;
/// What the API server answers, where unit tests have it mocked.
mod answers;
/// The chart: rendered, installed, upgraded and uninstalled.
mod chart;
/// Resources that DRA has too.
mod device_classes;
/// Other writers: drift and conflict.
mod drift;
/// The files in `examples/`.
mod examples;
/// Processes killed in the middle, and rights and definitions that are missing.
mod faults;
/// What kubectl, Helm, Flux and Argo CD make of a rule, and the files in `examples/gitops/`.
mod gitops;
/// Values that pods use.
mod in_use;
/// Two controllers, of which one leads.
mod leader;
/// Rules and nodes that come, change and go, also while the controller is down.
mod lifecycle;
/// What Prometheus reads, and the kubelet.
mod metrics;
/// `plan`, and what the controller then does.
mod plan;
/// `prune`.
mod prune;
/// What the API server refuses, and what it says.
mod refusals;
/// What the program asks of the API server, and what the chart lets it.
mod rights;
/// Two hundred nodes: requests counted, by label, idle, and after a restart.
mod scale;
/// What a rule says of itself, and how often.
mod status;
/// The documented story, from the rule to the running pod and back to nothing.
mod story;
/// `validate`, compared with the API server and with kubectl.
mod validate;

mod cluster;
mod helm;
