//! The labels of all nodes, and how well each explains why some nodes have a resource. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::label::is_domain_below;
use crate::model::node::Node;

/// How well a label explains a resource; the first is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Of the resource's own domain, such as `example.com/dongle`.
    Domain,
    /// The name of a node pool, whose nodes are made alike.
    Pool,
    /// A label that users of the cluster have made.
    User,
    /// One of another domain than the resource's, which some program may have made for its own ends.
    Foreign,
    InstanceType,
    Role,
    /// A place or a property, which nodes with the resource may have in common by coincidence.
    Weak,
    /// Of Node Feature Discovery, which removes its labels and adds them again.
    Feature,
}

impl Rank {
    /// Returns whether nodes with the label may have it in common by coincidence.
    pub(super) fn is_weak(self) -> bool {
        self >= Self::Weak
    }

    /// Returns whether the label is there to distinguish such nodes, so that it counts also where all nodes have
    /// it, or each node has another value.
    pub(super) fn is_strong(self) -> bool {
        self <= Self::Pool
    }
}

/// Nodes, by their index. A label that each node has with another value makes a set per node, so that a bitmap over all
/// nodes would be too large.
pub(super) type NodeSet = BTreeSet<usize>;

/// The labels of all nodes.
pub(super) struct LabelIndex<'s> {
    nodes: usize,
    keys: BTreeMap<&'s str, Key<'s>>,
}

/// A key, and the nodes with each of its values.
pub(super) struct Key<'s> {
    pub(super) values: BTreeMap<&'s str, NodeSet>,
    /// Whether each node has another value.
    pub(super) is_unique: bool,
}

