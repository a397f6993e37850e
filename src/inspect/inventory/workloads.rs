//! Workloads: which pods they have, and why they have no more.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::api::{ApiResource, GetParams, GroupVersionKind, ListParams};
use kube::core::Request;
use serde::Deserialize;

use super::error::ReadError;
use crate::cluster::paging::EVENT_PAGE_SIZE;
use crate::cluster::requests::Requests;
use crate::cluster::stored::Stored;
use crate::inspect::lists::{self, requests};
use crate::model::label;
use crate::response::request_error::RequestError;

/// The most workloads whose pods cannot be created that an answer has.
const MOST_FAILING: usize = 20;
/// How many workloads are read at the same time.
const READS: usize = 8;

/// A kind of workload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) word: &'static str,
    short: &'static str,
    kind: &'static str,
    group: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind { word: "deployment", short: "deploy", kind: "Deployment", group: "apps" },
    Kind { word: "daemonset", short: "ds", kind: "DaemonSet", group: "apps" },
    Kind { word: "statefulset", short: "sts", kind: "StatefulSet", group: "apps" },
    Kind { word: "replicaset", short: "rs", kind: "ReplicaSet", group: "apps" },
    Kind { word: "job", short: "job", kind: "Job", group: "batch" },
];

impl Kind {
    /// Returns the kind that a word names, as kubectl takes and prints it: `deployment`, `deployments`, `deploy` or
    /// `deployment.apps`.
    pub(crate) fn named(word: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| {
            let word = word.strip_suffix(kind.group).and_then(|word| word.strip_suffix('.')).unwrap_or(word);
            word == kind.word || word == kind.short || word.strip_suffix('s') == Some(kind.word)
        })
    }

    pub(crate) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(self.group, "v1", self.kind),
            &format!("{}s", self.word),
        )
    }

    fn path(&self, namespace: &str) -> String {
        format!("/apis/{}/v1/namespaces/{namespace}/{}s", self.group, self.word)
    }
}

/// A workload.
#[derive(Debug)]
pub(crate) struct Workload {
    /// `deployment/web`
    pub(crate) name: String,
    pub(crate) selector: LabelSelector,
    pub(crate) pods: Pods,
    /// Why it is unknown whether pods can be created, if some are missing.
    pub(crate) gap: Option<String>,
}

/// How many pods a workload has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pods {
    pub(crate) desired: i64,
    pub(crate) existing: i64,
    /// Why no more can be created, in the words of its controller.
    pub(crate) failure: Option<String>,
}

/// A workload whose pods cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub(crate) namespace: String,
    /// `replicaset/web-5d8f`
    pub(crate) name: String,
    pub(crate) failure: String,
}

