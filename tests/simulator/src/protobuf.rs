//! Nodes, pods and statuses as the API server encodes them in protobuf, from their JSON. The conformance test compares the
//! bytes with those of a real server.
//!
//! Field numbers are those of `generated.proto` in `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`. As
//! there, fields are in the order of their numbers, the keys of maps are sorted, and a text or number that is no
//! pointer in Go is there even if it is empty.

mod pods;

use jiff::Timestamp;
use prost::encoding::{self, WireType};
use serde_json::Value;

/// The media type.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What each object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A field: its number, its name in JSON, and its type.
type Field = (u32, &'static str, Type);

#[derive(Clone, Copy)]
enum Type {
    Text,
    /// An optional text: in Go, a pointer.
    OptionalText,
    Number,
    /// An optional number: in Go, a pointer.
    Pointer,
    Flag,
    /// An optional flag: in Go, a pointer.
    OptionalFlag,
    Texts,
    TextMap,
    QuantityMap,
    Time,
    OptionalTime,
    /// JSON as bytes.
    Json,
    Message(&'static [Field]),
    OptionalMessage(&'static [Field]),
    Messages(&'static [Field]),
}

use Type::{
    Flag, Json, Message, Messages, Number, OptionalFlag, OptionalMessage, OptionalText, OptionalTime, Pointer,
    QuantityMap, Text, TextMap, Texts, Time,
};

const TYPE_META: &[Field] = &[(1, "apiVersion", Text), (2, "kind", Text)];

const LIST_META: &[Field] =
    &[(1, "selfLink", Text), (2, "resourceVersion", Text), (3, "continue", Text), (4, "remainingItemCount", Pointer)];

const OBJECT_META: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Number),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", OptionalTime),
    (10, "deletionGracePeriodSeconds", Pointer),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (14, "finalizers", Texts),
    (17, "managedFields", Messages(MANAGED_FIELDS)),
];

const MANAGED_FIELDS: &[Field] = &[
    (1, "manager", Text),
    (2, "operation", Text),
    (3, "apiVersion", Text),
    (4, "time", OptionalTime),
    (6, "fieldsType", Text),
    (7, "fieldsV1", Json),
    (8, "subresource", Text),
];

const NODE: &[Field] =
    &[(1, "metadata", Message(OBJECT_META)), (2, "spec", Message(SPEC)), (3, "status", Message(STATUS))];

const NODE_LIST: &[Field] = &[(1, "metadata", Message(LIST_META)), (2, "items", Messages(NODE))];

const SPEC: &[Field] = &[
    (1, "podCIDR", Text),
    (2, "externalID", Text),
    (3, "providerID", Text),
    (4, "unschedulable", Flag),
    (
        5,
        "taints",
        Messages(&[(1, "key", Text), (2, "value", Text), (3, "effect", Text), (4, "timeAdded", OptionalTime)]),
    ),
    (7, "podCIDRs", Texts),
];

const STATUS: &[Field] = &[
    (1, "capacity", QuantityMap),
    (2, "allocatable", QuantityMap),
    (3, "phase", Text),
    (4, "conditions", Messages(CONDITION)),
    (5, "addresses", Messages(&[(1, "type", Text), (2, "address", Text)])),
    (6, "daemonEndpoints", Message(&[(1, "kubeletEndpoint", Message(&[(1, "Port", Number)]))])),
    (7, "nodeInfo", Message(NODE_INFO)),
];

const CONDITION: &[Field] = &[
    (1, "type", Text),
    (2, "status", Text),
    (3, "lastHeartbeatTime", Time),
    (4, "lastTransitionTime", Time),
    (5, "reason", Text),
    (6, "message", Text),
];

const NODE_INFO: &[Field] = &[
    (1, "machineID", Text),
    (2, "systemUUID", Text),
    (3, "bootID", Text),
    (4, "kernelVersion", Text),
    (5, "osImage", Text),
    (6, "containerRuntimeVersion", Text),
    (7, "kubeletVersion", Text),
    (8, "kubeProxyVersion", Text),
    (9, "operatingSystem", Text),
    (10, "architecture", Text),
];

const FAILURE: &[Field] = &[
    (1, "metadata", Message(LIST_META)),
    (2, "status", Text),
    (3, "message", Text),
    (4, "reason", Text),
    (5, "details", OptionalMessage(DETAILS)),
    (6, "code", Number),
];

const DETAILS: &[Field] = &[
    (1, "name", Text),
    (2, "group", Text),
    (3, "kind", Text),
    (4, "causes", Messages(&[(1, "reason", Text), (2, "message", Text), (3, "field", Text)])),
    (5, "retryAfterSeconds", Number),
    (6, "uid", Text),
];

/// Returns an object in protobuf: a node, a pod, a list of them or a status. `None` if it is something else.
#[must_use]
pub fn object(object: &Value) -> Option<Vec<u8>> {
    let fields = match object["kind"].as_str()? {
        "Node" => NODE,
        "NodeList" => NODE_LIST,
        "Pod" => pods::POD,
        "PodList" => pods::POD_LIST,
        "Status" => FAILURE,
        _ => return None,
    };
    let mut bytes = MAGIC.to_vec();
    put_message(1, &message(object, TYPE_META), &mut bytes);
    put_message(2, &message(object, fields), &mut bytes);
    // The encoding and the type of the content, which are empty.
    put_text(3, "", &mut bytes);
    put_text(4, "", &mut bytes);
    Some(bytes)
}

/// Returns an event of a watch, with its length before it.
#[must_use]
pub fn event(event: &Value) -> Option<Vec<u8>> {
    let (mut bytes, mut raw) = (Vec::new(), Vec::new());
    put_message(1, &object(&event["object"])?, &mut raw);
    put_text(1, event["type"].as_str()?, &mut bytes);
    put_message(2, &raw, &mut bytes);
    let length = u32::try_from(bytes.len()).ok()?;
    Some([&length.to_be_bytes()[..], &bytes].concat())
}

fn put_message(tag: u32, message: &[u8], to: &mut Vec<u8>) {
    encoding::encode_key(tag, WireType::LengthDelimited, to);
    encoding::encode_varint(message.len() as u64, to);
    to.extend(message);
}

fn put_text(tag: u32, text: &str, to: &mut Vec<u8>) {
    put_message(tag, text.as_bytes(), to);
}

fn put_number(tag: u32, number: i64, to: &mut Vec<u8>) {
    encoding::int64::encode(tag, &number, to);
}

fn message(object: &Value, fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(tag, name, kind) in fields {
        put(tag, &object[name], kind, &mut bytes);
    }
    bytes
}

fn put(tag: u32, value: &Value, kind: Type, to: &mut Vec<u8>) {
    let text = value.as_str().unwrap_or_default();
    let members = value.as_object().into_iter().flatten();
    let items = value.as_array().into_iter().flatten();
    match kind {
        Text => put_text(tag, text, to),
        Number => put_number(tag, value.as_i64().unwrap_or_default(), to),
        Flag => encoding::bool::encode(tag, &value.as_bool().unwrap_or_default(), to),
        Time => put_message(tag, &time(text), to),
        Message(fields) => put_message(tag, &message(value, fields), to),
        Texts => items.for_each(|item| put_text(tag, item.as_str().unwrap_or_default(), to)),
        Messages(fields) => items.for_each(|item| put_message(tag, &message(item, fields), to)),
        TextMap => members.for_each(|(key, value)| put_message(tag, &entry(key, value.as_str(), false), to)),
        QuantityMap => members.for_each(|(key, value)| put_message(tag, &entry(key, value.as_str(), true), to)),
        Pointer | OptionalText | OptionalFlag | OptionalTime | Json | OptionalMessage(_) if value.is_null() => {}
        OptionalText => put_text(tag, text, to),
        OptionalFlag => encoding::bool::encode(tag, &value.as_bool().unwrap_or_default(), to),
        Pointer => put_number(tag, value.as_i64().unwrap_or_default(), to),
        OptionalTime => put_message(tag, &time(text), to),
        OptionalMessage(fields) => put_message(tag, &message(value, fields), to),
        Json => {
            let mut raw = Vec::new();
            put_text(1, &value.to_string(), &mut raw);
            put_message(tag, &raw, to);
        }
    }
}

/// An entry of a map: a quantity is a message with a text.
fn entry(key: &str, value: Option<&str>, is_quantity: bool) -> Vec<u8> {
    let (mut entry, value) = (Vec::new(), value.unwrap_or_default());
    put_text(1, key, &mut entry);
    if is_quantity {
        let mut quantity = Vec::new();
        put_text(1, value, &mut quantity);
        put_message(2, &quantity, &mut entry);
    } else {
        put_text(2, value, &mut entry);
    }
    entry
}

/// A time: an empty message if there is none.
fn time(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(time) = text.parse::<Timestamp>() {
        put_number(1, time.as_second(), &mut bytes);
        put_number(2, 0, &mut bytes);
    }
    bytes
}
