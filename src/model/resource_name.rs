//! Names of extended resources, such as `example.com/dongle`.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::model::label::{excerpt, is_dns_subdomain, is_label_value};

/// The maximum length of the prefix: a quota calls the resource `requests.<name>`, whose prefix must also fit into the
/// 253 bytes of a DNS subdomain.
const LONGEST_PREFIX: usize = 253 - "requests.".len();

/// The name of an extended resource: `<domain>/<name>`.
///
/// The rules are those of `IsExtendedResourceName` in `k8s.io/kubernetes/pkg/apis/core/helper`. The API server applies
/// them to the requests of a Pod, but stores any key in a Node's capacity, so the client that writes it must check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Arc<str>);

/// Why a text is not the name of an extended resource. Each variant holds (the beginning of) that text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResourceName {
    /// Without a domain, it is a native resource such as `cpu`, or unknown.
    #[error(r#""{0}" is a native resource or has no prefix: write <domain>/<name>, such as example.com/dongle"#)]
    NoSlash(String),
    /// The name has more than one slash.
    #[error(r#""{0}" has more than one slash: write <domain>/<name>, such as example.com/dongle"#)]
    TooManySlashes(String),
    /// The name contains `kubernetes.io/`, possibly as the end of the domain.
    #[error(r#""{0}" contains kubernetes.io/, which is reserved: write another domain, such as example.com/dongle"#)]
    Reserved(String),
    /// The name starts with `requests.`, which quotas add.
    #[error(
        r#""{0}" begins with "requests.", which only a quota writes: write the name without it, such as example.com/dongle"#
    )]
    QuotaPrefix(String),
    /// The part before the slash is not a lowercase RFC 1123 subdomain.
    #[error(
        r#""{0}" has no valid domain before the slash: write lowercase letters, digits, "-" and ".", with a letter or digit at both ends of each part, such as example.com/dongle"#
    )]
    BadPrefix(String),
    /// The part before the slash is longer than 244 bytes.
    #[error(r#""{0}" has too long a domain before the slash: write at most {LONGEST_PREFIX} characters"#)]
    PrefixTooLong(String),
    /// The part after the slash is empty, has an invalid character, or one at its ends.
    #[error(
        r#""{0}" has no valid name after the slash: write letters, digits, "-", "_" and ".", with a letter or digit at both ends, such as example.com/dongle"#
    )]
    BadName(String),
    /// The part after the slash is longer than 63 bytes.
    #[error(r#""{0}" has too long a name after the slash: write at most 63 characters"#)]
    NameTooLong(String),
}

