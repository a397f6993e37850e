//! A rule as the API server returns it, decoded without what the controller does not read.
//!
//! An object has up to 1.5 MB. Annotations and managedFields are skipped, and of the status remains what a comparison
//! needs.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::observed_status::ObservedStatus;
use crate::model::api::{NodeExtendedResource, NodeExtendedResourceSpec, NodeExtendedResourceStatus};
use crate::model::label::excerpt;

/// An object of the watch. One whose spec cannot be decoded is still known by name.
#[derive(Clone, Debug)]
pub(crate) struct RuleObject {
    metadata: ObjectMeta,
    /// The spec, or why it cannot be decoded.
    pub(super) spec: Result<Box<NodeExtendedResourceSpec>, String>,
    pub(super) status: Option<ObservedStatus>,
}

impl<'de> Deserialize<'de> for RuleObject {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(expecting = "a NodeExtendedResource")]
        struct Trimmed {
            metadata: Metadata,
            #[serde(default)]
            spec: Value,
            #[serde(default)]
            status: Value,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: Option<String>,
            uid: Option<String>,
            generation: Option<i64>,
            resource_version: Option<String>,
            creation_timestamp: Option<Time>,
            deletion_timestamp: Option<Time>,
            finalizers: Option<Vec<String>>,
        }

        let Trimmed { metadata, spec, status } = Trimmed::deserialize(decoder)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            uid: metadata.uid,
            generation: metadata.generation,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            // They explain why a rule that is being deleted still exists.
            finalizers: metadata.finalizers.filter(|_| metadata.deletion_timestamp.is_some()),
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        };
        let spec = NodeExtendedResourceSpec::deserialize(spec).map(Box::new);
        // A status of another shape is replaced.
        let status = NodeExtendedResourceStatus::deserialize(status).ok();
        Ok(Self {
            metadata,
            // The message may quote a text of any length.
            spec: spec.map_err(|error| excerpt(&error.to_string())),
            status: status.as_ref().map(ObservedStatus::new),
        })
    }
}

impl Resource for RuleObject {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        NodeExtendedResource::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        NodeExtendedResource::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        NodeExtendedResource::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        NodeExtendedResource::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_parts_of_a_rule_are_not_kept() {
        let long = "x".repeat(100_000);
        let object = json!({
            "metadata": {"name": "a", "annotations": {"note": long}, "managedFields": [{"manager": long}]},
            "spec": {"resourceName": "example.com/a", "quantity": 4, "priority": long},
            "status": {"conditions": [{"type": long, "status": long, "reason": long, "message": long,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}], "total": long},
        });
        let object: RuleObject = serde_json::from_value(object).unwrap();
        let kept = format!("{object:?}");
        assert!(kept.len() < 2_000, "{} characters: {kept:.300}", kept.len());
        assert!(object.spec.unwrap_err().contains("invalid type"));
        assert!(object.status.is_some());
    }

    #[test]
    fn status_of_another_shape_counts_as_none() {
        for status in [json!(4), json!({"conditions": 4}), json!(null)] {
            let object = json!({
                "metadata": {"name": "a"}, "status": status,
                "spec": {"resourceName": "example.com/a", "quantity": 4, "allNodes": true},
            });
            let object: RuleObject = serde_json::from_value(object).unwrap();
            assert!(object.spec.is_ok() && object.status.is_none(), "{status}");
        }
    }
}
