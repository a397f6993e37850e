//! Who writes rules.

use std::sync::Arc;

use serde_json::{Value, json};
use simulator::invariants::{is_derived, selections};
use simulator::{Key, Kind, PatchBody, Subresource, Writer};

use super::actors::{RESOURCES, SLOTS};
use super::world::{Due, World};

const RULES: [&str; 4] = ["rule-1", "rule-2", "rule-3", "rule-4"];

impl World {
    fn spec(&mut self) -> Value {
        let resource = self.choices.one_of(&RESOURCES);
        let quantity = match self.choices.below(8) {
            7 => json!(0),
            quantity => json!(quantity + 1),
        };
        let mut spec = json!({"resourceName": resource});
        if self.choices.percent(25) {
            spec["quantityFrom"] = self.quantity_from();
        } else {
            spec["quantity"] = quantity;
        }
        let all = json!({"allNodes": true});
        let zone = json!({"nodeSelector": {"matchLabels": {"zone": "a"}}});
        let names = json!({"nodeNames": ["node-1", "node-9"]});
        // The CustomResourceDefinition rejects the last two: they were stored before it did.
        let both = json!({"allNodes": true, "nodeNames": ["node-1"]});
        let selections = [&all, &all, &all, &all, &all, &zone, &zone, &zone, &names, &names, &both, &json!({})];
        let selection = self.choices.one_of(&selections);
        spec.as_object_mut().unwrap().extend(selection.as_object().unwrap().clone());
        if self.choices.percent(20) {
            spec["priority"] = json!(1);
        }
        if self.choices.percent(30) {
            spec["conflictPolicy"] = json!("Overwrite");
        }
        if self.choices.percent(50) {
            spec["deletionPolicy"] = json!(self.choices.one_of(&["Retain", "WhenUnused"]));
        }
        if self.choices.percent(25) {
            spec["shrinkPolicy"] = json!("Immediate");
        }
        if self.choices.percent(10) {
            spec["paused"] = json!(true);
        }
        spec
    }

    fn quantity_from(&mut self) -> Value {
        let choice = self.choices.below(8);
        let mut from = match choice / 4 {
            0 => json!({"nodeLabel": {"key": SLOTS}, "max": 6}),
            _ => json!({"nodeLabel": {"key": SLOTS, "values": {"2": 6, "4": "4", "6": 2, "many": 5}}}),
        };
        match choice % 4 {
            0 => from["default"] = json!(3),
            1 => from["whenMissing"] = json!("None"),
            _ => {}
        }
        from
    }

    pub(super) fn create_rule(&mut self, name: &str) {
        let spec = self.spec();
        if self.crd_missing {
            return;
        }
        let (text, writer) = (spec.to_string(), Writer::new("argocd"));
        let rule = json!({"metadata": {"name": name}, "spec": spec});
        let selections = selections(&rule);
        if self.write(|server| server.create(Kind::Rule, rule, &writer)).is_some() {
            self.count("rule created");
            if selections != 1 {
                self.count("rule of no or several selections");
            }
            self.record(|| format!("{name} is created: {text}"));
        }
    }

    fn delete_rule(&mut self, name: &str) {
        let key = Key::named(name);
        if self.write(|server| server.delete(Kind::Rule, &key, None)).is_some() {
            self.count("rule deleted");
            self.record(|| format!("{name} is deleted"));
        }
    }

    /// Somebody removes by hand what a rule has advertised.
    fn remove_values(&mut self, rule: &str) {
        let Ok(rule) = self.server.get(Kind::Rule, &Key::named(rule)) else { return };
        let resource = rule["spec"]["resourceName"].as_str().unwrap_or_default();
        for number in 0..self.machines.len() {
            self.remove_value(number, resource);
        }
    }

