//! End-to-end tests: the program itself, against a real control plane.
//!
//! Each test has a cluster to itself: etcd and an API server (and, if pods must run, the scheduler, the controller
//! manager and kubelets), mostly those of an earlier test, with the objects of their start. Each wait has a deadline of minutes and
//! names what it waited for; no result depends on the speed of the machine.
//!
//! At the end of each test, every patch of the program is judged by the invariants that random worlds check: see
//! `tests/harness/src/judge.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

mod admission_changes_writes;
mod admission_policy;
mod adopt;
mod adoption;
mod answers;
mod authors;
mod autoscaler;
mod chart;
mod confinement;
mod conflicts;
mod crd_validation;
mod dashboard;
mod device_classes;
mod doctor;
mod documented_commands;
mod drift;
mod examples;
mod faults;
mod finalizers;
mod gitops;
mod guard;
mod hints;
mod history;
mod isolation;
mod karpenter;
mod leader_election;
mod lifecycle;
mod metrics;
mod node_condition;
mod nodes_as_protobuf;
mod outages;
mod patch_response;
mod permissions;
mod plan;
mod protection;
mod prune;
mod quantities;
mod rbac;
mod rollouts;
mod rules_memory;
mod scale;
mod scheduling;
mod server_side_apply;
mod shrink_policy;
mod standby;
mod status;
mod validate;
mod versions;
mod waiting_pods;

mod support;
mod ten_questions;
