//! What the API server checks of each resource and its quantity, in pods, quotas and LimitRanges.

use serde_json::Value;

use super::code::Code;
use super::hints;
use super::violation::Violation;
use crate::manifest::Path;
use crate::model::label::{excerpt, excerpt_of_json, is_qualified_name};
use crate::model::quantity::{ParseQuantityError, Quantity};
use crate::model::resource_name::{InvalidResourceName, ResourceName, is_extended};

/// Where a resource is named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In `limits` and `requests` of a container, and in a LimitRange for containers or pods.
    Container,
    /// In a quota, where extended resources have the prefix `requests.`.
    Quota,
    /// In a LimitRange for objects of another type, such as claims of volumes.
    OtherLimits,
}

/// The names without a slash that a quota can have, besides huge pages.
const QUOTA_NAMES: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

impl Place {
    fn is_standard(self, name: &str) -> bool {
        match self {
            Self::Container => ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-"),
            Self::Quota => {
                let page = name.strip_prefix("requests.").unwrap_or(name);
                QUOTA_NAMES.contains(&name) || page.starts_with("hugepages-")
            }
            Self::OtherLimits => name == "storage" || Self::Quota.is_standard(name),
        }
    }
}

/// Returns whether a name is one of Kubernetes' own, of which this program knows nothing.
pub(super) fn is_native(name: &str, place: Place) -> bool {
    if name.contains('/') {
        name.contains("kubernetes.io/") && is_qualified_name(name)
    } else {
        place.is_standard(name)
    }
}

/// Checks a name that is not native, and returns whether it is valid.
pub(super) fn check_name(name: &str, path: &Path, place: Place, violations: &mut Vec<Violation>) -> bool {
    let is_valid = match place {
        Place::Container => is_extended(name),
        Place::Quota | Place::OtherLimits => name.contains('/') && is_qualified_name(name),
    };
    if is_valid {
        return true;
    }
    let meant = name.strip_prefix("requests.").filter(|_| place != Place::Container).unwrap_or(name);
    let error = match ResourceName::parse(meant) {
        Err(InvalidResourceName::Reserved(text)) => InvalidResourceName::BadPrefix(text),
        Err(error) => error,
        Ok(_) => InvalidResourceName::PrefixTooLong(excerpt(name)),
    };
    let hint = match error {
        InvalidResourceName::NoSlash(_) if place == Place::Quota => "a quota has it as requests.<domain>/<name>",
        InvalidResourceName::QuotaPrefix(_) => "only a quota has the prefix requests.",
        _ => "nothing can advertise such a name: write the one that nodes have",
    };
    let violation = Violation::new(path, code(&error), format!("Invalid value: {error}")).at_key();
    violations.push(violation.hint(Some(hint.to_owned())));
    false
}

fn code(error: &InvalidResourceName) -> Code {
    use InvalidResourceName as E;
    match error {
        E::NoSlash(_) => Code::ResourceNamePrefix,
        E::TooManySlashes(_) => Code::ResourceNameSlashes,
        E::QuotaPrefix(_) => Code::ResourceNameRequests,
        E::Reserved(_) | E::BadPrefix(_) | E::PrefixTooLong(_) => Code::ResourceNameDomain,
        E::BadName(_) | E::NameTooLong(_) => Code::ResourceNamePart,
    }
}

/// Returns a quantity as text. As in the API server, null is 0, and spaces around it do not count.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null => Some("0".to_owned()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a quantity that can be read.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    text(value)?.parse().ok()
}

/// Reports a value that is no quantity, and returns whether it is one.
pub(super) fn check_syntax(value: &Value, path: &Path, violations: &mut Vec<Violation>) -> bool {
    let text = text(value);
    match text.as_deref().map(str::parse::<Quantity>) {
        Some(Ok(_)) => return true,
        // Kubernetes accepts some that are out of range here.
        Some(Err(ParseQuantityError::OutOfRange(_))) => return false,
        Some(Err(_)) | None => {}
    }
    let json = || excerpt_of_json(&value.to_string());
    let shown = text.as_deref().map_or_else(json, |text| format!("\"{}\"", excerpt(text)));
    let message = format!("Invalid value: {shown}: not a quantity");
    let hint =
        text.as_deref().and_then(hints::quantity).unwrap_or_else(|| "write a whole number, such as 4".to_owned());
    violations.push(Violation::new(path, Code::QuantitySyntax, message).hint(Some(hint)));
    false
}

/// Reports a value that is no quantity, negative, or a fraction of an extended resource.
pub(super) fn check_quantity(name: &str, value: &Value, path: &Path, violations: &mut Vec<Violation>) {
    if !check_syntax(value, path, violations) {
        return;
    }
    let (Some(text), Some(quantity)) = (text(value), quantity(value)) else { return };
    if quantity < Quantity::default() {
        let message = format!("Invalid value: \"{}\": must be greater than or equal to 0", excerpt(&text));
        let hint = "write a whole number, such as 4".to_owned();
        violations.push(Violation::new(path, Code::QuantityNegative, message).hint(Some(hint)));
    }
    if is_extended(name) && quantity.whole().is_none() {
        let message = format!("Invalid value: \"{}\": must be an integer", excerpt(&text));
        let hint = "extended resources cannot be split: to share one, declare thousandths \
                    of it as a separate resource, such as example.com/dongle-milli";
        violations.push(Violation::new(path, Code::PodFraction, message).hint(Some(hint.to_owned())));
    }
}
