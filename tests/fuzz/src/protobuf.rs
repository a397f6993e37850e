//! Objects and events as protobuf: they become JSON, or are rejected.

use node_resource_advertiser::cluster::protobuf::{Objects, event_to_json, object_to_json};
use serde_json::Value;

use crate::limits::limited;
use crate::responses;

/// What becomes JSON is JSON, however its texts and times look, and the rest of the program can use it.
pub fn check(bytes: &[u8]) {
    for objects in [Objects::Nodes, Objects::Pods] {
        let bytes = bytes.to_vec();
        let converted = limited(bytes.len(), 1, || {
            [object_to_json(&bytes.clone().into(), objects), event_to_json(bytes.clone().into(), objects)]
        });
        for json in converted.into_iter().flatten() {
            serde_json::from_slice::<Value>(&json).expect("the result is JSON");
            responses::check(&json);
        }
    }
}
