//! Memory and instructions at the scale of a large cluster: `make bench-scale`.
//!
//! Method: one process for each number of nodes and rules, so that peaks of memory are its own. Each step prints one
//! line of JSON. The instructions of [`measured`], and of nothing else, are counted by Valgrind.

use std::fs;
use std::hint::black_box;

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::world::DONGLE;
use super::*;
use crate::model::ledger;
use crate::model::node::{ApiNode, heartbeats};
use crate::reconciler::RolloutLimits;
use crate::reconciler::limiter::Limiter;

/// The rule that selects all nodes, and that changes. Of the others, so many select all nodes that there are `SELECTING` in
/// all, and the rest none.
const RULE: &str = "dongle";
/// How many nodes change in the steps that measure one event.
const EVENTS: usize = 1000;

struct Fleet {
    world: World,
    nodes: usize,
    rules: usize,
    /// How many rules select all nodes.
    selecting: usize,
    /// The current ledger and quantity of each node.
    values: Vec<(Box<str>, u64)>,
    /// Without what the controller drops while decoding, which Valgrind would decode for minutes.
    is_lean: bool,
    /// How many times [`measured`] was called.
    measured: usize,
}

/// A step of the bench. The name of this function is an option of Valgrind.
#[inline(never)]
fn measured(step: impl FnOnce()) {
    step();
    // Otherwise the call becomes a jump, and Valgrind does not see the end of this function.
    black_box(());
}

