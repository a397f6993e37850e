//! A Lease as the API server has it: whoever may write Leases decides what is in it.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A Lease that is decoded whatever its times are. The API server accepts a year 9999 that [`Timestamp`] ends before, and a
/// watch in which one object cannot be decoded is no watch: the leader would lose the Lease for good.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoredLease(pub(crate) Lease);

impl<'de> Deserialize<'de> for StoredLease {
    /// Leaves out times that cannot be expressed, and managedFields, which have times too.
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(decoder)?;
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        if let Some(spec) = object.pointer_mut("/spec").and_then(Value::as_object_mut) {
            let is_time = |time: &Value| time.as_str().is_none_or(|time| time.parse::<Timestamp>().is_ok());
            spec.retain(|field, value| !field.ends_with("Time") || is_time(value));
        }
        serde_json::from_value(object).map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for StoredLease {
    fn serialize<S: Serializer>(&self, encoder: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(encoder)
    }
}

impl Resource for StoredLease {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        Lease::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        Lease::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        Lease::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        Lease::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_with_times_that_nothing_can_express_is_read() {
        let managed = json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
        let lease = |renewed: &str| {
            serde_json::from_value::<StoredLease>(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "a", "resourceVersion": "5", "managedFields": managed},
                "spec": {
                    "holderIdentity": "b", "leaseDurationSeconds": 15, "acquireTime": renewed, "renewTime": renewed,
                },
            }))
        };
        let spec = lease("9999-12-31T23:59:59.000000Z").unwrap().0.spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.renew_time), (Some("b"), None));
        let whole = lease("2026-01-01T00:00:00.000000Z").unwrap();
        assert_eq!(whole.0.metadata.resource_version.as_deref(), Some("5"));
        assert!(whole.0.spec.unwrap().renew_time.is_some());
        for spec in [json!(null), json!({}), json!({"renewTime": null})] {
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            assert!(serde_json::from_value::<StoredLease>(object).is_ok(), "{spec}");
        }
        assert!(serde_json::from_value::<StoredLease>(json!([])).is_err());
    }
}
