//! Sets of nodes, by their index.

/// A set of nodes. Sets that are compared are of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeSet(Box<[u64]>);

impl NodeSet {
    /// Returns an empty set, for this many nodes.
    pub(super) fn empty(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)].into())
    }

    /// Returns the set of these nodes.
    pub(super) fn of(nodes: usize, places: &[usize]) -> Self {
        let mut set = Self::empty(nodes);
        places.iter().for_each(|place| set.insert(*place));
        set
    }

    pub(super) fn insert(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether every node of this set is in `other`.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, other)| word & !other == 0)
    }

    /// Returns whether the nodes in both `one` and `two` are those of this set.
    pub(super) fn is_overlap(&self, one: &Self, two: &Self) -> bool {
        let overlap = one.0.iter().zip(&two.0).map(|(one, two)| one & two);
        self.0.iter().copied().eq(overlap)
    }

    /// Returns the nodes of this set that are not in `other`.
    pub(super) fn without<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = usize> + 's {
        let words = self.0.iter().zip(&other.0).enumerate();
        words.flat_map(|(at, (word, other))| {
            let left = word & !other;
            (0..64).filter(move |bit| left & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        })
    }
}
