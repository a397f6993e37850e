//! What a bound pod requests, as the watch of pods shows it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use super::{Pod, Requests};
use crate::model::pool::Pool;

/// A Pod from the API server, decoded without unused fields.
#[derive(Clone, Debug, kube::Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::Pod)]
pub struct ApiPod {
    metadata: ObjectMeta,
    pod: Pod,
}

impl<'de> Deserialize<'de> for ApiPod {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(expecting = "a Pod")]
        struct Trimmed {
            metadata: Metadata,
            #[serde(default)]
            spec: super::PodSpec,
            #[serde(default)]
            status: super::PodStatus,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            uid: Option<String>,
            resource_version: Option<String>,
        }

        let Trimmed { metadata: Metadata { uid, resource_version }, spec, status } = Trimmed::deserialize(decoder)?;
        let metadata = ObjectMeta { uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, pod: Pod { kind: None, spec, status } })
    }
}

impl ApiPod {
    /// Returns the node that the pod is bound to.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.pod.node().filter(|node| !node.is_empty())
    }
}

/// The most extended resources of one pod that are counted. An object has room for forty thousand, which whoever may create
/// pods would make the controller keep.
pub const MAX_RESOURCES: usize = 64;

/// A pod requests more extended resources than are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a pod requests {0} extended resources, more than the {MAX_RESOURCES} that are counted")]
pub struct TooManyResources(usize);

/// An unfinished pod that is bound to a node, and requests extended resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUse {
    /// The name of the node.
    pub node: Arc<str>,
    /// The pod.
    pub uid: PodUid,
    /// What it requests.
    pub requests: Arc<Requests>,
    /// Whether something of it has run.
    pub has_started: bool,
}

impl PodUse {
    /// Returns `None` if the pod uses nothing: it has finished, has no node, or requests no extended resource.
    ///
    /// # Errors
    /// If it requests more resources than are counted.
    pub fn new(object: &ApiPod, interner: &mut PodInterner) -> Result<Option<Self>, TooManyResources> {
        let pod = &object.pod;
        let requests = Requests::on_node(pod);
        let Some(node) = object.node().filter(|_| !requests.is_empty()) else { return Ok(None) };
        if requests.len() > MAX_RESOURCES {
            return Err(TooManyResources(requests.len()));
        }
        Ok(Some(Self {
            node: interner.nodes.intern(node),
            uid: PodUid::of(&object.metadata),
            requests: interner.requests.intern(&requests),
            has_started: pod.has_started(),
        }))
    }
}

/// The uid of a pod, in few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodUid(Uid);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Uid {
    /// Each that an API server assigns.
    Uuid([u8; 16]),
    Other(Box<str>),
}

impl PodUid {
    /// Returns the uid of an object.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = metadata.uid.as_deref().unwrap_or_default();
        Self(uuid(text).map_or_else(|| Uid::Other(text.into()), Uid::Uuid))
    }
}

/// Returns the bytes of a UUID in its usual notation, 8-4-4-4-12 digits.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = [8, 13, 18, 23];
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_uuid = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| if hyphens.contains(&at) { byte == b'-' } else { is_digit(byte) });
    let digits = || text.chars().filter(|digit| *digit != '-').collect::<String>();
    is_uuid.then(|| u128::from_str_radix(&digits(), 16).ok().map(u128::to_be_bytes)).flatten()
}

/// What many pods share, each kept once: the names of nodes, and requests.
#[derive(Clone, Debug, Default)]
pub struct PodInterner {
    nodes: Pool<str>,
    requests: Pool<Requests>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, status: &Value) -> Value {
        let containers = json!([{"resources": {"requests": {"example.com/dongle": "2", "cpu": "1"}}}]);
        json!({"metadata": {"uid": uid, "resourceVersion": "7", "name": "a"},
            "spec": {"nodeName": "node-1", "containers": containers}, "status": status})
    }

    fn use_of(pod: &Value, interner: &mut PodInterner) -> Option<PodUse> {
        PodUse::new(&serde_json::from_value(pod.clone()).unwrap(), interner).unwrap()
    }

    #[test]
    fn pod_use_is_what_a_bound_unfinished_pod_requests() {
        let interner = &mut PodInterner::default();
        let used = use_of(&pod("a", &json!({})), interner).unwrap();
        let dongles = used.requests.get("example.com/dongle").to_string();
        assert_eq!((&*used.node, &*dongles, used.has_started), ("node-1", "2", false));
        let running = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Initialized", "status": "True"}]});
        assert!(use_of(&pod("a", &running), interner).unwrap().has_started);

        for (pointer, value) in [
            ("/status", json!({"phase": "Succeeded"})),
            ("/status", json!({"phase": "Failed"})),
            ("/spec/nodeName", json!("")),
            ("/spec/nodeName", Value::Null),
            ("/spec/containers/0/resources/requests", json!({"cpu": "1", "example.com/dongle": "0"})),
        ] {
            let mut other = pod("a", &json!({}));
            *other.pointer_mut(pointer).unwrap() = value;
            assert_eq!(use_of(&other, interner), None, "{other}");
        }
        // As most are trimmed.
        assert_eq!(use_of(&json!({"metadata": {"uid": "a", "resourceVersion": "7"}}), interner), None);
    }

    #[test]
    fn pod_that_requests_thousands_of_resources_is_not_kept() {
        let requesting = |number: usize| {
            let requests: serde_json::Map<_, _> =
                (0..number).map(|number| (format!("example.com/{number}"), json!("1"))).collect();
            let mut pod = pod("a", &json!({}));
            pod["spec"]["containers"][0]["resources"]["requests"] = Value::Object(requests);
            PodUse::new(&serde_json::from_value(pod).unwrap(), &mut PodInterner::default())
        };
        assert!(requesting(MAX_RESOURCES).is_ok_and(|used| used.is_some()));
        assert_eq!(requesting(40_000), Err(TooManyResources(40_000)));
    }

    #[test]
    fn pod_uses_share_equal_requests_and_nodes() {
        let interner = &mut PodInterner::default();
        let [a, b] = ["a", "b"].map(|uid| use_of(&pod(uid, &json!({})), interner).unwrap());
        assert!(Arc::ptr_eq(&a.requests, &b.requests) && Arc::ptr_eq(&a.node, &b.node));
        assert_ne!(a.uid, b.uid);
        assert!(size_of::<PodUse>() <= 64, "{}", size_of::<PodUse>());
    }

    #[test]
    fn pod_uid_distinguishes_texts() {
        let texts = [
            "c0ffee00-1111-4222-8333-444444444444",
            "c0ffee00-1111-4222-8333-444444444445",
            "C0FFEE00-1111-4222-8333-444444444444",
            "c0ffee00111142228333444444444444",
            "00000000-0000-0000-0000-000000000001",
            "00000000-0000-0000-0000-00000000001",
            "c0ffee001111-4222-8333-4444444444-44",
            "+0ffee00-1111-4222-8333-444444444444",
            "",
        ];
        let of = |text: &str| PodUid::of(&ObjectMeta { uid: Some(text.to_owned()), ..ObjectMeta::default() });
        for (place, text) in texts.iter().enumerate() {
            assert_eq!(of(text), of(text));
            assert!(texts[place + 1..].iter().all(|other| of(text) != of(other)), "{text}");
        }
    }
}
