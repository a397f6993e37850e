//! What rules read from nodes to derive quantities, besides labels. Only what a rule names is kept in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::labels::Labels;
use super::resources::Native;
use crate::model::pool::Pool;

/// A fact about a node, from which a quantity derives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// The value of this label.
    Label(Arc<str>),
    /// The value of this annotation.
    Annotation(Arc<str>),
    /// `status.capacity` for this native resource.
    Capacity(Arc<str>),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::Capacity(resource) => write!(f, "capacity for {resource}"),
        }
    }
}

/// The facts to keep of nodes. Labels are always kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactNames {
    /// All: of a command that reads nodes before rules.
    All,
    /// These.
    Named(BTreeSet<Fact>),
}

impl Default for FactNames {
    /// Returns none.
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl FactNames {
    /// Returns whether this fact is kept.
    #[must_use]
    pub fn contains(&self, fact: &Fact) -> bool {
        matches!(fact, Fact::Label(_)) || self.keeps(fact)
    }

    /// Returns whether `other` keeps all of these.
    #[must_use]
    pub fn are_within(&self, other: &Self) -> bool {
        match self {
            Self::All => *other == Self::All,
            Self::Named(facts) => facts.iter().all(|fact| other.contains(fact)),
        }
    }

    /// Returns these facts, and up to 16 of others that have been kept so far: rules may need them again, and to know them
    /// again takes a list of all nodes.
    #[must_use]
    pub fn with_some_of(self, others: &Self) -> Self {
        const MOST: usize = 16;
        match (self, others) {
            (Self::Named(mut facts), Self::Named(others)) => {
                let others: Vec<_> = others.difference(&facts).take(MOST).cloned().collect();
                facts.extend(others);
                Self::Named(facts)
            }
            (facts, _) => facts,
        }
    }

    fn keeps(&self, fact: &Fact) -> bool {
        match self {
            Self::All => true,
            Self::Named(facts) => facts.contains(fact),
        }
    }
}

/// A fact is not known, because no rule named it when the node was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRead;

/// The facts of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Which were looked for.
    names: Arc<FactNames>,
    /// Those that the node has, in order.
    values: Box<[(Fact, Arc<str>)]>,
}

impl Facts {
    pub(super) fn new(
        names: &Arc<FactNames>,
        annotations: &BTreeMap<String, String>,
        native: &Native,
        strings: &mut Pool<str>,
    ) -> Self {
        let mut values = Vec::new();
        if **names != FactNames::default() {
            let annotations = annotations.iter().map(|(key, text)| (Fact::Annotation(key.as_str().into()), &**text));
            let native = native.iter().map(|(name, text)| (Fact::Capacity(Arc::from(&**name)), &**text));
            let kept = annotations.chain(native).filter(|(fact, _)| names.keeps(fact));
            values.extend(kept.map(|(fact, text)| (fact, strings.intern(start(text)))));
        }
        Self { names: Arc::clone(names), values: values.into() }
    }

    /// Returns the value of a fact, if the node has one.
    pub(super) fn get<'n>(&'n self, fact: &Fact, labels: &'n Labels) -> Result<Option<&'n str>, NotRead> {
        if let Fact::Label(key) = fact {
            return Ok(labels.get(key));
        }
        if !self.names.contains(fact) {
            return Err(NotRead);
        }
        Ok(self.values.iter().find(|(other, _)| other == fact).map(|(_, text)| &**text))
    }
}

/// Returns as much of a text as an error shows: no longer text is a quantity.
fn start(text: &str) -> &str {
    const MOST: usize = 100;
    text.char_indices().nth(MOST).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(numbers: std::ops::Range<usize>) -> FactNames {
        FactNames::Named(numbers.map(|number| Fact::Annotation(format!("a-{number:03}").into())).collect())
    }

    #[test]
    fn facts_that_nothing_reads_are_kept_up_to_a_number() {
        assert_eq!(named(0..2).with_some_of(&named(1..4)), named(0..4));
        let FactNames::Named(kept) = named(50..52).with_some_of(&named(0..100)) else { panic!() };
        assert_eq!(kept.len(), 18);
        assert!(named(50..52).are_within(&FactNames::Named(kept)));
        assert_eq!(FactNames::All.with_some_of(&named(0..1)), FactNames::All);
    }
}