impl<'s> LabelIndex<'s> {
    pub(super) fn new(nodes: &[&'s Node]) -> Self {
        let mut keys = BTreeMap::<_, Key<'_>>::new();
        for (place, node) in nodes.iter().enumerate() {
            for (key, value) in node.labels.iter().filter(|(key, _)| rank(key, "").is_some()) {
                let key = keys.entry(key).or_insert_with(|| Key { values: BTreeMap::new(), is_unique: false });
                key.values.entry(value).or_default().insert(place);
            }
        }
        for key in keys.values_mut() {
            key.is_unique = key.values.len() > 1 && key.values.values().all(|nodes| nodes.len() == 1);
        }
        Self { nodes: nodes.len(), keys }
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns a key that may select nodes of this resource, with its rank.
    pub(super) fn key(&self, key: &str, resource: &str) -> Option<(Rank, &Key<'s>)> {
        let found = self.keys.get(key)?;
        let rank = rank(key, resource)?;
        (!found.is_unique || rank.is_strong()).then_some((rank, found))
    }
}

/// The labels of node pools whose names are not [`POOL_WORDS`].
const POOLS: [&str; 9] = [
    "alpha.eksctl.io/nodegroup-name",
    "alibabacloud.com/nodepool-id",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "k8s.scaleway.com/pool-name",
    "kops.k8s.io/instancegroup",
    "lke.linode.com/pool-id",
    "machine.openshift.io/machine-set",
    "node.cluster.x-k8s.io/machine-deployment",
    "yandex.cloud/node-group-id",
];

/// The names of labels of node pools, with any domain: `cloud.google.com/gke-nodepool`, `eks.amazonaws.com/nodegroup`,
/// `kubernetes.azure.com/agentpool`, `karpenter.sh/nodepool`, `worker.gardener.cloud/pool` and so on.
const POOL_WORDS: [&str; 8] =
    ["pool", "nodepool", "node-pool", "gke-nodepool", "nodegroup", "node-group", "agentpool", "worker-pool"];

/// Words in the names of labels that a node gets with an upgrade, that change with it, or that name one node only.
const VOLATILE: [&str; 24] = [
    "boot",
    "build",
    "checksum",
    "commit",
    "config",
    "created",
    "date",
    "generation",
    "hash",
    "hostname",
    "id",
    "image",
    "initialized",
    "ip",
    "kernel",
    "registered",
    "release",
    "revision",
    "serial",
    "time",
    "timestamp",
    "uid",
    "uuid",
    "version",
];

/// Returns how well a label explains a resource; `None` if it does not.
fn rank(key: &str, resource: &str) -> Option<Rank> {
    let (domain, name) = key.split_once('/').unwrap_or(("", key));
    let resource_domain = resource.split('/').next().unwrap_or_default();
    if POOLS.contains(&key) || POOL_WORDS.contains(&name) {
        return Some(Rank::Pool);
    }
    if name.split(['-', '_', '.']).any(|word| VOLATILE.contains(&word.to_ascii_lowercase().as_str())) {
        return None;
    }
    let is_below = |parent| is_domain_below(domain, parent);
    Some(match domain {
        _ if domain == resource_domain => Rank::Domain,
        "node-role.kubernetes.io" => Rank::Role,
        "node.kubernetes.io" if name == "instance-type" => Rank::InstanceType,
        // Older names of other labels.
        "beta.kubernetes.io" | "failure-domain.beta.kubernetes.io" => return None,
        _ if is_below("feature.node.kubernetes.io") => Rank::Feature,
        _ if is_below("kubernetes.io") || is_below("k8s.io") => Rank::Weak,
        // Of a provider, or of an autoscaler: families, sizes, lifecycles, zones.
        _ if PROVIDERS.into_iter().any(is_below) => Rank::Weak,
        "" => Rank::User,
        // Probably of the same people.
        _ if is_below(resource_domain) || is_domain_below(resource_domain, domain) => Rank::User,
        _ => Rank::Foreign,
    })
}

/// Domains of labels that providers set.
const PROVIDERS: [&str; 8] = [
    "amazonaws.com",
    "azure.com",
    "cloud.google.com",
    "gardener.cloud",
    "karpenter.k8s.aws",
    "karpenter.sh",
    "k3s.io",
    "rke2.io",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_rank_prefers_what_explains_a_resource() {
        let rank = |key: &str| rank(key, "example.com/dongle");
        for (key, expected) in [
            ("example.com/dongle", Rank::Domain),
            ("cloud.google.com/gke-nodepool", Rank::Pool),
            ("worker.gardener.cloud/pool", Rank::Pool),
            ("pool", Rank::Pool),
            ("lke.linode.com/pool-id", Rank::Pool),
            ("node.cluster.x-k8s.io/machine-deployment", Rank::Pool),
            ("disk", Rank::User),
            ("other.org/disk", Rank::Foreign),
            ("hw.example.com/disk", Rank::User),
            ("com/disk", Rank::User),
            ("node.kubernetes.io/instance-type", Rank::InstanceType),
            ("node-role.kubernetes.io/worker", Rank::Role),
            ("topology.kubernetes.io/zone", Rank::Weak),
            ("kubernetes.io/arch", Rank::Weak),
            ("karpenter.k8s.aws/instance-family", Rank::Weak),
            ("topology.ebs.csi.aws.com/zone", Rank::Foreign),
            ("feature.node.kubernetes.io/pci-1234.present", Rank::Feature),
        ] {
            assert_eq!(rank(key), Some(expected), "{key}");
        }
        for key in [
            "kubernetes.io/hostname",
            "beta.kubernetes.io/os",
            "failure-domain.beta.kubernetes.io/zone",
            "worker.gardener.cloud/kubernetes-version",
            "kubernetes.azure.com/node-image-version",
            "feature.node.kubernetes.io/kernel-version.full",
            "example.com/machine-ID",
            "plan.upgrade.example.com/config_hash",
        ] {
            assert_eq!(rank(key), None, "{key}");
        }
        assert_eq!(Rank::Domain.min(Rank::Feature), Rank::Domain);
    }
}
