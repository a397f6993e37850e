//! Operations on Nodes.

use jiff::Timestamp;
use node_resource_advertiser::model::api::{FIELD_MANAGER, NodeExtendedResource, Reason};
use node_resource_advertiser::model::node::{Interner, Node};
use node_resource_advertiser::model::pod::NodeRequests;
use node_resource_advertiser::planner::input::{PlanningInput, PodUsage};
use node_resource_advertiser::planner::rules::{Rule, RuleSet};
use node_resource_advertiser::planner::{Condition, condition, patch, plan};
use serde_json::{Map, Value, json};
use simulator::{Key, Kind, PatchBody, Subresource};

use super::Generator;
use crate::model::Model;
use crate::operation::Operation;

const RESOURCES: [&str; 4] = ["example.com/dongle", "example.com/x", "cpu", "memory"];

impl Generator {
    /// Generates a patch of the controller: its own planner makes it, for random rules.
    pub(super) fn controller_patch(&mut self, model: &Model) -> Operation {
        let key = self.key(Kind::Node);
        // At times the sender has seen another node.
        let seen = if self.chance(10) { self.any_key(Kind::Node) } else { key.clone() };
        let Some(mut patch) = self.planned(&model.object(Kind::Node, &seen)) else { return self.status_patch(model) };
        patch[0]["value"] = json!(if self.chance(5) { "@uid 1" } else { "@uid 0" });
        Operation::Patch {
            target: (Kind::Node, Subresource::Status, key),
            patch: PatchBody::Json(json!(patch)),
            manager: FIELD_MANAGER,
            dry_run: self.chance(10),
        }
    }

    /// Returns the operations of a plan for this node, if anything is to be changed.
    fn planned(&mut self, object: &Value) -> Option<Vec<Value>> {
        let node = Node::new(serde_json::from_value(object.clone()).ok()?, &mut Interner::default());
        let rules: Vec<_> = (0..self.rng.usize(..=2)).map(|number| self.planned_rule(number).into()).collect();
        let input = PlanningInput { pods: PodUsage::Known(NodeRequests::default()), ..PlanningInput::default() };
        let mut changes = plan(&node, &RuleSet::new(rules, []), &input).changes().to_vec();
        if self.chance(40) {
            let desired = self.chance(80).then(|| Condition {
                is_true: self.chance(50),
                reason: Reason::Advertised,
                message: self.pick(&["m", "\"~1/"]).to_owned(),
            });
            let now = Timestamp::from_second(self.rng.i64(1_767_225_600..1_767_225_660)).expect("a time");
            changes.extend(condition::change(&node, desired, changes.is_empty(), now));
        }
        let operations = json!(patch(&node, &changes).ok()?).as_array()?.clone();
        (!changes.is_empty()).then_some(operations)
    }

    fn planned_rule(&mut self, number: usize) -> Rule {
        let spec = json!({
            "resourceName": RESOURCES[number],
            "quantity": self.rng.u32(1..=5),
            "allNodes": true,
            "conflictPolicy": self.pick(&["Keep", "Overwrite", "Overwrite"]),
            "deletionPolicy": self.pick(&["Withdraw", "WhenUnused", "Retain"]),
        });
        let spec = serde_json::from_value(spec).expect("a spec");
        Rule::new(&NodeExtendedResource::new(&format!("rule-{number}"), spec)).expect("a valid rule")
    }

    pub(super) fn status_patch(&mut self, _: &Model) -> Operation {
        self.random_patch(Subresource::Status)
    }

    pub(super) fn node_patch(&mut self, _: &Model) -> Operation {
        self.random_patch(Subresource::None)
    }

    fn random_patch(&mut self, subresource: Subresource) -> Operation {
        let count = self.pick(&[1, 1, 1, 2, 3]);
        let mut patch: Vec<_> = (0..count).map(|_| self.operation()).collect();
        if self.rng.u32(..1000) == 0 {
            patch = vec![json!({"op": "test", "path": "/metadata/uid", "value": "@uid 0"}); 10_001];
        }
        let patch = if self.rng.u32(..200) == 0 { json!({"patch": patch}) } else { json!(patch) };
        Operation::Patch {
            target: (Kind::Node, subresource, self.key(Kind::Node)),
            patch: PatchBody::Json(patch),
            manager: self.manager(),
            dry_run: self.chance(5),
        }
    }

