//! The load: random actions of kubelets, users and other clients on nodes and rules, from a seed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use harness::{ControlPlane, wait_until};
use serde_json::{Value, json};

use crate::observer::{Observer, Pending, version};
use crate::world::{self, POOLS, RESOURCES, Rule, World};

const NODES: &str = "/api/v1/nodes";
const RULES: &str = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Minimum time between overwrites of the same value: the controller backs off after five repairs in ten minutes.
const OVERWRITE_PAUSE: Duration = Duration::from_secs(180);

/// An operation that had no effect.
const NOTHING: &str = "nothing";

/// Number of attempts to pick a declared value.
const MAX_DRAWS: usize = 20;

/// Verb, resource, subresource and code of a request, as in the API server's metric.
pub type RequestKind = [String; 4];

pub struct Load {
    pub world: World,
    /// Requests of the load itself, since the last sample.
    pub requests: BTreeMap<RequestKind, u64>,
    /// The number of times that each operation ran.
    pub operations: BTreeMap<&'static str, u64>,
    random: fastrand::Rng,
    created: usize,
    node_count: usize,
    overwritten: BTreeMap<(String, &'static str), Instant>,
}

impl Load {
    pub fn new(seed: u64, node_count: usize) -> Self {
        Self {
            world: World::default(),
            requests: BTreeMap::new(),
            operations: BTreeMap::new(),
            random: fastrand::Rng::with_seed(seed),
            created: 0,
            node_count,
            overwritten: BTreeMap::new(),
        }
    }

    /// Creates all nodes, and a rule for each resource and each of two priorities.
    pub fn populate(&mut self, control_plane: &ControlPlane) -> Result<()> {
        while self.world.nodes.len() < self.node_count {
            self.create_node(control_plane)?;
        }
        for number in 0..2 * RESOURCES.len() {
            self.create_rule(control_plane, number)?;
        }
        Ok(())
    }

    /// Returns how long to wait for the next operation.
    pub fn pause(&mut self) -> Duration {
        Duration::from_millis(self.random.u64(20..300))
    }

    /// Performs one operation. Skips those that need a leader at once when there may be none.
    pub fn step(&mut self, control_plane: &ControlPlane, observer: &Observer, is_undisturbed: bool) -> Result<()> {
        let name = match self.random.u32(0..100) {
            0..55 => self.reset(control_plane, observer)?,
            55..70 if is_undisturbed => self.overwrite(control_plane, observer)?,
            55..70 => NOTHING,
            70..82 => self.edit_rule(control_plane)?,
            82..86 => self.toggle_rule(control_plane)?,
            86..92 => self.move_node(control_plane)?,
            _ => self.replace_node(control_plane)?,
        };
        *self.operations.entry(name).or_default() += 1;
        let Self { world, .. } = self;
        observer.retain(|pending| world.expected(&pending.node, pending.resource) == Some(pending.value));
        Ok(())
    }

    /// Returns a declared value, if some random attempts find one.
    fn random_value(&mut self) -> Option<(String, &'static str, i64)> {
        (0..MAX_DRAWS).find_map(|_| {
            let node = self.random_node()?;
            let resource = self.random.choice(RESOURCES)?;
            let value = self.world.expected(&node, resource)?;
            Some((node, resource, value))
        })
    }

    fn random_node(&mut self) -> Option<String> {
        let place = self.random.usize(0..self.world.nodes.len());
        self.world.nodes.keys().nth(place).cloned()
    }

    /// A kubelet registers after a reboot.
    fn reset(&mut self, control_plane: &ControlPlane, observer: &Observer) -> Result<&'static str> {
        let Some((node, resource, value)) = self.random_value() else { return Ok(NOTHING) };
        let sent = Instant::now();
        let written = self.write_value(control_plane, &node, (resource, value, 0), "kubelet")?;
        let Some(version) = written else { return Ok(NOTHING) };
        observer.expect(Pending { node, resource, value, version, sent });
        Ok("kubelet's reset")
    }

