//! What the checks look at: the objects of a cluster at about one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::jiff::Timestamp;

use super::finding::{NotRun, ObjectName};
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::overlays::overlay::NodeOverlay;
use crate::model::api::NodeExtendedResourceStatus;
use crate::model::ledger::{InvalidLedger, Ledger};
use crate::model::node::object::NodeObject;
use crate::model::node::{Interner, Node};
use crate::model::quantity::Quantity;
use crate::planner::rules::{InvalidRule, Rule, RuleSet};

/// Objects, or why they cannot be read.
pub(crate) type Read<T> = Result<T, NotRun>;

/// The objects that the checks look at.
pub(crate) struct Snapshot {
    /// Where to look for the controller; `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// The time of the API server; of this machine if the server does not say.
    pub(crate) now: Timestamp,
    pub(crate) version: Read<Version>,
    /// `None` if there is none.
    pub(crate) crd: Read<Option<CustomResourceDefinition>>,
    /// `None` if the cluster does not serve the kind.
    pub(crate) rules: Read<Option<Rules>>,
    pub(crate) nodes: Read<Vec<NodeEntry>>,
    /// The unfinished pods without a node that request extended resources, apart from those that are being deleted.
    pub(crate) waiting: Read<Vec<Arc<PodEntry>>>,
    /// The unfinished pods with a node that request extended resources.
    pub(crate) bound: Read<Vec<Arc<PodEntry>>>,
    /// The pods that kubelets have rejected lately.
    pub(crate) rejected: Read<Vec<RejectedPod>>,
    pub(crate) quotas: Read<Vec<ResourceQuota>>,
    /// The DeviceClass that maps a resource, by resource.
    pub(crate) classes: Read<BTreeMap<String, String>>,
    /// Karpenter's NodeOverlays; `None` if the cluster does not serve the kind.
    pub(crate) overlays: Read<Option<Vec<NodeOverlay>>>,
    /// The configurations of schedulers in ConfigMaps.
    pub(crate) schedulers: Read<Vec<SchedulerConfig>>,
    /// The repairs of values that were 0, according to Events.
    pub(crate) repairs: Read<Vec<Repair>>,
    /// The Leases of controllers.
    pub(crate) leases: Read<Vec<Lease>>,
    /// The Deployments of controllers.
    pub(crate) deployments: Read<Vec<Deployment>>,
    /// The accounts of these Deployments, and what they may not do with pods.
    pub(crate) accounts: Read<Vec<Account>>,
    /// The policies that keep values across reboots.
    pub(crate) protection: Read<Policies>,
    /// The policies that confine the controller.
    pub(crate) confinement: Read<Policies>,
    pub(crate) guards: Read<Guards>,
    /// The pods that guards select and that do not count.
    pub(crate) uncounted: Read<Vec<Uncounted>>,
}

/// The version of Kubernetes or of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    /// As it is reported, such as `v1.37.1`.
    pub(super) text: String,
}

/// The rules of the cluster.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) all: Vec<RuleEntry>,
    /// The valid ones.
    pub(crate) set: RuleSet,
    /// What keeps each rule that is being deleted, by name. These declare nothing, and are not in the other two.
    pub(super) deleting: BTreeMap<String, String>,
}

/// A rule of the cluster, and its status.
pub(crate) struct RuleEntry {
    pub(crate) name: Arc<str>,
    /// What it declares, also if it is invalid for another reason.
    pub(crate) resource: Option<String>,
    pub(crate) rule: Result<Arc<Rule>, InvalidRule>,
    pub(super) generation: Option<i64>,
    pub(super) status: NodeExtendedResourceStatus,
}

/// A node.
pub(crate) struct NodeEntry {
    pub(super) node: Node,
    pub(super) ledger: Result<Ledger, InvalidLedger>,
    /// `status.nodeInfo.kubeletVersion`; empty if none is reported.
    pub(super) kubelet_version: Box<str>,
    /// The field managers of its kubelet.
    pub(super) kubelets: Box<[Box<str>]>,
}

