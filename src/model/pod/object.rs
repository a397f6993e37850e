//! A Pod as people look at it: its name, its node or why it has none, and its requests.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::amounts::Amounts;
use super::status::ApiPodStatus;
use super::{Container, Pod, PodSpec, Resources};

/// A Pod from the API server, decoded without unused fields.
#[derive(Clone, Debug, kube::Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::Pod)]
pub struct PodObject {
    /// The namespace, the name and the resource version.
    pub metadata: ObjectMeta,
    /// `spec.priority`: the scheduler reserves what it has promised to pods of at least the same priority.
    pub priority: i32,
    /// Whether scheduling gates keep the scheduler from considering the pod.
    pub is_gated: bool,
    /// Whether the pod is being deleted: the scheduler does not consider it, and counts it until it is gone.
    pub is_terminating: bool,
    /// `status.nominatedNodeName`: where the scheduler has made room for the pod.
    pub nominated_node: Option<Box<str>>,
    /// Why the scheduler found no node, in its own words.
    pub message: Option<Box<str>>,
    /// `status.reason` and `status.message`, such as why a kubelet rejected the pod.
    pub failure: Option<Box<str>>,
    /// What a LimitRange has added, in the words of the API server's plugin.
    pub limit_ranger: Option<Box<str>>,
    /// The node and the requests.
    pub pod: Pod,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/limit-ranger")]
    limit_ranger: Option<Box<str>>,
}

impl<'de> Deserialize<'de> for PodObject {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, expecting = "a Pod")]
        struct Trimmed {
            kind: Option<Box<str>>,
            metadata: Metadata,
            spec: Spec,
            status: Option<ApiPodStatus>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Spec {
            node_name: Option<Box<str>>,
            containers: Vec<Container>,
            init_containers: Vec<Container>,
            overhead: Amounts,
            resources: Option<Resources>,
            priority: Option<i32>,
            scheduling_gates: Option<Vec<IgnoredAny>>,
        }

        let Trimmed { kind, metadata, spec, status } = Trimmed::deserialize(decoder)?;
        let mut status = status.unwrap_or_default();
        let unscheduled = status.condition("PodScheduled").filter(|scheduled| *scheduled.status != *"True");
        let message = unscheduled.and_then(|unscheduled| unscheduled.message.clone());
        let failure = [status.reason.take(), status.message.take()].into_iter().flatten();
        let failure: Vec<_> = failure.filter(|text| !text.is_empty()).collect();
        Ok(Self {
            metadata: ObjectMeta {
                namespace: metadata.namespace,
                name: metadata.name,
                resource_version: metadata.resource_version,
                ..ObjectMeta::default()
            },
            priority: spec.priority.unwrap_or_default(),
            is_gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            is_terminating: metadata.deletion_timestamp.is_some(),
            nominated_node: status.nominated_node_name.take().filter(|name| !name.is_empty()),
            message: message.filter(|message| !message.is_empty()),
            failure: (!failure.is_empty()).then(|| failure.join(": ").into()),
            limit_ranger: metadata.annotations.and_then(|annotations| annotations.limit_ranger),
            pod: Pod {
                kind,
                spec: PodSpec {
                    node_name: spec.node_name,
                    containers: spec.containers,
                    init_containers: spec.init_containers,
                    overhead: spec.overhead,
                    resources: spec.resources,
                },
                status: status.into(),
            },
        })
    }
}