    /// Creates a rule, edits it, deletes it, or all of them.
    pub(super) fn change_rules(&mut self) {
        let name = self.choices.one_of(&RULES);
        let exists = self.server.get(Kind::Rule, &Key::named(name)).is_ok();
        match self.choices.below(12) {
            _ if self.crd_missing => {}
            _ if !exists => self.create_rule(name),
            0..=2 => {
                let quantity = self.choices.below(7) + 1;
                self.edit_rule(name, &json!({"quantity": quantity, "quantityFrom": null}));
            }
            3..=5 => {
                let mut spec = self.spec();
                for field in [
                    "quantity",
                    "quantityFrom",
                    "allNodes",
                    "nodeSelector",
                    "nodeNames",
                    "priority",
                    "conflictPolicy",
                    "deletionPolicy",
                    "shrinkPolicy",
                    "paused",
                ] {
                    if spec.get(field).is_none() {
                        spec[field] = Value::Null;
                    }
                }
                if let Some(from) = spec["quantityFrom"].as_object_mut() {
                    for field in ["default", "whenMissing", "max"] {
                        from.entry(field).or_insert(Value::Null);
                    }
                    from["nodeLabel"].as_object_mut().unwrap().entry("values").or_insert(Value::Null);
                }
                self.edit_rule(name, &spec);
            }
            6 | 7 => {
                if self.choices.percent(25) {
                    self.remove_values(name);
                }
                self.delete_rule(name);
            }
            8 => {
                self.delete_rule(name);
                self.create_rule(name);
            }
            9 | 10 => {
                let is_paused = self
                    .objects(Kind::Rule)
                    .iter()
                    .any(|rule| rule["metadata"]["name"] == name && rule["spec"]["paused"] == true);
                self.count(if is_paused { "rule resumed" } else { "rule paused" });
                self.edit_rule(name, &json!({"paused": !is_paused}));
            }
            _ => self.delete_crd(),
        }
    }

    pub(super) fn edit_rule(&mut self, name: &str, spec: &Value) {
        let (key, writer) = (Key::named(name), Writer::new("argocd"));
        let patch = PatchBody::Merge(json!({"spec": spec}));
        let edit =
            |server: &mut simulator::ApiServer| server.patch(Kind::Rule, Subresource::None, &key, &patch, &writer);
        if let Some(rule) = self.write(edit) {
            self.count("rule edited");
            if is_derived(&rule) {
                self.count("rule derives its quantity");
            }
            let spec = rule["spec"].to_string();
            self.record(|| format!("{name} is edited: {spec}"));
        }
    }

    /// The CustomResourceDefinition is deleted, and all rules with it; and recreated, with them or not.
    fn delete_crd(&mut self) {
        let time = u64::from(self.choices.below(3)) * 20_000 + 500;
        self.count("CustomResourceDefinition deleted");
        self.record(|| "the CustomResourceDefinition is deleted, with all rules".to_owned());
        self.backup = if self.choices.percent(60) { self.objects(Kind::Rule) } else { Vec::new() };
        for name in RULES {
            let _ = self.write(|server| server.delete(Kind::Rule, &Key::named(name), None));
        }
        self.crd_missing = true;
        // Watches of what is not served end, and begin anew with a list.
        for process in 0..self.processes.len() {
            self.processes[process].streams[1].is_to_restart = true;
            self.wake_watches(process);
        }
        self.after(time, Due::Crd);
    }

    pub(super) fn install_crd(&mut self) {
        if !std::mem::take(&mut self.crd_missing) {
            return;
        }
        self.record(|| "the CustomResourceDefinition is there again".to_owned());
        for rule in std::mem::take(&mut self.backup) {
            self.restore_rule(&rule);
        }
    }

    fn restore_rule(&mut self, rule: &Arc<Value>) {
        let (name, writer) = (Key::of(rule).name, Writer::new("argocd"));
        let object = json!({"metadata": {"name": name}, "spec": rule["spec"]});
        if self.write(|server| server.create(Kind::Rule, object, &writer)).is_some() {
            self.count("rule restored");
            self.record(|| format!("{name} is restored"));
        }
    }
}
