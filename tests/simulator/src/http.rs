//! HTTP requests: parses each into a call of the model, and builds its response.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ::http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use ::http::{Method, Request};
use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::kind::{Key, Kind};
use crate::list::{List, ListOptions};
use crate::protobuf::PROTOBUF;
use crate::selector::Selector;
use crate::server::{ApiServer, PatchBody, Subresource, Writer};
use crate::watch::{Watch, WatchEvent};

/// The duration of a watch whose request sets none.
const DEFAULT_WATCH_TIME: Duration = Duration::from_secs(30 * 60);

/// An operation on an object, or on all objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects.
    List,
    /// Watches for changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Replace,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// Returns whether the operation may change objects.
    #[must_use]
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// A parsed request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The operation.
    pub verb: Verb,
    /// The kind of object.
    pub kind: Kind,
    /// The object; all objects if the name is empty.
    pub key: Key,
    /// The part of the object.
    pub subresource: Subresource,
    /// The body; null if there is none.
    pub body: Value,
    /// Whether the response may be protobuf: nodes and pods alone have that form here.
    pub(crate) accepts_protobuf: bool,
    content_type: String,
    agent: String,
    query: BTreeMap<String, String>,
}

/// Formats as `patch nodes/node-1/status`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = format!("{:?}", self.verb).to_lowercase();
        write!(f, "{verb} {}", self.kind.plural())?;
        if !self.key.name.is_empty() {
            write!(f, "/{}", self.key.name)?;
        }
        if self.subresource == Subresource::Status {
            write!(f, "/status")?;
        }
        let named = ["fieldSelector", "labelSelector", "resourceVersion", "continue"];
        for (name, value) in self.query.iter().filter(|(name, _)| named.contains(&name.as_str())) {
            write!(f, " {name}={value}")?;
        }
        if self.is_dry_run() { write!(f, " (dry run)") } else { Ok(()) }
    }
}

/// The response to a request.
#[derive(Debug)]
pub enum Answer {
    /// An object or a list, with its success code.
    Object(u16, Value),
    /// A new watch.
    Watch(Box<WatchCall>),
    /// An error.
    Failure(Failure),
}

/// A new watch.
#[derive(Debug)]
pub struct WatchCall {
    /// The watched kind.
    pub kind: Kind,
    /// The initial events, if the watch shows existing objects.
    pub initial: Vec<WatchEvent>,
    /// The position of the watch.
    pub watch: Watch,
    /// Whether the watch sends bookmarks.
    pub bookmarks: bool,
    /// The time after which the server ends the watch.
    pub lasts: Duration,
    /// Whether events are protobuf.
    pub is_protobuf: bool,
}

/// An error in plain text, as from another server, or for an unknown path.
#[must_use]
pub fn plain_text(code: u16, text: &str) -> Failure {
    Failure { code, status: Value::String(text.to_owned()), retry_after: None }
}

/// The server's response for an unknown resource.
#[must_use]
pub fn not_served() -> Failure {
    plain_text(404, "404 page not found\n")
}

fn failure(code: u16, reason: &str, message: &str) -> Failure {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    Failure { code, status, retry_after: None }
}

