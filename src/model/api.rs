//! The API: `noderesource.dev/v1alpha1`, kind `NodeExtendedResource`, cluster-scoped, `ner`.
//!
//! The doc comments here are what `kubectl explain ner` prints, and the CRD in `crds/` is generated
//! from these types; the module `schema` holds the validation that the API server runs.

mod json_schema;
mod quantities;
mod reason;
mod schema;
mod status;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::model::count::{NAMED, few};
pub use json_schema::json_schema;
pub use quantities::{DeclaredQuantity, NativeResource, NodeKey, NodeLabel, QuantityFrom, WhenMissing};
pub use reason::Reason;
pub use schema::{
    MAX_ENTRIES, MAX_ENTRIES_LENGTH, MAX_NAMES, MAX_NAMES_LENGTH, MAX_REQUIREMENTS, MAX_VALUES, MAX_VALUES_LENGTH,
};
pub use status::{MAX_MESSAGE, MAX_REQUESTED, NodeCounts, NodeExtendedResourceStatus, NodeProblem};

/// The API group, which is also the domain of the annotation on nodes.
pub const GROUP: &str = "noderesource.dev";

/// The version of the API in files and in the controller.
pub const VERSION: &str = "v1alpha1";

/// The field manager of the controller's writes in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "node-resource-advertiser";

/// The resource to advertise, its quantity, and the nodes.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "noderesource.dev",
    version = "v1alpha1",
    kind = "NodeExtendedResource",
    plural = "nodeextendedresources",
    shortname = "ner",
    // Not `all`: `kubectl get all` is for what a namespace runs, and this has none.
    category = "noderesource",
    // From Kubernetes 1.31 (1.30 has a feature gate for it, and drops the field without).
    selectable = ".spec.resourceName",
    status = "NodeExtendedResourceStatus",
    derive = "PartialEq",
    doc = "Declares an extended resource on nodes: the controller keeps status.capacity and \
           status.allocatable of every selected node at the declared quantity, and withdraws it \
           when it is no longer declared.",
    printcolumn = r#"{"name": "Resource", "type": "string", "jsonPath": ".spec.resourceName"}"#,
    printcolumn = r#"{"name": "Quantity", "type": "string", "jsonPath": ".spec.quantity"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes.summary",
        "description": "Nodes with the quantity, out of the selected nodes"}"#,
    printcolumn = r#"{"name": "Total", "type": "string", "jsonPath": ".status.total",
        "description": "Total quantity on all nodes for this rule"}"#,
    printcolumn = r#"{"name": "Used", "type": "string", "jsonPath": ".status.requested",
        "description": "Requests of pods on these nodes"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::exactly_one_choice)]
pub struct NodeExtendedResourceSpec {
    /// The resource to advertise, as pods request it: `<domain>/<name>`, such as
    /// `example.com/dongle`. Native resources and names under kubernetes.io are not allowed.
    #[schemars(schema_with = "schema::resource_name")]
    pub resource_name: String,

    /// The quantity on every selected node: a whole number from 1 to 9223372036854775, as an integer or a
    /// Kubernetes quantity: 4, "4", "800Gi". Write numbers above 9007199254740992 as strings, because kubectl
    /// loses digits of larger numbers. Set exactly one of quantity and quantityFrom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub quantity: Option<DeclaredQuantity>,

    /// Reads the quantity from each selected node, so that nodes can have different quantities: from a label, an
    /// annotation, or a native resource. Set exactly one of quantity and quantityFrom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity_from: Option<Box<QuantityFrom>>,

    /// Selects nodes by labels, with at least one requirement. Set exactly one of nodeSelector, nodeNames and
    /// allNodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_selector")]
    pub node_selector: Option<LabelSelector>,

    /// Selects nodes by name. A node that does not exist counts as missing, and gets the resource when it appears.
    /// Set exactly one of nodeSelector, nodeNames and allNodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::node_names")]
    pub node_names: Option<Vec<String>>,

    /// Selects every node, including future nodes: true, or omitted. Set exactly one of nodeSelector, nodeNames
    /// and allNodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::all_nodes")]
    pub all_nodes: Option<bool>,

    /// If several rules declare the same resource on a node, the highest priority wins; then
    /// the oldest rule, then the first name.
    // Kubernetes 1.30 checks no format.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,

    /// What to do if another field manager has set a value: Keep leaves the value and counts the node as conflicted;
    /// Overwrite takes the value over.
    #[serde(default)]
    pub conflict_policy: ConflictPolicy,

    /// What happens to a value that is no longer declared: Withdraw removes it; WhenUnused lowers it to what pods on
    /// the node request, and further as they end, and removes it with the last; Retain leaves it on the node. The
    /// policy applies from the moment the value is written, also after the rule is deleted. A later rule with the
    /// same quantity adopts a retained value; for a rule with another quantity, the value is a conflict.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// What to do if the quantity is less than the value on the node and pods on the node request more: WhenFree
    /// lowers the value only to what pods request, and further as they end; Immediate lowers it at once, and a
    /// kubelet that restarts then kills pods.
    #[serde(default)]
    pub shrink_policy: ShrinkPolicy,

    /// If true, the controller only repairs the values that the rule already has on nodes. It adds, changes and
    /// withdraws nothing when the rule or a node is edited, except that a lower priority lets other rules take over.
    /// Deleting a paused rule withdraws its values.
    #[serde(default)]
    pub paused: bool,
}

/// What to do with a value that another field manager has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ConflictPolicy {
    /// Leave it.
    #[default]
    Keep,
    /// Take it over.
    Overwrite,
}

/// What happens to a value that is no longer declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It is removed.
    #[default]
    Withdraw,
    /// It goes down as pods end, and is removed with the last.
    WhenUnused,
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

/// Returns the finalizers that keep an object although it is being deleted, for messages; none if it is not.
#[must_use]
pub fn waits_for(metadata: &ObjectMeta) -> Option<String> {
    metadata.deletion_timestamp.as_ref()?;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    Some(match finalizers.len() {
        0 => "its end".to_owned(),
        1 => format!("the finalizer {}", few(finalizers, NAMED, ", ")),
        _ => format!("the finalizers {}", few(finalizers, NAMED, ", ")),
    })
}

/// The CustomResourceDefinition, as `crds/` holds it.
#[must_use]
pub fn crd() -> CustomResourceDefinition {
    let mut crd = NodeExtendedResource::crd();
    let versions = crd.spec.versions.iter_mut();
    for schema in versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut()) {
        join_lines(schema);
        let spec = schema.properties.as_mut().and_then(|all| all.get_mut("spec"));
        let quantities = spec.and_then(|spec| spec.properties.as_mut()).into_iter().flatten();
        quantities.filter(|(name, _)| name.starts_with("quantity")).for_each(|(_, schema)| never_null(schema));
        if let Some(status) = schema.properties.as_mut().and_then(|all| all.get_mut("status")) {
            // Without the default, a new rule has no status for a moment, and kstatus (Flux, Helm) treats an
            // object without a status as current.
            status.default = Some(JSON(json!({ "observedGeneration": -1 })));
        }
    }
    crd
}

/// Makes the API server drop a null in place of an optional field, as `kubectl apply` does, so that CEL finds it absent.
fn never_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.properties.iter_mut().flat_map(|all| all.values_mut()).for_each(never_null);
}

/// Joins the lines of each paragraph: doc comments wrap to fit a source file, and `kubectl explain` would keep the
/// line breaks.
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
