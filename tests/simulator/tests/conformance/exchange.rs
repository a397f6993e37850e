//! The request of an operation, and the compared part of its response, for both servers.

use hyper::Method;
use serde_json::{Value, json};
use simulator::{Key, Kind, PatchBody, Subresource};

use crate::client::Message;
use crate::history::History;
use crate::mask;
use crate::operation::{NOBODY, Operation, Query};

/// The requests sent to a server, and the values that it has assigned.
pub(crate) struct Exchanges {
    pub(crate) history: History,
    /// The list whose next page the token selects.
    page: Option<(Kind, String, String)>,
}

impl Exchanges {
    pub(crate) fn since(version: &str) -> Self {
        Self { history: History::since(version), page: None }
    }

    /// Returns the request, with a path instead of a URL. `None` if the operation is no request, or there is no next
    /// page.
    pub(crate) fn message(&self, operation: &Operation) -> Option<Message> {
        let message = match operation {
            Operation::Get { kind, key } => Message::new(Method::GET, path(*kind, key, Subresource::None), None),
            Operation::Create { kind, object, manager } => {
                let key = Key::of(object);
                let path = collection(*kind, Some(&key.namespace));
                let object = self.history.resolve(object, *kind, &key);
                let body = Some(("application/json", object));
                Message::new(Method::POST, format!("{path}?fieldManager={manager}"), body)
            }
            Operation::Replace { kind, subresource, object, manager } => {
                let key = Key::of(object);
                let path = path(*kind, &key, *subresource);
                let object = self.history.resolve(object, *kind, &key);
                let body = Some(("application/json", object));
                Message::new(Method::PUT, format!("{path}?fieldManager={manager}"), body)
            }
            Operation::Patch { target: (kind, subresource, key), patch, manager, dry_run } => {
                let dry_run = if *dry_run { "&dryRun=All" } else { "" };
                let path = path(*kind, key, *subresource);
                let (content_type, patch) = match patch {
                    PatchBody::Json(patch) => ("application/json-patch+json", patch),
                    PatchBody::Merge(patch) => ("application/merge-patch+json", patch),
                };
                let body = Some((content_type, self.history.resolve(patch, *kind, key)));
                let path = format!("{path}?fieldManager={manager}{dry_run}");
                Message::new(Method::PATCH, path, body)
            }
            Operation::Bind { key, node } => {
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
                let metadata = json!({"name": key.name, "namespace": key.namespace});
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
                let path = path(Kind::Pod, key, Subresource::Binding);
                Message::new(Method::POST, path, Some(("application/json", binding)))
            }
            Operation::Denied { kind, subresource, key } => {
                let body = Some(("application/json-patch+json", json!([])));
                let message = Message::new(Method::PATCH, path(*kind, key, *subresource), body);
                Message { user: Some(NOBODY), ..message }
            }
            Operation::Delete { kind, key, uid } => {
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
                if let Some(uid) = uid {
                    let uid = self.history.resolve(uid, *kind, key);
                    options["preconditions"] = json!({"uid": uid});
                }
                let body = Some(("application/json", options));
                Message::new(Method::DELETE, path(*kind, key, Subresource::None), body)
            }
            Operation::List { kind, query, limit, at } => {
                let mut path = format!("{}limit={limit}", query_path(*kind, query));
                if let Some(at) = at {
                    let version = self.history.version(*at);
                    path += &format!("&resourceVersion={version}&resourceVersionMatch=Exact");
                }
                Message::new(Method::GET, path, None)
            }
            Operation::NextPage => {
                let (_, path, token) = self.page.as_ref()?;
                let (base, _) = path.split_once("&resourceVersion").unwrap_or((path, ""));
                let (base, _) = base.split_once("&continue").unwrap_or((base, ""));
                Message::new(Method::GET, format!("{base}&continue={token}"), None)
            }
            Operation::Watch { kind, query, after, .. } => {
                let version = self.history.version_to_watch(*after);
                let path = query_path(*kind, query);
                let path = format!("{path}watch=true&resourceVersion={version}&timeoutSeconds=3600");
                Message::new(Method::GET, path, None)
            }
            Operation::ReadWatch { .. } | Operation::Compact { .. } => return None,
        };
        Some(message)
    }

    /// Returns the compared part of the response to this message.
    pub(crate) fn compared(&mut self, operation: &Operation, path: String, (code, body): (u16, &Value)) -> Value {
        let list = match operation {
            Operation::List { kind, .. } => Some(*kind),
            Operation::NextPage => self.page.as_ref().map(|(kind, ..)| *kind),
            _ => None,
        };
        if let Some(kind) = list {
            // An error may have a token too, for an inconsistent rest of the list.
            let token = body["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
            self.page = token.map(|token| (kind, path, token.to_owned()));
        }
        if code >= 400 {
            return json!({"code": code, "body": mask::status(body, &self.history)});
        }
        if let Some(kind) = list {
            return self.listed(kind, body);
        }
        match operation {
            Operation::Get { kind, key } | Operation::Patch { target: (kind, _, key), .. } => {
                self.object(*kind, key, code, body)
            }
            Operation::Create { kind, object, .. } | Operation::Replace { kind, object, .. } => {
                self.object(*kind, &Key::of(object), code, body)
            }
            _ => json!({"code": code}),
        }
    }

    fn object(&mut self, kind: Kind, key: &Key, code: u16, body: &Value) -> Value {
        self.history.note(kind, key, body);
        json!({"code": code, "body": mask::object(body, kind, &self.history)})
    }

    fn listed(&self, kind: Kind, body: &Value) -> Value {
        let metadata = &body["metadata"];
        let items = body["items"].as_array().into_iter().flatten();
        let items: Vec<_> = items.map(|item| mask::object(item, kind, &self.history)).collect();
        let version = metadata["resourceVersion"].as_str().unwrap_or_default();
        json!({
            "kind": body["kind"], "apiVersion": body["apiVersion"], "items": items,
            "version": self.history.number(version), "more": self.page.is_some(),
            "remaining": metadata["remainingItemCount"],
        })
    }
}

/// The path of an object.
fn path(kind: Kind, key: &Key, subresource: Subresource) -> String {
    let part = match subresource {
        Subresource::None => "",
        Subresource::Status => "/status",
        Subresource::Binding => "/binding",
    };
    format!("{}/{}{part}", collection(kind, Some(&key.namespace)), key.name)
}

fn query_path(kind: Kind, query: &Query) -> String {
    let mut path = collection(kind, query.namespace) + "?";
    let escaped = |text: &str| text.replace('=', "%3D").replace(',', "%2C").replace('!', "%21");
    if !query.fields.is_empty() {
        path += &format!("fieldSelector={}&", escaped(&query.fields));
    }
    if !query.labels.is_empty() {
        path += &format!("labelSelector={}&", escaped(&query.labels));
    }
    path
}

/// The path of all objects of a kind, or of those in a namespace.
pub(crate) fn collection(kind: Kind, namespace: Option<&str>) -> String {
    let root = if kind.group().is_empty() { "api".to_owned() } else { format!("apis/{}", kind.group()) };
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("/{root}/{}{namespace}/{}", kind.version(), kind.plural())
}
