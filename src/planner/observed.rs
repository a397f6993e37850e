//! What is found on a node of one resource.

use std::fmt;
use std::sync::Arc;

use crate::model::ledger::{Entry, Ledger};
use crate::model::node::{KUBELET, Node, ResourceManagers};
use crate::model::quantity::Quantity;

/// One resource in a node's two maps, in its ledger and in its managedFields.
pub(crate) struct Observed<'a> {
    /// In capacity and allocatable.
    values: [Option<&'a str>; 2],
    pub(super) listed: Option<&'a Entry>,
    managers: Option<&'a ResourceManagers>,
}

impl<'a> Observed<'a> {
    pub(crate) fn on(node: &'a Node, ledger: &'a Ledger, resource: &str) -> Self {
        Self {
            values: node.values(resource),
            listed: ledger.get(resource),
            managers: node.field_managers(resource),
        }
    }

    /// Returns whether there is no value but the 0 that kubelets and device plugins leave behind.
    pub(super) fn is_vacant(&self) -> bool {
        self.values.into_iter().flatten().all(is_zero)
    }

    /// Returns whether there is a 0, and no other value.
    pub(super) fn is_zeroed(&self) -> bool {
        self.is_vacant() && self.values != [None, None]
    }

    /// Returns whether a kubelet has reset it: both maps are at 0, and by its hand.
    pub(super) fn is_reset(&self) -> bool {
        self.values.into_iter().all(|value| value.is_some_and(is_zero))
            && self.managers.is_some_and(|managers| managers.are(KUBELET))
    }

    /// Returns whether there is a value that the ledger does not list.
    pub(super) fn is_unlisted(&self) -> bool {
        self.listed.is_none() && !self.is_vacant()
    }

    /// Returns whether the value only lacks its ledger entry: it is as declared, and the controller alone
    /// wrote it, in both maps. A value that a kubelet, a device plugin or an applier has a part in may be
    /// reported anew by it, and withdrawing it with the rule would be wrong; but where it was listed and has stayed
    /// as it was, a kubelet is one whose reset admission has undone.
    pub(super) fn is_adoptable(&self, quantity: Quantity, was_listed: bool) -> bool {
        let is_own = |managers: &ResourceManagers| {
            managers.are_own() || (was_listed && managers.are_own_or_kubelet())
        };
        self.is_unlisted() && self.is(quantity) && self.managers.is_some_and(is_own)
    }

    /// Returns the field manager that wrote what is not as the ledger has it.
    pub(super) fn manager(&self) -> Option<&Arc<str>> {
        let listed = self.listed_quantity();
        let differs = |value: Option<&str>| match (value, listed) {
            (Some(text), Some(listed)) => !same(text, listed),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let [capacity, allocatable] = self.values.map(differs);
        self.managers?.last(capacity, allocatable)
    }

    /// Returns whether both maps are at `quantity`.
    pub(super) fn is(&self, quantity: Quantity) -> bool {
        self.values.into_iter().all(|value| value.is_some_and(|text| same(text, quantity)))
    }

    pub(super) fn listed_quantity(&self) -> Option<Quantity> {
        self.listed.and_then(|listed| listed.quantity.parse().ok())
    }

    /// Returns whether nobody has changed it since it was listed.
    pub(crate) fn is_as_listed(&self) -> bool {
        self.listed.is_none() || self.listed_quantity().is_some_and(|listed| self.is(listed))
    }

    /// Returns whether a map holds a value that is neither the listed one nor 0. Ownership goes by value:
    /// managedFields name the kubelet for a value that admission kept.
    pub(super) fn is_overwritten(&self) -> bool {
        let listed = self.listed_quantity();
        let is_own = |text| is_zero(text) || listed.is_some_and(|listed| same(text, listed));
        !self.values.into_iter().flatten().all(is_own)
    }

    pub(super) fn is_listed_as(&self, entry: &Entry) -> bool {
        let Entry { quantity, rule, deletion_policy, unknown: _ } = entry;
        let quantity = quantity.parse().ok();
        self.listed_quantity() == quantity
            && self.listed.is_some_and(|listed| {
                (&listed.rule, &listed.deletion_policy) == (rule, deletion_policy)
            })
    }

    /// Returns the larger of the two maps' values.
    pub(super) fn most(&self) -> Option<Quantity> {
        self.values.into_iter().flatten().filter_map(|text| text.parse().ok()).max()
    }

    /// Returns the value that the scheduler goes by; where there is none, the one of capacity, which the
    /// kubelet copies.
    pub(super) fn schedulable(&self) -> Option<Quantity> {
        let [capacity, allocatable] =
            self.values.map(|value| value.and_then(|text| text.parse().ok()));
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

/// Returns whether `text` is `quantity`, however it is written: the API server rewrites `1000` as `1k`.
pub(super) fn same(text: &str, quantity: Quantity) -> bool {
    text.parse::<Quantity>().is_ok_and(|parsed| parsed == quantity)
}
