//! Sees repairs in a watch, and how long each took.

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

/// A value that is to come back.
#[derive(Clone, Debug)]
pub struct Pending {
    pub node: String,
    pub resource: &'static str,
    pub value: i64,
    /// The version of the node that the reset led to.
    pub version: u64,
    /// When the reset was sent.
    pub sent: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// Each node as it was seen last, and when.
    nodes: BTreeMap<String, (Instant, Value)>,
    pending: Vec<Pending>,
    repaired: Vec<(Instant, Duration)>,
    watches: u64,
    ended: u64,
}

/// A watch on a thread of its own.
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

    /// Opens a watch where there is none: at the start, and where the API server has ended it.
    pub fn follow(&self, control_plane: &ControlPlane) -> Result<()> {
        let mut state = lock(&self.state);
        if state.watches == state.ended {
            let events = control_plane.watch("/api/v1/nodes?watch=true")?;
            state.watches += 1;
            self.watches.send(Box::new(events)).ok().context("the observer has ended")?;
        }
        Ok(())
    }

    /// Waits for a value to come back, which may have happened already.
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

    /// Waits no more for what is no longer declared.
    pub fn retain(&self, is_declared: impl Fn(&Pending) -> bool) {
        lock(&self.state).pending.retain(is_declared);
    }

    /// Whether a reset has not been repaired so far.
    pub fn pending(&self) -> Option<Pending> {
        lock(&self.state).pending.first().cloned()
    }

    /// Returns when resets were sent whose repairs have been seen since the last call, and how long these took.
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

/// Returns an object's version: these grow with time on a server of etcd.
pub fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
