//! Messages of Kubernetes in protobuf, reduced to the fields that the controller reads, and their form in JSON.
//!
//! The numbers of the fields are those of `generated.proto` in `k8s.io/api/core/v1`,
//! `k8s.io/apimachinery/pkg/apis/meta/v1` and `k8s.io/apimachinery/pkg/runtime`, which never change. Decoding skips all
//! others. As in Kubernetes' own JSON, an empty map is an absent one.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use prost::Message;
use prost::bytes::Bytes;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// An object of any kind.
#[derive(Message)]
pub(super) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(super) kind: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) raw: Bytes,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TypeMeta {
    #[prost(string, tag = "1")]
    pub(super) api_version: String,
    #[prost(string, tag = "2")]
    pub(super) kind: String,
}

#[derive(Message)]
pub(super) struct WatchEvent {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(message, optional, tag = "2")]
    pub(super) object: Option<RawExtension>,
}

#[derive(Message)]
pub(super) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) raw: Bytes,
}

#[derive(Message, Serialize)]
pub(super) struct NodeList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Node>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[prost(string, tag = "3")]
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    next: String,
}

#[derive(Message, Serialize)]
pub(super) struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<NodeStatus>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields {
    #[prost(string, tag = "1")]
    manager: String,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_v1: Option<FieldsV1>,
}

/// A time in whole seconds. An empty message is no time.
#[derive(Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match Timestamp::from_second(self.seconds) {
            Ok(time) if self.seconds != 0 => to.collect_str(&time),
            _ => to.serialize_none(),
        }
    }
}

/// Fields, which are JSON here too.
#[derive(Message)]
struct FieldsV1 {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

impl Serialize for FieldsV1 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.raw.is_empty() {
            return to.serialize_none();
        }
        serde_json::from_slice::<&RawValue>(&self.raw).map_err(S::Error::custom)?.serialize(to)
    }
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    #[prost(btree_map = "string, message", tag = "1")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    capacity: BTreeMap<String, Quantity>,
    #[prost(btree_map = "string, message", tag = "2")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    allocatable: BTreeMap<String, Quantity>,
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    node_info: Option<NodeInfo>,
}

#[derive(Message, PartialEq, Serialize)]
#[serde(transparent)]
struct Quantity {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Message, Serialize)]
struct Condition {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    kind: String,
    #[prost(string, tag = "2")]
    status: String,
    #[prost(string, tag = "5")]
    reason: String,
    #[prost(string, tag = "6")]
    message: String,
}

#[derive(Message, Serialize)]
struct NodeInfo {
    #[prost(string, tag = "3")]
    #[serde(rename = "bootID")]
    boot_id: String,
}

/// Why the API server rejects a request, or ends a watch.
#[derive(Message, Serialize)]
pub(super) struct Status {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ListMeta>,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    status: String,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    group: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}

#[derive(Message, Serialize)]
struct StatusCause {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, tag = "3")]
    field: String,
}
