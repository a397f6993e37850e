//! A Node as people look at it: with whether it takes pods.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::resources::Capacity;
use super::{ApiNode, ApiNodeStatus, NodeInfo, TrimmedMetadata};
use crate::model::compute::Compute;

/// A Node from the API server, decoded without unused fields.
#[derive(Clone, Debug)]
pub struct NodeObject {
    /// What planning reads.
    pub node: ApiNode,
    /// Whether it takes pods.
    pub readiness: Readiness,
    /// `status.nodeInfo.kubeletVersion`; empty if none is reported.
    pub kubelet_version: Box<str>,
    /// The allocatable cpu, memory and number of pods.
    pub compute: Compute,
}

/// Whether a node takes pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether the condition `Ready` is `True`.
    pub is_ready: bool,
    /// `spec.unschedulable`, as `kubectl cordon` sets it.
    pub is_cordoned: bool,
    /// `spec.taints`, as kubectl prints them: `key=value:Effect`.
    pub taints: Box<[Box<str>]>,
}

impl Readiness {
    /// Returns whether the node takes new pods, apart from its taints.
    #[must_use]
    pub fn takes_pods(&self) -> bool {
        self.is_ready && !self.is_cordoned
    }
}

impl Resource for NodeObject {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        <ApiNode as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        ApiNode::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        ApiNode::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        ApiNode::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.node.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.node.meta_mut()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TrimmedSpec {
    unschedulable: Option<bool>,
    taints: Option<Vec<TrimmedTaint>>,
}

#[derive(Deserialize)]
struct TrimmedTaint {
    key: String,
    value: Option<String>,
    effect: String,
}

impl<'de> Deserialize<'de> for NodeObject {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(expecting = "a Node")]
        struct Trimmed {
            kind: Option<Box<str>>,
            metadata: TrimmedMetadata,
            spec: Option<TrimmedSpec>,
            status: Option<Status>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            capacity: Option<Capacity>,
            allocatable: Option<Capacity>,
            node_info: Option<Info>,
            conditions: Option<Vec<Condition>>,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Info {
            #[serde(rename = "bootID")]
            boot_id: Option<Box<str>>,
            kubelet_version: Option<Box<str>>,
        }

        #[derive(Deserialize)]
        struct Condition {
            #[serde(rename = "type")]
            kind: Box<str>,
            status: Box<str>,
        }

        let Trimmed { kind, metadata, spec, status } = Trimmed::deserialize(decoder)?;
        let spec = spec.unwrap_or_default();
        let Status { capacity, allocatable, node_info, conditions } = status.unwrap_or_default();
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|condition| *condition.kind == *"Ready" && *condition.status == *"True");
        let taints = spec.taints.into_iter().flatten().map(|TrimmedTaint { key, value, effect }| {
            let value = value.filter(|value| !value.is_empty()).map(|value| format!("={value}"));
            format!("{key}{}:{effect}", value.unwrap_or_default()).into()
        });
        let Info { boot_id, kubelet_version } = node_info.unwrap_or_default();
        let node_info = Some(NodeInfo { boot_id });
        let native = |name: &str| allocatable.as_ref().and_then(|map| map.native.get(name));
        let amounts = Compute::new(native("cpu").unwrap_or_default(), native("memory").unwrap_or_default());
        let compute = amounts.with_pods(native("pods"));
        let allocatable = allocatable.map(|map| map.extended);
        Ok(Self {
            node: ApiNode::new(kind, metadata, ApiNodeStatus { capacity, allocatable, conditions: None, node_info }),
            readiness: Readiness {
                is_ready,
                is_cordoned: spec.unschedulable.unwrap_or_default(),
                taints: taints.collect(),
            },
            kubelet_version: kubelet_version.unwrap_or_default(),
            compute,
        })
    }
}
