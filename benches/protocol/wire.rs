//! Nodes as protobuf: the fields that the controller reads. Others are skipped while decoding, as in JSON.
//!
//! The numbers of the fields are those of `generated.proto` in `k8s.io/api/core/v1`,
//! `k8s.io/apimachinery/pkg/apis/meta/v1` and `k8s.io/apimachinery/pkg/runtime`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use prost::Message;
use prost::bytes::Bytes;
use serde::de::IgnoredAny;

/// What each response begins with.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Message)]
struct NodeList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Node>,
}

#[derive(Message)]
struct ListMeta {
    #[prost(string, tag = "3")]
    next: String,
}

#[derive(Message)]
struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "3")]
    status: Option<NodeStatus>,
}

#[derive(Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    created: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "17")]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Message)]
struct ManagedFields {
    #[prost(string, tag = "1")]
    manager: String,
    #[prost(message, optional, tag = "7")]
    fields: Option<FieldsV1>,
}

#[derive(Message)]
struct FieldsV1 {
    /// JSON, here too.
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Message)]
struct NodeStatus {
    #[prost(btree_map = "string, message", tag = "1")]
    capacity: BTreeMap<String, Quantity>,
    #[prost(btree_map = "string, message", tag = "2")]
    allocatable: BTreeMap<String, Quantity>,
    #[prost(message, optional, tag = "7")]
    info: Option<NodeInfo>,
}

#[derive(PartialEq, Message)]
struct Quantity {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Message)]
struct NodeInfo {
    #[prost(string, tag = "3")]
    boot_id: String,
}

/// Decodes a page of a list. Returns the number of its nodes, and the token of the next page, which is empty after the
/// last.
pub fn read_page(page: &Bytes) -> Result<(usize, String)> {
    ensure_magic(page)?;
    let list = NodeList::decode(Unknown::decode(page.slice(MAGIC.len()..))?.raw)?;
    for node in &list.items {
        let metadata = node.metadata.as_ref().context("a node without metadata")?;
        for fields in metadata.managed_fields.iter().filter_map(|managed| managed.fields.as_ref()) {
            serde_json::from_slice::<IgnoredAny>(&fields.raw).context("fields of a field manager")?;
        }
    }
    Ok((list.items.len(), list.metadata.map(|metadata| metadata.next).unwrap_or_default()))
}

fn ensure_magic(page: &Bytes) -> Result<()> {
    anyhow::ensure!(page.starts_with(MAGIC), "the response is not protobuf of Kubernetes");
    Ok(())
}