/// Returns a line of `/proc/self/status`, in bytes.
fn memory(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// The chart's maximum of patches per second for a rollout.
const RATE: u32 = 50;

fn spec(quantity: u64, priority: u64) -> Value {
    json!({"quantity": quantity, "priority": priority, "shrinkPolicy": "Immediate"})
}

/// The resource of one of the other rules.
fn resource(number: usize) -> String {
    format!("{DONGLE}-{number}")
}

impl Fleet {
    /// Nodes that have the value of the rule already, and a controller that knows nothing.
    fn new(nodes: usize, (rules, selecting): (usize, usize), is_lean: bool) -> Self {
        let mut one = World::leading(1, &[]);
        one.set_rule(RULE, spec(4, 0));
        for number in 1..selecting {
            let mut spec = spec(4, 0);
            spec["resourceName"] = json!(resource(number));
            one.set_rule(&format!("{RULE}-{number}"), spec);
        }
        one.run_until_idle();
        let ledger = one.ledger("node-0").unwrap();
        // As in an installation, except for the rate, so that most steps take no time.
        let limits = RolloutLimits { max_failed_nodes: usize::MAX, ..RolloutLimits::at(Some(RATE)) };
        let mut world = World::with_limits(16, RolloutLimits { patches_per_second: None, ..limits });
        world.rules = one.rules.clone();
        for number in selecting..rules {
            let selector = json!({"matchLabels": {"example.com/pool": format!("pool-{number}")}});
            let spec = json!({"resourceName": resource(number), "nodeSelector": selector, "allNodes": null});
            world.set_rule(&format!("{RULE}-{number}"), spec);
        }
        Self { world, nodes, rules, selecting, values: vec![(ledger.into(), 4); nodes], is_lean, measured: 0 }
    }

    /// A node as the API server sends it, of about 13 KB.
    fn node(&mut self, number: usize, version: &str) -> ApiNode {
        let (ledger, quantity) = &self.values[number];
        let (name, text) = (format!("ip-10-{number:06}.eu-central-1.compute.internal"), quantity.to_string());
        let zone = format!("eu-central-1{}", ["a", "b", "c"][number % 3]);
        let mut labels = json!({
            "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m5.2xlarge", "topology.kubernetes.io/region": "eu-central-1",
            "topology.kubernetes.io/zone": zone,
        });
        for feature in 6..20 {
            labels[format!("feature.node.example.com/cpu-{feature}")] = json!("true");
        }
        let mut fields = json!({format!("f:{DONGLE}"): {}});
        let mut amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
        for number in 1..self.selecting {
            amounts[resource(number)] = json!("4");
            fields[format!("f:{}", resource(number))] = json!({});
        }
        let mut annotations = json!({"agent.example.com/state": format!("{number:0256x}")});
        if ledger.contains(&format!("\"{DONGLE}\"")) {
            amounts[DONGLE] = json!(text);
        }
        if !ledger.is_empty() {
            annotations[ledger::ANNOTATION] = json!(ledger);
        }
        let padding = if self.is_lean { 0 } else { 40 };
        let images = (0..padding).map(|image| {
            let digest = format!("registry.example.com/service-{image}@sha256:{number:064x}");
            json!({"names": [digest, format!("registry.example.com/service-{image}:v1.{number}")], "sizeBytes": 20_000_000})
        });
        let object = json!({
            "metadata": {
                "name": name, "uid": format!("{number:08x}-ac27-4e5c-9b1e-0242ac120002"), "resourceVersion": version,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
                "annotations": annotations,
                "managedFields": [
                    heartbeats("kubelet"),
                    {"manager": "node-resource-advertiser", "operation": "Update", "time": "2026-01-01T00:00:00Z",
                        "subresource": "status",
                        "fieldsV1": {"f:status": {"f:capacity": fields, "f:allocatable": fields}}},
                ],
            },
            "status": {"capacity": amounts, "allocatable": amounts, "images": images.collect::<Vec<_>>(),
                "nodeInfo": {"bootID": format!("{number:032x}"), "kubeletVersion": "v1.37.1"}},
        });
        // From text: a value of serde_json holds its strings in another way.
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn list_nodes(&mut self) {
        let observe = |world: &mut World, event| world.observe(Observation::Node(Ok(event)));
        observe(&mut self.world, Event::Init);
        for number in 0..self.nodes {
            let version = self.world.next_version();
            let node = self.node(number, &version);
            observe(&mut self.world, Event::InitApply(node));
        }
        observe(&mut self.world, Event::InitDone);
    }

    fn start(&mut self) {
        self.list_nodes();
        self.world.observe(Observation::Rule(Ok(Event::Init)));
        for rule in self.world.rules.clone().into_values() {
            self.world.observe(Observation::Rule(Ok(Event::InitApply(object(rule)))));
        }
        self.world.observe(Observation::Rule(Ok(Event::InitDone)));
        self.world.watching = true;
        self.world.lead();
    }

    /// Answers every patch, successfully or not. Returns how many.
    fn answer(&mut self, succeeds: bool) -> usize {
        let mut answered = 0;
        loop {
            self.world.run();
            if self.world.open.is_empty() {
                return answered;
            }
            // Failures without any delay would all precede the brake.
            self.world.advance(Duration::from_millis(5));
            for open in std::mem::take(&mut self.world.open) {
                let (slot, node, patch) = match open {
                    Open::Patch { slot, node, patch, .. } => (slot, node, patch),
                    list => {
                        self.world.answer(list);
                        continue;
                    }
                };
                answered += 1;
                let reply = if succeeds { self.apply(&node, &patch) } else { failed(503) };
                let completion = Completion::NodePatched { slot, node: node.as_str().into(), reply };
                self.world.reconciler.complete(completion, self.world.now);
            }
        }
    }

    /// Answers every patch of a rollout that has a rate. Returns how many.
    fn roll_out(&mut self) -> usize {
        let mut patches = 0;
        let mut idle = 0;
        while idle < 60 {
            let answered = self.answer(true);
            patches += answered;
            idle = if answered > 0 { 0 } else { idle + 1 };
            self.world.advance(Duration::from_millis(500));
        }
        patches
    }

    fn apply(&mut self, name: &str, Patch(operations): &Patch) -> Reply {
        let number: usize = name.split(['-', '.']).nth(2).unwrap().parse().unwrap();
        for operation in operations {
            if let PatchOperation::Remove(remove) = operation {
                match remove.path.as_str().starts_with("/metadata/annotations/") {
                    true => self.values[number].0 = "".into(),
                    false => self.values[number].1 = 0,
                }
            }
            let (PatchOperation::Add(_) | PatchOperation::Replace(_)) = operation else { continue };
            let operation = serde_json::to_value(operation).unwrap();
            let (path, value) = (operation["path"].as_str().unwrap(), operation["value"].as_str().unwrap());
            match path.starts_with("/metadata/annotations/") {
                true => self.values[number].0 = value.into(),
                false => self.values[number].1 = value.parse().unwrap(),
            }
        }
        let version = self.world.next_version();
        Reply::Patched(Box::new(self.node(number, &version)))
    }

    /// Shows nodes with these quantities, each by one event, and lets the reconciler handle each.
    fn show(&mut self, quantity: Option<u64>) {
        let mut events = Vec::new();
        for number in 0..self.nodes.min(EVENTS) {
            let version = self.world.next_version();
            let before = self.values[number].1;
            self.values[number].1 = quantity.unwrap_or(before);
            events.push(self.node(number, &version));
        }
        let (reconciler, now) = (&mut self.world.reconciler, self.world.now);
        let mut steps = Vec::with_capacity(events.len());
        self.measured += 1;
        measured(|| {
            for node in events {
                reconciler.observe(Observation::Node(Ok(Event::Apply(node))), now);
                steps.push(black_box(reconciler.next(now)));
            }
        });
        for step in steps {
            step.requests.into_iter().for_each(|request| self.world.take(request));
        }
    }

    /// Writes a rule, and lets the reconciler plan what follows.
    fn edit(&mut self, name: &str, spec: Value) {
        self.measured += 1;
        measured(|| {
            self.world.set_rule(name, spec);
            self.world.run();
        });
    }

    /// Prints a line for a step that changes every node.
    fn report_all(&self, step: &str, patches: usize) {
        assert_eq!(patches, self.nodes, "each node is patched once");
        self.report(step, self.nodes, patches);
    }

    /// Prints a line. The last call of [`measured`] belongs to the first line after it.
    fn report(&self, step: &str, events: usize, patches: usize) {
        let (nodes, rules) = (self.nodes, self.rules);
        let (memory, peak) = (memory("VmRSS"), memory("VmHWM"));
        println!(
            "{}",
            json!({"step": step, "nodes": nodes, "rules": rules, "selecting": self.selecting, "events": events, "patches": patches,
                "measured": self.measured, "memory": memory, "peak_memory": peak})
        );
    }
}

#[test]
#[ignore = "for make bench-scale"]
fn scale() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<usize>().unwrap());
    let (nodes, rules) = (number("NODES").unwrap_or(100), number("RULES").unwrap_or(10));
    let selecting = number("SELECTING").unwrap_or(1);
    let mut fleet = Fleet::new(nodes, (rules, selecting), number("LEAN").is_some());
    let some = nodes.min(EVENTS);
    fleet.report("empty", 0, 0);

    fleet.start();
    let patches = fleet.answer(true);
    assert_eq!(patches, 0, "all nodes are as declared");
    fleet.report("start", nodes, patches);

    fleet.show(None);
    let patches = fleet.answer(true);
    assert_eq!(patches, 0, "a heartbeat changes nothing");
    fleet.report("heartbeat", some, patches);

    fleet.edit(RULE, spec(4, 1));
    let patches = fleet.answer(true);
    assert_eq!(patches, 0, "the edit changes nothing");
    fleet.report("edit-nothing", nodes, patches);

    if rules > selecting {
        let selector = json!({"matchLabels": {"example.com/pool": "none"}});
        fleet.edit(&format!("{RULE}-{selecting}"), json!({"nodeSelector": selector, "allNodes": null}));
        let patches = fleet.answer(true);
        assert_eq!(patches, 0, "the rule selects no node before and after");
        fleet.report("edit-selecting-none", nodes, patches);
    }

    fleet.show(Some(0));
    let patches = fleet.answer(true);
    assert_eq!(patches, some, "each lost value is repaired");
    fleet.report("repair", some, patches);

    fleet.list_nodes();
    let patches = fleet.answer(true);
    assert_eq!(patches, 0, "a new list shows what is known");
    fleet.report("relist", nodes, patches);

    fleet.edit(RULE, spec(5, 1));
    let patches = fleet.answer(true);
    fleet.report_all("edit-all", patches);

    fleet.world.delete_rule(RULE);
    let patches = fleet.answer(true);
    fleet.report_all("withdraw", patches);

    fleet.edit(RULE, spec(5, 1));
    let patches = fleet.answer(true);
    fleet.report_all("advertise", patches);

    fleet.world.delete_rule(RULE);
    assert_eq!(fleet.answer(true), nodes);
    // As in an installation: pods are watched, and patches have a rate.
    fleet.world.reconciler.fleet.schedule_mut().set_limiter(Limiter::new(16, Some(RATE)));
    fleet.edit(RULE, json!({"quantity": 5}));
    let patches = fleet.roll_out();
    fleet.report_all("advertise-with-pods", patches);
    fleet.world.reconciler.fleet.schedule_mut().set_limiter(Limiter::new(16, None));

    // Until a tenth of the retries of ten minutes have failed, or the brake has stopped more.
    fleet.edit(RULE, spec(6, 1));
    let mut failed = 0;
    for _ in 0..600 {
        failed += fleet.answer(false);
        fleet.world.advance(Duration::from_secs(1));
    }
    fleet.report("outage", nodes, failed);
}
