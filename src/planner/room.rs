//! The room that a node has for another resource: in its ledger, and in the bounds of the chart's policy, which rejects a
//! patch beyond them as a whole.

use crate::model::ledger::{Ledger, MAX_BYTES};
use crate::model::node::Node;

/// The most extended resources of a node. The policy counts native ones too, and allows 512.
pub(super) const MAX_RESOURCES: usize = 512 - NATIVE;
/// The most characters of their names together. The policy allows 32,768.
const MAX_CHARACTERS: usize = 32_768 - NATIVE * 32;
/// More native resources than a node has.
const NATIVE: usize = 16;

/// The room on a node.
pub(super) struct Room {
    bytes: usize,
    /// In capacity, and in allocatable.
    resources: [usize; 2],
    characters: [usize; 2],
}

impl Room {
    pub(super) fn on(node: &Node, ledger: &Ledger) -> Self {
        let maps = [&node.capacity, &node.allocatable].map(Option::as_ref);
        let left = |most: usize, size: fn(&str) -> usize| {
            maps.map(|map| {
                let names = map.into_iter().flat_map(|map| map.names());
                most.saturating_sub(names.map(size).sum())
            })
        };
        Self {
            bytes: MAX_BYTES.saturating_sub(ledger.length()),
            resources: left(MAX_RESOURCES, |_| 1),
            characters: left(MAX_CHARACTERS, str::len),
        }
    }

    /// Returns whether there is room for a resource whose ledger entry grows by this many bytes, and reserves it. The
    /// maps that lack the resource get it. Room from other changes does not count: any part of a plan may be sent alone.
    pub(super) fn reserve(&mut self, resource: &str, growth: usize, is_absent: [bool; 2]) -> bool {
        let lacks = |(place, is_absent): (usize, &bool)| {
            *is_absent && (self.resources[place] == 0 || self.characters[place] < resource.len())
        };
        if growth > self.bytes || is_absent.iter().enumerate().any(lacks) {
            return false;
        }
        self.bytes -= growth;
        for (place, _) in is_absent.iter().enumerate().filter(|(_, is_absent)| **is_absent) {
            self.resources[place] -= 1;
            self.characters[place] -= resource.len();
        }
        true
    }
}
