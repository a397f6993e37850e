//! Who acts in the cluster, beside the controller.

use std::sync::Arc;

use serde_json::Map;
use simulator::{ApiServer, Key, Kind, List, ListOptions, PatchBody, Subresource, Writer};

use super::world::World;
use super::*;
use crate::model::ledger::ANNOTATION;

const RESOURCES: [&str; 2] = ["example.com/dongle", "example.com/key"];
const MAPS: [&str; 2] = ["capacity", "allocatable"];

/// All objects of a kind.
pub(super) fn all(api: &ApiServer, kind: Kind) -> Vec<Arc<Value>> {
    api.list(kind, &ListOptions::default()).map(|List { items, .. }| items).unwrap()
}

pub(super) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

impl World {
    /// The cluster at the beginning.
    pub(super) fn populate(&mut self) {
        for number in 0..self.rng.usize(2..=4) {
            self.add_node(number);
        }
        for number in 0..self.rng.usize(1..=3) {
            self.add_rule(number);
        }
        if self.rng.bool() {
            let class = json!({"metadata": {"name": "keys"}, "spec": {"extendedResourceName": RESOURCES[1]}});
            self.create(Kind::DeviceClass, class, "kubectl");
        }
    }

    /// One thing that happens.
    pub(super) fn happen(&mut self) {
        self.monitor.follow(&self.network);
        let replica = self.rng.usize(..self.replicas.len());
        match self.rng.u32(..30) {
            0..=3 => self.reboot(),
            4..=8 => self.edit_rule(),
            9 => {
                let number = self.rng.usize(..3);
                self.add_rule(number);
            }
            10 => self.delete_rule(),
            11 => {
                let number = self.rng.usize(..4);
                self.add_node(number);
            }
            12 => self.delete_node(),
            13..=15 => self.write_value(),
            16 => self.break_ledger(),
            17 => self.label_node(),
            18..=20 => self.bind_pod(),
            21 | 22 => self.end_pod(),
            23 if self.replicas[replica].is_some() => self.kill(replica),
            24 => {
                let time = Duration::from_secs(self.rng.u64(1..60));
                self.freeze(replica, time);
            }
            25 | 26 if self.replicas[replica].is_none() => self.start(replica),
            27 => {
                self.network.act(|api| api.compact(api.version()));
                self.network.note("the history is compacted");
            }
            28 if self.rng.u32(..8) == 0 => self.replace_all_rules(),
            _ => {}
        }
    }

    /// What somebody does, for the log and the table.
    fn note(&self, who: &str, what: &str, kind: Kind, rest: &str) {
        self.network.note(format!("{who} {what} {} {rest}", kind.name()));
        self.network.count(format!("{who} {what} {}", kind.name()));
    }

    fn create(&mut self, kind: Kind, object: Value, who: &str) {
        let text = format!("{}: {}", name(&object), object["spec"]);
        if self.network.act(|api| api.create(kind, object, &Writer::new(who))).is_ok() {
            self.note(who, "creates", kind, &text);
        }
    }

    fn merge(&mut self, kind: Kind, part: Subresource, name: &str, patch: Value, who: &str) {
        let text = format!("{name}: {patch}");
        let (key, body) = (Key::named(name), PatchBody::Merge(patch));
        if self.network.act(|api| api.patch(kind, part, &key, &body, &Writer::new(who))).is_ok() {
            self.note(who, "changes", kind, &text);
        }
    }

    fn delete(&mut self, kind: Kind, object: &Value) {
        let key = Key::of(object);
        if self.network.act(|api| api.delete(kind, &key, None)).is_ok() {
            self.note("kubectl", "deletes", kind, &key.to_string());
        }
    }

    /// One of the objects of a kind.
    fn pick(&mut self, kind: Kind) -> Option<Arc<Value>> {
        let objects = self.network.read(|api| all(api, kind));
        (!objects.is_empty()).then(|| Arc::clone(&objects[self.rng.usize(..objects.len())]))
    }

