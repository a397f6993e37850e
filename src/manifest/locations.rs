//! The source locations of a document's parts.

use std::collections::BTreeMap;

use super::path::{Path, Step};
use super::source::{Source, Span};

/// A tree with the shape of the value and the location of each part.
#[derive(Clone, Debug, Default)]
pub(super) struct Locations {
    key: Option<Span>,
    value: Span,
    children: Children,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Children {
    #[default]
    None,
    Items(Vec<Locations>),
    Fields(BTreeMap<Box<str>, Locations>),
}

impl Locations {
    pub(super) fn new(value: Span, children: Children) -> Self {
        Self { key: None, value, children }
    }

    pub(super) fn with_key(self, key: Span) -> Self {
        Self { key: Some(key), ..self }
    }

    pub(super) fn whole(&self) -> Span {
        self.value
    }

    /// Returns the locations of a map's parts, to merge them into another map.
    pub(super) fn fields(&self) -> Option<&BTreeMap<Box<str>, Self>> {
        match &self.children {
            Children::Fields(fields) => Some(fields),
            Children::Items(_) | Children::None => None,
        }
    }

    pub(super) fn items(&self) -> Option<&[Self]> {
        match &self.children {
            Children::Items(items) => Some(items),
            Children::Fields(_) | Children::None => None,
        }
    }

    pub(super) fn take_items(&mut self, key: &str) -> Vec<Self> {
        let Children::Fields(fields) = &mut self.children else {
            return Vec::new();
        };
        match fields.remove(key).map(|items| items.children) {
            Some(Children::Items(items)) => items,
            _ => Vec::new(),
        }
    }

    /// Returns the part nearest to `path`, and whether it is exact.
    fn nearest(&self, path: &Path) -> (&Self, bool) {
        let mut here = self;
        for step in path.steps() {
            let next = match (&here.children, step) {
                (Children::Fields(fields), Step::Key(key)) => fields.get(key.as_str()),
                (Children::Items(items), Step::Item(index)) => items.get(*index),
                _ => None,
            };
            match next {
                Some(next) => here = next,
                None => return (here, false),
            }
        }
        (here, true)
    }

    /// Returns what to underline for the value at `path`, within one line.
    pub(super) fn shown(&self, path: &Path, source: &Source) -> Span {
        let (found, exact) = self.nearest(path);
        let value = found.value;
        if exact && value.start < value.end && source.is_one_line(value) {
            return value;
        }
        found.first(source)
    }

    /// Returns what to underline for the key at `path`, within one line.
    pub(super) fn shown_key(&self, path: &Path, source: &Source) -> Span {
        self.nearest(path).0.first(source)
    }

    /// Returns the key; without a key, the first line.
    fn first(&self, source: &Source) -> Span {
        self.key.unwrap_or_else(|| source.rest_of_line(self.value.start as usize))
    }
}
