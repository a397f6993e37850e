//! Runs operations on the model.

use std::collections::BTreeMap;

use hyper::Request;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use simulator::{Answer, ApiServer, Call, Failure, Key, Kind, ListOptions, Subresource, Watch, WatchEvent, Writer};

use crate::client::Message;
use crate::exchange::Exchanges;
use crate::operation::{NOBODY, Operation};
use crate::real::{KINDS, shown};

/// The model, during one episode. Requests pass through its HTTP parser.
pub(crate) struct Model {
    pub(crate) server: ApiServer,
    exchanges: Exchanges,
    watches: BTreeMap<usize, (Kind, Watch)>,
}

impl Model {
    pub(crate) fn new(has_watch_cache: bool) -> Self {
        let mut server = if has_watch_cache { ApiServer::default() } else { ApiServer::without_watch_cache() };
        // As on any server, there is an earlier write: in HTTP, version 0 means no version.
        let node = json!({"metadata": {"name": "gone"}});
        server.create(Kind::Node, node, &Writer::new("kubectl")).expect("a node");
        server.delete(Kind::Node, &Key::named("gone"), None).expect("the node is there");
        let exchanges = Exchanges::since(&server.version().to_string());
        Self { server, exchanges, watches: BTreeMap::new() }
    }

    /// Performs an operation.
    pub(crate) fn perform(&mut self, operation: &Operation) -> Value {
        match operation {
            Operation::ReadWatch { slot } => return self.read_watch(*slot),
            Operation::Compact { at } => {
                let version = self.exchanges.history.compact(*at).parse().unwrap_or_default();
                self.server.compact(version);
                return Value::Null;
            }
            _ => {}
        }
        let Some(message) = self.exchanges.message(operation) else { return Value::Null };
        let path = message.url.clone();
        // The model does not check permissions.
        if let Operation::Denied { kind, subresource, key } = operation {
            let status = if *subresource == Subresource::Status { "/status" } else { "" };
            let resource = format!("{}{status}", kind.plural());
            let Failure { code, status, .. } = Failure::forbidden(NOBODY, "patch", &resource, *kind, key);
            return self.exchanges.compared(operation, path, (code, &status));
        }
        let (code, body) = match (operation, self.answer(message)) {
            (Operation::Watch { slot, .. }, Answer::Watch(watch)) => {
                self.watches.insert(*slot, (watch.kind, watch.watch));
                return Value::Null;
            }
            (_, Answer::Object(code, body)) => (code, body),
            (_, Answer::Failure(failure)) => (failure.code, failure.status),
            (_, Answer::Watch(_)) => (200, json!("a watch")),
        };
        let shown_later = match (operation, code) {
            (Operation::Delete { kind, key, .. }, 200) => Some((*kind, key)),
            (Operation::Bind { key, .. }, 201) => Some((Kind::Pod, key)),
            _ => None,
        };
        if let Some((kind, key)) = shown_later {
            let version = self.server.version().to_string();
            self.exchanges.history.note(kind, key, &json!({"metadata": {"resourceVersion": version}}));
        }
        self.exchanges.compared(operation, path, (code, &body))
    }

    fn answer(&mut self, message: Message) -> Answer {
        let Message { method, url, body, user: _, accept: _ } = message;
        let mut request = Request::builder().method(method).uri(url);
        let mut bytes = Bytes::new();
        if let Some((content_type, body)) = body {
            request = request.header(CONTENT_TYPE, content_type);
            bytes = body.to_string().into();
        }
        let request = request.body(bytes).expect("a request");
        match Call::read(&request) {
            Ok(call) => call.answer(&mut self.server),
            Err(failure) => Answer::Failure(failure),
        }
    }

    fn read_watch(&mut self, slot: usize) -> Value {
        let Some((kind, watch)) = self.watches.get_mut(&slot) else { return Value::Null };
        let mut events = Vec::new();
        while !matches!(events.last(), Some(WatchEvent::Error(_)))
            && let Some(event) = self.server.next_event(watch)
        {
            events.push(event);
        }
        let kind = *kind;
        if matches!(events.last(), Some(WatchEvent::Error(_))) {
            self.watches.remove(&slot);
        }
        events.iter().map(|event| shown(&event.to_json(kind), kind, &self.exchanges.history)).collect()
    }

    /// Ends a watch.
    pub(crate) fn close(&mut self, slot: usize) {
        self.watches.remove(&slot);
    }

    /// Returns the keys of existing objects.
    pub(crate) fn keys(&self) -> Vec<(Kind, Key)> {
        let lists = KINDS.map(|kind| (kind, self.server.list(kind, &ListOptions::default())));
        let lists = lists.into_iter().filter_map(|(kind, list)| Some((kind, list.ok()?.items)));
        lists.flat_map(|(kind, items)| items.into_iter().map(move |item| (kind, Key::of(&item)))).collect()
    }

    /// Returns the current object.
    pub(crate) fn object(&self, kind: Kind, key: &Key) -> Value {
        self.server.get(kind, key).map_or(Value::Null, |object| (*object).clone())
    }
}
