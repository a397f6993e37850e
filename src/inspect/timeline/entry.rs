//! An entry of a timeline.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

/// One thing that happened, or that is so now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) when: When,
    pub(crate) source: Source,
    /// The nodes that it is about, if the timeline is about several.
    pub(crate) nodes: Vec<String>,
    /// The rule that it is about; `None` for nodes and Leases.
    pub(crate) rule: Option<String>,
    /// The field manager, or what reported an Event; `None` if unknown.
    pub(crate) who: Option<String>,
    pub(crate) is_warning: bool,
    /// A sentence about the subject, without a period.
    pub(crate) what: String,
    /// The resources, parts of a node or fields of a rule that a field manager owns.
    pub(crate) owns: Vec<String>,
}

/// The time of an entry, in the order of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum When {
    /// It has happened, and the object does not say when.
    Unknown,
    At(Timestamp),
    /// It is so now.
    Now,
}

/// Where an entry comes from; at one time, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(crate) enum Source {
    #[serde(rename = "metadata")]
    Metadata,
    #[serde(rename = "managedFields")]
    ManagedFields,
    #[serde(rename = "taint")]
    Taint,
    #[serde(rename = "condition")]
    Condition,
    Event,
    #[serde(rename = "lease")]
    Lease,
    #[serde(rename = "selector")]
    Selection,
    #[serde(rename = "ledger")]
    Ledger,
}

impl Source {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::ManagedFields => "managedFields",
            Self::Taint => "taint",
            Self::Condition => "condition",
            Self::Event => "Event",
            Self::Lease => "lease",
            Self::Selection => "selector",
            Self::Ledger => "ledger",
        }
    }
}

impl When {
    /// Returns whether this is at `start` or later, or may be.
    pub(super) fn may_be_since(self, start: Timestamp) -> bool {
        match self {
            Self::At(time) => time >= start,
            Self::Unknown | Self::Now => true,
        }
    }
}

impl From<Option<Timestamp>> for When {
    fn from(time: Option<Timestamp>) -> Self {
        time.map_or(Self::Unknown, Self::At)
    }
}

/// Returns a time in RFC 3339, in UTC and whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
