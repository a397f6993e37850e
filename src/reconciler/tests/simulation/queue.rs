//! An endless queue of pods that each request one unit on a full node: the scheduler binds the next one within milliseconds
//! of a unit being free. A value that is lowered is lower all the same, before long.

use serde_json::{Value, json};
use simulator::invariants::{is_derived, ledger, units};
use simulator::pods::requests;
use simulator::{Key, Kind};

use super::actors::RESOURCES;
use super::world::{Due, Millis, World};

/// How long the scheduler takes to find the unit that is free: less, and more, than a controller does.
const BINDS_AFTER: [Millis; 4] = [50, 1, 5, 20];
/// How long a pod is there.
const LIVES_FOR: [Millis; 3] = [20_000, 5_000, 60_000];
/// How long it takes until the queue fills a node.
const FILLS_WITHIN: Millis = 1_000;
/// How long a value may take to become as declared. In this time, more than ten pods end for each unit.
const MAX_TIME: Millis = 600_000;

/// Pods that wait for one node.
pub(super) struct Queue {
    node: String,
    resource: &'static str,
    /// Those that have been bound.
    jobs: Vec<u64>,
}

impl World {
    /// A value that is lowered follows its pods down, however many others wait for what they free.
    pub(super) fn check_queue(&mut self) {
        let Some((rule, node, resource)) = self.queued_resource() else { return };
        let Some((declared, lower)) = self.lower_quantity(&rule, &node, resource) else { return };
        self.record(|| format!("an endless queue of pods waits for {resource} on {node}"));
        self.queue = Some(Queue { node: node.clone(), resource, jobs: Vec::new() });
        self.bind_queued();
        self.run_until(self.now + FILLS_WITHIN);
        self.edit_rule(&rule, &json!({"quantity": lower}));
        let end = self.now + MAX_TIME;
        let value = |world: &Self| {
            let node = world.server.get(Kind::Node, &Key::named(&node)).ok()?;
            units(&node["status"]["allocatable"][resource])
        };
        while value(self) != Some(lower) && self.violation.is_none() {
            if self.now >= end {
                let what = format!("{resource} on {node} is {:?}, and not {lower}", value(self));
                return self.violate(format!("liveness: ten minutes after {declared} was lowered, {what}"));
            }
            self.run_until(self.now + 1000);
        }
        self.count("value followed its pods down beside a queue");
        let jobs = self.queue.take().map(|queue| queue.jobs).unwrap_or_default();
        jobs.into_iter().for_each(|job| self.end_pod(job));
        self.come_to_rest();
    }

    /// A rule, and a node that has what it declares.
    fn queued_resource(&self) -> Option<(String, String, &'static str)> {
        let rules = self.objects(Kind::Rule);
        let nodes = self.objects(Kind::Node);
        let mut rules = rules.iter().filter(|rule| !is_derived(rule) && is_lowered_when_free(rule));
        rules.find_map(|rule| {
            let name = rule["metadata"]["name"].as_str()?;
            let resource = RESOURCES.into_iter().find(|resource| rule["spec"]["resourceName"] == **resource)?;
            let quantity = rule["spec"]["quantity"].as_i64().map(i128::from);
            let has_it = |node: &Value| {
                let entries = ledger(node).unwrap_or_default();
                let is_decided = entries.get(resource).is_some_and(|entry| entry.1 == *name);
                let values = ["capacity", "allocatable"].map(|map| units(&node["status"][map][resource]));
                is_decided && values == [quantity; 2]
            };
            let node = nodes.iter().find(|node| has_it(node))?;
            Some((name.to_owned(), node["metadata"]["name"].as_str()?.to_owned(), resource))
        })
    }

    /// What a rule declares, and less, which is no less than what pods request on a node that stay.
    fn lower_quantity(&self, rule: &str, node: &str, resource: &str) -> Option<(i128, i128)> {
        let rule = self.server.get(Kind::Rule, &Key::named(rule)).ok()?;
        let declared = i128::from(rule["spec"]["quantity"].as_i64()?);
        let lower = self.units_on(node, resource).max(1);
        (lower < declared).then_some((declared, lower))
    }

    /// What pods on a node request of a resource.
    pub(super) fn units_on(&self, node: &str, resource: &str) -> i128 {
        self.pods_on(node).iter().map(|pod| requests(pod).get(resource).copied().unwrap_or(0)).sum()
    }

    /// The scheduler binds pods of the queue while there is room.
    pub(super) fn bind_queued(&mut self) {
        let Some(Queue { node, resource, .. }) = &self.queue else { return };
        let (node, resource) = (node.clone(), *resource);
        let Ok(object) = self.server.get(Kind::Node, &Key::named(&node)) else { return };
        let room = units(&object["status"]["allocatable"][resource]).unwrap_or_default();
        for _ in self.units_on(&node, resource)..room {
            let Some(job) = self.bind(&node, resource, 1) else { return };
            let life = self.choices.one_of(&LIVES_FOR);
            self.after(life, Due::End(job));
            self.queue.iter_mut().for_each(|queue| queue.jobs.push(job));
        }
    }

    /// A pod has ended: the next one of the queue takes what it has freed.
    pub(super) fn wake_queue(&mut self) {
        if self.queue.is_some() {
            let time = self.choices.one_of(&BINDS_AFTER);
            self.after(time, Due::Schedule);
        }
    }
}

/// Whether a rule is in force, and goes no lower than what pods request.
fn is_lowered_when_free(rule: &Value) -> bool {
    let spec = &rule["spec"];
    let conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
    let mut bad =
        conditions.filter(|condition| ["Stalled", "Contested"].iter().any(|kind| condition["type"] == **kind));
    spec["shrinkPolicy"] != "Immediate" && spec["paused"] != true && bad.all(|condition| condition["status"] != "True")
}
