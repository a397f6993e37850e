//! What values are adopted from: the objects of a cluster at about one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::rules::ClusterRule;
use crate::model::ledger::{InvalidLedger, Ledger};
use crate::model::node::{ApiNode, Interner, Node};
use crate::model::resource_name;
use crate::planner::rules::RuleSet;

/// The annotation in which Node Feature Discovery lists its extended resources, after the name of its instance if it
/// has one (`ExtendedResourceAnnotation` in `sigs.k8s.io/node-feature-discovery/api/nfd/v1alpha1`).
const NFD: &str = "nfd.node.kubernetes.io/extended-resources";

/// The annotation in which Gardener's machine-controller-manager keeps the `virtualCapacity` that it has written
/// (`LastAppliedVirtualCapacityAnnotation` in its `machineutils`).
const GARDENER: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";

/// The domain that Node Feature Discovery adds to a name without one.
const NFD_DOMAIN: &str = "feature.node.kubernetes.io";

/// The objects that adoption looks at.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// In natural order.
    pub(crate) nodes: Vec<Entry>,
    pub(crate) rules: Rules,
    /// The DeviceClass that maps a resource, by resource.
    pub(crate) classes: BTreeMap<String, String>,
    /// What NodeFeatureRules declare.
    pub(crate) features: Vec<Feature>,
    /// What could not be read: sentences without a period.
    pub(crate) gaps: Vec<String>,
}

/// A node.
pub(crate) struct Entry {
    pub(crate) node: Node,
    pub(crate) ledger: Result<Ledger, InvalidLedger>,
    /// Resources in either map that no rule can declare, and that are not Kubernetes' own.
    pub(super) odd: BTreeSet<String>,
    /// What Node Feature Discovery says that it has written.
    pub(crate) nfd: BTreeSet<String>,
    /// What Gardener says that it has written.
    pub(crate) gardener: BTreeSet<String>,
    /// The resources in capacity that a kubelet owns, alone or with others, each with its field manager.
    pub(crate) plugins: BTreeMap<String, Arc<str>>,
}

/// The rules of the cluster. By default, none is known.
#[derive(Default)]
pub(crate) struct Rules {
    /// Also those of invalid rules.
    pub(crate) names: BTreeSet<Arc<str>>,
    pub(crate) set: RuleSet,
    /// Why some declare nothing, by name.
    pub(crate) invalid: BTreeMap<Arc<str>, String>,
    /// Whether these are all rules.
    are_all: bool,
}

/// An extended resource that a NodeFeatureRule declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    /// The name of the NodeFeatureRule.
    pub(crate) object: String,
    /// With its domain.
    pub(crate) resource: String,
    /// A number, or the feature that it is taken from: `@domain.feature.element`.
    pub(crate) value: String,
}

impl Entry {
    pub(crate) fn new(object: Object, interner: &mut Interner) -> Self {
        let Object { node, odd, nfd, gardener, plugins } = object;
        let node = Node::new(node, interner);
        let ledger = Ledger::parse(node.ledger.as_deref());
        Self { node, ledger, odd, nfd, gardener, plugins }
    }

    pub(crate) fn name(&self) -> NodeName {
        NodeName(Arc::clone(&self.node.name))
    }
}

impl Rules {
    pub(crate) fn new(rules: Vec<ClusterRule>) -> Self {
        let names = rules.iter().map(|rule| Arc::clone(&rule.name)).collect();
        let invalid = rules.iter().filter_map(|rule| Some((Arc::clone(&rule.name), rule.rule.as_ref().err()?)));
        let invalid = invalid.map(|(name, why)| (name, why.to_string())).collect();
        let valid = rules.into_iter().filter_map(|rule| rule.rule.ok().map(Arc::new));
        Self { names, set: RuleSet::new(valid, std::iter::empty()), invalid, are_all: true }
    }

    /// Returns whether there is a rule of this name, as far as is known.
    pub(super) fn may_exist(&self, name: &str) -> bool {
        !self.are_all || self.names.contains(name)
    }
}

/// A Node from the API server, with what planning does not read.
pub(crate) struct Object {
    node: ApiNode,
    odd: BTreeSet<String>,
    nfd: BTreeSet<String>,
    gardener: BTreeSet<String>,
    plugins: BTreeMap<String, Arc<str>>,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(decoder)?;
        let node = ApiNode::deserialize(&object).map_err(D::Error::custom)?;
        let plugins = node.kubelet_resources();
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
        let annotations = annotations.into_iter().flatten();
        let annotations: Vec<_> = annotations.filter_map(|(key, text)| Some((key.as_str(), text.as_str()?))).collect();
        let nfd = annotations.iter().filter(|(key, _)| key.strip_suffix(NFD).is_some_and(is_instance));
        let nfd = nfd.flat_map(|(_, names)| names.split(',')).filter(|name| !name.is_empty()).map(nfd_resource);
        let gardener = annotations.iter().filter(|(key, _)| *key == GARDENER);
        let gardener = gardener.flat_map(|(_, text)| serde_json::from_str::<BTreeMap<String, Value>>(text).ok());
        Ok(Self {
            node,
            odd: odd_resources(&object),
            nfd: nfd.collect(),
            gardener: gardener.flat_map(BTreeMap::into_keys).collect(),
            plugins,
        })
    }
}

/// Returns whether this is what precedes an annotation of Node Feature Discovery: nothing, or its instance and a dot.
fn is_instance(prefix: &str) -> bool {
    prefix.is_empty() || prefix.ends_with('.')
}

/// Returns the name of an extended resource as Node Feature Discovery writes it to a node.
fn nfd_resource(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{NFD_DOMAIN}/{name}") }
}

/// Returns the resources that are neither extended nor Kubernetes' own: the API server accepts any key.
fn odd_resources(object: &Value) -> BTreeSet<String> {
    const NATIVE: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "storage"];
    let maps = ["/status/capacity", "/status/allocatable"].into_iter().filter_map(|map| object.pointer(map));
    let names = maps.filter_map(Value::as_object).flat_map(|map| map.keys());
    let odd = names.filter(|name| {
        let is_native = NATIVE.contains(&name.as_str())
            || ["hugepages-", "attachable-volumes-"].into_iter().any(|prefix| name.starts_with(prefix));
        !is_native && !resource_name::is_extended(name)
    });
    odd.cloned().collect()
}

/// A NodeFeatureRule, reduced to what it declares.
#[derive(Deserialize)]
pub(crate) struct FeatureRule {
    metadata: FeatureRuleMetadata,
    #[serde(default)]
    spec: FeatureRuleSpec,
}

#[derive(Deserialize)]
struct FeatureRuleMetadata {
    name: String,
}

#[derive(Default, Deserialize)]
struct FeatureRuleSpec {
    rules: Option<Vec<FeatureRuleItem>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FeatureRuleItem {
    extended_resources: Option<BTreeMap<String, Value>>,
}

impl FeatureRule {
    /// Returns the extended resources that it declares.
    pub(crate) fn features(self) -> Vec<Feature> {
        let object = self.metadata.name;
        let items = self.spec.rules.into_iter().flatten().flat_map(|item| item.extended_resources);
        let declared = items.flatten().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Feature { object: object.clone(), resource: nfd_resource(&name), value }
        });
        declared.collect()
    }
}
