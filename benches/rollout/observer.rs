//! A second watch on nodes, on a thread of its own: it tells when the last node is as wanted, of
//! the floor and of the controller alike.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::Config;
use kube::runtime::watcher::Event;
use node_resource_advertiser::cluster::client::with_config;
use node_resource_advertiser::model::node::{Node, Strings};
use tokio::sync::watch;

use crate::cluster::{QUANTITY, RESOURCE, watch_nodes};

/// What has been seen so far.
#[derive(Clone, Debug)]
pub struct Seen {
    pub listed: bool,
    /// Nodes that have the quantity in both maps, and a ledger.
    pub advertised: usize,
    /// Nodes that have nothing of it.
    pub vacant: usize,
    /// How often `advertised` has come to be all nodes.
    pub completions: u64,
    /// When any of this last changed.
    pub at: Instant,
}

pub struct Observer {
    seen: watch::Receiver<Seen>,
    nodes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Advertised,
    Vacant,
    Between,
}

impl State {
    pub fn of(node: &Node) -> Self {
        let amounts = [&node.capacity, &node.allocatable];
        let amounts = amounts.map(|map| map.as_ref().and_then(|map| map.get(RESOURCE)));
        let quantity = QUANTITY.to_string();
        match (amounts, &node.ledger) {
            ([None, None], None) => Self::Vacant,
            ([Some(capacity), Some(allocatable)], Some(_))
                if capacity == quantity && allocatable == quantity =>
            {
                Self::Advertised
            }
            _ => Self::Between,
        }
    }
}

impl Observer {
    /// Opens the watch, and waits until all nodes have been listed.
    pub async fn start(config: Config, nodes: usize) -> Result<Self> {
        let nothing =
            Seen { listed: false, advertised: 0, vacant: 0, completions: 0, at: Instant::now() };
        let (sender, seen) = watch::channel(nothing);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("observer".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(observe(config, nodes, &sender)) {
                eprintln!("error: the observer: {error:#}");
            }
        })?;
        let observer = Self { seen, nodes };
        let listed =
            observer.wait("the observer to list the nodes", Duration::from_secs(60), |seen| {
                seen.listed
            });
        listed.await?;
        Ok(observer)
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until all nodes have the quantity; when the last one did.
    pub async fn wait_advertised(&self, deadline: Duration) -> Result<Instant> {
        self.wait("all nodes to have the quantity", deadline, |seen| seen.advertised == self.nodes)
            .await
    }

    /// Waits until no node has any of it; when the last one did.
    pub async fn wait_vacant(&self, deadline: Duration) -> Result<Instant> {
        self.wait("no node to have any of it", deadline, |seen| seen.vacant == self.nodes).await
    }

    /// Waits until all nodes have come to have the quantity once more than `before`; when.
    pub async fn wait_repaired(&self, before: &Seen, deadline: Duration) -> Result<Instant> {
        let repaired = |seen: &Seen| seen.completions > before.completions;
        self.wait("the node to be repaired", deadline, repaired).await
    }

    async fn wait(
        &self,
        what: &str,
        deadline: Duration,
        test: impl Fn(&Seen) -> bool,
    ) -> Result<Instant> {
        let mut receiver = self.seen.clone();
        let seen = tokio::time::timeout(deadline, receiver.wait_for(test)).await;
        let seen = seen.with_context(|| {
            format!("waited {deadline:?} in vain for {what}; seen: {:?}", self.seen())
        })?;
        Ok(seen.context("the observer has ended")?.at)
    }
}

async fn observe(config: Config, nodes: usize, sender: &watch::Sender<Seen>) -> Result<()> {
    let client = with_config(config)?;
    let mut events = pin!(watch_nodes(&client));
    let mut closed = pin!(sender.closed());
    let mut strings = Strings::default();
    let mut states = HashMap::<Arc<str>, State>::new();
    loop {
        let event = tokio::select! {
            () = &mut closed => return Ok(()),
            event = events.next() => event.context("the watch has ended")?,
        };
        match event {
            Ok(Event::Init) => states.clear(),
            Ok(Event::InitDone) => sender.send_modify(|seen| seen.listed = true),
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                let node = Node::new(node, &mut strings);
                let state = State::of(&node);
                let before = states.insert(node.name, state);
                sender.send_if_modified(|seen| seen.change(before, state, nodes));
            }
            Ok(Event::Delete(_)) => {}
            Err(error) => eprintln!("    the observer's watch: {error}"),
        }
    }
}

impl Seen {
    /// A node was in one state, and is in another now; true where that is so.
    fn change(&mut self, before: Option<State>, now: State, nodes: usize) -> bool {
        if before == Some(now) {
            return false;
        }
        match before {
            Some(State::Advertised) => self.advertised -= 1,
            Some(State::Vacant) => self.vacant -= 1,
            Some(State::Between) | None => {}
        }
        match now {
            State::Advertised => self.advertised += 1,
            State::Vacant => self.vacant += 1,
            State::Between => {}
        }
        self.completions += u64::from(now == State::Advertised && self.advertised == nodes);
        self.at = Instant::now();
        true
    }
}