/// Reads a workload; `None` if there is none.
pub(crate) async fn workload(
    client: &Client,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Workload>, ReadError> {
    let requests = requests(client);
    let shown = format!("{}/{name}", kind.word);
    let failed = |why: String| ReadError::Workload { workload: shown.clone(), why };
    let read = read(&requests, kind, namespace, name).await.map_err(|error| failed(error.to_string()))?;
    let Some(Object { spec, status }) = read else { return Ok(None) };
    let (mut pods, mut gap) = (Pods::of(&spec, &status), None);
    if pods.is_short() && pods.failure.is_none() {
        let about = format!("involvedObject.kind={},involvedObject.name={name}", kind.kind);
        match events(&requests, Some(namespace), &about).await {
            Ok(events) => pods.failure = failing(events).pop().map(|failing| failing.failure),
            Err(error) => gap = Some(format!("events cannot be listed: why pods are missing is unknown ({error})")),
        }
    }
    Ok(Some(Workload { name: shown, selector: spec.selector, pods, gap }))
}

/// The workloads whose pods cannot be created, as far as they were looked at.
#[derive(Debug, Default)]
pub(crate) struct FailingWorkloads {
    pub(crate) found: Vec<Failing>,
    /// How many more have Events of such pods.
    pub(crate) unread: usize,
}

/// Returns the workloads whose pods cannot be created, of one namespace or of all, according to Events, those with the last
/// Events first. A workload that has all its pods by now does not count.
pub(crate) async fn failing_in(client: &Client, namespace: Option<&str>) -> Result<FailingWorkloads, RequestError> {
    let requests = &requests(client);
    let with_events = failing(events(requests, namespace, "").await?);
    let mut workloads = FailingWorkloads { found: Vec::new(), unread: with_events.len() };
    let read = |failing: Failing| async move { is_short(requests, &failing).await.then_some(failing) };
    let mut reads = stream::iter(with_events).map(read).buffered(READS);
    while workloads.found.len() < MOST_FAILING
        && let Some(failing) = reads.next().await
    {
        workloads.found.extend(failing);
        workloads.unread -= 1;
    }
    Ok(workloads)
}

/// Returns whether a workload has too few pods.
async fn is_short(requests: &Requests, failing: &Failing) -> bool {
    let (word, name) = failing.name.split_once('/').unwrap_or_default();
    let Some(kind) = Kind::named(word) else { return false };
    match read(requests, kind, &failing.namespace, name).await {
        Ok(object) => object.is_some_and(|object| Pods::of(&object.spec, &object.status).is_short()),
        // It cannot be read, and the Event remains.
        Err(_) => true,
    }
}

async fn read(requests: &Requests, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Object>, RequestError> {
    if !label::is_dns_subdomain(name) || !label::is_dns_subdomain(namespace) {
        return Ok(None);
    }
    lists::found(requests.send(Request::new(kind.path(namespace)).get(name, &GetParams::default())).await)
}

/// Returns the Events about pods that could not be created.
async fn events(requests: &Requests, namespace: Option<&str>, about: &str) -> Result<Vec<Event>, RequestError> {
    let path = match namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/events"),
        None => "/api/v1/events".to_owned(),
    };
    let about = if about.is_empty() { String::new() } else { format!(",{about}") };
    let params = ListParams::default().limit(EVENT_PAGE_SIZE).fields(&format!("reason=FailedCreate{about}"));
    lists::list(requests, &path, params, |Stored(event)| Some(event)).await
}

/// Returns the workloads that Events are about, each with the last one; those with the latest first.
fn failing(events: Vec<Event>) -> Vec<Failing> {
    let mut last = BTreeMap::new();
    for event in events {
        let about = &event.involved_object;
        let kind = KINDS.iter().find(|kind| Some(kind.kind) == about.kind.as_deref());
        let (Some(kind), Some(name), Some(message)) = (kind, &about.name, &event.message) else { continue };
        let time = [event.last_timestamp.as_ref().map(|time| time.0), event.event_time.as_ref().map(|time| time.0)];
        let time = time.into_iter().flatten().max();
        let id = (about.namespace.clone().unwrap_or_default(), format!("{}/{name}", kind.word));
        let seen = last.entry(id).or_insert_with(|| (time, message.clone()));
        if time >= seen.0 {
            *seen = (time, message.clone());
        }
    }
    let mut last: Vec<_> = last.into_iter().collect();
    last.sort_by_key(|(_, (time, _))| Reverse(*time));
    let failing = |((namespace, name), (_, failure))| Failing { namespace, name, failure };
    last.into_iter().map(failing).collect()
}

/// A workload, reduced to what all kinds have, and what counts the pods of each.
#[derive(Debug, Deserialize)]
struct Object {
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    selector: LabelSelector,
    /// Of Deployments, StatefulSets and ReplicaSets.
    replicas: Option<i64>,
    /// Of Jobs.
    parallelism: Option<i64>,
    completions: Option<i64>,
    suspend: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    replicas: i64,
    /// Of DaemonSets.
    desired_number_scheduled: Option<i64>,
    current_number_scheduled: i64,
    /// Of Jobs.
    active: i64,
    succeeded: i64,
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: Option<String>,
}

impl Pods {
    fn of(spec: &Spec, status: &Status) -> Self {
        let is_true = |kind: &str| {
            status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
        };
        let failure = is_true("ReplicaFailure").and_then(|condition| condition.message.clone());
        let (desired, existing) = match (spec.parallelism, status.desired_number_scheduled) {
            (Some(_), _) if spec.suspend || is_true("Complete").or(is_true("Failed")).is_some() => (0, 0),
            // Once one has succeeded, no other is created.
            (Some(_), _) if spec.completions.is_none() && status.succeeded > 0 => (status.active, status.active),
            (Some(parallelism), _) => {
                let missing = spec.completions.map_or(parallelism, |completions| completions - status.succeeded);
                (parallelism.min(missing), status.active)
            }
            (None, Some(desired)) => (desired, status.current_number_scheduled),
            (None, None) => (spec.replicas.unwrap_or(1), status.replicas),
        };
        Self { desired, existing, failure }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.existing < self.desired
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn kinds_are_named_as_kubectl_names_them() {
        for (word, kind) in [
            ("deployment", Some("Deployment")),
            ("deployments", Some("Deployment")),
            ("deploy", Some("Deployment")),
            ("deployment.apps", Some("Deployment")),
            ("ds", Some("DaemonSet")),
            ("sts", Some("StatefulSet")),
            ("rs", Some("ReplicaSet")),
            ("job.batch", Some("Job")),
            ("jobs", Some("Job")),
            ("job.apps", None),
            ("default", None),
        ] {
            assert_eq!(Kind::named(word).map(|kind| kind.kind), kind, "{word}");
        }
    }

    #[test]
    fn pods_of_a_workload_are_counted_as_its_kind_counts_them() {
        for (object, desired, existing) in [
            (json!({"spec": {}}), 1, 0),
            (json!({"spec": {"replicas": 3}, "status": {"replicas": 2}}), 3, 2),
            (json!({"spec": {}, "status": {"desiredNumberScheduled": 4, "currentNumberScheduled": 1}}), 4, 1),
            (json!({"spec": {"parallelism": 5, "completions": 8}, "status": {"active": 2, "succeeded": 4}}), 4, 2),
            (json!({"spec": {"parallelism": 5}, "status": {"active": 2}}), 5, 2),
            (json!({"spec": {"parallelism": 5}, "status": {"active": 2, "succeeded": 3}}), 2, 2),
            (json!({"spec": {"parallelism": 5, "suspend": true}}), 0, 0),
            (
                json!({"spec": {"parallelism": 5}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}),
                0,
                0,
            ),
        ] {
            let read: Object = serde_json::from_value(object.clone()).unwrap();
            let pods = Pods::of(&read.spec, &read.status);
            assert_eq!((pods.desired, pods.existing), (desired, existing), "{object}");
        }
        let failure = json!({"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"});
        let status: Status = serde_json::from_value(json!({"conditions": [failure]})).unwrap();
        assert_eq!(Pods::of(&Spec::default(), &status).failure.as_deref(), Some("exceeded quota"));
    }

    #[test]
    fn last_event_says_why_a_workload_has_too_few_pods() {
        let event = |kind: &str, name: &str, minute: u8, message: &str| -> Event {
            let object: Value = json!({"kind": kind, "name": name, "namespace": "team"});
            let time = format!("2026-01-01T00:{minute:02}:00Z");
            serde_json::from_value(json!({"metadata": {"name": message}, "involvedObject": object, "message": message,
                "lastTimestamp": time}))
            .unwrap()
        };
        let events = vec![
            event("Job", "b", 2, "later"),
            event("Job", "b", 1, "earlier"),
            event("ReplicaSet", "a", 1, "other"),
            event("Pod", "c", 1, "no workload"),
        ];
        let found = failing(events);
        let found: Vec<_> = found.iter().map(|failing| (&*failing.name, &*failing.failure)).collect();
        assert_eq!(found, [("job/b", "later"), ("replicaset/a", "other")], "the last first");
    }

    #[tokio::test]
    async fn workload_without_events_that_can_be_listed_has_a_gap() {
        let service = tower::service_fn(|request: Request<Body>| {
            let (code, body) = match request.uri().path().ends_with("events") {
                true => (403, json!({"kind": "Status", "status": "Failure", "code": 403, "message": "no"})),
                false => (200, json!({"spec": {"replicas": 3}})),
            };
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, tower::BoxError>(response.unwrap()) }
        });
        let client = Client::new(service, "team");
        let found = workload(&client, Kind::named("sts").unwrap(), "team", "db").await.unwrap().unwrap();
        assert!(found.gap.is_some_and(|gap| gap.starts_with("events cannot be listed")));
    }

    /// Returns a client of a server with Events of pods that these ReplicaSets cannot create; those named `web-…` exist.
    fn with_events_of(names: Vec<String>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let event = |name: &String| {
                let object = json!({"kind": "ReplicaSet", "name": name, "namespace": "team"});
                json!({"metadata": {}, "involvedObject": object, "message": "exceeded quota"})
            };
            let (code, body) = match path.rsplit_once('/') {
                Some((_, "events")) => {
                    (200, json!({"metadata": {}, "items": names.iter().map(event).collect::<Value>()}))
                }
                Some((_, name)) if name.starts_with("web-") => (200, json!({"spec": {"replicas": 1}})),
                _ => (404, json!({"kind": "Status", "status": "Failure", "code": 404})),
            };
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, tower::BoxError>(response.unwrap()) }
        });
        Client::new(service, "team")
    }

    #[tokio::test]
    async fn workloads_that_are_gone_do_not_hide_one_that_is_short() {
        let gone = (0..MOST_FAILING).map(|at| format!("gone-{at:02}"));
        let client = with_events_of(gone.chain(["web-1".to_owned()]).collect());
        let FailingWorkloads { found, unread } = failing_in(&client, Some("team")).await.unwrap();
        assert_eq!(found.iter().map(|failing| &*failing.name).collect::<Vec<_>>(), ["replicaset/web-1"]);
        assert_eq!(unread, 0);
        let client = with_events_of((0..MOST_FAILING + 3).map(|at| format!("web-{at:02}")).collect());
        let FailingWorkloads { found, unread } = failing_in(&client, Some("team")).await.unwrap();
        assert_eq!((found.len(), unread), (MOST_FAILING, 3));
    }
}
