//! The status of a rule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The longest message in a status, in characters: as in Kubernetes' own conditions.
pub const MAX_MESSAGE: usize = 32_768;

/// What the controller last saw and did.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeExtendedResourceStatus {
    /// The metadata.generation that the rest of the status speaks of; -1 before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready: every selected node is as the rules declare. Reconciling: work is under way.
    /// Stalled: nothing will happen until somebody changes the rule. Overlapping: on some nodes
    /// another rule decides. Contested: on some nodes another field manager keeps changing the value back.
    /// DeviceClassMapped: a DeviceClass maps the resource, so that pods would be diverted from DRA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,

    /// How many nodes are in which state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// How much of the resource the nodes together carry for this rule: those that are counted as
    /// advertised or held. Absent while the rule is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub total: Option<String>,

    /// The first ten nodes, by name, that are not as declared; the rest are counted in `nodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "problems")]
    pub problems: Vec<NodeProblem>,
}

/// How many nodes a rule selects, and the state they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
// What a later version adds must not make the objects of this one unreadable.
#[serde(rename_all = "camelCase", default)]
pub struct NodeCounts {
    /// Advertised of selected, such as 11/12: what `kubectl get` prints.
    #[schemars(length(max = 64))]
    pub summary: String,
    /// Nodes that exist and that the rule selects.
    pub selected: i64,
    /// Nodes that carry the declared quantity in capacity and allocatable.
    pub advertised: i64,
    /// Nodes that carry more than the declared quantity, since pods on them request it; and nodes whose
    /// value waits for a list of pods that cannot be had.
    pub held: i64,
    /// Nodes whose value is not written because another field manager put one there, or keeps changing it back.
    pub conflicted: i64,
    /// Nodes where a rule of higher precedence declares the same resource.
    pub overridden: i64,
    /// Nodes whose last patch was rejected or went unanswered, and is retried; nodes that do not change since
    /// the annotation on them cannot be read; and nodes whose annotation has no room for the resource.
    pub failed: i64,
    /// Names in nodeNames that are no node at present.
    pub missing: i64,
}

/// A node that is not as the rule declares, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeProblem {
    /// The node's name.
    #[schemars(length(max = 253))]
    pub node: String,
    /// One word for machines: Held, PodsUnavailable, Conflict, Contested, PatchFailed, InvalidLedger or
    /// LedgerFull.
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// The same for people, with the value that is there.
    #[schemars(length(max = MAX_MESSAGE))]
    pub message: String,
}

fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut condition = Condition::json_schema(generator);
    for (field, length) in
        [("type", 316), ("status", 16), ("reason", 1024), ("message", MAX_MESSAGE)]
    {
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
