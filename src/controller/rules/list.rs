//! Lists of rules: of the watch, and of a new leader.

use kube::{Resource as _, ResourceExt as _};

use super::object::RuleObject;
use super::state::RuleState;
use super::states::RuleStates;

/// A complete list.
#[derive(Debug)]
pub(in crate::controller) struct RuleList {
    /// The version of the list: it shows all that was written up to there.
    pub(in crate::controller) version: Option<u64>,
    pub(in crate::controller) rules: RuleStates,
}

impl RuleList {
    /// Returns an empty list of rules that take this many bytes at most.
    pub(in crate::controller) fn new(max_size: usize) -> Self {
        Self { version: None, rules: RuleStates::new(max_size) }
    }

    /// Adds a page. All pages have one version. Where a server does not keep to that, the first is certain.
    pub(in crate::controller) fn add(&mut self, version: Option<u64>, items: impl IntoIterator<Item = RuleObject>) {
        self.version = self.version.or(version);
        for object in items.into_iter().filter(|object| object.meta().deletion_timestamp.is_none()) {
            self.rules.insert(object.name_any().into(), RuleState::new(object));
        }
    }
}

/// A list in progress.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) rules: RuleStates,
    /// The rules that are being deleted.
    pub(super) deleting: RuleStates,
    /// The newest version of a rule known when the list began, or that of the list: what is newer may be missing.
    pub(super) newest: Option<u64>,
    /// Whether another list has been completed since this one began. Neither is known to be the later one.
    pub(super) is_raced: bool,
}

impl Listing {
    /// Returns an empty list of rules that take this many bytes at most.
    pub(super) fn new(max_size: usize, newest: Option<u64>) -> Self {
        Self { rules: RuleStates::new(max_size), deleting: RuleStates::of_deleted(max_size), newest, is_raced: false }
    }

    pub(super) fn take_deleting(&mut self) -> RuleStates {
        let none = RuleStates::of_deleted(self.rules.max_size());
        std::mem::replace(&mut self.deleting, none)
    }
}

/// What was known when a new leader requested a list.
#[derive(Clone, Copy, Debug)]
pub(in crate::controller) struct Mark {
    /// The newest version of a rule.
    pub(super) newest: Option<u64>,
    /// The number of lists that the watch had begun, and whether the last one was in progress.
    pub(super) lists_begun: u64,
    pub(super) is_watch_listing: bool,
    pub(super) deletions_forgotten: u64,
}

/// Whether a list that a new leader requested shows what exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Validity {
    Usable,
    /// The watch has listed the rules since.
    Superseded,
    /// It may contain rules that were deleted before the watch listed them, or whose deletion is forgotten.
    Doubtful,
}
