//! The status of a rule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The longest message in a status, in characters: a status must not fill the memory of a controller.
pub const MAX_MESSAGE: usize = 1024;
/// The longest `requested`.
pub const MAX_REQUESTED: usize = 64;
/// The longest reason.
const MAX_REASON: usize = 64;

/// What the controller last observed and did.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeExtendedResourceStatus {
    /// The metadata.generation that this status describes; -1 before the first observation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready: every selected node is as the rules declare. Reconciling: work is in progress. Stalled: nothing
    /// happens until the rule changes. Overlapping: another rule decides on some nodes. Contested: another field
    /// manager keeps changing the value back on some nodes. DeviceClassMapped: a DeviceClass maps the resource, so
    /// that pods would be diverted from DRA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,

    /// The number of nodes in each state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// Total quantity that nodes have from this rule: as declared, held, while the rule is paused, or while the
    /// quantity is unknown. Absent while the rule is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub total: Option<String>,

    /// Requests of unfinished pods for the resource on these nodes; the column USED, beside TOTAL. Written at most every 30
    /// seconds if nothing else changes. Absent while the controller does not watch pods, because no rule with shrinkPolicy
    /// WhenFree selects a node or the watch is broken, and while the rule is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_REQUESTED))]
    pub requested: Option<String>,

    /// The first ten nodes, by name, that are not as declared; `nodes` counts the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "problems")]
    pub problems: Vec<NodeProblem>,
}

/// The number of nodes that a rule selects, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
// Fields that a later version adds must not make the objects of this version unreadable.
#[serde(rename_all = "camelCase", default)]
pub struct NodeCounts {
    /// Advertised of selected nodes, such as 11/12, as `kubectl get` prints it.
    #[schemars(length(max = 64))]
    pub summary: String,
    /// Existing nodes that the rule selects.
    pub selected: i64,
    /// Nodes with the declared quantity in capacity and allocatable.
    pub advertised: i64,
    /// Nodes with more than the declared quantity, because pods on them request it; and nodes whose value waits for
    /// the watch of pods.
    pub held: i64,
    /// Nodes whose value is not written because another field manager has set it, or keeps changing it back.
    pub conflicted: i64,
    /// Nodes where a rule of higher precedence declares the same resource.
    pub overridden: i64,
    /// Nodes whose last patch was rejected or got no response, and is retried; nodes that wait because too many others
    /// failed; nodes that do not change because their annotation cannot be read; and nodes whose annotation has no room
    /// for the resource.
    pub failed: i64,
    /// Names in nodeNames without a node.
    pub missing: i64,
}

/// A node that is not as the rule declares, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeProblem {
    /// The node's name.
    #[schemars(length(max = 253))]
    pub node: String,
    /// Machine-readable reason: Held, PodsUnavailable, Conflict, Contested, PatchFailed, InvalidLedger, LedgerFull,
    /// Paused or QuantityUnknown.
    #[schemars(length(max = MAX_REASON))]
    pub reason: String,
    /// Human-readable message, with the current value.
    #[schemars(length(max = MAX_MESSAGE))]
    pub message: String,
}

fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut condition = Condition::json_schema(generator);
    for (field, length) in [("type", 316), ("status", 16), ("reason", MAX_REASON), ("message", MAX_MESSAGE)] {
        if let Some(field) = condition.pointer_mut(&format!("/properties/{field}"))
            && let Some(field) = field.as_object_mut()
        {
            field.insert("maxLength".to_owned(), length.into());
        }
    }
    json_schema!({
        "type": "array",
        "maxItems": 8,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": condition,
    })
}

fn problems(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 10,
        "x-kubernetes-list-type": "atomic",
        "items": generator.subschema_for::<NodeProblem>(),
    })
}
