//! The API: `noderesource.dev/v1alpha1`, kind `NodeExtendedResource`, cluster-scoped, `ner`.
//!
//! The doc comments here are what `kubectl explain ner` prints, and the CRD in `crds/` is generated
//! from these types; the module `schema` holds the validation that the API server runs.

mod json_schema;
mod reason;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use json_schema::json_schema;

pub use reason::Reason;

/// The API group, which is also the domain of the annotation on nodes.
pub const GROUP: &str = "noderesource.dev";

/// The version that files and the controller speak.
pub const VERSION: &str = "v1alpha1";

/// The name that the controller's writes carry in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "node-resource-advertiser";

/// The largest quantity that can be declared. The API server checks an extended resource by its
/// count of thousandths in 64 bits, so anything larger overflows there
/// (`ValidateNodeResources` and `Quantity.MilliValue` in Kubernetes).
pub const MAX_QUANTITY: i64 = i64::MAX / 1000;

/// What to advertise, how much of it, and on which nodes.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "noderesource.dev",
    version = "v1alpha1",
    kind = "NodeExtendedResource",
    plural = "nodeextendedresources",
    shortname = "ner",
    status = "NodeExtendedResourceStatus",
    derive = "PartialEq",
    doc = "Declares an extended resource on nodes: the controller keeps status.capacity and \
           status.allocatable of every selected node at the declared quantity, and withdraws it \
           when the declaration goes.",
    printcolumn = r#"{"name": "Resource", "type": "string", "jsonPath": ".spec.resourceName"}"#,
    printcolumn = r#"{"name": "Quantity", "type": "string", "jsonPath": ".spec.quantity"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes.summary",
        "description": "Nodes that carry the quantity, of those selected"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::exactly_one_node_choice)]
pub struct NodeExtendedResourceSpec {
    /// The resource to advertise, as pods request it: `<domain>/<name>`, such as
    /// `example.com/dongle`. Not a native one, nor anything under kubernetes.io.
    #[schemars(schema_with = "schema::resource_name")]
    pub resource_name: String,

    /// How much of it every selected node has: a whole number from 1 to 9223372036854775, as an
    /// integer or a Kubernetes quantity: 4, "4", "800Gi". Write one above 9007199254740992 as a
    /// string: kubectl loses digits of larger numbers.
    #[schemars(schema_with = "schema::quantity")]
    pub quantity: DeclaredQuantity,

    /// Selects nodes by their labels; {} selects every node. Exactly one of nodeSelector and
    /// nodeNames is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_selector")]
    pub node_selector: Option<LabelSelector>,

    /// Names the nodes. One that does not exist is counted as missing and gets the resource when
    /// it appears. Exactly one of nodeSelector and nodeNames is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_names")]
    pub node_names: Option<Vec<String>>,

    /// Where several rules declare the same resource on a node, the highest priority wins; then
    /// the oldest rule, then the first name.
    #[serde(default)]
    pub priority: i32,

    /// What to do where another writer has put a value: Keep leaves it and counts the node as
    /// conflicted; Overwrite takes it over.
    #[serde(default)]
    pub conflict_policy: ConflictPolicy,

    /// What becomes of a value that is no longer declared: Withdraw removes it; Retain leaves it
    /// on the node, as nobody's. It holds from the moment the value is written, also after the rule
    /// itself is gone. A rule that comes later finds it as another writer's, which
    /// conflictPolicy: Overwrite takes over.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// What to do where the quantity is less than what the node carries, and pods on the node request
    /// more than it: WhenFree goes down no further than what they request, and follows as they end;
    /// Immediate goes down at once, and a kubelet that starts again then kills pods.
    #[serde(default)]
    pub shrink_policy: ShrinkPolicy,
}

/// What to do with a value that another writer put there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ConflictPolicy {
    /// Leave it.
    #[default]
    Keep,
    /// Take it over.
    Overwrite,
}

/// What becomes of a value that is no longer declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It is removed.
    #[default]
    Withdraw,
    /// It stays, and is no longer the controller's own.
    Retain,
}

/// How a value is lowered while pods use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ShrinkPolicy {
    /// No further than what pods on the node request.
    #[default]
    WhenFree,
    /// At once.
    Immediate,
}

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

/// What the controller last saw and did.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeExtendedResourceStatus {
    /// The metadata.generation that the rest of the status speaks of; -1 before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready: every selected node is as the rules declare. Reconciling: work is under way.
    /// Stalled: nothing will happen until somebody changes the rule. Overlapping: on some nodes
    /// another rule decides. Contested: on some nodes another writer keeps changing the value back.
    /// DeviceClassMapped: a DeviceClass maps the resource, so that pods would be diverted from DRA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// How many nodes are in which state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,

    /// The first ten nodes, by name, that are not as declared; the rest are counted in `nodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::problems")]
    pub problems: Vec<NodeProblem>,
}

/// How many nodes a rule selects, and the state they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
// What a later version adds must not make the objects of this one unreadable.
#[serde(rename_all = "camelCase", default)]
pub struct NodeCounts {
    /// Advertised of selected, such as 11/12: what `kubectl get` prints.
    pub summary: String,
    /// Nodes that exist and that the rule selects.
    pub selected: i64,
    /// Nodes that carry the declared quantity in capacity and allocatable.
    pub advertised: i64,
    /// Nodes that carry more than the declared quantity, since pods on them request it, or since pods
    /// cannot be listed.
    pub held: i64,
    /// Nodes left alone because another writer put a value there, or keeps changing it back.
    pub conflicted: i64,
    /// Nodes where a rule of higher precedence declares the same resource.
    pub overridden: i64,
    /// Nodes whose last patch was refused or went unanswered, and is retried; and nodes that are not
    /// touched since the annotation on them cannot be read.
    pub failed: i64,
    /// Names in nodeNames that are no node at present.
    pub missing: i64,
}

/// A node that is not as the rule declares, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeProblem {
    /// The node's name.
    pub node: String,
    /// One word for machines: Held, PodsUnreadable, Conflict, Contested, PatchFailed or
    /// LedgerUnreadable.
    pub reason: String,
    /// The same for people, with the value that is there.
    pub message: String,
}

/// The CustomResourceDefinition, as `crds/` holds it.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut crd = NodeExtendedResource::crd();
    let versions = crd.spec.versions.iter_mut();
    for schema in
        versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
    {
        join_lines(schema);
        if let Some(status) = schema.properties.as_mut().and_then(|all| all.get_mut("status")) {
            // Without it a new rule has no status for a moment, and kstatus (Flux, Helm) takes an
            // object without one for finished.
            status.default = Some(JSON(json!({ "observedGeneration": -1 })));
        }
    }
    crd
}

/// Makes one line of each paragraph: doc comments are broken to fit a source file, and `kubectl
/// explain` would keep the breaks.
fn join_lines(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let paragraphs = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    schema.properties.iter_mut().flat_map(|all| all.values_mut()).for_each(join_lines);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        join_lines(items);
    }
}