impl Call {
    /// Parses a request.
    ///
    /// # Errors
    /// 404 for an unknown path, 405 for an unknown method, 400 for a malformed body.
    pub fn read(request: &Request<Bytes>) -> Result<Self, Failure> {
        let (kind, key, subresource) = read_path(request.uri().path()).ok_or_else(not_served)?;
        let query = request.uri().query().unwrap_or_default();
        let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let is_watch = query.get("watch").is_some_and(|watch| watch == "true" || watch == "1");
        let verb = match (request.method(), key.name.is_empty()) {
            (&Method::GET, true) if is_watch => Verb::Watch,
            (&Method::GET, true) => Verb::List,
            (&Method::GET, false) => Verb::Get,
            (&Method::POST, true) => Verb::Create,
            (&Method::POST, false) if subresource == Subresource::Binding => Verb::Create,
            (&Method::PUT, false) => Verb::Replace,
            (&Method::PATCH, false) => Verb::Patch,
            (&Method::DELETE, false) if subresource == Subresource::None => Verb::Delete,
            _ => {
                let message = "the server does not allow this method on the requested resource";
                return Err(failure(405, "MethodNotAllowed", message));
            }
        };
        if verb == Verb::Create && kind.is_namespaced() && key.namespace.is_empty() {
            return Err(not_served());
        }
        let header = |name| {
            let value = request.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let body = match request.body() {
            body if body.is_empty() => Value::Null,
            body => serde_json::from_slice(body).map_err(|error| Failure::bad_request(error.to_string()))?,
        };
        let content_type = header(CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let agent = header(USER_AGENT);
        let has_protobuf = matches!(kind, Kind::Node | Kind::Pod);
        let accepts_protobuf = has_protobuf && header(ACCEPT).starts_with(PROTOBUF);
        Ok(Self { verb, kind, key, subresource, body, accepts_protobuf, content_type, agent, query })
    }

    /// Performs the call.
    pub fn answer(&self, api: &mut ApiServer) -> Answer {
        self.try_answer(api).unwrap_or_else(Answer::Failure)
    }

    /// Returns whether the call is a dry run.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.query.get("dryRun").is_some_and(|dry_run| dry_run == "All")
    }

    /// Returns the writer, with the field manager that the request names.
    #[must_use]
    pub fn writer(&self) -> Writer {
        let agent = self.agent.split('/').next().filter(|agent| !agent.is_empty());
        let named = self.query.get("fieldManager").map(String::as_str);
        Writer::new(named.or(agent).unwrap_or("unknown"))
    }

    fn try_answer(&self, api: &mut ApiServer) -> Result<Answer, Failure> {
        if !self.verb.is_write() {
            return self.read_answer(api);
        }
        let writer = self.writer();
        let (kind, key, part) = (self.kind, &self.key, self.subresource);
        if self.is_dry_run() {
            if self.verb != Verb::Patch {
                return Err(plain_text(501, "the model knows dry runs of patches alone"));
            }
            let object = api.dry_run_patch(kind, part, key, &self.patch()?, &writer)?;
            return Ok(Answer::Object(200, (*object).clone()));
        }
        let (code, object) = match self.verb {
            Verb::Create if part == Subresource::Binding => {
                api.bind(key, self.body["target"]["name"].as_str().unwrap_or_default())?;
                let status =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(Answer::Object(201, status));
            }
            Verb::Create => (201, api.create(kind, self.object()?, &writer)?),
            Verb::Patch => (200, api.patch(kind, part, key, &self.patch()?, &writer)?),
            Verb::Delete => {
                let uid = self.body["preconditions"]["uid"].as_str();
                api.delete(kind, key, uid)?;
                let details = json!({"name": key.name, "group": kind.group(), "kind": kind.plural()});
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                });
                return Ok(Answer::Object(200, status));
            }
            _ => {
                let is_new = api.get(kind, key).is_err();
                let object = api.replace(kind, part, self.object()?, &writer)?;
                (if is_new { 201 } else { 200 }, object)
            }
        };
        Ok(Answer::Object(code, (*object).clone()))
    }

    fn read_answer(&self, api: &ApiServer) -> Result<Answer, Failure> {
        if self.verb == Verb::Get {
            return Ok(Answer::Object(200, (*api.get(self.kind, &self.key)?).clone()));
        }
        let text = |name: &str| self.query.get(name).map(String::as_str).unwrap_or_default();
        let mut selector = Selector::parse(text("fieldSelector"), text("labelSelector"))?;
        if !self.key.namespace.is_empty() {
            selector = selector.in_namespace(&self.key.namespace);
        }
        let version = match text("resourceVersion") {
            "" | "0" => None,
            version => Some(
                version
                    .parse::<u64>()
                    .map_err(|_| Failure::bad_request(format!("Invalid value: \"{version}\": cannot parse")))?,
            ),
        };
        if self.verb == Verb::Watch {
            return Ok(self.watch(api, selector, version));
        }
        let is_exact = text("resourceVersionMatch") == "Exact";
        let token = Some(text("continue")).filter(|token| !token.is_empty()).map(str::to_owned);
        if let Some(asked) = version
            && asked > api.version()
        {
            let now = api.version();
            let message = format!("Timeout: Too large resource version: {asked}, current: {now}");
            return Err(failure(504, "Timeout", &message));
        }
        let limit = text("limit").parse().unwrap_or(0);
        let at = version.filter(|_| is_exact && token.is_none());
        let list = api.list(self.kind, &ListOptions { selector, limit, token, at })?;
        Ok(Answer::Object(200, self.list(list)))
    }

    fn list(&self, list: List) -> Value {
        let List { version, items, next, remaining } = list;
        let items = items.into_iter().map(|item| {
            let mut item = (*item).clone();
            // Items of built-in kinds do not carry their type.
            if self.kind != Kind::Rule
                && let Some(members) = item.as_object_mut()
            {
                members.remove("apiVersion");
                members.remove("kind");
            }
            item
        });
        let items: Vec<_> = items.collect();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(next) = next {
            metadata["continue"] = json!(next);
            // With a selector, the server does not count the remaining objects.
            if !["fieldSelector", "labelSelector"].iter().any(|name| self.query.contains_key(*name)) {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        json!({
            "kind": format!("{}List", self.kind.name()), "apiVersion": self.kind.api_version(),
            "metadata": metadata, "items": items,
        })
    }

    /// Opens a watch from a version. Without a version it first shows existing objects.
    fn watch(&self, api: &ApiServer, selector: Selector, version: Option<u64>) -> Answer {
        let initial = match version {
            Some(_) => Vec::new(),
            None => {
                let options = ListOptions { selector: selector.clone(), ..ListOptions::default() };
                let list = api.list(self.kind, &options).map(|list| list.items);
                list.unwrap_or_default().into_iter().map(WatchEvent::Added).collect()
            }
        };
        let watch = api.watch(self.kind, selector, version.unwrap_or(api.version()));
        let bookmarks = self.query.get("allowWatchBookmarks").is_some_and(|asked| asked == "true");
        let seconds = self.query.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok());
        let lasts = seconds.map_or(DEFAULT_WATCH_TIME, Duration::from_secs);
        Answer::Watch(Box::new(WatchCall {
            kind: self.kind,
            initial,
            watch,
            bookmarks,
            lasts,
            is_protobuf: self.accepts_protobuf,
        }))
    }

    /// Returns the object in the body, which must match the path.
    fn object(&self) -> Result<Value, Failure> {
        if !matches!(self.content_type.as_str(), "" | "application/json") {
            return Err(self.unsupported("application/json"));
        }
        let mut object = self.body.clone();
        if !object["metadata"].is_object() {
            return Err(Failure::bad_request("the body is no object"));
        }
        let (metadata, key) = (&mut object["metadata"], &self.key);
        if self.kind.is_namespaced() && metadata["namespace"].is_null() {
            metadata["namespace"] = json!(key.namespace);
        }
        let found = Key::of(&object);
        if found.namespace != key.namespace {
            let message = format!(
                "the namespace of the provided object does not match the namespace sent on the request ({key})"
            );
            return Err(Failure::bad_request(message));
        }
        if !key.name.is_empty() && found.name != key.name {
            let message =
                format!("the name of the object ({}) does not match the name on the URL ({})", found.name, key.name);
            return Err(Failure::bad_request(message));
        }
        Ok(object)
    }

    fn patch(&self) -> Result<PatchBody, Failure> {
        match self.content_type.as_str() {
            "application/json-patch+json" => Ok(PatchBody::Json(self.body.clone())),
            "application/merge-patch+json" => Ok(PatchBody::Merge(self.body.clone())),
            _ => Err(self.unsupported("application/json-patch+json, application/merge-patch+json")),
        }
    }

    fn unsupported(&self, supported: &str) -> Failure {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {supported}");
        failure(415, "UnsupportedMediaType", &message)
    }
}

/// Returns the kind, the object and the part that a path names.
fn read_path(path: &str) -> Option<(Kind, Key, Subresource)> {
    let mut parts = path.strip_prefix('/')?.split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let version = parts.next()?;
    let mut plural = parts.next()?;
    let mut namespace = "";
    if plural == "namespaces" {
        (namespace, plural) = (parts.next()?, parts.next()?);
    }
    let is_named = |kind: &Kind| kind.group() == group && kind.version() == version && kind.plural() == plural;
    let kind = Kind::ALL.into_iter().find(is_named)?;
    let name = parts.next().unwrap_or_default();
    let subresource = match (parts.next(), parts.next()) {
        (None, None) => Subresource::None,
        (Some("status"), None) if matches!(kind, Kind::Node | Kind::Pod | Kind::Rule) => Subresource::Status,
        (Some("binding"), None) if kind == Kind::Pod => Subresource::Binding,
        _ => return None,
    };
    let is_placed = if name.is_empty() {
        kind.is_namespaced() || namespace.is_empty()
    } else {
        kind.is_namespaced() != namespace.is_empty()
    };
    is_placed.then(|| (kind, Key::namespaced(namespace, name), subresource))
}
