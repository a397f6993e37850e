//! Advertises extended resources on Kubernetes nodes, as `NodeExtendedResource` objects declare.
//!
//! ```text
//! Nodes (watch, trimmed) ─▶ node ──────────────┐
//!                                              ├─▶ plan ─▶ one JSON Patch ─▶ PATCH nodes/<n>/status
//! Rules (watch) ─▶ plan::rules (compiled) ─────┘     │
//!                                                    └─▶ outcomes ─▶ tally ─▶ rule status
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`api`] | the custom resource: spec, status, validation, printer columns |
//! | [`quantity`], [`resource_name`], [`label`] | what Kubernetes takes for a quantity, a name, a label |
//! | [`ledger`] | the annotation that lists what is the controller's own on a node |
//! | [`node`], [`pod`] | what is kept of a Node, and what a Pod requests |
//! | [`plan`] | what is to be done on a node: pure |
//! | [`controller`] | the loop that watches, plans and patches |
//! | [`preview`] | what the controller would do, told and not done |
//! | [`prune`] | taking back all that ledgers list |
//! | `requests`, `pages`, `backoff` | the requests about one node, lists of all, and the pauses between |
//! | [`leader`] | which of several controllers may write |
//! | [`manifest`] | YAML and JSON files, read as kubectl reads them |
//! | [`validate`] | manifests checked without a cluster |
//! | [`client`] | the connection to the API server |
//! | [`readiness`], [`metrics`], [`server`] | whether the controller can work, and what it has done, over HTTP |
//! | [`cli`] | the subcommands |
//! | [`error`] | what ends the program |

pub mod api;
mod backoff;
pub mod cli;
pub mod client;
pub mod controller;
pub mod error;
pub mod label;
pub mod leader;
pub mod ledger;
pub mod manifest;
pub mod metrics;
pub mod node;
mod pages;
pub mod plan;
pub mod pod;
pub mod preview;
pub mod prune;
pub mod quantity;
pub mod readiness;
mod requests;
pub mod resource_name;
pub mod server;
pub mod validate;
