//! Rules with the same selection, of which only a few are kept.

use crate::planner::declared::Declared;

/// A rule that others are compared with.
#[derive(Clone, Copy)]
pub(super) struct Peer<'t> {
    pub(super) name: &'t str,
    pub(super) quantity: &'t Declared,
    /// The number of rules before it.
    pub(super) place: usize,
    /// The item that a conflict returns.
    pub(super) item: usize,
}

/// Rules that share the same nodes with any rule that they are compared with. Only the first rules of a quantity and
/// name are kept: a few, however many there are.
#[derive(Default)]
pub(super) struct Alike<'t>(Vec<Peer<'t>>);

impl<'t> Alike<'t> {
    pub(super) fn add(&mut self, peer: Peer<'t>) {
        if self.needs(&peer) {
            self.0.push(peer);
        }
    }

    pub(super) fn first(&self) -> Option<Peer<'t>> {
        self.0.first().copied()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the first rule with another quantity and another name.
    pub(super) fn first_other(&self, quantity: &Declared, name: &str) -> Option<Peer<'t>> {
        let is_other = |peer: &&Peer<'t>| peer.quantity != quantity && peer.name != name;
        self.0.iter().find(is_other).copied()
    }

    /// Returns whether a rule could exist for which `peer` is the first rule with another quantity and name.
    fn needs(&self, peer: &Peer<'t>) -> bool {
        let Some(first) = self.0.first() else { return true };
        let by_quantity = first.quantity != peer.quantity && {
            let mut rest = self.0.iter().filter(|other| other.quantity != first.quantity);
            let name = rest.next().map(|other| other.name);
            name != Some(peer.name) && rest.all(|other| Some(other.name) == name)
        };
        let by_name = first.name != peer.name && {
            let mut rest = self.0.iter().filter(|other| other.name != first.name);
            let quantity = rest.next().map(|other| other.quantity);
            quantity != Some(peer.quantity) && rest.all(|other| Some(other.quantity) == quantity)
        };
        by_quantity || by_name
    }
}
