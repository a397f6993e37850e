//! A second watch on nodes, on a thread of its own. It reports when the last node is as desired, for
//! the baseline and for the controller alike.

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
use node_resource_advertiser::model::node::{Interner, Node};
use tokio::sync::watch;

use crate::cluster::{QUANTITY, RESOURCE, watch_nodes};

/// What has been seen so far.
#[derive(Clone, Debug)]
pub struct Seen {
    pub listed: bool,
    /// Nodes that have the quantity in both maps, and a ledger.
    pub advertised: usize,
    /// Nodes that have neither a value nor a ledger.
    pub vacant: usize,
    /// How often `advertised` has become all nodes.
    pub completions: u64,
    /// When any of this last changed.
    pub at: Instant,
}

pub struct Observer {
    seen: watch::Receiver<Seen>,
    node_count: usize,
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
    pub async fn start(config: Config, node_count: usize) -> Result<Self> {
        let nothing =
            Seen { listed: false, advertised: 0, vacant: 0, completions: 0, at: Instant::now() };
        let (sender, seen) = watch::channel(nothing);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("observer".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(observe(config, node_count, &sender)) {
                eprintln!("error: the observer: {error:#}");
            }
        })?;
        let observer = Self { seen, node_count };
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

    /// Waits until all nodes have the quantity. Returns when the last one did.
    pub async fn wait_advertised(&self, deadline: Duration) -> Result<Instant> {
        self.wait("all nodes to have the quantity", deadline, |seen| {
            seen.advertised == self.node_count
        })
        .await
    }

    /// Waits until no node has any of it. Returns when the last one lost it.
    pub async fn wait_vacant(&self, deadline: Duration) -> Result<Instant> {
        self.wait("no node to have any of it", deadline, |seen| seen.vacant == self.node_count)
            .await
    }

    /// Waits until all nodes have the quantity again, after one of them had not. Returns when.
    pub async fn wait_complete(&self, before: &Seen, deadline: Duration) -> Result<Instant> {
        let is_complete = |seen: &Seen| seen.completions > before.completions;
        self.wait("all nodes to have the quantity again", deadline, is_complete).await
    }

    async fn wait(
        &self,
        what: &str,
        deadline: Duration,
        is_so: impl Fn(&Seen) -> bool,
    ) -> Result<Instant> {
        let mut receiver = self.seen.clone();
        let seen = tokio::time::timeout(deadline, receiver.wait_for(is_so)).await;
        let seen = seen.with_context(|| {
            format!("waited {deadline:?} in vain for {what}; seen: {:?}", self.seen())
        })?;
        Ok(seen.context("the observer has ended")?.at)
    }
}

async fn observe(config: Config, node_count: usize, sender: &watch::Sender<Seen>) -> Result<()> {
    let client = with_config(config)?;
    let mut events = pin!(watch_nodes(&client));
    let mut closed = pin!(sender.closed());
    let mut strings = Interner::default();
    let mut states = HashMap::<Arc<str>, State>::new();
    loop {
        let event = tokio::select! {
            () = &mut closed => return Ok(()),
            event = events.next() => event.context("the watch has ended")?,
        };
        match event {
            // What a list no longer has would be missed; nothing is deleted while it runs.
            Ok(Event::Init) => {}
            Ok(Event::InitDone) => sender.send_modify(|seen| seen.listed = true),
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                let node = Node::new(node, &mut strings);
                let state = State::of(&node);
                let before = states.insert(node.name, state);
                sender.send_if_modified(|seen| seen.change(before, Some(state), node_count));
            }
            Ok(Event::Delete(node)) => {
                let node = Node::new(node, &mut strings);
                let before = states.remove(&node.name);
                sender.send_if_modified(|seen| seen.change(before, None, node_count));
            }
            Err(error) => eprintln!("    the observer's watch: {error}"),
        }
    }
}

impl Seen {
    /// Moves a node from one state to another, and returns whether they differ. A node that does not
    /// exist has none.
    fn change(&mut self, before: Option<State>, now: Option<State>, node_count: usize) -> bool {
        if before == now {
            return false;
        }
        match before {
            Some(State::Advertised) => self.advertised -= 1,
            Some(State::Vacant) => self.vacant -= 1,
            Some(State::Between) | None => {}
        }
        match now {
            Some(State::Advertised) => self.advertised += 1,
            Some(State::Vacant) => self.vacant += 1,
            Some(State::Between) | None => {}
        }
        let is_complete = now == Some(State::Advertised) && self.advertised == node_count;
        self.completions += u64::from(is_complete);
        self.at = Instant::now();
        true
    }
}
