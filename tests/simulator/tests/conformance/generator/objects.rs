//! Operations on pods, rules, Leases and Events.

use serde_json::{Value, json};
use simulator::{Key, Kind, PatchBody, Subresource};

use super::{Generator, NODES};
use crate::model::Model;
use crate::operation::Operation;

impl Generator {
    pub(super) fn create_pod(&mut self, _: &Model) -> Operation {
        let key = self.any_key(Kind::Pod);
        let quantity = self.pick(&["1", "2"]);
        let mut object = json!({
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"l": self.pick(&["1", "2"])}},
            "spec": {"containers": [{"name": "app", "image": "pause", "resources": {
                "limits": {"example.com/dongle": quantity}, "requests": {"example.com/dongle": quantity},
            }}]},
        });
        if self.chance(60) {
            object["spec"]["nodeName"] = json!(self.any_key(Kind::Node).name);
        }
        Operation::Create { kind: Kind::Pod, object, manager: "kubectl" }
    }

    pub(super) fn pod_phase(&mut self, _: &Model) -> Operation {
        let phase = self.pick(&["Running", "Running", "Succeeded", "Failed", "Pending"]);
        Operation::Patch {
            target: (Kind::Pod, Subresource::Status, self.key(Kind::Pod)),
            patch: PatchBody::Merge(json!({"status": {"phase": phase}})),
            manager: "kubelet",
            dry_run: false,
        }
    }

    pub(super) fn bind_pod(&mut self, _: &Model) -> Operation {
        let node = self.pick(&NODES);
        Operation::Bind { key: self.key(Kind::Pod), node }
    }

    pub(super) fn delete_pod(&mut self, _: &Model) -> Operation {
        self.delete(Kind::Pod)
    }

    pub(super) fn delete_rule(&mut self, _: &Model) -> Operation {
        self.delete(Kind::Rule)
    }

    pub(super) fn delete_lease(&mut self, _: &Model) -> Operation {
        self.delete(Kind::Lease)
    }

    fn delete(&mut self, kind: Kind) -> Operation {
        let uid = self.pick(&[None, None, Some(json!("@uid 0")), Some(json!("@uid 1"))]);
        Operation::Delete { kind, key: self.key(kind), uid }
    }

    fn rule(&mut self, key: &Key) -> Value {
        let quantity = self.pick(&[json!(4), json!("4"), json!("800Gi"), json!(2)]);
        let mut spec = json!({"resourceName": "example.com/dongle", "quantity": quantity});
        match self.rng.u32(..3) {
            0 => spec["allNodes"] = json!(true),
            1 => spec["nodeNames"] = json!([self.any_key(Kind::Node).name]),
            _ => spec["nodeSelector"] = json!({"matchLabels": {"l": "1"}}),
        }
        if self.chance(30) {
            spec["priority"] = json!(self.rng.i32(-2..=2));
        }
        if self.chance(30) {
            spec["conflictPolicy"] = json!(self.pick(&["Keep", "Overwrite"]));
        }
        let mut rule = json!({"metadata": {"name": key.name}, "spec": spec});
        if self.chance(50) {
            rule["metadata"]["labels"] = json!({"l": self.pick(&["1", "2"])});
        }
        rule
    }

    pub(super) fn create_rule(&mut self, _: &Model) -> Operation {
        let key = self.any_key(Kind::Rule);
        let mut object = self.rule(&key);
        if self.chance(10) {
            object["status"] = json!({"observedGeneration": 7});
        }
        Operation::Create { kind: Kind::Rule, object, manager: "kubectl" }
    }

    pub(super) fn replace_rule(&mut self, _: &Model) -> Operation {
        let key = self.key(Kind::Rule);
        let mut object = self.rule(&key);
        match self.rng.u32(..10) {
            0 => {}
            1 => object["metadata"]["resourceVersion"] = json!("@version 1"),
            _ => object["metadata"]["resourceVersion"] = json!("@version 0"),
        }
        if self.chance(20) {
            object["metadata"]["uid"] = json!(self.pick(&["@uid 0", "@uid 1"]));
        }
        Operation::Replace { kind: Kind::Rule, subresource: Subresource::None, object, manager: "kubectl" }
    }

    pub(super) fn rule_merge_patch(&mut self, _: &Model) -> Operation {
        let patch = match self.rng.u32(..7) {
            0 | 1 => json!({"spec": {"quantity": self.pick(&[json!(4), json!("4"), json!(3)])}}),
            2 => json!({"spec": {"priority": self.pick(&[json!(1), json!(0), Value::Null])}}),
            3 => json!({"metadata": {"labels": {"l": self.pick(&[json!("1"), Value::Null])}}}),
            4 => {
                json!({"metadata": {"uid": self.pick(&["@uid 0", "@uid 1"])}, "spec": {"priority": 2}})
            }
            5 => json!({}),
            _ => json!({"status": {"observedGeneration": 9}}),
        };
        Operation::Patch {
            target: (Kind::Rule, Subresource::None, self.key(Kind::Rule)),
            patch: PatchBody::Merge(patch),
            manager: self.pick(&["kubectl", "kubectl", "another"]),
            dry_run: self.chance(10),
        }
    }

    /// In the shape of the controller's request: `src/reconciler/status.rs`.
    pub(super) fn rule_status(&mut self, _: &Model) -> Operation {
        let uid = self.pick(&[json!("@uid 0"), json!("@uid 0"), json!("@uid 1"), Value::Null]);
        let status = self.pick(&["True", "False"]);
        let condition = json!({"type": "Ready", "status": status, "reason": "Advertised", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
        let nodes = json!({"summary": "1/1", "selected": self.rng.u32(..3), "advertised": 1, "missing": 0,
            "held": 0, "conflicted": 0, "overridden": 0, "failed": 0});
        let nodes = self.pick(&[nodes.clone(), nodes, Value::Null]);
        let problem = json!({"node": "node-a", "reason": "Conflict", "message": "m"});
        let mut status = json!({
            "observedGeneration": self.rng.u32(1..4), "conditions": self.pick(&[json!([condition]), json!([])]),
            "nodes": nodes, "total": self.pick(&[json!("4"), Value::Null]),
            "problems": self.pick(&[json!([]), json!([problem])]),
        });
        // The server ignores a uid in a merge patch.
        let patch = if self.chance(20) {
            PatchBody::Merge(json!({"metadata": {"uid": uid}, "status": status}))
        } else {
            if self.chance(90) {
                status.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            }
            PatchBody::Json(json!([
                {"op": "test", "path": "/metadata/uid", "value": uid},
                {"op": "add", "path": "/status", "value": status},
            ]))
        };
        Operation::Patch {
            target: (Kind::Rule, Subresource::Status, self.key(Kind::Rule)),
            patch,
            manager: "node-resource-advertiser",
            dry_run: false,
        }
    }

    /// In the shape of the controller's request: `src/election.rs`.
    fn lease(&mut self, key: &Key) -> Value {
        let time = |second: u32| format!("2026-01-01T00:00:{second:02}.000000Z");
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": {"l": "1"}},
            "spec": {
                "holderIdentity": self.pick(&["one", "two", ""]), "leaseDurationSeconds": 15,
                "acquireTime": time(0), "renewTime": time(self.rng.u32(..60)), "leaseTransitions": self.rng.u32(..2),
            },
        })
    }

    pub(super) fn create_lease(&mut self, _: &Model) -> Operation {
        let key = self.any_key(Kind::Lease);
        let object = self.lease(&key);
        Operation::Create { kind: Kind::Lease, object, manager: "node-resource-advertiser" }
    }

    pub(super) fn replace_lease(&mut self, _: &Model) -> Operation {
        let key = self.key(Kind::Lease);
        let mut object = self.lease(&key);
        match self.rng.u32(..10) {
            0 => {}
            1 | 2 => object["metadata"]["resourceVersion"] = json!("@version 1"),
            _ => object["metadata"]["resourceVersion"] = json!("@version 0"),
        }
        if self.chance(50) {
            object["metadata"]["uid"] = json!(self.pick(&["@uid 0", "@uid 0", "@uid 1"]));
        }
        let manager = "node-resource-advertiser";
        Operation::Replace { kind: Kind::Lease, subresource: Subresource::None, object, manager }
    }

    /// In the shape of the controller's request: `src/reconciler/events.rs`. Events about cluster-scoped objects are in
    /// `default`.
    pub(super) fn create_event(&mut self, _: &Model) -> Operation {
        let key = self.any_key(Kind::Event);
        let regarding = match key.namespace.as_str() {
            "default" => {
                json!({"apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
                "name": "rule-1", "uid": "11111111-1111-1111-1111-111111111111"})
            }
            namespace => {
                json!({"apiVersion": "v1", "kind": "Pod", "name": "pod-1", "namespace": namespace})
            }
        };
        let object = json!({
            "metadata": {"name": key.name, "namespace": key.namespace},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": self.pick(&["Normal", "Warning"]),
            "reason": "Advertised", "action": "Advertise", "note": "1 node", "regarding": regarding,
            "reportingController": "noderesource.dev/controller", "reportingInstance": "pod-1",
        });
        Operation::Create { kind: Kind::Event, object, manager: "node-resource-advertiser" }
    }
}
