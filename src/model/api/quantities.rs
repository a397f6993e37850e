//! `spec.quantity`, and `spec.quantityFrom`: where a rule reads the quantity of a node.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// A quantity as written in a manifest: a JSON integer or a string. The value behind it is checked
/// when the rule is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum DeclaredQuantity {
    /// `4`
    Int(i64),
    /// `"4"`, `800Gi`
    Text(String),
}

impl std::fmt::Display for DeclaredQuantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Where the quantity of a node is read, and its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::exactly_one_source)]
pub struct QuantityFrom {
    /// Reads the quantity from a label of the node, whose value is a whole number such as 4 or 800Gi, or is in a table of
    /// quantities. Set exactly one of nodeLabel, nodeAnnotation and resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_label: Option<NodeLabel>,

    /// Reads the quantity from an annotation of the node, as from a label. Set exactly one of nodeLabel, nodeAnnotation
    /// and resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_annotation: Option<NodeKey>,

    /// Divides the capacity of the node for a native resource, and rounds down: a node with 62Gi of memory has 15 slots of
    /// 4Gi. Set exactly one of nodeLabel, nodeAnnotation and resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<NativeResource>,

    /// The largest quantity to accept. A node that claims more keeps its current value, and the status reports it.
    /// Anyone who can set the label or annotation sets the quantity, so choose a bound that does no harm. Required, except with
    /// nodeLabel.values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bound")]
    pub max: Option<DeclaredQuantity>,

    /// The smallest quantity, 1 by default. A node with less is treated as if the label, annotation or resource were
    /// missing. Not with nodeLabel.values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bound")]
    pub min: Option<DeclaredQuantity>,

    /// The quantity of a node that has no such label, annotation or resource, or too little. Do not set whenMissing too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::bound")]
    pub default: Option<DeclaredQuantity>,

    /// What to do on a node that has no such label, annotation or resource, or too little: Keep, the default, keeps the
    /// value that is advertised there, and adds none; None advertises nothing, and withdraws what was advertised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_missing: Option<WhenMissing>,
}

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeLabel {
    /// The key, such as node.kubernetes.io/instance-type.
    #[schemars(schema_with = "schema::source_key")]
    pub key: String,

    /// A table: the quantity of a node by the value of its label, such as m5.large: 24. A node with another value is
    /// treated as if the label were missing. Set exactly one of values and max.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantities_by_value")]
    pub values: Option<BTreeMap<String, DeclaredQuantity>>,
}

/// An annotation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeKey {
    /// The key, such as example.com/slots.
    #[schemars(schema_with = "schema::source_key")]
    pub key: String,
}

/// A native resource, and what to divide it by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NativeResource {
    /// cpu, memory, ephemeral-storage, pods, or hugepages with a size, such as hugepages-2Mi.
    #[schemars(schema_with = "schema::native_resource")]
    pub name: String,

    /// The amount for a quantity of 1, such as 4Gi or 500m.
    #[schemars(schema_with = "schema::divisor")]
    pub divisor: DeclaredQuantity,
}

/// What to do on a node that has no such label, annotation or resource, or too little: Keep, the default, keeps the
/// value that is advertised there, and adds none; None advertises nothing, and withdraws what was advertised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum WhenMissing {
    /// Keep the value that is advertised, and add none.
    #[default]
    Keep,
    /// Advertise nothing.
    None,
}
