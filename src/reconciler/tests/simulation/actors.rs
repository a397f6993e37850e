//! Who else writes to nodes and pods: kubelets, device plugins, administrators, an autoscaler, a scheduler.

use std::sync::Arc;

use serde_json::{Value, json};
use simulator::{Key, Kind, PatchBody, Subresource, Writer};

use super::checks::show_node;
use super::world::{Due, World};
use crate::model::ledger;
use crate::model::node::CONDITION_TYPE;

pub(super) const RESOURCES: [&str; 2] = ["example.com/dongle", "example.com/key"];
/// The label that rules read quantities from.
pub(super) const SLOTS: &str = "example.com/slots";
/// What it may be; none is missing.
const SLOTS_VALUES: [Option<&str>; 7] = [None, Some("2"), Some("4"), Some("6"), Some("0"), Some("many"), Some("7")];
/// How often a kubelet reports.
const TICK: u64 = 10_000;
/// The machine's kubelet after it has started reports the boot so much later.
const BOOT: u64 = 50;

/// A machine with a kubelet, whether or not there is a node for it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    boots: u64,
    /// Whether its kubelet resets extended resources whenever it starts.
    resets_always: bool,
    /// What a device plugin has: the resource, how many devices, and how many of them are healthy.
    plugin: Option<(&'static str, u64, u64)>,
    /// What the kubelet works with.
    seen: Option<Arc<Value>>,
}

impl World {
    pub(super) fn add_machine(&mut self, number: usize) {
        let resets_always = self.choices.percent(30);
        let name = format!("node-{}", number + 1);
        self.machines.push(Machine { name, boots: 1, resets_always, plugin: None, seen: None });
        self.register(number);
        self.after(TICK + number as u64 * 317, Due::Tick(number));
    }

    /// A kubelet registers its node, where there is none.
    pub(super) fn register(&mut self, number: usize) {
        let zone = self.choices.one_of(&["a", "b"]);
        let annotated = !self.choices.percent(30);
        let has_conditions = self.choices.percent(50);
        let slots = self.choices.one_of(&SLOTS_VALUES);
        let version = self.choices.one_of(&["v1.30.14", "v1.37.1"]);
        let Machine { name, boots, .. } = &self.machines[number];
        let mut node = json!({
            "metadata": {"name": name, "labels": {"zone": zone}},
            "spec": {},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"},
                "nodeInfo": {"bootID": format!("boot-{boots}"), "kubeletVersion": version}},
        });
        if annotated {
            node["metadata"]["annotations"] = json!({"a": "b"});
        }
        if let Some(slots) = slots {
            node["metadata"]["labels"][SLOTS] = json!(slots);
        }
        let name = name.clone();
        let writer = Writer::new("kubelet");
        if self.write(|server| server.create(Kind::Node, node, &writer)).is_some() {
            self.count("node created");
            self.record(|| format!("{name} is created in zone {zone}"));
            if has_conditions {
                // By these, the field manager is known for a kubelet.
                let ready = json!([{"type": "Ready", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]);
                self.patch_node(&name, Subresource::Status, json!({"status": {"conditions": ready}}), "kubelet");
            }
        }
    }

    /// A node is deleted, and the pods on it.
    pub(super) fn delete_node(&mut self, number: usize) {
        let name = self.machines[number].name.clone();
        let deleted = self.write(|server| server.delete(Kind::Node, &Key::named(&name), None));
        if deleted.is_none() {
            return;
        }
        self.count("node deleted");
        self.record(|| format!("{name} is deleted, with its pods"));
        for pod in self.objects(Kind::Pod) {
            if pod["spec"]["nodeName"] == name {
                let _ = self.write(|server| server.delete(Kind::Pod, &Key::of(&pod), None));
            }
        }
    }

    fn patch_node(&mut self, name: &str, sub: Subresource, patch: Value, manager: &str) -> bool {
        let before = self.server.get(Kind::Node, &Key::named(name));
        let (key, patch, writer) = (Key::named(name), PatchBody::Merge(patch), Writer::new(manager));
        let after = self.write(|server| server.patch(Kind::Node, sub, &key, &patch, &writer));
        let (Ok(before), Some(after)) = (before, after) else { return false };
        if Arc::ptr_eq(&before, &after) {
            return false;
        }
        let text = if self.story.is_recorded { show_node(&after) } else { String::new() };
        self.record(|| format!("{name} is {text} by {manager}"));
        true
    }