/// A text in a ConfigMap that mentions KubeSchedulerConfiguration.
pub(crate) struct SchedulerConfig {
    pub(super) config_map: ObjectName,
    pub(super) text: String,
}

/// The repair of a value that was 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(super) node: String,
    pub(super) resource: String,
    /// The field manager of the 0.
    pub(super) manager: String,
}

/// A pod that a kubelet has rejected because an extended resource is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectedPod {
    pub(super) object: ObjectName,
    pub(super) node: String,
    pub(super) resource: String,
}

/// The account of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(super) deployment: ObjectName,
    /// Its name as a user, such as `system:serviceaccount:advertising:nra`.
    pub(super) user: String,
    /// The verbs that it needs on pods and does not have.
    pub(super) lacks: Vec<&'static str>,
}

/// Admission policies and their bindings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub(super) policies: Vec<Policy>,
    pub(super) bindings: Vec<Binding>,
}

#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(super) name: String,
    /// What is wrong with its expressions, according to its status.
    pub(super) warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(super) policy: String,
    /// Whether it rejects what the policy does not allow.
    pub(super) denies: bool,
}

/// The policies of guards, by what they do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards {
    /// Those that add the request.
    pub(super) adding: GuardPolicies,
    /// Those that reject pods without it.
    pub(super) rejecting: GuardPolicies,
}

/// The policies of one kind, and all bindings of that kind; none if the cluster does not serve it.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuardPolicies {
    pub(super) policies: Vec<GuardPolicy>,
    /// A binding works without the label.
    pub(super) bindings: Vec<Binding>,
}

/// A policy of a guard.
#[derive(Clone, Debug)]
pub(crate) struct GuardPolicy {
    pub(super) name: String,
    /// `None` if an edit has removed the annotation.
    pub(super) resource: Option<String>,
    pub(super) pods: LabelSelector,
    pub(super) namespaces: LabelSelector,
    /// What is wrong with its expressions, according to its status.
    pub(super) warnings: Vec<String>,
}

/// An unfinished pod that a guard selects and that requests nothing of its resource.
#[derive(Clone, Debug)]
pub(crate) struct Uncounted {
    pub(crate) guard: String,
    pub(crate) resource: String,
    pub(crate) pod: ObjectName,
    /// Where it runs, if it has a node.
    pub(crate) node: Option<String>,
}

/// Returns what has been read.
pub(super) fn known<T>(read: &Read<T>) -> Result<&T, NotRun> {
    read.as_ref().map_err(Clone::clone)
}

fn failure<T>(read: &Read<T>) -> Option<&NotRun> {
    read.as_ref().err()
}

