//! The real server.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use harness::{ControlPlane, wait_until};
use hyper::Method;
use serde_json::{Value, json};
use simulator::{Key, Kind, PatchBody, Subresource};

use crate::client::{Client, Message, Stream};
use crate::history::History;
use crate::mask;
use crate::operation::{NOBODY, Operation, Query};

/// The kinds that are compared.
pub(crate) const KINDS: [Kind; 5] = [Kind::Node, Kind::Pod, Kind::Rule, Kind::Lease, Kind::Event];

/// A kube-apiserver, during one episode.
pub(crate) struct Real<'a> {
    client: &'a Client,
    control_plane: &'a ControlPlane,
    history: History,
    /// The list of which the token is the next page.
    page: Option<(Kind, String, String)>,
    watches: BTreeMap<usize, (Kind, Stream)>,
    /// How long an event may take.
    wait: Duration,
}

impl<'a> Real<'a> {
    /// Begins an episode: with an observer for each kind, which has to be open before anything is written.
    pub(crate) fn new(
        client: &'a Client,
        control_plane: &'a ControlPlane,
        wait: Duration,
    ) -> Result<Self> {
        let version = || {
            let url = format!("{}?limit=1", collection(control_plane, Kind::Node, None));
            let (_, list) = client.send(Message::new(Method::GET, url, None))?;
            let version = list["metadata"]["resourceVersion"].as_str().map(str::to_owned);
            version.context("a list has a version")
        };
        wait_until("the API server to write nothing by itself", || {
            let before = version()?;
            let history = History::since(&before);
            let mut real =
                Self { client, control_plane, history, page: None, watches: BTreeMap::new(), wait };
            for kind in KINDS {
                real.perform(&observe(kind), 0)?;
            }
            Ok((version()? == before).then_some(real))
        })
    }

    /// Performs an operation; `events` is how many a watch has to show.
    pub(crate) fn perform(&mut self, operation: &Operation, events: usize) -> Result<Value> {
        match operation {
            Operation::Get { kind, key } => {
                let url = self.url(*kind, key, Subresource::None);
                self.send((*kind, key), Method::GET, url, None)
            }
            Operation::Create { kind, object, manager } => {
                let key = Key::of(object);
                let url = self.collection(*kind, Some(&key.namespace));
                let url = format!("{url}?fieldManager={manager}");
                self.send((*kind, &key), Method::POST, url, Some(("application/json", object)))
            }
            Operation::Replace { kind, subresource, object, manager } => {
                let key = Key::of(object);
                let url = format!("{}?fieldManager={manager}", self.url(*kind, &key, *subresource));
                self.send((*kind, &key), Method::PUT, url, Some(("application/json", object)))
            }
            Operation::Patch { target: (kind, subresource, key), patch, manager, dry_run } => {
                let dry_run = if *dry_run { "&dryRun=All" } else { "" };
                let url = self.url(*kind, key, *subresource);
                let url = format!("{url}?fieldManager={manager}{dry_run}");
                let body = match patch {
                    PatchBody::Json(patch) => ("application/json-patch+json", patch),
                    PatchBody::Merge(patch) => ("application/merge-patch+json", patch),
                };
                self.send((*kind, key), Method::PATCH, url, Some(body))
            }
            Operation::Denied { kind, subresource, key } => {
                let url = self.url(*kind, key, *subresource);
                let body = Some(("application/json-patch+json", json!([])));
                let message = Message::new(Method::PATCH, url, body);
                let (code, body) = self.client.send(Message { user: Some(NOBODY), ..message })?;
                Ok(json!({"code": code, "body": mask::status(&body, &self.history)}))
            }
            Operation::Delete { kind, key, uid } => self.delete(*kind, key, uid.as_ref()),
            Operation::List { kind, query, limit, at } => {
                let mut url = format!("{}limit={limit}", self.query_url(*kind, query));
                if let Some(at) = at {
                    let version = self.history.version(*at);
                    url += &format!("&resourceVersion={version}&resourceVersionMatch=Exact");
                }
                self.list(*kind, url, query.is_selective())
            }
            Operation::NextPage => match self.page.clone() {
                Some((kind, url, token)) => {
                    let is_selective = url.contains("Selector=");
                    let (base, _) = url.split_once("&resourceVersion").unwrap_or((&url, ""));
                    let (base, _) = base.split_once("&continue").unwrap_or((base, ""));
                    self.list(kind, format!("{base}&continue={token}"), is_selective)
                }
                None => Ok(Value::Null),
            },
            Operation::Watch { slot, kind, query, after } => {
                let version = self.history.version_to_watch(*after);
                let url = self.query_url(*kind, query);
                let url = format!("{url}watch=true&resourceVersion={version}&timeoutSeconds=3600");
                match self.client.watch(url)? {
                    Ok(stream) => {
                        self.watches.insert(*slot, (*kind, stream));
                        Ok(Value::Null)
                    }
                    Err((code, body)) => bail!("a watch cannot be opened: {code}: {body}"),
                }
            }
            Operation::ReadWatch { slot } => self.read_watch(*slot, events),
            Operation::Compact { at } => {
                self.control_plane.compact_etcd_to(self.history.compact(*at))?;
                Ok(Value::Null)
            }
        }
    }