    /// A kubelet starts: it resets extended resources after a boot of the machine, or always.
    pub(super) fn start_kubelet(&mut self, number: usize, is_boot: bool) {
        let machine = &mut self.machines[number];
        machine.boots += u64::from(is_boot);
        let (name, resets) = (machine.name.clone(), is_boot || machine.resets_always);
        let Ok(node) = self.server.get(Kind::Node, &Key::named(&name)) else { return };
        if resets {
            let mut patch = json!({"status": {}});
            for map in ["capacity", "allocatable"] {
                for (resource, _) in node["status"][map].as_object().into_iter().flatten() {
                    if resource.contains('/') {
                        patch["status"][map][resource] = json!("0");
                    }
                }
            }
            self.record(|| format!("the kubelet of {name} starts, and resets extended resources"));
            if self.patch_node(&name, Subresource::Status, patch, "kubelet") {
                self.count("kubelet reset values");
            }
        }
        if is_boot {
            self.after(BOOT, Due::Boot(number));
        }
    }

    pub(super) fn boot(&mut self, number: usize) {
        let Machine { name, boots, .. } = self.machines[number].clone();
        let patch = json!({"status": {"nodeInfo": {"bootID": format!("boot-{boots}")}}});
        self.patch_node(&name, Subresource::Status, patch, "kubelet");
    }

    /// A kubelet reports: allocatable is what capacity is, but for what a device plugin has.
    pub(super) fn tick(&mut self, number: usize) {
        self.after(TICK, Due::Tick(number));
        let is_stale = self.faults > 0 && self.choices.percent(20);
        let name = self.machines[number].name.clone();
        let Ok(node) = self.server.get(Kind::Node, &Key::named(&name)) else {
            self.machines[number].seen = None;
            return;
        };
        let seen = self.machines[number].seen.replace(Arc::clone(&node)).filter(|_| is_stale);
        let seen = seen.filter(|seen| seen["metadata"]["uid"] == node["metadata"]["uid"]);
        let seen = seen.unwrap_or(node);
        let mut patch = json!({"status": {}});
        let mut capacity = seen["status"]["capacity"].clone();
        if let Some((resource, devices, healthy)) = self.machines[number].plugin {
            capacity[resource] = json!(devices.to_string());
            if seen["status"]["capacity"][resource] != capacity[resource] {
                patch["status"]["capacity"][resource] = json!(devices.to_string());
            }
            capacity[resource] = json!(healthy.to_string());
        }
        for resource in RESOURCES {
            let reported = &seen["status"]["allocatable"][resource];
            if *reported != capacity[resource] {
                patch["status"]["allocatable"][resource] = capacity[resource].clone();
            }
        }
        if patch["status"].as_object().is_none_or(serde_json::Map::is_empty) {
            return;
        }
        if self.patch_node(&name, Subresource::Status, patch, "kubelet") {
            self.count("kubelet reported another allocatable");
        }
    }

    /// A kubelet reports something that no rule is about.
    pub(super) fn report_heartbeat(&mut self, number: usize, heartbeat: u64) {
        let name = self.machines[number].name.clone();
        let patch = json!({"status": {"nodeInfo": {"kernelVersion": heartbeat.to_string()}}});
        self.patch_node(&name, Subresource::Status, patch, "kubelet");
    }

    /// An administrator removes a value from both maps.
    pub(super) fn remove_value(&mut self, number: usize, resource: &str) {
        let name = self.machines[number].name.clone();
        let maps = json!({"capacity": {resource: null}, "allocatable": {resource: null}});
        if self.patch_node(&name, Subresource::Status, json!({"status": maps}), "kubectl-patch") {
            self.count("administrator removed a value");
        }
    }

    /// A device plugin registers, loses devices or ends.
    pub(super) fn change_plugin(&mut self, number: usize) {
        let resource = self.choices.one_of(&RESOURCES);
        let devices = u64::from(self.choices.below(5));
        let has_plugin = self.machines[number].plugin.is_some();
        let name = self.machines[number].name.clone();
        let plugin = match self.choices.below(3) {
            0 | 1 if !has_plugin => Some((resource, devices, devices)),
            1 => self.machines[number].plugin.map(|(resource, devices, _)| (resource, devices, 0)),
            _ => None,
        };
        if plugin != self.machines[number].plugin {
            self.count("device plugin changed");
            self.record(|| format!("the device plugin on {name} has {plugin:?}"));
        }
        self.machines[number].plugin = plugin;
    }

