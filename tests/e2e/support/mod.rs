//! Helpers that several end-to-end tests share. General helpers are in the harness.

/// What the program prints, kept as files.
pub mod golden;
/// A rollout that a test interrupts.
pub mod interrupted_rollout;
/// Karpenter's NodeOverlays.
pub mod node_overlays;
/// The permissions of a limited user.
pub mod permissions;
/// Many pods.
pub mod pods;
/// The program's commands.
pub mod program;
/// Objects that the API server rejects, and a CRD that no longer rejects them.
pub mod rejected_objects;
/// An API server that rejects every patch of a node's status.
pub mod rejected_patches;
/// Workloads.
pub mod workloads;

/// Arguments of a controller for whose Lease to expire a test waits. Not for a test that would fail if a slow machine
/// renewed the Lease too late.
pub const SHORT_LEASE: [&str; 2] = ["--leader-elect-lease-duration", "6s"];