    /// Another client writes another value. If the rule were deleted before the controller sees the value, that client
    /// would own it permanently, so nothing else happens until it is repaired.
    fn overwrite(&mut self, control_plane: &ControlPlane, observer: &Observer) -> Result<&'static str> {
        let Some((node, resource, value)) = self.random_value() else { return Ok(NOTHING) };
        let (key, sent) = ((node.clone(), resource), Instant::now());
        if self.overwritten.get(&key).is_some_and(|last| last.elapsed() < OVERWRITE_PAUSE) {
            return Ok(NOTHING);
        }
        self.overwritten.insert(key, sent);
        let change = (resource, value, value + 1);
        let written = self.write_value(control_plane, &node, change, "somebody")?;
        let Some(version) = written else { return Ok(NOTHING) };
        observer.expect(Pending { node, resource, value, version, sent });
        wait_until("another's value to be overwritten", || {
            observer.follow(control_plane)?;
            Ok(observer.pending().is_none().then_some(()))
        })?;
        Ok("foreign write")
    }

    /// Changes a value on a node as another field manager, and returns the version of the node; `None` if the node does
    /// not have the value yet. A new value would belong to that manager, and remain.
    fn write_value(
        &mut self,
        control_plane: &ControlPlane,
        node: &str,
        (resource, from, to): (&str, i64, i64),
        manager: &str,
    ) -> Result<Option<u64>> {
        let name = resource.replace('/', "~1");
        let operations = ["capacity", "allocatable"].map(|map| {
            let path = format!("/status/{map}/{name}");
            let test = json!({"op": "test", "path": path, "value": from.to_string()});
            [test, json!({"op": "replace", "path": path, "value": to.to_string()})]
        });
        let path = format!("{NODES}/{node}/status?fieldManager={manager}");
        let body = json!(operations.concat());
        let (code, node) = self.request(control_plane, "PATCH", &path, (JSON_PATCH, &body))?;
        match code {
            200 => Ok(Some(version(&node))),
            422 => Ok(None),
            _ => bail!("PATCH {path}: {code}: {node}"),
        }
    }

    fn edit_rule(&mut self, control_plane: &ControlPlane) -> Result<&'static str> {
        let number = self.random.usize(0..2 * RESOURCES.len());
        let name = rule_name(number);
        if self.world.rules.contains_key(&name) {
            let rule = self.random_rule(number);
            let spec = json!({"spec": rule.spec()});
            self.patch(control_plane, &format!("{RULES}/{name}"), MERGE, &spec)?;
            self.world.rules.insert(name, rule);
        }
        Ok("rule edit")
    }

    /// Deletes a rule, or recreates it.
    fn toggle_rule(&mut self, control_plane: &ControlPlane) -> Result<&'static str> {
        let number = self.random.usize(0..2 * RESOURCES.len());
        let name = rule_name(number);
        if !self.world.rules.contains_key(&name) {
            self.create_rule(control_plane, number)?;
            return Ok("rule creation");
        }
        self.send(control_plane, "DELETE", &format!("{RULES}/{name}"), (JSON, &Value::Null))?;
        self.world.rules.remove(&name);
        Ok("rule deletion")
    }

    /// Changes a node's label.
    fn move_node(&mut self, control_plane: &ControlPlane) -> Result<&'static str> {
        if let Some(node) = self.random_node() {
            let pool = self.random.u32(0..POOLS);
            let labels = json!({"metadata": {"labels": world::pool_label(pool)}});
            self.patch(control_plane, &format!("{NODES}/{node}"), MERGE, &labels)?;
            self.world.nodes.insert(node, pool);
        }
        Ok("label change")
    }

    /// Deletes a node and creates another one, with the same or another name.
    fn replace_node(&mut self, control_plane: &ControlPlane) -> Result<&'static str> {
        let Some(node) = self.random_node() else { bail!("no nodes") };
        self.send(control_plane, "DELETE", &format!("{NODES}/{node}"), (JSON, &Value::Null))?;
        self.world.nodes.remove(&node);
        if self.random.bool() {
            self.create_node_named(control_plane, node)?;
            return Ok("node recreation");
        }
        self.create_node(control_plane)?;
        Ok("node replacement")
    }

    fn create_node(&mut self, control_plane: &ControlPlane) -> Result<()> {
        self.created += 1;
        let name = format!("node-{:05}", self.created);
        self.create_node_named(control_plane, name)
    }

    fn create_node_named(&mut self, control_plane: &ControlPlane, name: String) -> Result<()> {
        let pool = self.random.u32(0..POOLS);
        self.send(control_plane, "POST", NODES, (JSON, &world::node(&name, pool)))?;
        self.world.nodes.insert(name, pool);
        Ok(())
    }

    fn create_rule(&mut self, control_plane: &ControlPlane, number: usize) -> Result<()> {
        let (name, rule) = (rule_name(number), self.random_rule(number));
        self.send(control_plane, "POST", RULES, (JSON, &rule.object(&name)))?;
        self.world.rules.insert(name, rule);
        Ok(())
    }

    fn random_rule(&mut self, number: usize) -> Rule {
        let resource = RESOURCES[number % RESOURCES.len()];
        let pool = self.random.bool().then(|| self.random.u32(0..POOLS));
        let quantity = self.random.i64(1..100);
        Rule { resource, quantity, pool, priority: i32::try_from(number).unwrap_or_default() }
    }

    /// Returns the difference from what is declared, if any.
    pub fn difference(&mut self, control_plane: &ControlPlane) -> Result<Option<String>> {
        let list = self.send(control_plane, "GET", NODES, (JSON, &Value::Null))?;
        Ok(self.world.difference(&list))
    }

    fn patch(&mut self, control_plane: &ControlPlane, path: &str, kind: &str, patch: &Value) -> Result<Value> {
        self.send(control_plane, "PATCH", path, (kind, patch))
    }

    /// Sends a request that must succeed.
    fn send(&mut self, control_plane: &ControlPlane, method: &str, path: &str, body: (&str, &Value)) -> Result<Value> {
        let (code, response) = self.request(control_plane, method, path, body)?;
        if !(200..300).contains(&code) {
            bail!("{method} {path}: {code}: {response}");
        }
        Ok(response)
    }

    /// Sends a request, and counts it.
    fn request(
        &mut self,
        control_plane: &ControlPlane,
        method: &str,
        path: &str,
        (kind, body): (&str, &Value),
    ) -> Result<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (code, response) = control_plane.send(method, path, kind, &body)?;
        let resource = if path.starts_with(NODES) { "nodes" } else { "nodeextendedresources" };
        let subresource = if path.contains("/status") { "status" } else { "" };
        // The metric's name for a GET of a collection.
        let verb = if method == "GET" { "LIST" } else { method };
        let kind = [verb, resource, subresource, &code.to_string()].map(str::to_owned);
        *self.requests.entry(kind).or_default() += 1;
        Ok((code, serde_json::from_str(&response).unwrap_or(Value::String(response))))
    }
}

fn rule_name(number: usize) -> String {
    format!("rule-{number}")
}
