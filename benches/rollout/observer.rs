//! A second watch on nodes, on its own thread. It reports when the last node is as desired, for both the
//! baseline and the controller. It reads protobuf, as the scheduler does, so that the API server encodes each event as
//! JSON only if what is measured reads JSON.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::Config;
use kube::runtime::watcher::Event;
use node_resource_advertiser::cluster::client::with_config;
use node_resource_advertiser::cluster::protobuf;
use node_resource_advertiser::model::node::{Interner, Node};
use tokio::sync::watch;

use crate::cluster::{LOWERED, QUANTITY, RAISED, RESOURCE, watch_nodes};

/// The observed state so far.
#[derive(Clone, Debug)]
pub struct Seen {
    pub listed: bool,
    /// The number of nodes in each state.
    pub counts: BTreeMap<State, usize>,
    /// How many times all nodes have become [`State::Advertised`].
    pub completions: u64,
    /// How many times the value of a node has gone down.
    pub drops: u64,
    /// The time of the last change.
    pub at: Instant,
}

/// What a node shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    state: Option<State>,
    value: Option<i64>,
}

impl Shown {
    fn by(node: &Node) -> Self {
        let value = node.allocatable.as_ref().and_then(|map| map.get(RESOURCE)?.parse().ok());
        Self { state: State::of(node), value }
    }
}

pub struct Observer {
    seen: watch::Receiver<Seen>,
    node_count: usize,
}

/// The state that all nodes must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The rule's quantity in both maps, and a ledger.
    Advertised,
    /// The raised quantity in both maps, and a ledger.
    Raised,
    /// The lowered quantity in both maps, and a ledger.
    Lowered,
    /// Neither a value nor a ledger.
    Vacant,
}

impl State {
    /// `None` if a node is between two states, or another field manager has changed it.
    pub fn of(node: &Node) -> Option<Self> {
        [Self::Advertised, Self::Raised, Self::Lowered, Self::Vacant].into_iter().find(|state| state.is_of(node))
    }

    fn is_of(self, node: &Node) -> bool {
        let quantity = self.quantity().map(|quantity| quantity.to_string());
        let amounts = [&node.capacity, &node.allocatable];
        let amounts = amounts.map(|map| map.as_ref().and_then(|map| map.get(RESOURCE)));
        amounts.iter().all(|amount| *amount == quantity.as_deref()) && node.ledger.is_some() == quantity.is_some()
    }

    /// The rule's quantity; `None` without a rule.
    pub fn quantity(self) -> Option<i64> {
        match self {
            Self::Advertised => Some(QUANTITY),
            Self::Raised => Some(RAISED),
            Self::Lowered => Some(LOWERED),
            Self::Vacant => None,
        }
    }
}

impl Observer {
    /// Opens the watch, and waits until all nodes have been listed.
    pub async fn start(config: Config, node_count: usize) -> Result<Self> {
        let counts = BTreeMap::new();
        let nothing = Seen { listed: false, counts, completions: 0, drops: 0, at: Instant::now() };
        let (sender, seen) = watch::channel(nothing);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("observer".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(observe(config, node_count, &sender)) {
                eprintln!("error: the observer: {error:#}");
            }
        })?;
        let observer = Self { seen, node_count };
        let listed = observer.wait("the observer to list the nodes", Duration::from_secs(60), |seen| seen.listed);
        listed.await?;
        Ok(observer)
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until all nodes are in one state. Returns the time at which the last node reached it.
    pub async fn wait_all(&self, state: State, deadline: Duration) -> Result<Instant> {
        self.wait_count(state, self.node_count, deadline).await
    }

    /// Waits until so many nodes are in one state. Returns the time at which the last of them reached it.
    pub async fn wait_count(&self, state: State, count: usize, deadline: Duration) -> Result<Instant> {
        let what = match state {
            State::Advertised => "nodes to have the quantity",
            State::Raised => "nodes to have the higher quantity",
            State::Lowered => "nodes to have the lower quantity",
            State::Vacant => "nodes to have none of it",
        };
        self.wait(&format!("{count} {what}"), deadline, |seen| seen.count(state) == count).await
    }

    /// Waits until all nodes have the quantity again after one of them lost it. Returns that time.
    pub async fn wait_complete(&self, before: &Seen, deadline: Duration) -> Result<Instant> {
        let is_complete = |seen: &Seen| seen.completions > before.completions;
        self.wait("all nodes to have the quantity again", deadline, is_complete).await
    }

    /// Waits until the value of a node has gone down. Returns that time.
    pub async fn wait_drop(&self, before: &Seen, deadline: Duration) -> Result<Instant> {
        self.wait("the value of a node to go down", deadline, |seen| seen.drops > before.drops).await
    }

    async fn wait(&self, what: &str, deadline: Duration, is_so: impl Fn(&Seen) -> bool) -> Result<Instant> {
        let mut receiver = self.seen.clone();
        let seen = tokio::time::timeout(deadline, receiver.wait_for(is_so)).await;
        let seen = seen.with_context(|| format!("waited {deadline:?} in vain for {what}; seen: {:?}", self.seen()))?;
        Ok(seen.context("the observer has ended")?.at)
    }
}

async fn observe(config: Config, node_count: usize, sender: &watch::Sender<Seen>) -> Result<()> {
    let client = protobuf::client(&with_config(config).await?, protobuf::Objects::Nodes);
    let mut events = pin!(watch_nodes(&client));
    let mut closed = pin!(sender.closed());
    let mut strings = Interner::default();
    let mut shown = HashMap::<Arc<str>, Shown>::new();
    loop {
        let event = tokio::select! {
            () = &mut closed => return Ok(()),
            event = events.next() => event.context("the watch has ended")?,
        };
        match event {
            // Deletions before a list would be missed, but nothing is deleted while this runs.
            Ok(Event::Init) => {}
            Ok(Event::InitDone) => sender.send_modify(|seen| seen.listed = true),
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                let node = Node::new(node, &mut strings);
                let now = Shown::by(&node);
                let before = shown.insert(node.name, now).unwrap_or_default();
                sender.send_if_modified(|seen| seen.change(before, now, node_count));
            }
            Ok(Event::Delete(node)) => {
                let node = Node::new(node, &mut strings);
                let before = shown.remove(&node.name).unwrap_or_default();
                sender.send_if_modified(|seen| seen.change(before, Shown::default(), node_count));
            }
            Err(error) => eprintln!("    the observer's watch: {error}"),
        }
    }
}

impl Seen {
    fn count(&self, state: State) -> usize {
        self.counts.get(&state).copied().unwrap_or(0)
    }

    /// Moves a node from what it showed to what it shows now, and returns whether they differ. A node that does not exist
    /// shows nothing.
    fn change(&mut self, before: Shown, now: Shown, node_count: usize) -> bool {
        if before == now {
            return false;
        }
        let is_lower = before.value.zip(now.value).is_some_and(|(before, now)| now < before);
        self.drops += u64::from(is_lower);
        self.at = Instant::now();
        if before.state == now.state {
            return true;
        }
        if let Some(before) = before.state {
            *self.counts.entry(before).or_default() -= 1;
        }
        if let Some(now) = now.state {
            *self.counts.entry(now).or_default() += 1;
        }
        let is_complete = now.state == Some(State::Advertised) && self.count(State::Advertised) == node_count;
        self.completions += u64::from(is_complete);
        true
    }
}
