//! The first few of many.

use std::fmt;

use crate::model::count::and_more;

/// The most that a sentence names.
const NAMED: usize = 3;

/// The first few of many, and how many there are: a rule per node may have all other nodes in its comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Few<T> {
    pub(super) first: Vec<T>,
    pub(crate) count: usize,
}

impl<T> Few<T> {
    /// Returns what the function makes of each.
    pub(crate) fn map<'s, U>(&'s self, make: impl FnMut(&'s T) -> U) -> Few<U> {
        Few { first: self.first.iter().map(make).collect(), count: self.count }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        let mut all = all.into_iter();
        let first: Vec<_> = all.by_ref().take(NAMED).collect();
        let count = first.len() + all.count();
        Self { first, count }
    }
}

impl<T: fmt::Display> fmt::Display for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&and_more(&self.first, self.count.saturating_sub(self.first.len()), ", "))
    }
}
