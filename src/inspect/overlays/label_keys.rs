//! What Karpenter knows of a label before there is a node.
//!
//! Karpenter compares the requirements of a NodeOverlay with the labels of instance types, the name of the NodePool,
//! and the labels in the NodePool's template (`getOverlaidOfferings` in `pkg/controllers/nodeoverlay`). It rejects keys
//! of Kubernetes and of its own that are not well-known (`IsRestrictedLabel` in `pkg/apis/v1`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::label::is_domain_below;

/// What Karpenter knows of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelKey {
    /// Instance types have it, or it names the NodePool.
    OfInstanceTypes,
    /// An instance type is offered with several values. Where one of them fits, Karpenter applies an overlay to the
    /// instance type with all of them.
    OfOfferings,
    /// Karpenter knows it only where the template of a NodePool sets it.
    OfTemplates,
    /// It appears on a node after its start: Node Feature Discovery sets it.
    AfterStart,
    /// Karpenter rejects it.
    Restricted,
}

const OF_INSTANCE_TYPES: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "karpenter.sh/nodepool",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
];

const OF_OFFERINGS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
    "topology.k8s.aws/zone-id",
    "topology.kubernetes.io/zone",
];

/// The domains of Node Feature Discovery, which may have subdomains.
const AFTER_START: [&str; 2] = ["feature.node.kubernetes.io", "profile.node.kubernetes.io"];

/// Ends of domains, not necessarily at a dot, as Karpenter compares them.
const RESTRICTED: [&str; 3] = ["kubernetes.io", "k8s.io", "karpenter.sh"];

/// The exceptions.
const ALLOWED: [&str; 3] = ["kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io"];

impl LabelKey {
    pub(crate) fn of(key: &str) -> Self {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let ends_with = |end: &&str| domain.ends_with(end);
        if OF_INSTANCE_TYPES.contains(&key) {
            Self::OfInstanceTypes
        } else if OF_OFFERINGS.contains(&key) {
            Self::OfOfferings
        } else if AFTER_START.iter().any(|parent| is_domain_below(domain, parent)) {
            Self::AfterStart
        } else if RESTRICTED.iter().any(ends_with) && !ALLOWED.iter().any(ends_with) {
            Self::Restricted
        } else if domain.starts_with("karpenter.") {
            // Of the cloud provider, such as karpenter.k8s.aws/instance-family.
            Self::OfInstanceTypes
        } else {
            Self::OfTemplates
        }
    }
}

/// The labels that the templates of NodePools set.
#[derive(Debug, Default)]
pub(crate) struct TemplateLabels(BTreeSet<String>);

impl TemplateLabels {
    /// Adds those of an object, if it is a NodePool.
    pub(crate) fn add(&mut self, object: &Value) {
        let group = object["apiVersion"].as_str().and_then(|version| version.split('/').next());
        if group == Some("karpenter.sh") && object["kind"] == "NodePool" {
            let labels = object.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
            self.0.extend(labels.into_iter().flatten().map(|(key, _)| key.clone()));
        }
    }

    /// Returns whether Karpenter would know a label from them alone, and does not.
    pub(super) fn lack(&self, key: &str) -> bool {
        LabelKey::of(key) == LabelKey::OfTemplates && !self.0.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_known_as_karpenter_knows_them() {
        for (key, kind) in [
            ("kubernetes.io/arch", LabelKey::OfInstanceTypes),
            ("beta.kubernetes.io/os", LabelKey::OfInstanceTypes),
            ("karpenter.sh/nodepool", LabelKey::OfInstanceTypes),
            ("karpenter.k8s.aws/instance-family", LabelKey::OfInstanceTypes),
            ("karpenter.azure.com/sku-name", LabelKey::OfInstanceTypes),
            ("topology.kubernetes.io/zone", LabelKey::OfOfferings),
            ("karpenter.sh/capacity-type", LabelKey::OfOfferings),
            ("feature.node.kubernetes.io/pci-10de.present", LabelKey::AfterStart),
            ("vendor.feature.node.kubernetes.io/x", LabelKey::AfterStart),
            ("kubernetes.io/hostname", LabelKey::Restricted),
            ("node-role.kubernetes.io/worker", LabelKey::Restricted),
            ("notkubernetes.io/x", LabelKey::Restricted),
            ("karpenter.sh/initialized", LabelKey::Restricted),
            ("kops.k8s.io/instancegroup", LabelKey::OfTemplates),
            ("example.node.kubernetes.io/x", LabelKey::OfTemplates),
            ("node-restriction.kubernetes.io/x", LabelKey::OfTemplates),
            ("example.com/has-dongle", LabelKey::OfTemplates),
            ("pool", LabelKey::OfTemplates),
        ] {
            assert_eq!(LabelKey::of(key), kind, "{key}");
        }
    }
}
