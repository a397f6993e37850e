//! Pods in protobuf, reduced to what they request, and whether they have started.

use prost::Message;
use prost::bytes::Bytes;
use serde::{Serialize, Serializer};

use super::objects::{ListMeta, QuantityEntry, Time, quantities, text};

#[derive(Message, Serialize)]
pub(super) struct PodList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    #[serde(serialize_with = "trimmed")]
    items: Vec<Pod>,
}

fn trimmed<S: Serializer>(pods: &[Pod], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(pods.iter().map(Trimmed))
}

/// A pod, of which only the metadata remain if it requests nothing that could be an extended resource: nearly all pods.
pub(super) struct Trimmed<'a>(pub(super) &'a Pod);

impl Serialize for Trimmed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct MetadataOnly<'a> {
            metadata: &'a Option<ObjectMeta>,
        }

        let Self(pod) = self;
        match &pod.spec {
            Some(spec) if spec.requests_extended_resources() => pod.serialize(to),
            _ => MetadataOnly { metadata: &pod.metadata }.serialize(to),
        }
    }
}

#[derive(Message, Serialize)]
pub(super) struct Pod {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<PodStatus>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text")]
    resource_version: Bytes,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    containers: Vec<Container>,
    #[prost(bytes = "bytes", tag = "10")]
    #[serde(serialize_with = "text")]
    node_name: Bytes,
    #[prost(message, repeated, tag = "20")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Container>,
    #[prost(message, repeated, tag = "32")]
    #[serde(serialize_with = "quantities", skip_serializing_if = "Vec::is_empty")]
    overhead: Vec<QuantityEntry>,
}

impl PodSpec {
    fn requests_extended_resources(&self) -> bool {
        let containers = self.containers.iter().chain(&self.init_containers);
        let requests = containers.filter_map(|container| container.resources.as_ref());
        // The name of a native resource has no domain.
        requests.flat_map(|it| &it.requests).chain(&self.overhead).any(|entry| entry.key.contains(&b'/'))
    }
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceRequirements>,
    #[prost(bytes = "bytes", tag = "24")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    restart_policy: Bytes,
}

#[derive(Message, Serialize)]
struct ResourceRequirements {
    #[prost(message, repeated, tag = "2")]
    #[serde(serialize_with = "quantities")]
    requests: Vec<QuantityEntry>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    phase: Bytes,
    #[prost(message, repeated, tag = "2")]
    conditions: Vec<PodCondition>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<Time>,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
    #[prost(message, optional, tag = "18")]
    #[serde(skip_serializing_if = "Option::is_none")]
    extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

#[derive(Message, Serialize)]
struct PodCondition {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", rename = "type")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    status: Bytes,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<ContainerState>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    last_state: Option<ContainerState>,
    #[prost(int32, tag = "5")]
    restart_count: i32,
}

#[derive(Message, Serialize)]
struct ContainerState {
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Present>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    terminated: Option<Present>,
}

/// A message that is there, whatever is in it.
#[derive(Message, Serialize)]
struct Present {}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExtendedResourceClaimStatus {
    #[prost(message, repeated, tag = "1")]
    request_mappings: Vec<RequestMapping>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestMapping {
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    resource_name: Bytes,
}