impl Snapshot {
    /// Returns why nothing can be checked, if nothing could be read. Every user may read the version.
    pub(crate) fn why_blank(&self) -> Option<&NotRun> {
        let Self { nodes, rules, waiting, quotas, leases, .. } = self;
        let read = [failure(nodes), failure(rules), failure(waiting), failure(quotas), failure(leases)];
        read.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// Returns why something could not be read, for everything that could not. A check names only the first.
    pub(super) fn unread(&self) -> impl Iterator<Item = &NotRun> {
        let Self {
            namespace: _,
            now: _,
            version,
            crd,
            rules,
            nodes,
            waiting,
            bound,
            rejected,
            quotas,
            classes,
            overlays,
            schedulers,
            repairs,
            leases,
            deployments,
            accounts,
            protection,
            confinement,
            guards,
            uncounted,
        } = self;
        let of_cluster =
            [failure(version), failure(crd), failure(nodes), failure(waiting), failure(bound), failure(rejected)];
        let of_others = [failure(quotas), failure(classes), failure(overlays), failure(schedulers), failure(repairs)];
        let own = [failure(rules), failure(leases), failure(deployments), failure(accounts)];
        let of_policies = [failure(protection), failure(confinement), failure(guards), failure(uncounted)];
        of_cluster.into_iter().chain(of_others).chain(own).chain(of_policies).flatten()
    }

    /// Returns the rules; none if the cluster does not serve the kind.
    pub(super) fn rules(&self) -> Result<&[RuleEntry], NotRun> {
        Ok(known(&self.rules)?.as_ref().map(|rules| rules.all.as_slice()).unwrap_or_default())
    }

    /// Returns the rules, or that a check makes no sense without the kind.
    pub(super) fn installed(&self) -> Result<&Rules, NotRun> {
        let missing = || NotRun::Unavailable("the CustomResourceDefinition of rules is not installed".to_owned());
        known(&self.rules)?.as_ref().ok_or_else(missing)
    }

    /// Returns the largest quantity of each resource on a node, or in a rule; 0 if an invalid rule declares it, or if
    /// all devices of it are unhealthy.
    pub(super) fn largest(&self) -> Result<BTreeMap<&str, Quantity>, NotRun> {
        let mut largest = BTreeMap::new();
        let mut add = |resource, quantity: Quantity| {
            let most = largest.entry(resource).or_insert(quantity);
            *most = quantity.max(*most);
        };
        for rule in self.rules()? {
            match (&rule.rule, &rule.resource) {
                (Ok(rule), _) => add(rule.resource.as_str(), rule.quantity.most()),
                (Err(_), Some(resource)) => add(resource.as_str(), Quantity::default()),
                (Err(_), None) => {}
            }
        }
        for entry in known(&self.nodes)? {
            let amounts = entry.node.resources().into_iter();
            let present = amounts.filter(|(_, maps)| maps.iter().flatten().any(|amount| !amount.is_zero()));
            present.for_each(|(name, [_, allocatable])| add(name, allocatable.unwrap_or_default()));
        }
        Ok(largest)
    }
}

impl Guards {
    /// Returns one policy of each guard.
    pub(super) fn each(&self) -> impl Iterator<Item = &GuardPolicy> {
        let rejecting = &self.rejecting.policies;
        let alone =
            self.adding.policies.iter().filter(|adding| rejecting.iter().all(|other| other.name != adding.name));
        rejecting.iter().chain(alone)
    }
}

impl Version {
    /// Parses a version such as `v1.37.1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let [major, minor] = [parts.next()?, parts.next()?];
        Some(Self { major: major.parse().ok()?, minor: leading_number(minor)?, text: text.to_owned() })
    }
}

/// Returns the number that a text starts with: some clusters have a minor version such as `30+`.
fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

impl Rules {
    pub(crate) fn new(all: Vec<RuleEntry>) -> Self {
        let valid = all.iter().filter_map(|entry| entry.rule.as_ref().ok());
        Self { set: RuleSet::new(valid.cloned(), std::iter::empty()), all, deleting: BTreeMap::new() }
    }

    /// Returns the rules that decide on a node: for each resource, the first that declares it there.
    pub(super) fn deciding(&self, node: &Node) -> Vec<&Arc<Rule>> {
        let mut deciding: Vec<&Arc<Rule>> = Vec::new();
        for rule in self.set.declaring(node) {
            if deciding.iter().all(|other| other.resource != rule.resource) {
                deciding.push(rule);
            }
        }
        deciding
    }
}

impl NodeEntry {
    pub(super) fn new(object: NodeObject, interner: &mut Interner) -> Self {
        let NodeObject { node, kubelet_version, .. } = object;
        let kubelets = node.kubelets().map(Box::from).collect();
        let node = Node::new(node, interner);
        let ledger = Ledger::parse(node.ledger.as_deref());
        Self { node, ledger, kubelet_version, kubelets }
    }

    pub(super) fn object(&self) -> ObjectName {
        ObjectName::new("Node", &*self.node.name)
    }

    /// Returns the quantities in capacity and allocatable.
    pub(super) fn values(&self, resource: &str) -> [Option<Quantity>; 2] {
        self.node.values(resource).map(|text| text?.parse().ok())
    }
}
