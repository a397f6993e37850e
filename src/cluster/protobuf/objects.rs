//! Messages of Kubernetes in protobuf, reduced to the fields that the controller reads, and their form in JSON.
//!
//! The numbers of the fields are those of `generated.proto` in `k8s.io/api/core/v1`,
//! `k8s.io/apimachinery/pkg/apis/meta/v1` and `k8s.io/apimachinery/pkg/runtime`, which never change. Decoding skips all
//! others. As in Kubernetes' own JSON, an empty map is an absent one.
//!
//! A text is any bytes: Kubernetes does not check what clients write in protobuf, so one annotation that is cut in the
//! middle of a character must not make all nodes unreadable. Entries of maps are messages with a key and a value.

use std::borrow::Cow;

use k8s_openapi::jiff::Timestamp;
use prost::Message;
use prost::bytes::Bytes;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Serializes a text. Like Go, it replaces each byte that is not UTF-8.
pub(super) fn text<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&lossy(bytes))
}

pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

fn texts<S: Serializer>(entries: &[TextEntry], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(entries.iter().map(|TextEntry { key, value }| (lossy(key), lossy(value))))
}

pub(super) fn quantities<S: Serializer>(entries: &[QuantityEntry], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(entries.iter().map(|QuantityEntry { key, value }| {
        let text = value.as_ref().map(|quantity| lossy(&quantity.text)).unwrap_or_default();
        (lossy(key), text)
    }))
}

#[derive(Message)]
struct TextEntry {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Message)]
pub(super) struct QuantityEntry {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(message, optional, tag = "2")]
    value: Option<Quantity>,
}

#[derive(Message)]
struct Quantity {
    #[prost(bytes = "bytes", tag = "1")]
    text: Bytes,
}

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
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    pub(super) api_version: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    pub(super) kind: Bytes,
}

#[derive(Message)]
pub(super) struct WatchEvent {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) kind: Bytes,
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
pub(super) struct ListMeta {
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    resource_version: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", rename = "continue", skip_serializing_if = "Bytes::is_empty")]
    next: Bytes,
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
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text")]
    resource_version: Bytes,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "11")]
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    labels: Vec<TextEntry>,
    #[prost(message, repeated, tag = "12")]
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<TextEntry>,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFields {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    manager: Bytes,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_v1: Option<FieldsV1>,
    #[prost(bytes = "bytes", tag = "8")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    subresource: Bytes,
}

/// A time in whole seconds. An empty message is no time.
#[derive(Message)]
pub(super) struct Time {
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
        if self.raw.contains(&b'\n') {
            // It would end the line of an event.
            return serde_json::from_slice::<Value>(&self.raw).map_err(S::Error::custom)?.serialize(to);
        }
        serde_json::from_slice::<&RawValue>(&self.raw).map_err(S::Error::custom)?.serialize(to)
    }
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    #[prost(message, repeated, tag = "1")]
    #[serde(serialize_with = "quantities", skip_serializing_if = "Vec::is_empty")]
    capacity: Vec<QuantityEntry>,
    #[prost(message, repeated, tag = "2")]
    #[serde(serialize_with = "quantities", skip_serializing_if = "Vec::is_empty")]
    allocatable: Vec<QuantityEntry>,
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    node_info: Option<NodeInfo>,
}

#[derive(Message, Serialize)]
struct Condition {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", rename = "type")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    status: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text")]
    reason: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text")]
    message: Bytes,
}

#[derive(Message, Serialize)]
struct NodeInfo {
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", rename = "bootID")]
    boot_id: Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    #[serde(serialize_with = "text", rename = "kubeletVersion")]
    kubelet_version: Bytes,
}

/// Why the API server rejects a request, or ends a watch.
#[derive(Message, Serialize)]
pub(super) struct Status {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    status: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "text")]
    reason: Bytes,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    group: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    kind: Bytes,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}

#[derive(Message, Serialize)]
struct StatusCause {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    reason: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    message: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    field: Bytes,
}
