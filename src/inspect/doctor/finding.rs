//! What a check finds, or why it cannot run.

use std::fmt;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::model::count::few;
use crate::response::request_error::RequestError;

/// What a check finds, or why it cannot run. Nothing found means that there is nothing to find.
pub(crate) type Outcome = Result<Vec<Finding>, NotRun>;

/// A problem.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// The objects that have it, of one kind.
    pub(crate) objects: Vec<ObjectName>,
    /// What is wrong, without a period.
    pub(crate) problem: String,
    /// What to do, without a period.
    pub(crate) fix: String,
    /// What finds the cause itself: if it has, this is not reported as well.
    #[serde(skip)]
    pub(super) found_by: Option<FoundBy>,
}

/// The check that finds the cause of a problem.
#[derive(Clone, Debug)]
pub(crate) struct FoundBy {
    pub(super) check: &'static str,
    /// The resource that the cause is about, if it is about one.
    pub(super) resource: Option<String>,
}

impl FoundBy {
    /// Returns whether a finding of a check is the cause of a problem of this severity.
    pub(super) fn is(&self, check: &str, cause: &Finding, severity: Severity) -> bool {
        let is_as_bad = cause.severity == Severity::Error || severity == Severity::Warning;
        let continues = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let is_of = |resource: &String| {
            let mut parts = cause.problem.split(&**resource);
            let mut before = parts.next().unwrap_or_default();
            parts.any(|rest| !std::mem::replace(&mut before, rest).ends_with(continues) && !rest.starts_with(continues))
        };
        self.check == check && is_as_bad && self.resource.as_ref().is_none_or(is_of)
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Severity {
    /// Something is not as it was declared or requested.
    Error,
    /// It works, but something may not be as intended, or will not last.
    Warning,
}

impl Severity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// An object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectName {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(super) name: String,
}

impl ObjectName {
    pub(super) fn new(kind: &'static str, name: impl Into<String>) -> Self {
        Self { kind, namespace: None, name: name.into() }
    }

    /// Returns the name of an object in a namespace.
    pub(super) fn of(kind: &'static str, metadata: &ObjectMeta) -> Self {
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(|name| name.as_deref().unwrap_or_default());
        Self::namespaced(kind, namespace, name)
    }

    pub(crate) fn namespaced(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: Some(namespace.to_owned()), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectName {
    /// `name` or `namespace/name`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Finding {
    pub(super) fn error(objects: Vec<ObjectName>, problem: String, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Error, objects, problem, fix: fix.into(), found_by: None }
    }

    pub(super) fn warning(objects: Vec<ObjectName>, problem: String, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, objects, problem, fix: fix.into(), found_by: None }
    }

    /// Returns the kind and the names of the objects, the first few in full.
    pub(crate) fn objects(&self, most: usize) -> String {
        let kind = self.objects.first().map(|object| object.kind).unwrap_or_default();
        format!("{kind} {}", few(&self.objects, most, ", "))
    }
}

/// Why a check cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotRun {
    /// You lack permission to do this, such as `list nodes`.
    Forbidden(&'static str),
    /// A request failed otherwise.
    Failed(String),
    /// This cluster does not have what the check reads.
    Unavailable(String),
}

impl NotRun {
    /// Returns why something could not be done, such as `list nodes`.
    pub(super) fn of(action: &'static str, error: &RequestError) -> Self {
        match error.code() {
            Some(StatusCode::FORBIDDEN) => Self::Forbidden(action),
            Some(StatusCode::NOT_FOUND) => {
                Self::Unavailable(format!("cannot {action}, which this cluster does not serve"))
            }
            _ => Self::Failed(format!("cannot {action}: {error}")),
        }
    }

    /// Returns whether the cluster has nothing that the check could look at.
    pub(crate) fn is_of_cluster(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(action) => write!(f, "you lack permission to {action}"),
            Self::Failed(why) | Self::Unavailable(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_of_the_same_resource_and_as_bad() {
        let by = FoundBy { check: "another-writer", resource: Some("example.com/dongle".to_owned()) };
        let error = |problem: &str| Finding::error(Vec::new(), problem.to_owned(), "");
        let warning = Finding::warning(Vec::new(), "x writes example.com/dongle".to_owned(), "");
        let cause = error("x writes example.com/dongle");
        assert!(by.is("another-writer", &cause, Severity::Error) && !by.is("ledger", &cause, Severity::Error));
        assert!(!by.is("another-writer", &error("x writes example.com/key"), Severity::Error));
        for other in ["example.com/dongle-2", "my.example.com/dongle", "my.example.com/dongle, example.com/dongle-2"] {
            assert!(!by.is("another-writer", &error(&format!("x writes {other}")), Severity::Error), "{other}");
        }
        assert!(by.is("another-writer", &error("x: my.example.com/dongle, example.com/dongle"), Severity::Error));
        assert!(
            !by.is("another-writer", &warning, Severity::Error) && by.is("another-writer", &warning, Severity::Warning)
        );
        let of_any = FoundBy { resource: None, ..by };
        assert!(!of_any.is("another-writer", &warning, Severity::Error), "an error remains");
        assert!(of_any.is("another-writer", &error("x writes example.com/key"), Severity::Error));
    }
}
