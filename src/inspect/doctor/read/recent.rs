//! What needs the time of the API server: what has happened lately.

use http::header::DATE;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::fmt::rfc2822;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use serde::Deserialize;

use crate::cluster::clock;
use crate::cluster::node_client::POD_PAGE_SIZE;
use crate::cluster::requests::Requests;
use crate::cluster::stored::Stored;
use crate::inspect::doctor::finding::{NotRun, ObjectName};
use crate::inspect::doctor::snapshot::{Read, RejectedPod, Repair, Version};
use crate::inspect::lists::list;
use crate::model::resource_name::is_extended;

/// How long an Event counts.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// What needs the time of the API server.
pub(super) struct Recent {
    pub(super) version: Read<Version>,
    pub(super) now: Timestamp,
    pub(super) rejected: Read<Vec<RejectedPod>>,
    pub(super) repairs: Read<Vec<Repair>>,
}

pub(super) async fn recent(requests: &Requests) -> Recent {
    let (version, now) = version(requests).await;
    let (rejected, repairs) = match &version {
        // It has not responded in time, and would not do so now.
        Err(why @ NotRun::Failed(_)) => (Err(why.clone()), Err(why.clone())),
        _ => tokio::join!(rejected(requests, now), repairs(requests, now)),
    };
    Recent { version, now, rejected, repairs }
}

/// Returns the version and the time of the API server.
pub(crate) async fn version(requests: &Requests) -> (Read<Version>, Timestamp) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Info {
        major: String,
        minor: String,
        git_version: String,
    }

    let request = http::Request::get("/version").body(Vec::new()).map_err(kube::core::request::Error::BuildRequest);
    let (info, headers) = match requests.send_with_headers::<Info>(request).await {
        Ok(response) => response,
        Err(error) => return (Err(NotRun::of("get the version of Kubernetes", &error)), clock::now()),
    };
    let date =
        headers.get(DATE).and_then(|date| rfc2822::DateTimeParser::new().parse_timestamp(date.to_str().ok()?).ok());
    let Info { major, minor, git_version } = info;
    let version =
        Version::parse(&format!("{major}.{minor}")).map(|version| Version { text: git_version.clone(), ..version });
    let odd = || NotRun::Failed(format!("the API server reports the odd version {git_version}"));
    (version.ok_or_else(odd), date.unwrap_or_else(clock::now))
}

async fn rejected(requests: &Requests, now: Timestamp) -> Read<Vec<RejectedPod>> {
    let params = ListParams::default().fields("status.phase=Failed").limit(POD_PAGE_SIZE);
    let pods = list(requests, "/api/v1/pods", params, |Stored(pod)| rejected_pod(pod, now)).await;
    pods.map_err(|error| NotRun::of("list pods", &error))
}

/// Reads a failed pod, if a kubelet has rejected it lately because an extended resource is missing (`OutOf<resource>`).
pub(crate) fn rejected_pod(pod: Pod, now: Timestamp) -> Option<RejectedPod> {
    let status = pod.status?;
    let resource = status.reason?.strip_prefix("OutOf")?.to_owned();
    let since = status.start_time.or_else(|| pod.metadata.creation_timestamp.clone())?;
    let is_recent = now.duration_since(since.0) < RECENT;
    let object = ObjectName::of("Pod", &pod.metadata);
    let rejected = RejectedPod { object, node: pod.spec?.node_name?, resource };
    (is_recent && is_extended(&rejected.resource)).then_some(rejected)
}

/// Returns the repairs of zeros, according to the controller's Events.
async fn repairs(requests: &Requests, now: Timestamp) -> Read<Vec<Repair>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event {
        event_time: Option<Time>,
        message: Option<String>,
    }

    let keep = |Stored(event): Stored<Event>| {
        let is_recent = event.event_time.is_none_or(|time| now.duration_since(time.0) < RECENT);
        repair(&event.message?).filter(|_| is_recent)
    };
    // There is one on the rule for each.
    let params = ListParams::default().fields("reason=Repaired,involvedObject.kind=Node");
    let events = list(requests, "/api/v1/namespaces/default/events", params, keep).await;
    events.map_err(|error| NotRun::of("list events in default", &error))
}

/// Reads the message of a repair of a 0: `Repaired <resource> on <node>: 0 (by <manager>) -> …`.
pub(crate) fn repair(message: &str) -> Option<Repair> {
    let (resource, rest) = message.strip_prefix("Repaired ")?.split_once(" on ")?;
    let (node, rest) = rest.split_once(": ")?;
    let (manager, _) = rest.strip_prefix("0 (by ")?.split_once(") -> ")?;
    let [node, resource, manager] = [node, resource, manager].map(str::to_owned);
    Some(Repair { node, resource, manager })
}
