//! Rules that select alike, of which few have to be kept.

use crate::model::quantity::Quantity;

/// A rule that others are compared with.
#[derive(Clone, Copy)]
pub(super) struct Peer<'t> {
    pub(super) name: &'t str,
    pub(super) quantity: Quantity,
    /// How many rules came before it.
    pub(super) place: usize,
    /// What its finder is given.
    pub(super) item: usize,
}

/// Rules that have the same nodes in common with any rule that they are compared with. Only those are kept
/// that are the first for some quantity and name: a handful, however many there are.
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

    /// The first one of another quantity and another name.
    pub(super) fn first_other(&self, quantity: &Quantity, name: &str) -> Option<Peer<'t>> {
        let is_other = |peer: &&Peer<'t>| peer.quantity != *quantity && peer.name != name;
        self.0.iter().find(is_other).copied()
    }

    /// Whether there are a quantity and a name, both others than those of `peer`, of which every rule so far
    /// has one: to a rule with these, `peer` is the first other one.
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
