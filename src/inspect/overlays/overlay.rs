//! Karpenter's NodeOverlay, as far as this program writes and compares it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::api::FIELD_MANAGER;

pub(crate) const API_VERSION: &str = "karpenter.sh/v1alpha1";
pub(crate) const KIND: &str = "NodeOverlay";

/// Where the API server has them.
pub(crate) const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";

/// The label of every overlay that this program prints; its value is [`FIELD_MANAGER`].
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The annotation with the name of the rule.
const RULE: &str = "noderesource.dev/rule";

/// A NodeOverlay. An object from a cluster or a file may lack anything.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeOverlay {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    #[serde(skip_serializing)]
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    /// Empty for every instance type.
    pub(crate) requirements: Vec<OverlayRequirement>,
    /// Quantities, as text or numbers.
    pub(crate) capacity: Option<BTreeMap<String, Value>>,
    /// From 1 to [`MAX_WEIGHT`]; without one, 0. Of overlays with the same resource, the heaviest wins; of two of the
    /// same weight, the one whose name is last in the alphabet
    /// (<https://github.com/kubernetes-sigs/karpenter/blob/v1.14.1/pkg/controllers/nodeoverlay/store.go>).
    pub(crate) weight: Option<i64>,
    /// The fields that this program never writes, such as the price.
    #[serde(flatten)]
    pub(crate) others: BTreeMap<String, Value>,
}

pub(super) const MAX_WEIGHT: i64 = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct OverlayRequirement {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) conditions: Vec<OverlayCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OverlayCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl NodeOverlay {
    /// Returns the overlay of a rule, or of a part of it, with the rule's name.
    pub(super) fn of_rule(rule: &str, part: Option<&str>, spec: Spec) -> Self {
        let labels = BTreeMap::from([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())]);
        // A label's value is too short for some names.
        let annotations = BTreeMap::from([(RULE.to_owned(), rule.to_owned())]);
        let name = part.map_or_else(|| rule.to_owned(), |part| format!("{rule}-{part}"));
        let metadata = Metadata { name, labels: Some(labels), annotations: Some(annotations) };
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), metadata, spec, status: None }
    }

    /// Returns the name of its rule, if this program printed it.
    pub(crate) fn rule(&self) -> &str {
        let annotation = self.metadata.annotations.as_ref().and_then(|annotations| annotations.get(RULE));
        annotation.unwrap_or(&self.metadata.name)
    }

    /// Returns whether this program printed it.
    pub(crate) fn is_ours(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|by| by == FIELD_MANAGER)
    }
}
