//! The desired state of the cluster: the nodes and rules that the load has created, and the values of each node.

use std::collections::BTreeMap;

use harness::objects::{ledger, quantity};
use serde_json::{Value, json};

pub const RESOURCES: [&str; 4] = ["example.com/dongle", "example.com/key", "example.com/license", "example.com/slot"];
/// The number of node pools; a label assigns each node to one.
pub const POOLS: u32 = 4;
const POOL_LABEL: &str = "example.com/pool";
/// A resource that another client advertises on each node.
const FOREIGN: (&str, &str) = ("example.com/foreign", "7");

/// A rule, with a unique priority.
#[derive(Clone, Debug)]
pub struct Rule {
    pub resource: &'static str,
    pub quantity: i64,
    /// The selected pool; `None` for all nodes.
    pub pool: Option<u32>,
    pub priority: i32,
}

#[derive(Debug, Default)]
pub struct World {
    /// The pool of each node.
    pub nodes: BTreeMap<String, u32>,
    pub rules: BTreeMap<String, Rule>,
}

impl World {
    /// Returns the quantity that the rule with the highest priority declares.
    pub fn expected(&self, node: &str, resource: &str) -> Option<i64> {
        let pool = self.nodes.get(node)?;
        let rules = self
            .rules
            .values()
            .filter(|rule| rule.resource == resource && rule.pool.is_none_or(|selected| selected == *pool));
        rules.max_by_key(|rule| rule.priority).map(|rule| rule.quantity)
    }

    /// Returns one difference between a list of all nodes and what is declared, if any.
    pub fn difference(&self, list: &Value) -> Option<String> {
        let nodes = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        if nodes.len() != self.nodes.len() {
            return Some(format!("{} nodes in place of {}", nodes.len(), self.nodes.len()));
        }
        nodes.iter().find_map(|node| self.difference_of(node))
    }

    fn difference_of(&self, node: &Value) -> Option<String> {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let maps = |resource| ["capacity", "allocatable"].map(|map| quantity(node, map, resource));
        let (foreign, value) = FOREIGN;
        if maps(foreign) != [Some(value); 2] {
            return Some(format!("{foreign} on {name} is {:?}", maps(foreign)));
        }
        let ledger = ledger(node).unwrap_or_default();
        RESOURCES.into_iter().find_map(|resource| {
            let expected = self.expected(name, resource).map(|quantity| quantity.to_string());
            let is_listed = ledger.contains(&format!("\"{resource}\""));
            let is_so = maps(resource) == [expected.as_deref(); 2] && is_listed == expected.is_some();
            (!is_so).then(|| format!("{resource} on {name} is {:?}, not {expected:?}: {ledger}", maps(resource)))
        })
    }
}

/// Returns a node with another client's resource.
pub fn node(name: &str, pool: u32) -> Value {
    let (resource, quantity) = FOREIGN;
    let mut node = harness::objects::node(name, &pool_label(pool));
    node["status"] = json!({"capacity": {resource: quantity}, "allocatable": {resource: quantity}});
    node
}

pub fn pool_label(pool: u32) -> Value {
    json!({POOL_LABEL: pool.to_string()})
}

impl Rule {
    pub fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name}, "spec": self.spec(),
        })
    }

    /// The same as a merge patch.
    pub fn spec(&self) -> Value {
        let Self { resource, quantity, pool, priority } = self;
        let mut spec = json!({
            "resourceName": resource, "quantity": quantity, "priority": priority,
            "allNodes": null, "nodeSelector": null,
        });
        match pool {
            Some(pool) => spec["nodeSelector"] = json!({"matchLabels": pool_label(*pool)}),
            None => spec["allNodes"] = json!(true),
        }
        spec
    }
}
