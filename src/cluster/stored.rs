//! Objects as the API server has them: whoever may write them decides which times are in them.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An object that is decoded whatever its times are. The API server accepts a year 9999 that [`Timestamp`] ends before. A
/// watch or list in which one object cannot be decoded is none: a Lease would end leadership, and an Event an answer.
///
/// It is decoded in two steps, so it is not for objects of which there are many.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stored<K>(pub(crate) K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Stored<K> {
    /// Leaves out times that cannot be expressed.
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(decoder)?;
        remove_odd_times(&mut object);
        serde_json::from_value(object).map(Self).map_err(D::Error::custom)
    }
}

/// Removes the fields that are times in RFC 3339 and cannot be expressed.
pub(crate) fn remove_odd_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.as_str().is_some_and(is_odd_time));
            fields.values_mut().for_each(remove_odd_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_odd_times),
        _ => {}
    }
}

fn is_odd_time(text: &str) -> bool {
    let is_like = |shape: &[u8]| {
        let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
        text.len() > shape.len() && text.as_bytes().iter().zip(shape).all(fits)
    };
    is_like(b"0000-00-00T00:00:00") && text.parse::<Timestamp>().is_err()
}

impl<K: Serialize> Serialize for Stored<K> {
    fn serialize<S: Serializer>(&self, encoder: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(encoder)
    }
}

impl<K: Resource> Resource for Stored<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &K::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &K::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &K::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &K::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::Event;
    use serde_json::json;

    use super::*;

    const FAR: &str = "9999-12-31T23:59:59.000000Z";

    #[test]
    fn lease_with_times_that_cannot_be_expressed_is_read() {
        let managed = json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
        let lease = |renewed: &str| {
            serde_json::from_value::<Stored<Lease>>(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "a", "resourceVersion": "5", "managedFields": managed},
                "spec": {
                    "holderIdentity": "b", "leaseDurationSeconds": 15, "acquireTime": renewed, "renewTime": renewed,
                },
            }))
        };
        let spec = lease(FAR).unwrap().0.spec.unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.renew_time), (Some("b"), None));
        let whole = lease("2026-01-01T00:00:00.000000Z").unwrap();
        assert_eq!(whole.0.metadata.resource_version.as_deref(), Some("5"));
        assert!(whole.0.spec.unwrap().renew_time.is_some());
        for spec in [json!(null), json!({}), json!({"renewTime": null})] {
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            assert!(serde_json::from_value::<Stored<Lease>>(object).is_ok(), "{spec}");
        }
        assert!(serde_json::from_value::<Stored<Lease>>(json!([])).is_err());
    }

    #[test]
    fn event_with_times_that_cannot_be_expressed_is_read() {
        let event = json!({
            "metadata": {"name": "a"}, "involvedObject": {}, "eventTime": FAR, "message": FAR.replace('T', " "),
            "series": {"lastObservedTime": FAR}, "lastTimestamp": "9999-12-31T23:59:59Z", "reason": "9999-12-31",
        });
        let event = serde_json::from_value::<Stored<Event>>(event).unwrap().0;
        assert_eq!((event.event_time, event.last_timestamp), (None, None));
        assert_eq!(
            (event.message.as_deref(), event.reason.as_deref()),
            (Some("9999-12-31 23:59:59.000000Z"), Some("9999-12-31"))
        );
    }
}
