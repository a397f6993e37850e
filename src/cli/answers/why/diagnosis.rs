//! What `why` answers: the verdict, and what it is made of.

use serde::Serialize;

use crate::cli::answers::view::ResourceView;
use crate::cli::end;
use crate::inspect::inventory::why;
use crate::model::quantity::Quantity;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Why {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// The node for which the scheduler has nominated the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nominated_node: Option<String>,
    /// The scheduler's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Why the pod failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// The DeviceClasses that the pod requests by name, from DRA, which are not looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) device_classes: Vec<String>,
    pub(super) verdict: Verdict,
    /// The verdict as a sentence.
    pub(super) explanation: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
    pub(super) requests: Vec<WhyResource>,
    pub(super) nodes: Vec<WhyNode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) enum Verdict {
    /// The pod has a node, has finished, is being deleted, or requests nothing.
    NotWaiting,
    /// A kubelet has rejected the pod because the node has too little of a resource.
    Rejected,
    /// Something else than the amounts keeps the pod waiting.
    Gated,
    /// The pod may use no node, whatever nodes have.
    Excluded,
    /// Some node that the pod may use has enough, as far as is known.
    Enough,
    /// No node is known to have enough: DRA may provide it, or something cannot be read.
    Unknown,
    /// No node that the pod may use has enough.
    NotEnough,
    /// Pods cannot be created: a quota of an extended resource is used up.
    OverQuota,
    /// Pods cannot be created, for another reason.
    NotCreated,
}

/// What answers mean for a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Whether extended resources keep some pod from running.
    is_short: bool,
    pub(super) is_unknown: bool,
    /// Whether each pod has its node, or some node has enough for it.
    pub(super) fits: bool,
}

impl Outcome {
    pub(super) fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut outcome = Self { is_short: false, is_unknown: false, fits: true };
        for verdict in verdicts {
            outcome.is_short |= matches!(verdict, Verdict::NotEnough | Verdict::Rejected | Verdict::OverQuota);
            outcome.is_unknown |= verdict == Verdict::Unknown;
            outcome.fits &= matches!(verdict, Verdict::NotWaiting | Verdict::Rejected | Verdict::Enough);
        }
        outcome
    }

    pub(super) fn verdict(self) -> end::Verdict {
        match self {
            Self { is_short: true, .. } => end::Verdict::Found,
            Self { is_unknown: true, .. } => end::Verdict::Incomplete,
            _ => end::Verdict::Fine,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WhyResource {
    pub(super) pod_requests: String,
    /// Whether a LimitRange has added the request, so that the pod's author may not know of it.
    #[serde(skip)]
    pub(super) is_added: bool,
    #[serde(flatten)]
    pub(super) resource: ResourceView,
    /// What the scheduler reserves for pods that it has nominated for a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reserved: Option<String>,
    /// The name that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) similar: Option<String>,
    /// Whether it is known that no node has the resource, no rule of it selects one, and no DeviceClass maps it.
    #[serde(skip)]
    pub(super) is_nowhere: bool,
    /// A node that has capacity of it, and nothing allocatable.
    #[serde(skip)]
    pub(super) unallocatable: Option<Unallocatable>,
    /// The invalid rules that declare it.
    #[serde(skip)]
    pub(super) invalid_rules: Vec<String>,
}

/// Capacity of a resource on a node that has nothing allocatable of it.
#[derive(Debug)]
pub(super) struct Unallocatable {
    pub(super) node: String,
    pub(super) capacity: Quantity,
    /// Who wrote it, if that is known and not the kubelet, which does so while no device is healthy.
    pub(super) manager: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct WhyNode {
    pub(super) node: String,
    pub(super) enough: Option<bool>,
    /// Whether the pod may use the node.
    pub(super) allowed: bool,
    /// What the node has too little of besides extended resources: cpu or memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lacks: Vec<String>,
    /// Whether that is so however many pods end.
    #[serde(skip)]
    pub(super) is_too_small: bool,
    /// What keeps the pod off the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) obstacles: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reasons: Vec<String>,
    /// The same as numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) shortages: Vec<why::Shortage>,
}
