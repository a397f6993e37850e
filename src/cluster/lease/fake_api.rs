//! An API server of Leases, for tests on a paused clock: for what a real one cannot be made to do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Body as StreamBody;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// What becomes of a write, in place of success.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is applied, but there is no response.
    AppliedUnanswered,
    /// It is not applied, and there is no response.
    Lost,
    /// It is rejected with this code.
    Rejected(u16),
}

/// The Leases of an API server, and who watches them.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

/// The body of a watch's response.
type Events = UnboundedSender<Result<Vec<u8>, std::io::Error>>;

#[derive(Default)]
struct State {
    leases: Vec<Lease>,
    version: u64,
    watchers: Vec<(String, Events)>,
    faults: VecDeque<(String, Fault)>,
    is_watch_silent: bool,
}

impl FakeApi {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The next write of this Lease fails so.
    pub(crate) fn fail_next(&self, name: &str, fault: Fault) {
        self.state().faults.push_back((name.to_owned(), fault));
    }

    /// No watch shows anything from now on.
    pub(crate) fn silence_watches(&self) {
        self.state().is_watch_silent = true;
    }

    /// After so long no more writes fail.
    pub(crate) fn heal_after(&self, pause: Duration) {
        let api = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            api.state().faults.clear();
        });
    }

    /// Writes a Lease as somebody else does.
    pub(crate) fn put(&self, lease: Lease) {
        self.state().store(lease);
    }

    /// The Lease as it is.
    pub(crate) fn lease(&self, name: &str) -> Lease {
        let state = self.state();
        state.leases.iter().find(|lease| lease.name_any() == name).cloned().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = http_body_util::BodyExt::collect(body).await?.to_bytes();
                let query = parts.uri.query().unwrap_or_default().to_owned();
                let (path, method) = (parts.uri.path().to_owned(), parts.method);
                let answer = api.state().answer(&method, &path, &query, &body);
                let Some((code, body)) = answer else { return std::future::pending().await };
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        Client::new(service, "default")
    }
}

fn version(lease: &Lease) -> u64 {
    lease.resource_version().unwrap().parse().unwrap()
}

/// A parameter of a query, without its encoding.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    Some(value.replace("%3D", "=").replace("%2F", "/"))
}

fn event(lease: &Lease) -> Vec<u8> {
    format!("{}\n", json!({"type": "MODIFIED", "object": lease})).into_bytes()
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &[u8]) -> Option<(u16, StreamBody)> {
        if *method == Method::GET {
            let field = parameter(query, "fieldSelector").unwrap_or_default();
            let name = field.strip_prefix("metadata.name=").unwrap_or_default().to_owned();
            if parameter(query, "watch").is_some() {
                let since = parameter(query, "resourceVersion").unwrap().parse().unwrap();
                return Some((200, self.watch(name, since)));
            }
            return Some((200, self.list(&name, parameter(query, "labelSelector")).into()));
        }
        let lease: Lease = serde_json::from_slice(body).unwrap();
        let name = lease.name_any();
        let fault = self.faults.iter().position(|(of, _)| *of == name);
        let fault = fault.and_then(|index| self.faults.remove(index)).map(|(_, fault)| fault);
        match fault {
            Some(Fault::Lost) => return None,
            Some(Fault::Rejected(code)) => return Some((code, failure(code))),
            Some(Fault::AppliedUnanswered) | None => {}
        }
        let stored = self.leases.iter().find(|stored| stored.name_any() == name);
        let stored = stored.and_then(kube::ResourceExt::resource_version);
        assert!(path.contains("/namespaces/system/leases"), "{path}");
        if stored != lease.resource_version() {
            return Some((409, failure(409)));
        }
        let lease = self.store(lease);
        match fault {
            Some(_) => None,
            None => Some((200, serde_json::to_vec(&lease).unwrap().into())),
        }
    }

    fn store(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        lease.metadata.namespace = Some("system".to_owned());
        lease.metadata.uid = Some(lease.name_any());
        self.leases.retain(|stored| stored.name_any() != lease.name_any());
        self.leases.push(lease.clone());
        if !self.is_watch_silent {
            for (name, watcher) in &self.watchers {
                if *name == lease.name_any() {
                    let _ = watcher.unbounded_send(Ok(event(&lease)));
                }
            }
        }
        lease
    }

    fn list(&self, name: &str, label: Option<String>) -> Vec<u8> {
        let has_label = |lease: &Lease| {
            let label = label.as_ref().map(|label| label.split_once('=').unwrap());
            label.is_none_or(|(key, value)| lease.labels().get(key).is_some_and(|found| found == value))
        };
        let items = self.leases.iter().filter(|lease| name.is_empty() || lease.name_any() == name);
        let items: Vec<_> = items.filter(|lease| has_label(lease)).collect();
        let list = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
            "metadata": {"resourceVersion": self.version.to_string()}, "items": items,
        });
        serde_json::to_vec(&list).unwrap()
    }

    fn watch(&mut self, name: String, since: u64) -> StreamBody {
        let (sender, events) = unbounded();
        for lease in &self.leases {
            if lease.name_any() == name && version(lease) > since && !self.is_watch_silent {
                sender.unbounded_send(Ok(event(lease))).unwrap();
            }
        }
        self.watchers.push((name, sender));
        StreamBody::from_stream(events)
    }
}

fn failure(code: u16) -> StreamBody {
    let status: Value =
        json!({"kind": "Status", "status": "Failure", "code": code, "message": "a fault", "reason": ""});
    serde_json::to_vec(&status).unwrap().into()
}