    fn send(
        &mut self,
        (kind, key): (Kind, &Key),
        method: Method,
        url: String,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Value> {
        let body = body.map(|(content, body)| (content, self.history.resolve(body, kind, key)));
        let (code, body) = self.client.send(Message::new(method, url, body))?;
        if code >= 400 {
            return Ok(json!({"code": code, "body": mask::status(&body, &self.history)}));
        }
        self.history.note(kind, key, &body);
        Ok(json!({"code": code, "body": mask::object(&body, kind, &self.history)}))
    }

    fn delete(&mut self, kind: Kind, key: &Key, uid: Option<&Value>) -> Result<Value> {
        let uid = uid.map(|uid| self.history.resolve(uid, kind, key));
        let mut options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        if let Some(uid) = uid {
            options["preconditions"] = json!({"uid": uid});
        }
        let url = self.url(kind, key, Subresource::None);
        let body = Some(("application/json", options));
        let (code, body) = self.client.send(Message::new(Method::DELETE, url, body))?;
        if code >= 400 {
            return Ok(json!({"code": code, "body": mask::status(&body, &self.history)}));
        }
        // The version of a deletion is in no response: only a watch shows it.
        let (_, observer) = self.watches.get_mut(&observer(kind)).context("an observer")?;
        let mut seen = 0;
        loop {
            for event in observer.events.range(seen..) {
                let is_deleted = event["type"] == "DELETED" && Key::of(&event["object"]) == *key;
                let version = event["object"]["metadata"]["resourceVersion"].as_str();
                if is_deleted && version.is_some_and(|version| !self.history.has(version)) {
                    self.history.note(kind, key, &event["object"]);
                    return Ok(json!({"code": 200}));
                }
            }
            seen = observer.events.len();
            if !self.client.next(observer, self.wait) {
                bail!("no watch shows that {} {key} was deleted", kind.name());
            }
        }
    }

    fn list(&mut self, kind: Kind, url: String, is_selective: bool) -> Result<Value> {
        let (code, body) = self.client.send(Message::new(Method::GET, url.clone(), None))?;
        // Also an error may have a token, for an inconsistent rest of the list.
        let token = body["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
        self.page = token.map(|token| (kind, url, token.to_owned()));
        if code >= 400 {
            return Ok(json!({"code": code, "body": mask::status(&body, &self.history)}));
        }
        let metadata = &body["metadata"];
        let remaining = metadata["remainingItemCount"].as_u64().unwrap_or(0);
        let items = body["items"].as_array().into_iter().flatten();
        let items: Vec<_> = items
            .map(|item| {
                let mut item = item.clone();
                // Items of lists of Kubernetes' own kinds do not repeat them.
                item["apiVersion"] = json!(kind.api_version());
                item["kind"] = json!(kind.name());
                mask::object(&item, kind, &self.history)
            })
            .collect();
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        let version = self.history.number(version);
        Ok(listed(version, items, token.is_some(), (remaining, is_selective)))
    }

    fn read_watch(&mut self, slot: usize, events: usize) -> Result<Value> {
        let Some((kind, stream)) = self.watches.get_mut(&slot) else { return Ok(Value::Null) };
        while stream.events.len() < events && self.client.next(stream, self.wait) {}
        // And what it should not have shown, if that has come already.
        while self.client.next(stream, Duration::ZERO) {}
        let shown: Vec<_> =
            stream.events.drain(..).map(|event| shown(&event, *kind, &self.history)).collect();
        if shown.iter().any(|event| event["type"] == "ERROR") {
            self.watches.remove(&slot);
        }
        Ok(json!(shown))
    }

    /// Ends a watch.
    pub(crate) fn close(&mut self, slot: usize) {
        self.watches.remove(&slot);
    }

    fn collection(&self, kind: Kind, namespace: Option<&str>) -> String {
        collection(self.control_plane, kind, namespace)
    }

    fn url(&self, kind: Kind, key: &Key, subresource: Subresource) -> String {
        let status = if subresource == Subresource::Status { "/status" } else { "" };
        format!("{}/{}{status}", self.collection(kind, Some(&key.namespace)), key.name)
    }

    fn query_url(&self, kind: Kind, query: &Query) -> String {
        let mut url = self.collection(kind, query.namespace) + "?";
        let escaped = |text: &str| text.replace('=', "%3D").replace(',', "%2C").replace('!', "%21");
        if !query.fields.is_empty() {
            url += &format!("fieldSelector={}&", escaped(&query.fields));
        }
        if !query.labels.is_empty() {
            url += &format!("labelSelector={}&", escaped(&query.labels));
        }
        url
    }
}

/// The slot of the watch that sees all of a kind.
pub(crate) fn observer(kind: Kind) -> usize {
    100 + KINDS.iter().position(|other| *other == kind).unwrap_or(KINDS.len())
}

/// Opens the watch that sees all of a kind.
pub(crate) fn observe(kind: Kind) -> Operation {
    // The server has Leases and Events of its own.
    let fields = match kind {
        Kind::Lease => "metadata.namespace!=kube-system",
        Kind::Event => "reason=Advertised",
        _ => "",
    };
    let query = Query { fields: fields.to_owned(), ..Query::default() };
    Operation::Watch { slot: observer(kind), kind, query, after: 0 }
}

/// A page of a list, as it is compared.
pub(crate) fn listed(
    version: String,
    items: Vec<Value>,
    more: bool,
    (remaining, is_selective): (u64, bool),
) -> Value {
    // Where only some objects are selected, a server does not count the rest.
    let remaining = if is_selective { Value::Null } else { json!(remaining) };
    json!({"code": 200, "version": version, "items": items, "more": more, "remaining": remaining})
}

/// An event of a watch, as it is compared.
pub(crate) fn shown(event: &Value, kind: Kind, history: &History) -> Value {
    let object = if event["type"] == "ERROR" {
        mask::status(&event["object"], history)
    } else {
        mask::object(&event["object"], kind, history)
    };
    json!({"type": event["type"], "object": object})
}

pub(crate) fn collection(
    control_plane: &ControlPlane,
    kind: Kind,
    namespace: Option<&str>,
) -> String {
    let root =
        if kind.group().is_empty() { "api".to_owned() } else { format!("apis/{}", kind.group()) };
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let namespace =
        namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("{}/{root}/{}{namespace}/{}", control_plane.url(), kind.version(), kind.plural())
}
