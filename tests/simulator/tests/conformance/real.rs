//! Runs operations on the real server.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use harness::{ControlPlane, wait_until};
use hyper::Method;
use serde_json::{Value, json};
use simulator::{Key, Kind};

use crate::client::{Client, Message, Stream};
use crate::exchange::{Exchanges, collection};
use crate::history::History;
use crate::mask;
use crate::operation::{Operation, Query};

/// The compared kinds.
pub(crate) const KINDS: [Kind; 5] = [Kind::Node, Kind::Pod, Kind::Rule, Kind::Lease, Kind::Event];

/// A kube-apiserver, during one episode.
pub(crate) struct Real<'a> {
    client: &'a Client,
    control_plane: &'a ControlPlane,
    exchanges: Exchanges,
    watches: BTreeMap<usize, (Kind, Stream)>,
    /// Deadline of an event.
    wait: Duration,
}

impl<'a> Real<'a> {
    /// Begins an episode with an observer for each kind, which must be open before the first write.
    pub(crate) fn new(client: &'a Client, control_plane: &'a ControlPlane, wait: Duration) -> Result<Self> {
        let version = || {
            let url = format!("{}{}?limit=1", control_plane.url(), collection(Kind::Node, None));
            let (_, list) = client.send(Message::new(Method::GET, url, None))?;
            let version = list["metadata"]["resourceVersion"].as_str().map(str::to_owned);
            version.context("a list has a version")
        };
        wait_until("the API server to write nothing by itself", || {
            let before = version()?;
            let exchanges = Exchanges::since(&before);
            let mut real = Self { client, control_plane, exchanges, watches: BTreeMap::new(), wait };
            for kind in KINDS {
                real.perform(&observe(kind), 0)?;
            }
            Ok((version()? == before).then_some(real))
        })
    }

    /// Performs an operation; `events` is the number of events that a watch must show.
    pub(crate) fn perform(&mut self, operation: &Operation, events: usize) -> Result<Value> {
        match operation {
            Operation::ReadWatch { slot } => return self.read_watch(*slot, events),
            Operation::Compact { at } => {
                self.control_plane.compact_etcd_to(self.exchanges.history.compact(*at))?;
                return Ok(Value::Null);
            }
            _ => {}
        }
        let Some(message) = self.exchanges.message(operation) else { return Ok(Value::Null) };
        let path = message.url.clone();
        let message = Message { url: format!("{}{path}", self.control_plane.url()), ..message };
        if let Operation::Watch { slot, kind, .. } = operation {
            return match self.client.watch(message.url)? {
                Ok(stream) => {
                    self.watches.insert(*slot, (*kind, stream));
                    Ok(Value::Null)
                }
                Err((code, body)) => bail!("a watch cannot be opened: {code}: {body}"),
            };
        }
        let (code, body) = self.client.send(message)?;
        match (operation, code) {
            (Operation::Delete { kind, key, .. }, 200) => self.note_shown(*kind, key, "DELETED")?,
            (Operation::Bind { key, .. }, 201) => self.note_shown(Kind::Pod, key, "MODIFIED")?,
            _ => {}
        }
        Ok(self.exchanges.compared(operation, path, (code, &body)))
    }

    /// Only a watch shows the version of a deletion or a binding; no response contains it. An earlier pod of the same name
    /// was modified too, when it was marked as deleted.
    fn note_shown(&mut self, kind: Kind, key: &Key, change: &str) -> Result<()> {
        let (_, observer) = self.watches.get_mut(&observer(kind)).context("an observer")?;
        let history = &mut self.exchanges.history;
        let mut seen = 0;
        loop {
            for event in observer.events.range(seen..) {
                let is_it = event["type"] == change && Key::of(&event["object"]) == *key;
                let version = event["object"]["metadata"]["resourceVersion"].as_str();
                if is_it && version.is_some_and(|version| history.is_next(version)) {
                    history.note(kind, key, &event["object"]);
                    return Ok(());
                }
            }
            seen = observer.events.len();
            if !self.client.next(observer, self.wait) {
                bail!("no watch shows {} {key} as {change}", kind.name());
            }
        }
    }

    fn read_watch(&mut self, slot: usize, events: usize) -> Result<Value> {
        let Some((kind, stream)) = self.watches.get_mut(&slot) else { return Ok(Value::Null) };
        while stream.events.len() < events && self.client.next(stream, self.wait) {}
        // And unexpected events that have already arrived.
        while self.client.next(stream, Duration::ZERO) {}
        let shown: Vec<_> =
            stream.events.drain(..).map(|event| shown(&event, *kind, &self.exchanges.history)).collect();
        if shown.iter().any(|event| event["type"] == "ERROR") {
            self.watches.remove(&slot);
        }
        Ok(json!(shown))
    }

    /// Ends a watch.
    pub(crate) fn close(&mut self, slot: usize) {
        self.watches.remove(&slot);
    }
}

/// The slot of the watch of all objects of a kind.
pub(crate) fn observer(kind: Kind) -> usize {
    100 + KINDS.iter().position(|other| *other == kind).unwrap_or(KINDS.len())
}

/// Opens the watch of all objects of a kind.
pub(crate) fn observe(kind: Kind) -> Operation {
    // The server writes its own Leases and Events.
    let fields = match kind {
        Kind::Lease => "metadata.namespace!=kube-system",
        Kind::Event => "reason=Advertised",
        _ => "",
    };
    let query = Query { fields: fields.to_owned(), ..Query::default() };
    Operation::Watch { slot: observer(kind), kind, query, after: 0 }
}

/// Returns the compared form of a watch event.
pub(crate) fn shown(event: &Value, kind: Kind, history: &History) -> Value {
    let object = if event["type"] == "ERROR" {
        mask::status(&event["object"], history)
    } else {
        mask::object(&event["object"], kind, history)
    };
    json!({"type": event["type"], "object": object})
}
