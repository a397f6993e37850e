//! The observed state of one resource on a node.

use std::fmt;

use crate::model::ledger::{Entry, Ledger};
use crate::model::node::{FieldManager, Node, ResourceManagers};
use crate::model::quantity::Quantity;

/// One resource in a node's two maps, in its ledger and in its managedFields.
pub(crate) struct Observed<'a> {
    /// The values in capacity and allocatable.
    values: [Option<&'a str>; 2],
    pub(super) recorded: Option<&'a Entry>,
    managers: Option<&'a ResourceManagers>,
}

impl<'a> Observed<'a> {
    pub(crate) fn on(node: &'a Node, ledger: &'a Ledger, resource: &str) -> Self {
        Self { values: node.values(resource), recorded: ledger.get(resource), managers: node.field_managers(resource) }
    }

    /// Returns whether the resource has no value other than the 0 that kubelets and device plugins leave behind.
    pub(super) fn is_vacant(&self) -> bool {
        self.values.into_iter().flatten().all(is_zero)
    }

    /// Returns whether the resource has a 0 and no other value.
    pub(super) fn is_zeroed(&self) -> bool {
        self.is_vacant() && self.values != [None, None]
    }

    /// Returns whether a kubelet has reset the resource: it has set both maps to 0.
    pub(super) fn is_reset(&self) -> bool {
        self.values.into_iter().all(|value| value.is_some_and(is_zero))
            && self.managers.is_some_and(ResourceManagers::are_kubelets)
    }

    /// Returns whether the resource has a value that the ledger does not record.
    pub(super) fn is_unrecorded(&self) -> bool {
        self.recorded.is_none() && !self.is_vacant()
    }

    /// Returns whether the value lacks only its ledger entry: it is as declared, and the controller alone wrote it, in
    /// both maps. A kubelet, a device plugin or an applier that owns a part of the value may report it again, and
    /// withdrawing it with the rule would be wrong; but if it was recorded and has not changed, a kubelet in
    /// managedFields is one whose reset admission undid.
    pub(super) fn is_adoptable(&self, quantity: Quantity, was_recorded: bool) -> bool {
        let is_own =
            |managers: &ResourceManagers| managers.are_own() || (was_recorded && managers.are_own_or_kubelets());
        self.is_unrecorded() && self.is(quantity) && self.managers.is_some_and(is_own)
    }

    /// Returns the field manager that wrote the value that differs from the ledger.
    pub(crate) fn manager(&self) -> Option<&FieldManager> {
        let recorded = self.recorded_quantity();
        let differs = |value: Option<&str>| match (value, recorded) {
            (Some(text), Some(recorded)) => !same(text, recorded),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let [capacity, allocatable] = self.values.map(differs);
        let managers = self.managers?;
        // A recorded value that differs in capacity is nobody else's change; a kubelet copies it to allocatable.
        let changed_since = managers.last([capacity, false]).filter(|manager| recorded.is_some() && manager.is_own());
        changed_since.or_else(|| managers.last([capacity, allocatable]))
    }

    /// Returns whether both maps are at `quantity`.
    pub(super) fn is(&self, quantity: Quantity) -> bool {
        self.values.into_iter().all(|value| value.is_some_and(|text| same(text, quantity)))
    }

    pub(crate) fn recorded_quantity(&self) -> Option<Quantity> {
        self.recorded.and_then(|recorded| recorded.quantity.parse().ok())
    }

    /// Returns whether the value is unchanged since it was recorded; also if the ledger does not record it.
    pub(crate) fn is_as_recorded(&self) -> bool {
        self.recorded.is_none() || self.recorded_quantity().is_some_and(|recorded| self.is(recorded))
    }

    /// Returns whether a map holds a value that is neither the recorded one nor 0. Ownership follows the value:
    /// managedFields name the kubelet for a value that admission kept.
    pub(super) fn is_overwritten(&self) -> bool {
        let recorded = self.recorded_quantity();
        let is_own = |text| is_zero(text) || recorded.is_some_and(|recorded| same(text, recorded));
        !self.values.into_iter().flatten().all(is_own)
    }

    pub(super) fn is_recorded_as(&self, entry: &Entry) -> bool {
        let Entry { quantity, rule, deletion_policy, is_leaving, unknown: _ } = entry;
        let quantity = quantity.parse().ok();
        self.recorded_quantity() == quantity
            && self.recorded.is_some_and(|it| {
                (&it.rule, &it.deletion_policy, &it.is_leaving) == (rule, deletion_policy, is_leaving)
            })
    }

    /// Returns the larger of the two maps' values.
    pub(crate) fn most(&self) -> Option<Quantity> {
        self.values.into_iter().flatten().filter_map(|text| text.parse().ok()).max()
    }

    /// Returns the larger of the two maps' values and the recorded quantity, which pods may be using after a value is
    /// lost.
    pub(crate) fn most_or_recorded(&self) -> Option<Quantity> {
        self.most().max(self.recorded_quantity())
    }

    /// Returns the value that the scheduler uses; if it is absent, the value in capacity, which the kubelet copies.
    pub(super) fn schedulable(&self) -> Option<Quantity> {
        let [capacity, allocatable] = self.values.map(|value| value.and_then(|text| text.parse().ok()));
        allocatable.or(capacity)
    }
}

impl fmt::Display for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [capacity, allocatable] = self.values.map(|value| value.unwrap_or("absent"));
        if capacity == allocatable {
            f.write_str(capacity)
        } else {
            write!(f, "{capacity} in capacity, {allocatable} in allocatable")
        }
    }
}

fn is_zero(text: &str) -> bool {
    same(text, Quantity::from(0))
}

/// Returns whether `text` equals `quantity` in any spelling: the API server rewrites `1000` as `1k`.
pub(super) fn same(text: &str, quantity: Quantity) -> bool {
    text.parse::<Quantity>().is_ok_and(|parsed| parsed == quantity)
}