impl ResourceName {
    /// Parses the name of an extended resource.
    ///
    /// # Errors
    ///
    /// [`InvalidResourceName`] names the broken rule.
    pub fn parse(name: &str) -> Result<Self, InvalidResourceName> {
        check(name).map_err(|fault| fault(excerpt(name)))?;
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResourceName {
    type Err = InvalidResourceName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::parse(name)
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for ResourceName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns whether [`ResourceName::parse`] accepts this name.
#[must_use]
pub fn is_extended(name: &str) -> bool {
    check(name).is_ok()
}

/// Returns the extended resource that a key of a quota probably means, if the quota ignores the key: it counts an
/// extended resource as `requests.<name>`.
#[must_use]
pub fn in_ignored_quota_key(key: &str) -> Option<&str> {
    let name = without_ignored_prefix(key).unwrap_or(key);
    let domain = name.split('/').next().unwrap_or_default();
    // Counts of objects, also those of OpenShift, storage classes and device classes contain slashes too.
    let is_ignored = is_extended(name) && !["count", "openshift.io"].contains(&domain) && !domain.ends_with("k8s.io");
    is_ignored.then_some(name)
}

/// Returns what follows a prefix that quotas ignore before the name of an extended resource, if there is one.
pub(super) fn without_ignored_prefix(key: &str) -> Option<&str> {
    ["limits.", "limit.", "request."].iter().find_map(|prefix| key.strip_prefix(prefix))
}

/// Returns only the kind of error, to which the text is added when it is reported.
fn check(name: &str) -> Result<(), fn(String) -> InvalidResourceName> {
    let Some((prefix, rest)) = name.split_once('/') else {
        return Err(InvalidResourceName::NoSlash);
    };
    if rest.contains('/') {
        Err(InvalidResourceName::TooManySlashes)
    } else if prefix.ends_with("kubernetes.io") {
        Err(InvalidResourceName::Reserved)
    } else if prefix.starts_with("requests.") {
        Err(InvalidResourceName::QuotaPrefix)
    } else if prefix.len() > LONGEST_PREFIX {
        Err(InvalidResourceName::PrefixTooLong)
    } else if !is_dns_subdomain(prefix) {
        Err(InvalidResourceName::BadPrefix)
    } else if rest.len() > 63 {
        Err(InvalidResourceName::NameTooLong)
    } else if rest.is_empty() || !is_label_value(rest) {
        Err(InvalidResourceName::BadName)
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn resource_name_accepts_extended_names_only() {
        let longest = format!("{}/{}", "a".repeat(244), "b".repeat(63));
        for name in [
            "example.com/dongle",
            "example/x",
            "example.com/A_b.c-9",
            "example.com/kubernetes.io",
            "example.com/requests.x",
            longest.as_str(),
        ] {
            assert_eq!(name.parse::<ResourceName>().unwrap().as_str(), name);
            assert!(is_extended(name), "{name}");
        }
    }

    #[test]
    fn quota_key_that_limits_nothing_is_found_by_its_prefix() {
        for key in [
            "limits.example.com/dongle",
            "limit.example.com/dongle",
            "request.example.com/dongle",
            "example.com/dongle",
        ] {
            assert_eq!(in_ignored_quota_key(key), Some("example.com/dongle"), "{key}");
        }
        for key in [
            "requests.example.com/dongle",
            "limits.cpu",
            "count/pods",
            "openshift.io/imagestreams",
            "a.deviceclass.resource.k8s.io/devices",
        ] {
            assert_eq!(in_ignored_quota_key(key), None, "{key}");
        }
    }

    #[test]
    fn resource_name_error_kind_matches_the_fault() {
        use InvalidResourceName as E;
        let long_prefix = format!("{}/x", "a".repeat(245));
        let long_name = format!("a/{}", "b".repeat(64));
        let faults = [
            ("", E::NoSlash as fn(_) -> _),
            ("cpu", E::NoSlash),
            ("hugepages-2Mi", E::NoSlash),
            ("attachable-volumes-x", E::NoSlash),
            ("a/b/c", E::TooManySlashes),
            ("kubernetes.io/x", E::Reserved),
            ("notkubernetes.io/x", E::Reserved),
            ("requests.example.com/x", E::QuotaPrefix),
            ("/x", E::BadPrefix),
            ("Example.com/x", E::BadPrefix),
            ("a..b/x", E::BadPrefix),
            ("a_b/x", E::BadPrefix),
            (&long_prefix, E::PrefixTooLong),
            ("example.com/", E::BadName),
            ("example.com/-x", E::BadName),
            ("example.com/x\n", E::BadName),
            ("BAD name!", E::NoSlash),
            (&long_name, E::NameTooLong),
        ];
        for (name, fault) in faults {
            assert_eq!(ResourceName::parse(name), Err(fault(excerpt(name))));
            assert!(!is_extended(name), "{name}");
        }
    }

    #[test]
    fn resource_name_error_quotes_input_and_suggests_a_form() {
        assert_eq!(
            ResourceName::parse("dongle\n").unwrap_err().to_string(),
            r#""dongle\n" is a native resource or has no prefix: write <domain>/<name>, such as example.com/dongle"#
        );
    }
}
