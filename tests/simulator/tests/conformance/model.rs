//! The model.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use simulator::{
    ApiServer, Failure, Key, Kind, ListOptions, PatchBody, Selector, Subresource, Watch,
    WatchEvent, Writer,
};

use crate::history::History;
use crate::mask;
use crate::operation::{NOBODY, Operation};
use crate::real::{KINDS, listed, shown};

/// The model, during one episode.
pub(crate) struct Model {
    pub(crate) server: ApiServer,
    history: History,
    page: Option<(Kind, ListOptions, bool)>,
    watches: BTreeMap<usize, (Kind, Watch)>,
}

impl Model {
    pub(crate) fn new(has_watch_cache: bool) -> Self {
        let server =
            if has_watch_cache { ApiServer::default() } else { ApiServer::without_watch_cache() };
        let history = History::since("0");
        Self { server, history, page: None, watches: BTreeMap::new() }
    }

    /// Performs an operation.
    pub(crate) fn perform(&mut self, operation: &Operation) -> Value {
        match operation {
            Operation::Get { kind, key } => {
                let result = self.server.get(*kind, key);
                self.written((*kind, key), 200, result.map(|object| (*object).clone()))
            }
            Operation::Create { kind, object, manager } => {
                let result = self.server.create(*kind, object.clone(), &Writer::new(*manager));
                let result = result.map(|object| (*object).clone());
                self.written((*kind, &Key::of(object)), 201, result)
            }
            Operation::Replace { kind, subresource, object, manager } => {
                let key = Key::of(object);
                let object = self.history.resolve(object, *kind, &key);
                let is_new = self.server.get(*kind, &key).is_err();
                let writer = Writer::new(*manager);
                let result = self.server.replace(*kind, *subresource, object, &writer);
                let result = result.map(|object| (*object).clone());
                self.written((*kind, &key), if is_new { 201 } else { 200 }, result)
            }
            Operation::Patch { target: (kind, subresource, key), patch, manager, dry_run } => {
                let patch = match patch {
                    PatchBody::Json(patch) => {
                        PatchBody::Json(self.history.resolve(patch, *kind, key))
                    }
                    PatchBody::Merge(patch) => {
                        PatchBody::Merge(self.history.resolve(patch, *kind, key))
                    }
                };
                let writer = Writer::new(*manager);
                let result = if *dry_run {
                    self.server.dry_run_patch(*kind, *subresource, key, &patch, &writer)
                } else {
                    self.server.patch(*kind, *subresource, key, &patch, &writer)
                };
                self.written((*kind, key), 200, result.map(|object| (*object).clone()))
            }
            Operation::Denied { kind, subresource, key } => {
                let status = if *subresource == Subresource::Status { "/status" } else { "" };
                let resource = format!("{}{status}", kind.plural());
                self.failed(&Failure::forbidden(NOBODY, "patch", &resource, *kind, key))
            }
            Operation::Delete { kind, key, uid } => {
                let uid = uid.as_ref().map(|uid| self.history.resolve(uid, *kind, key));
                let uid = uid.as_ref().and_then(Value::as_str);
                match self.server.delete(*kind, key, uid) {
                    Ok(()) => {
                        let version = self.server.version().to_string();
                        let deleted = json!({"metadata": {"resourceVersion": version}});
                        self.history.note(*kind, key, &deleted);
                        json!({"code": 200})
                    }
                    Err(failure) => self.failed(&failure),
                }
            }
            Operation::List { kind, query, limit, at } => {
                let selector = self.selector(&query.fields, &query.labels, query.namespace);
                let at = at.and_then(|at| self.history.version(at).parse().ok());
                let options = ListOptions { selector, limit: *limit, token: None, at };
                self.list(*kind, options, query.is_selective())
            }
            Operation::NextPage => match self.page.take() {
                Some((kind, options, is_selective)) => self.list(kind, options, is_selective),
                None => Value::Null,
            },
            Operation::Watch { slot, kind, query, after } => {
                let selector = self.selector(&query.fields, &query.labels, query.namespace);
                let after = self.history.version_to_watch(*after).parse().unwrap_or_default();
                let watch = self.server.watch(*kind, selector, after);
                self.watches.insert(*slot, (*kind, watch));
                Value::Null
            }
            Operation::ReadWatch { slot } => self.read_watch(*slot),
            Operation::Compact { at } => {
                let version = self.history.compact(*at).parse().unwrap_or_default();
                self.server.compact(version);
                Value::Null
            }
        }
    }

    fn selector(&self, fields: &str, labels: &str, namespace: Option<&str>) -> Selector {
        let selector = Selector::parse(fields, labels).expect("a selector that can be parsed");
        match namespace {
            Some(namespace) => selector.in_namespace(namespace),
            None => selector,
        }
    }

    fn written(
        &mut self,
        (kind, key): (Kind, &Key),
        code: u16,
        result: Result<Value, Failure>,
    ) -> Value {
        match result {
            Ok(object) => {
                self.history.note(kind, key, &object);
                json!({"code": code, "body": mask::object(&object, kind, &self.history)})
            }
            Err(failure) => self.failed(&failure),
        }
    }

    fn failed(&self, failure: &Failure) -> Value {
        json!({"code": failure.code, "body": mask::status(&failure.status, &self.history)})
    }

    fn list(&mut self, kind: Kind, options: ListOptions, is_selective: bool) -> Value {
        self.page = None;
        match self.server.list(kind, &options) {
            Ok(list) => {
                let items = list.items.iter();
                let items = items.map(|item| mask::object(item, kind, &self.history)).collect();
                let version = self.history.number(&list.version.to_string());
                let remaining = (u64::try_from(list.remaining).unwrap_or(u64::MAX), is_selective);
                let result = listed(version, items, list.next.is_some(), remaining);
                if let Some(token) = list.next {
                    let options = ListOptions { token: Some(token), ..options };
                    self.page = Some((kind, options, is_selective));
                }
                result
            }
            Err(failure) => {
                if let Some(token) = failure.status["metadata"]["continue"].as_str() {
                    let options = ListOptions { token: Some(token.to_owned()), ..options };
                    self.page = Some((kind, options, is_selective));
                }
                self.failed(&failure)
            }
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
        events.iter().map(|event| shown(&event.to_json(kind), kind, &self.history)).collect()
    }

    /// Ends a watch.
    pub(crate) fn close(&mut self, slot: usize) {
        self.watches.remove(&slot);
    }

    /// Returns which objects there are.
    pub(crate) fn keys(&self) -> Vec<(Kind, Key)> {
        let lists = KINDS.map(|kind| (kind, self.server.list(kind, &ListOptions::default())));
        let lists = lists.into_iter().filter_map(|(kind, list)| Some((kind, list.ok()?.items)));
        lists
            .flat_map(|(kind, items)| items.into_iter().map(move |item| (kind, Key::of(&item))))
            .collect()
    }

    /// Returns an object as it is.
    pub(crate) fn object(&self, kind: Kind, key: &Key) -> Value {
        self.server.get(kind, key).map_or(Value::Null, |object| (*object).clone())
    }
}
