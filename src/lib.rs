//! Advertises extended resources on Kubernetes nodes, as `NodeExtendedResource` objects declare.
//!
//! ```text
//!  Nodes (watch, trimmed) ─▶ model::node ──────┐    ┌────────────┐ ─▶ a JSON Patch ─┐
//!  Rules (watch) ─▶ planner::rules (compiled) ─┼──▶ │ reconciler │ ─▶ rule statuses ├─▶ controller ─▶ API server
//!  Lease (watch) ─▶ election ──────────────────┘    └────────────┘ ─▶ Events ───────┘
//!                                                      │      ▲
//!                                              a node, │      │ changes,
//!                                                rules ▼      │ outcomes
//!                                                      planner
//! ```
//!
//! Each module imports only from the modules below it, which a test enforces:
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | arguments, one module per command, output formats, exit codes |
//! | [`inspect`] | readers of a cluster or of files, the engines of `plan`, `top`, `why`, `history`, `doctor`, `adopt` |
//! | [`controller`] | the shell: the loop, the executor, log, metrics, endpoints; the loop of `prune` |
//! | [`cluster`] | the client, requests about nodes, paging, watches, reading and writing the Lease |
//! | [`reconciler`] | what the controller sends, and when: nodes, rules, queue, limits, statuses, Events; no I/O, no clock |
//! | [`validate`] | manifests checked without a cluster: schema, CEL, checks across objects |
//! | [`manifest`] | YAML and JSON files with source locations, read as kubectl reads them |
//! | [`election`] | the Lease as a state machine, backoff; no I/O, no clock |
//! | [`planner`] | what a node needs: rules, paused ones too, selection, plan, patch; no I/O, no clock |
//! | [`response`] | what errors and responses of the API server mean, and their texts; no I/O, no clock |
//! | [`model`] | the custom resource, quantities, names, labels, the ledger, nodes, pods; no I/O, no clock |
//!
//! What a change has to keep is in `docs/architecture.md`: a node's stages, and the invariants with their tests.

pub mod cli;
pub mod cluster;
pub mod controller;
pub mod election;
pub mod inspect;
pub mod manifest;
pub mod model;
pub mod planner;
pub mod reconciler;
pub mod response;
pub mod validate;