    /// No kubelet reports what a device plugin has.
    pub(super) fn end_plugins(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.plugin = None);
    }

    /// An administrator edits a node.
    pub(super) fn edit_node(&mut self, number: usize) {
        let name = self.machines[number].name.clone();
        let resource = self.choices.one_of(&RESOURCES);
        let what = self.choices.below(16);
        let amount = match self.choices.below(8) {
            7 => Value::Null,
            amount => json!(amount.to_string()),
        };
        let ledger_of = |node: &Value| node["metadata"]["annotations"][ledger::ANNOTATION].clone();
        let node = self.server.get(Kind::Node, &Key::named(&name)).ok();
        let before = node.as_ref().map(|node| ledger_of(node)).unwrap_or_default();
        let annotate = |value: Value| json!({"metadata": {"annotations": {ledger::ANNOTATION: value}}});
        let (patch, what) = match what {
            0 | 1 => {
                let zone = if what == 0 { json!("b") } else { json!("a") };
                (json!({"metadata": {"labels": {"zone": zone}}}), "administrator set a label")
            }
            2 | 3 => {
                let maps = json!({"capacity": {resource: amount}, "allocatable": {resource: amount}});
                (json!({"status": maps}), "administrator set a value")
            }
            4 => (json!({"status": {"capacity": {resource: amount}}}), "administrator set a capacity"),
            5 => (json!({"status": {"allocatable": {resource: amount}}}), "administrator set an allocatable"),
            6 => (annotate(Value::Null), "administrator removed the annotation"),
            7 => {
                let entries = before.as_str().and_then(|text| serde_json::from_str(text).ok());
                let mut entries: Value = entries.unwrap_or_default();
                if let Some(entries) = entries.as_object_mut() {
                    entries.remove(resource);
                }
                let is_left = entries.as_object().is_some_and(|entries| !entries.is_empty());
                let text = if is_left { json!(entries.to_string()) } else { Value::Null };
                (annotate(text), "administrator removed an entry")
            }
            8 => (annotate(json!("{")), "administrator spoilt the annotation"),
            9 => (json!({"metadata": {"annotations": {"a": "c"}}}), "administrator set an annotation"),
            10..=12 => {
                let slots = self.choices.one_of(&SLOTS_VALUES);
                (json!({"metadata": {"labels": {SLOTS: slots}}}), "administrator set a quantity in a label")
            }
            _ => {
                let conditions = self.edited_conditions(node.as_deref().unwrap_or(&Value::Null));
                (json!({"status": {"conditions": conditions}}), "another client edited the conditions")
            }
        };
        let is_value = patch.get("status").is_some();
        let sub = if is_value { Subresource::Status } else { Subresource::None };
        if self.patch_node(&name, sub, patch, "kubectl-patch") {
            self.count(what);
        }
    }

    /// Conditions as another client leaves them: one more or less, moved, or the controller's one removed or spoilt.
    fn edited_conditions(&mut self, node: &Value) -> Vec<Value> {
        let mut conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_own = |condition: &Value| condition["type"] == CONDITION_TYPE;
        let kind = self.choices.one_of(&["Ready", "MemoryPressure", "example.com/Problem"]);
        let ends = [0, conditions.len()];
        match self.choices.below(6) {
            0 | 1 if conditions.iter().all(|condition| condition["type"] != kind) => {
                let place = self.choices.one_of(&ends);
                conditions.insert(place, json!({"type": kind, "status": "True"}));
            }
            0 | 1 => conditions.retain(|condition| condition["type"] != kind),
            2 => conditions.retain(is_own),
            3 => conditions.retain(|condition| !is_own(condition)),
            4 => {
                let own = conditions.iter_mut().filter(|condition| is_own(condition));
                own.for_each(|condition| condition["status"] = json!("Unknown"));
            }
            _ => conditions.reverse(),
        }
        conditions
    }

    /// Annotations that cannot be read are removed.
    pub(super) fn fix_annotations(&mut self) {
        for node in self.objects(Kind::Node) {
            if node["metadata"]["annotations"][ledger::ANNOTATION] == "{" {
                let patch = json!({"metadata": {"annotations": {ledger::ANNOTATION: null}}});
                let name = Key::of(&node).name;
                self.patch_node(&name, Subresource::None, patch, "kubectl-patch");
            }
        }
    }
}
