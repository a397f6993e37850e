//! A node of two resources in a few bytes, and as the JSON that patches are applied to.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::model::api::{DeletionPolicy, FIELD_MANAGER};
use crate::model::ledger::ANNOTATION;
use crate::model::node::{ApiNode, Interner, Node, heartbeats};

pub(crate) const RESOURCES: [&str; 2] = ["example.com/a", "example.com/b"];
pub(crate) const RULES: [&str; 2] = ["first", "second"];
pub(crate) const MAPS: [&str; 2] = ["capacity", "allocatable"];
pub(crate) const CAPACITY: usize = 0;
pub(crate) const ALLOCATABLE: usize = 1;

/// Whoever writes a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Writer {
    #[default]
    Nobody,
    Controller,
    Kubelet,
    Other,
}

/// One resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Amount {
    /// In capacity and in allocatable.
    pub(crate) values: [Option<u8>; 2],
    pub(crate) writers: [Writer; 2],
    pub(crate) entry: Option<Entry>,
}

/// One resource in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) quantity: u8,
    pub(crate) rule: u8,
    pub(crate) policy: DeletionPolicy,
    pub(crate) is_leaving: bool,
}

/// A node; one with the uid 0 does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SmallNode {
    pub(crate) uid: u8,
    pub(crate) amounts: [Amount; 2],
}

impl Amount {
    pub(crate) fn write(&mut self, map: usize, value: Option<u8>, writer: Writer) {
        if self.values[map] != value {
            self.values[map] = value;
            self.writers[map] = if value.is_some() { writer } else { Writer::Nobody };
        }
    }

    /// Whether both maps hold what the ledger lists.
    pub(crate) fn agrees(&self) -> bool {
        self.entry.is_none_or(|entry| self.values == [Some(entry.quantity); 2])
    }
}

impl SmallNode {
    pub(crate) fn new(uid: u8) -> Self {
        Self { uid, ..Self::default() }
    }

    pub(crate) fn ledger(&self) -> [Option<Entry>; 2] {
        self.amounts.map(|amount| amount.entry)
    }

    /// The node as the API server has it; `created` is its creation.
    pub(crate) fn object(&self, created: &str) -> Value {
        let mut maps = [json!({"cpu": "2"}), json!({"cpu": "2"})];
        let mut fields =
            [Writer::Controller, Writer::Kubelet, Writer::Other].map(|writer| (writer, [Map::new(), Map::new()]));
        let mut ledger = Map::new();
        for (amount, resource) in self.amounts.iter().zip(RESOURCES) {
            for (map, object) in maps.iter_mut().enumerate() {
                if let Some(value) = amount.values[map] {
                    object[resource] = json!(value.to_string());
                }
                for (_, fields) in fields.iter_mut().filter(|(writer, _)| *writer == amount.writers[map]) {
                    fields[map].insert(format!("f:{resource}"), json!({}));
                }
            }
            if let Some(Entry { quantity, rule, policy, is_leaving }) = amount.entry {
                let mut entry = json!({"quantity": quantity.to_string(), "rule": RULES[usize::from(rule)]});
                match policy {
                    DeletionPolicy::Withdraw => {}
                    DeletionPolicy::WhenUnused => entry["whenUnused"] = json!(true),
                    DeletionPolicy::Retain => entry["deletionPolicy"] = json!("Retain"),
                }
                if is_leaving {
                    entry["leaving"] = json!(true);
                }
                ledger.insert(resource.to_owned(), entry);
            }
        }
        let mut managers: Vec<_> = fields
            .map(|(writer, [capacity, allocatable])| {
                let status = json!({"f:capacity": capacity, "f:allocatable": allocatable});
                json!({"manager": writer.to_string(), "fieldsV1": {"f:status": status}})
            })
            .into();
        managers.push(heartbeats(&Writer::Kubelet.to_string()));
        let mut metadata = json!({
            "name": "node-1", "uid": format!("uid-{}", self.uid), "creationTimestamp": created,
            "managedFields": managers,
        });
        // The API server keeps no empty map.
        if !ledger.is_empty() {
            metadata["annotations"] = json!({ ANNOTATION: Value::Object(ledger).to_string() });
        }
        let [capacity, allocatable] = maps;
        json!({"metadata": metadata, "status": {"capacity": capacity, "allocatable": allocatable}})
    }

    pub(crate) fn decoded(object: Value) -> Node {
        let node: ApiNode = serde_json::from_value(object).unwrap();
        Node::new(node, &mut Interner::default())
    }

    /// What `object` has become of this node by a write of the controller.
    pub(crate) fn written(mut self, object: &Value) -> Self {
        let ledger = object["metadata"]["annotations"][ANNOTATION].as_str();
        let ledger: Value = ledger.map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
        for (amount, resource) in self.amounts.iter_mut().zip(RESOURCES) {
            for (map, name) in MAPS.into_iter().enumerate() {
                let value = object["status"][name].get(resource);
                let value = value.map(|value| value.as_str().unwrap().parse().unwrap());
                amount.write(map, value, Writer::Controller);
            }
            amount.entry = ledger.get(resource).map(|entry| Entry {
                quantity: entry["quantity"].as_str().unwrap().parse().unwrap(),
                rule: RULES.iter().position(|rule| entry["rule"] == *rule).unwrap() as u8,
                policy: match (&entry["deletionPolicy"], &entry["whenUnused"]) {
                    (Value::String(policy), _) if policy == "Retain" => DeletionPolicy::Retain,
                    (_, Value::Bool(true)) => DeletionPolicy::WhenUnused,
                    _ => DeletionPolicy::Withdraw,
                },
                is_leaving: entry["leaving"] == true,
            });
        }
        self
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "nobody",
            Self::Controller => FIELD_MANAGER,
            Self::Kubelet => "hollow-kubelet",
            Self::Other => "kubectl-patch",
        })
    }
}

/// `a=2/1 by kubelet (listed: 2 of first)`, with capacity first.
impl fmt::Display for SmallNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.uid == 0 {
            return f.write_str("no node");
        }
        write!(f, "uid-{}:", self.uid)?;
        for (amount, resource) in self.amounts.iter().zip(RESOURCES) {
            let [capacity, allocatable] =
                amount.values.map(|value| value.map_or("-".to_owned(), |value| value.to_string()));
            let name = resource.rsplit('/').next().unwrap_or_default();
            write!(f, " {name}={capacity}/{allocatable}")?;
            if amount.writers != [Writer::Nobody; 2] {
                write!(f, " by {:?}/{:?}", amount.writers[CAPACITY], amount.writers[ALLOCATABLE])?;
            }
            if let Some(Entry { quantity, rule, policy, is_leaving }) = amount.entry {
                let policy = if is_leaving { "leaving".to_owned() } else { format!("{policy:?}") };
                write!(f, " (listed: {quantity} of {}, {policy})", RULES[usize::from(rule)])?;
            }
        }
        Ok(())
    }
}