    fn add_node(&mut self, number: usize) {
        let zone = ["a", "b"][self.rng.usize(..2)];
        let amounts = json!({"cpu": "4"});
        let node = json!({
            "metadata": {"name": format!("node-{number}"), "labels": {"zone": zone}},
            "spec": {}, "status": {"capacity": amounts, "allocatable": amounts},
        });
        self.create(Kind::Node, node, "kubelet");
        let heartbeat = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]);
        let heartbeat = json!({"status": {"conditions": heartbeat}});
        self.merge(Kind::Node, Subresource::Status, &format!("node-{number}"), heartbeat, "kubelet");
        let ready = json!({"spec": {"taints": null}});
        self.merge(Kind::Node, Subresource::None, &format!("node-{number}"), ready, "kube-controller-manager");
    }

    fn delete_node(&mut self) {
        let Some(node) = self.pick(Kind::Node) else { return };
        self.delete(Kind::Node, &node);
        for pod in self.network.read(|api| all(api, Kind::Pod)) {
            if pod["spec"]["nodeName"] == node["metadata"]["name"] {
                self.delete(Kind::Pod, &pod);
            }
        }
    }

    fn label_node(&mut self) {
        let Some(node) = self.pick(Kind::Node) else { return };
        let zone = ["a", "b"][self.rng.usize(..2)];
        let patch = json!({"metadata": {"labels": {"zone": zone}}});
        self.merge(Kind::Node, Subresource::None, &name(&node), patch, "kubectl");
    }

    fn rule_spec(&mut self) -> Value {
        let rng = &mut self.rng;
        let mut one_of = |choices: &[&'static str]| choices[rng.usize(..choices.len())];
        let mut spec = json!({
            "resourceName": one_of(&RESOURCES), "conflictPolicy": one_of(&["Keep", "Overwrite"]),
            "deletionPolicy": one_of(&["Withdraw", "WhenUnused", "Retain"]),
            "shrinkPolicy": one_of(&["WhenFree", "WhenFree", "Immediate"]),
        });
        spec["paused"] = json!(rng.u32(..8) == 0);
        (spec["quantity"], spec["priority"]) = (json!(rng.u64(1..9)), json!(rng.u64(..2)));
        match rng.u32(..4) {
            0 => spec["nodeNames"] = json!(["node-0", "node-1"]),
            1 => spec["nodeSelector"] = json!({"matchLabels": {"zone": "a"}}),
            _ => spec["allNodes"] = json!(true),
        }
        spec
    }

    fn add_rule(&mut self, number: usize) {
        let spec = self.rule_spec();
        let rule = json!({"metadata": {"name": format!("rule-{number}")}, "spec": spec});
        self.create(Kind::Rule, rule, "gitops");
    }

    fn edit_rule(&mut self) {
        let Some(rule) = self.pick(Kind::Rule) else { return };
        let new = self.rule_spec();
        let field = ["quantity", "priority", "conflictPolicy", "shrinkPolicy", "deletionPolicy", "paused"];
        let field = field[self.rng.usize(..field.len())];
        let patch = json!({"spec": {field: new[field]}});
        self.merge(Kind::Rule, Subresource::None, &name(&rule), patch, "gitops");
    }

    fn delete_rule(&mut self) {
        if let Some(rule) = self.pick(Kind::Rule) {
            self.delete(Kind::Rule, &rule);
        }
    }

    /// As after a CRD was deleted and created again.
    fn replace_all_rules(&mut self) {
        for rule in self.network.read(|api| all(api, Kind::Rule)) {
            self.delete(Kind::Rule, &rule);
            let again = json!({"metadata": {"name": name(&rule)}, "spec": rule["spec"]});
            self.create(Kind::Rule, again, "gitops");
        }
    }

    /// A kubelet sets what it does not know to 0.
    fn reboot(&mut self) {
        let Some(node) = self.pick(Kind::Node) else { return };
        let mut zeros = Map::new();
        for (resource, _) in node["status"]["capacity"].as_object().into_iter().flatten() {
            if resource.contains('/') {
                zeros.insert(resource.clone(), json!("0"));
            }
        }
        let patch = json!({"status": {"capacity": zeros, "allocatable": zeros}});
        self.merge(Kind::Node, Subresource::Status, &name(&node), patch, "kubelet");
    }

    /// Kubelets set allocatable to capacity.
    pub(super) fn tick_kubelets(&mut self) {
        for node in self.network.read(|api| all(api, Kind::Node)) {
            let mut amounts = Map::new();
            for resource in RESOURCES {
                let [capacity, allocatable] = MAPS.map(|map| &node["status"][map][resource]);
                if capacity != allocatable {
                    amounts.insert(resource.to_owned(), capacity.clone());
                }
            }
            if !amounts.is_empty() {
                let patch = json!({"status": {"allocatable": amounts}});
                self.merge(Kind::Node, Subresource::Status, &name(&node), patch, "kubelet");
            }
        }
    }

    /// Somebody writes a value, or removes it.
    fn write_value(&mut self) {
        let Some(node) = self.pick(Kind::Node) else { return };
        let resource = RESOURCES[self.rng.usize(..2)];
        let value = if self.rng.bool() { json!(self.rng.u64(..9).to_string()) } else { Value::Null };
        let mut status = json!({"capacity": {resource: value}});
        if self.rng.bool() {
            status["allocatable"] = json!({resource: value});
        }
        let patch = json!({ "status": status });
        self.merge(Kind::Node, Subresource::Status, &name(&node), patch, "kubectl");
    }

    /// Somebody removes the annotation.
    fn break_ledger(&mut self) {
        let Some(node) = self.pick(Kind::Node) else { return };
        let patch = json!({"metadata": {"annotations": {ANNOTATION: null}}});
        self.merge(Kind::Node, Subresource::None, &name(&node), patch, "kubectl");
    }

    /// The scheduler binds a pod where there is room.
    fn bind_pod(&mut self) {
        let Some(node) = self.pick(Kind::Node) else { return };
        let (resource, amount) = (RESOURCES[self.rng.usize(..2)], self.rng.u64(1..4));
        let pods = self.network.read(|api| all(api, Kind::Pod));
        let used = |pod: &Value| {
            let is_here = pod["spec"]["nodeName"] == node["metadata"]["name"] && pod["status"]["phase"] != "Succeeded";
            let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
            requests[resource].as_str().filter(|_| is_here).map_or(0, |text| text.parse().unwrap())
        };
        let used: u64 = pods.iter().map(|pod| used(pod)).sum();
        let room = node["status"]["allocatable"][resource].as_str().unwrap_or("0");
        if used + amount > room.parse().unwrap_or(0) {
            return;
        }
        let amounts = json!({resource: amount.to_string()});
        let pod = json!({
            "metadata": {"name": format!("pod-{}", self.rng.u32(..)), "namespace": "default"},
            "spec": {"nodeName": node["metadata"]["name"], "containers": [
                {"name": "main", "resources": {"requests": amounts, "limits": amounts}},
            ]},
        });
        let key = Key::of(&pod);
        self.create(Kind::Pod, pod, "kube-scheduler");
        let started = PatchBody::Merge(json!({"status": simulator::pods::running()}));
        let kubelet = Writer::new("kubelet");
        let _ = self.network.act(|api| api.patch(Kind::Pod, Subresource::Status, &key, &started, &kubelet));
    }

    fn end_pod(&mut self) {
        if let Some(pod) = self.pick(Kind::Pod) {
            self.delete(Kind::Pod, &pod);
        }
    }
}
