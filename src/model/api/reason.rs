//! Machine-readable reasons.

use std::fmt;

/// The reason of a condition, or of a node that is not as declared. The list is closed: docs/status-and-events.md
/// documents each reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Every selected node has the quantity, or another rule decides there.
    Advertised,
    /// Another rule decides, on some nodes (`Overlapping`) or all (`Ready`).
    Overridden,
    /// No node matches.
    NoNodesSelected,
    /// Patches are in progress.
    Progressing,
    /// The last patch failed, and is retried.
    PatchFailed,
    /// Patches of other nodes failed, so that the rollout of the rule has stopped for a while.
    RolloutStopped,
    /// The annotation on a node is not what the controller writes.
    InvalidLedger,
    /// The annotation on a node has no room for another resource.
    LedgerFull,
    /// Another field manager keeps changing a value back.
    Contested,
    /// Another field manager's value is there.
    Conflict,
    /// A value must be lowered or added, but pods cannot be listed.
    PodsUnavailable,
    /// A value must be lowered, but pods use it.
    Held,
    /// The rule is paused, and only repaired.
    Paused,
    /// The quantity cannot be read from the node.
    QuantityUnknown,
    /// The rule does not match the CRD's schema.
    InvalidSpec,
    /// The rule is being deleted, and declares nothing: somebody's finalizer keeps it.
    Deleting,
    /// Rules take too much memory, and this one is among the youngest.
    MemoryFull,
    /// No other rule decides anywhere.
    NoOverlap,
    /// Only age or name decides between rules that declare different quantities.
    EqualPriority,
    /// No field manager changes values back.
    NotContested,
    /// DRA does not have the resource.
    NoDeviceClass,
    /// A DeviceClass maps the resource.
    DeviceClassFound,
    /// DeviceClasses cannot be read.
    DeviceClassesUnavailable,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 23] = [
        Self::Advertised,
        Self::Overridden,
        Self::NoNodesSelected,
        Self::Progressing,
        Self::PatchFailed,
        Self::RolloutStopped,
        Self::InvalidLedger,
        Self::LedgerFull,
        Self::Contested,
        Self::Conflict,
        Self::PodsUnavailable,
        Self::Held,
        Self::Paused,
        Self::QuantityUnknown,
        Self::InvalidSpec,
        Self::Deleting,
        Self::MemoryFull,
        Self::NoOverlap,
        Self::EqualPriority,
        Self::NotContested,
        Self::NoDeviceClass,
        Self::DeviceClassFound,
        Self::DeviceClassesUnavailable,
    ];

    /// Returns the reason as conditions and problems show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Advertised => "Advertised",
            Self::Overridden => "Overridden",
            Self::NoNodesSelected => "NoNodesSelected",
            Self::Progressing => "Progressing",
            Self::PatchFailed => "PatchFailed",
            Self::RolloutStopped => "RolloutStopped",
            Self::InvalidLedger => "InvalidLedger",
            Self::LedgerFull => "LedgerFull",
            Self::Contested => "Contested",
            Self::Conflict => "Conflict",
            Self::PodsUnavailable => "PodsUnavailable",
            Self::Held => "Held",
            Self::Paused => "Paused",
            Self::QuantityUnknown => "QuantityUnknown",
            Self::InvalidSpec => "InvalidSpec",
            Self::Deleting => "Deleting",
            Self::MemoryFull => "MemoryFull",
            Self::NoOverlap => "NoOverlap",
            Self::EqualPriority => "EqualPriority",
            Self::NotContested => "NotContested",
            Self::NoDeviceClass => "NoDeviceClass",
            Self::DeviceClassFound => "DeviceClassFound",
            Self::DeviceClassesUnavailable => "DeviceClassesUnavailable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