    /// One operation of a JSON Patch.
    fn operation(&mut self) -> Value {
        let (path, value) = self.place();
        if self.chance(3) {
            let (from, path) = (self.movable(), self.movable());
            return json!({"op": self.pick(&["move", "copy", "other"]), "from": from, "path": path});
        }
        if self.chance(2) {
            return json!({"op": "add", "path": path.replacen('/', "", 1), "value": value});
        }
        match self.pick(&["add", "add", "add", "replace", "replace", "remove", "test"]) {
            "remove" => json!({"op": "remove", "path": path}),
            op => json!({"op": op, "path": path, "value": value}),
        }
    }

    /// Returns a path in a node, and a plausible value.
    fn place(&mut self) -> (String, Value) {
        let map = self.pick(&["capacity", "allocatable"]);
        let resource = self.pick(&RESOURCES);
        match self.rng.u32(..40) {
            0..=14 => (format!("/status/{map}/{}", escape(resource)), self.quantity()),
            15..=19 => {
                let resources = self.resources();
                (format!("/status/{map}"), self.pick(&[json!({}), Value::Null, resources]))
            }
            20..=22 => {
                let value = self.pick(&[json!("x"), json!("1"), Value::Null, json!(1)]);
                (format!("/metadata/annotations/{}", self.pick(&["a", "b~1c", "noderesource.dev~1advertised"])), value)
            }
            23 | 24 => {
                let value =
                    self.pick(&[json!({}), Value::Null, json!({"a": "x"}), json!({"a": null}), json!({"a": true})]);
                ("/metadata/annotations".to_owned(), value)
            }
            25 | 26 => (format!("/metadata/labels/{}", self.pick(&["l", "m"])), self.pick(&[json!("1"), json!("2")])),
            27 => ("/metadata/labels".to_owned(), self.pick(&[json!({}), Value::Null, json!({"l": "1", "m": "1"})])),
            28 | 29 => ("/metadata/uid".to_owned(), self.pick(&[json!("@uid 0"), json!("@uid 1"), Value::Null])),
            30 | 31 => {
                let version = self.pick(&["@version 0", "@version 1", "@version 0", "abc", ""]);
                ("/metadata/resourceVersion".to_owned(), json!(version))
            }
            32 => ("/spec/unschedulable".to_owned(), self.pick(&[json!(true), json!(false), Value::Null])),
            33 => ("/spec/taints".to_owned(), self.taints()),
            34 => ("/status/conditions".to_owned(), self.conditions()),
            35 => ("/status/conditions/0/status".to_owned(), self.pick(&[json!("True"), json!("Unknown")])),
            36 => ("/missing/parent".to_owned(), json!("x")),
            37 => ("/status/phase".to_owned(), json!("Running")),
            38 => ("/metadata/name".to_owned(), self.pick(&[json!("node-a"), json!("node-b")])),
            _ => ("/status/missing/parent".to_owned(), Value::Null),
        }
    }

    /// Returns a path whose value can be moved to other such paths, as far as types allow.
    fn movable(&mut self) -> String {
        let map = self.pick(&["capacity", "allocatable"]);
        match self.rng.u32(..4) {
            0 => "/metadata/annotations/a".to_owned(),
            1 => format!("/status/{map}"),
            _ => format!("/status/{map}/{}", escape(self.pick(&RESOURCES))),
        }
    }

    fn quantity(&mut self) -> Value {
        let common = ["0", "1", "2", "3", "4", "5"];
        let odd = [
            json!("4.0"),
            json!("1000"),
            json!("1Ki"),
            json!("1024"),
            json!("007"),
            json!(" 4 "),
            json!(4),
            json!(-1),
            json!("1.5"),
            json!("abc"),
            Value::Null,
            json!(true),
            json!("9223372036854776"),
            json!("9223372036854775"),
            json!("9223372036854775807"),
            json!("500m"),
            json!("0.9999"),
            json!("1e3"),
            json!("1e2"),
            json!("0.5k"),
            json!("8Ei"),
            json!("+4"),
            json!("4."),
            json!(""),
            json!("1000m"),
            json!("1048576"),
            json!("1Gi"),
            json!("1500Mi"),
            json!("0.5Gi"),
            json!(1.5),
            json!("-0"),
            json!("12E"),
            json!("10E"),
            json!("3u"),
            json!("1E3"),
            json!({}),
            json!(["4"]),
        ];
        if self.chance(50) { json!(self.pick(&common)) } else { self.pick(&odd) }
    }

    fn resources(&mut self) -> Value {
        let mut map = Map::new();
        for _ in 0..self.rng.u32(1..=2) {
            map.insert(self.pick(&RESOURCES).to_owned(), self.quantity());
        }
        Value::Object(map)
    }

