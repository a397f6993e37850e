//! The dry run that tests whether a policy confines the controller's account.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use simulator::{Failure, Key, Kind};
use tokio::time::Instant;

use super::process::Process;
use super::service::of_code;
use super::world::{Millis, World};

/// I7: no more often than this.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// But for the repetition of one that the API server accepts.
const REPETITION: Duration = Duration::from_secs(5);

/// The last dry run of a process.
#[derive(Clone, Copy)]
pub(super) struct LastTest {
    leads_since: Option<Millis>,
    at: Instant,
    is_repetition: bool,
}

impl World {
    /// The policy is created or deleted.
    pub(super) fn change_policy(&mut self) {
        self.is_confined = !self.is_confined;
        let what = if self.is_confined { "created" } else { "deleted" };
        self.count(if self.is_confined { "policy created" } else { "policy deleted" });
        self.record(|| format!("the policy that confines the account is {what}"));
    }

    /// A process sends a dry run: at most one a minute of its clock in one term, which may be repeated once.
    pub(super) fn check_test(&mut self, number: usize) {
        let at = self.clock(number).instant;
        let process = &mut self.processes[number];
        let last = process.last_test.filter(|last| last.leads_since == process.leads_since);
        let pause = last.map_or(INTERVAL, |last| at.duration_since(last.at));
        let is_repetition = pause < INTERVAL;
        let is_early = pause < REPETITION || is_repetition && last.is_some_and(|last| last.is_repetition);
        process.last_test = Some(LastTest { leads_since: process.leads_since, at, is_repetition });
        let (name, is_off) = (Arc::clone(&process.name), !process.tests_confinement);
        if is_off || is_early {
            self.violate(format!("I7: {name} tests the confinement too often"));
        }
    }

    /// What comes of a dry run: the policy rejects it, or the node stays as it is.
    pub(super) fn serve_test(&mut self, node: &str) -> Result<Value, Failure> {
        let key = Key::named(node);
        let found = self.server.get(Kind::Node, &key)?;
        if !self.is_confined {
            self.count("dry run accepted");
            return Ok((*found).clone());
        }
        self.count("dry run rejected");
        let message = format!(
            "nodes \"{node}\" is forbidden: ValidatingAdmissionPolicy 'node-resource-advertiser' with binding \
             'node-resource-advertiser' denied request: node-resource-advertiser may not change metadata.labels"
        );
        Err(of_code(422, "Invalid", &message))
    }

    /// I10: how a process does not show the state of the confinement, at rest.
    pub(super) fn wrong_confinement(&self, process: &Process) -> Option<String> {
        let shown = process.readiness.confinement.clone();
        let expected = match (process.tests_confinement, process.leads_since) {
            (false, _) => "not tested",
            (true, None) => "tested by the leader",
            (true, Some(_)) if self.objects(Kind::Node).is_empty() => "unknown: no node",
            (true, Some(_)) if self.is_confined => "the API server rejects",
            (true, Some(_)) => "the API server allows",
        };
        let is_right = shown.starts_with(expected);
        (!is_right).then(|| format!("{} shows the confinement as {shown:?}, not {expected:?}", process.name))
    }
}
