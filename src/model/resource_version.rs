//! `metadata.resourceVersion`, which shows which of two states of an object is newer.

/// Returns a resource version as a number: the versions of one resource type can be compared (Kubernetes 1.35,
/// KEP-5504). `None` if it is no number, as with some servers that are not a kube-apiserver.
#[must_use]
pub fn number(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}