    fn taints(&mut self) -> Value {
        let taint = json!({"key": "example.com/t", "effect": "NoSchedule"});
        let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
        self.pick(&[json!([]), json!([taint]), json!([not_ready]), json!([not_ready, taint]), Value::Null])
    }

    fn conditions(&mut self) -> Value {
        let status = self.pick(&["True", "False"]);
        let time = format!("2026-01-01T00:00:{:02}Z", self.rng.u32(..60));
        let ready = json!({"type": "Ready", "status": status, "reason": "KubeletReady",
            "message": "m", "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let pressure = json!({"type": "DiskPressure", "status": "False",
            "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        self.pick(&[json!([ready]), json!([ready, pressure]), json!([pressure, ready])])
    }

    fn whole_node(&mut self, key: &Key) -> Value {
        let mut node = json!({"metadata": {"name": key.name}});
        if self.chance(60) {
            node["metadata"]["labels"] = json!({"l": self.pick(&["1", "2"])});
        }
        if self.chance(30) {
            node["metadata"]["annotations"] = json!({"a": "x"});
        }
        if self.chance(30) {
            node["spec"] = json!({"taints": self.taints()});
        }
        if self.chance(60) {
            node["status"] = self.status();
        }
        node
    }

    fn status(&mut self) -> Value {
        let mut status = json!({});
        if self.chance(70) {
            status["capacity"] = self.resources();
        }
        if self.chance(40) {
            status["allocatable"] = self.resources();
        }
        if self.chance(40) {
            status["conditions"] = self.conditions();
        }
        status
    }

    pub(super) fn create_node(&mut self, _: &Model) -> Operation {
        let key = self.any_key(Kind::Node);
        let object = self.whole_node(&key);
        Operation::Create { kind: Kind::Node, object, manager: self.manager() }
    }

    pub(super) fn delete_node(&mut self, _: &Model) -> Operation {
        let uid = self.pick(&[None, Some(json!("@uid 0")), Some(json!("@uid 1"))]);
        Operation::Delete { kind: Kind::Node, key: self.key(Kind::Node), uid }
    }

    pub(super) fn replace_node(&mut self, model: &Model) -> Operation {
        self.replace(Subresource::None, model)
    }

    pub(super) fn replace_node_status(&mut self, model: &Model) -> Operation {
        self.replace(Subresource::Status, model)
    }

    /// Returns the object with a few changes, or a new one.
    fn replace(&mut self, subresource: Subresource, model: &Model) -> Operation {
        let key = self.key(Kind::Node);
        let mut object = self.whole_node(&key);
        let found = model.object(Kind::Node, &key);
        if self.chance(60) && found.is_object() {
            let status = self.status();
            object = found;
            object["status"] = status;
            object["metadata"]["uid"] = json!("@uid 0");
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
                metadata.remove("creationTimestamp");
                metadata.remove("resourceVersion");
            }
        }
        if self.chance(50) {
            object["metadata"]["resourceVersion"] = json!(self.pick(&["@version 0", "@version 0", "@version 1"]));
        }
        Operation::Replace { kind: Kind::Node, subresource, object, manager: self.manager() }
    }

    pub(super) fn node_merge_patch(&mut self, _: &Model) -> Operation {
        self.merge_patch(Subresource::None)
    }

    pub(super) fn node_status_merge_patch(&mut self, _: &Model) -> Operation {
        self.merge_patch(Subresource::Status)
    }

    fn merge_patch(&mut self, subresource: Subresource) -> Operation {
        let map = self.pick(&["capacity", "allocatable"]);
        let patch = match self.rng.u32(..8) {
            0..=2 => json!({"status": {map: self.resources()}}),
            3 => json!({"status": {"conditions": self.conditions()}}),
            4 => {
                json!({"metadata": {"labels": {"l": self.pick(&[json!("1"), json!("2"), Value::Null])}}})
            }
            5 => {
                json!({"metadata": {"annotations": self.pick(&[json!({"a": null}), Value::Null, json!({"a": "y", "b": "z"})])}})
            }
            6 => {
                json!({"metadata": {"uid": self.pick(&["@uid 0", "@uid 1"])}, "spec": {"unschedulable": true}})
            }
            _ => json!({"status": {map: self.pick(&[Value::Null, json!({})])}}),
        };
        Operation::Patch {
            target: (Kind::Node, subresource, self.key(Kind::Node)),
            patch: PatchBody::Merge(patch),
            manager: self.manager(),
            dry_run: self.chance(5),
        }
    }
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
