//! Observes repairs in a watch, and measures how long each took.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use harness::ControlPlane;
use harness::objects::quantity;
use serde_json::Value;

type Events = Box<dyn Iterator<Item = Value> + Send>;

/// A value that must be repaired.
#[derive(Clone, Debug)]
pub struct Pending {
    pub node: String,
    pub resource: &'static str,
    pub value: i64,
    /// The version of the node after the reset.
    pub version: u64,
    /// The time at which the reset was sent.
    pub sent: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// The last observed state of each node, and its time.
    nodes: BTreeMap<String, (Instant, Value)>,
    pending: Vec<Pending>,
    repaired: Vec<(Instant, Duration)>,
    watches: u64,
    ended: u64,
}

/// A watch on its own thread.
pub struct Observer {
    state: Arc<Mutex<State>>,
    watches: Sender<Events>,
}

impl Observer {
    pub fn start() -> Result<Self> {
        let state = Arc::<Mutex<State>>::default();
        let (watches, received): (_, Receiver<Events>) = channel();
        let seen = Arc::clone(&state);
        thread::Builder::new().name("observer".to_owned()).spawn(move || {
            for events in received {
                events.for_each(|event| lock(&seen).observe(event));
                lock(&seen).ended += 1;
            }
        })?;
        Ok(Self { state, watches })
    }

    /// Opens a watch if none is open: at the start, and after the API server has ended it.
    pub fn follow(&self, control_plane: &ControlPlane) -> Result<()> {
        let mut state = lock(&self.state);
        if state.watches == state.ended {
            let events = control_plane.watch("/api/v1/nodes?watch=true")?;
            state.watches += 1;
            self.watches.send(Box::new(events)).ok().context("the observer has ended")?;
        }
        Ok(())
    }

    /// Registers a value whose repair is expected; it may already have happened.
    pub fn expect(&self, pending: Pending) {
        let mut state = lock(&self.state);
        let seen = state.nodes.get(&pending.node);
        match seen.filter(|(_, node)| pending.is_met_by(node)) {
            Some((at, _)) => {
                let took = at.saturating_duration_since(pending.sent);
                state.repaired.push((pending.sent, took));
            }
            None => state.pending.push(pending),
        }
    }

    /// Removes values that are no longer declared.
    pub fn retain(&self, is_declared: impl Fn(&Pending) -> bool) {
        lock(&self.state).pending.retain(is_declared);
    }

    /// Returns whether a reset has not been repaired yet.
    pub fn pending(&self) -> Option<Pending> {
        lock(&self.state).pending.first().cloned()
    }

    /// Returns the resets whose repairs were observed since the last call: when they were sent, and how long the repair
    /// took.
    pub fn take_repaired(&self) -> Vec<(Instant, Duration)> {
        std::mem::take(&mut lock(&self.state).repaired)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn observe(&mut self, mut event: Value) {
        let (now, node) = (Instant::now(), event["object"].take());
        let Some(name) = node["metadata"]["name"].as_str().map(str::to_owned) else { return };
        if event["type"] == "DELETED" {
            self.nodes.remove(&name);
            return;
        }
        let met = |pending: &mut Pending| pending.node == name && pending.is_met_by(&node);
        let met = self.pending.extract_if(.., met);
        self.repaired.extend(met.map(|pending| (pending.sent, now - pending.sent)));
        self.nodes.insert(name, (now, node));
    }
}

impl Pending {
    fn is_met_by(&self, node: &Value) -> bool {
        let value = self.value.to_string();
        let maps = ["capacity", "allocatable"].map(|map| quantity(node, map, self.resource));
        version(node) > self.version && maps == [Some(&*value); 2]
    }
}

/// Returns an object's version, which increases over time with etcd.
pub fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
