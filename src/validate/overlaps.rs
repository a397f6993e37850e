//! Finds rules of one resource and priority that declare different quantities for the same nodes.
//!
//! Each rule is compared only with rules that can share nodes with it:
//!
//! - of rules that name nodes, with those that name the same;
//! - of rules that select by labels, with those that require the same keys and, where both require one of
//!   some values, a value in common;
//! - of rules that select alike, with the first ones alone, whichever quantity and name they differ in.

mod alike;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::planner::declared::Declared;
use crate::planner::overlap::Overlap;
use crate::planner::selector::Selection;
use alike::{Alike, Peer};

/// The requirements of a valid rule on labels, in a canonical order, so that equal ones are found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LabelTests(BTreeSet<LabelTest>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct LabelTest {
    key: String,
    operator: &'static str,
    values: BTreeSet<String>,
}

impl LabelTests {
    /// Reads the requirements of a selection.
    pub(super) fn of(selection: &Selection) -> Self {
        let tests = selection.requirements().iter().map(|requirement| LabelTest {
            key: requirement.key().to_owned(),
            operator: requirement.operator(),
            values: requirement.values().map(str::to_owned).collect(),
        });
        Self(tests.collect())
    }

    fn keys(&self) -> BTreeSet<&str> {
        self.0.iter().map(|test| test.key.as_str()).collect()
    }

    /// Returns the allowed values of each key's label, if they are restricted.
    fn values(&self) -> BTreeMap<&str, &BTreeSet<String>> {
        let tests = self.0.iter().filter(|test| test.operator == IN);
        tests.map(|test| (test.key.as_str(), &test.values)).collect()
    }
}

const IN: &str = "In";

/// A rule to compare with others.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'t> {
    pub(super) name: &'t str,
    pub(super) quantity: &'t Declared,
    /// The nodes on which it may declare something.
    pub(super) selection: &'t Selection,
    pub(super) tests: &'t LabelTests,
}

/// Rules of the same resource and priority.
#[derive(Default)]
pub(super) struct PrecedenceGroup<'t> {
    /// The number of added rules.
    count: usize,
    /// The rules that name nodes: by node name, and all of them.
    by_node: HashMap<&'t str, Alike<'t>>,
    named: Alike<'t>,
    /// The rules that select every node.
    all: Alike<'t>,
    /// The rules with satisfiable label requirements: all of them, and by the keys of the requirements.
    labelled: Alike<'t>,
    key_sets: Vec<KeySet<'t>>,
    by_keys: HashMap<BTreeSet<&'t str>, usize>,
    by_key: HashMap<&'t str, Vec<usize>>,
}

/// Rules whose requirements have the same keys.
#[derive(Default)]
struct KeySet<'t> {
    all: Alike<'t>,
    /// The rules by their requirements.
    selectors: Vec<(&'t Selection, Alike<'t>)>,
    by_tests: HashMap<&'t LabelTests, usize>,
    /// Indices into `selectors`: by an allowed value of a label, and of rules that do not restrict values.
    by_value: HashMap<(&'t str, &'t str), Vec<usize>>,
    without_values: HashMap<&'t str, Vec<usize>>,
}

impl<'t> PrecedenceGroup<'t> {
    /// Adds a rule, with the item that a conflict returns.
    pub(super) fn add(&mut self, candidate: Candidate<'t>, item: usize) {
        let Candidate { name, quantity, selection, tests } = candidate;
        let peer = Peer { name, quantity, place: self.count, item };
        self.count += 1;
        match selection {
            Selection::Names(names) => {
                self.named.add(peer);
                for name in names {
                    self.by_node.entry(name).or_default().add(peer);
                }
            }
            Selection::All => self.all.add(peer),
            // The rule selects nothing.
            Selection::Labels(_) if Selection::All.overlap(selection) == Overlap::Never => {}
            Selection::Labels(_) => {
                self.labelled.add(peer);
                let keys = tests.keys();
                let place = *self.by_keys.entry(keys).or_insert_with_key(|keys| {
                    for &key in keys {
                        self.by_key.entry(key).or_default().push(self.key_sets.len());
                    }
                    self.key_sets.push(KeySet::default());
                    self.key_sets.len() - 1
                });
                self.key_sets[place].add(candidate, peer);
            }
        }
    }

    /// Returns the first rule that declares another quantity for a possibly shared node; a certain conflict before a
    /// possible one.
    pub(super) fn conflict(&self, candidate: Candidate<'t>) -> Option<(usize, Overlap)> {
        let first = |alike: &Alike<'t>| alike.first_other(candidate.quantity, candidate.name);
        let mut found = Found::default();
        match candidate.selection {
            Selection::Names(names) => {
                // In the order of names: a rule that names one of the nodes precedes all others.
                let same = names.iter().filter_map(|name| self.by_node.get(&**name));
                if let Some(peer) = same.filter_map(first).next() {
                    return Some((peer.item, Overlap::Certain));
                }
                found.add(first(&self.all), Overlap::Certain);
                found.add(first(&self.labelled), Overlap::Possible);
            }
            Selection::All => {
                for alike in [&self.named, &self.all, &self.labelled] {
                    found.add(first(alike), Overlap::Certain);
                }
            }
            Selection::Labels(_) if Selection::All.overlap(candidate.selection) == Overlap::Never => {}
            Selection::Labels(_) => {
                found.add(first(&self.all), Overlap::Certain);
                found.add(first(&self.named), Overlap::Possible);
                self.conflict_of_labels(candidate, &mut found);
            }
        }
        let certain = found.certain.map(|peer| (peer.item, Overlap::Certain));
        certain.or(found.possible.map(|peer| (peer.item, Overlap::Possible)))
    }

    fn conflict_of_labels(&self, candidate: Candidate<'t>, found: &mut Found<'t>) {
        let keys = candidate.tests.keys();
        let sharing = keys.iter().filter_map(|key| self.by_key.get(key)).flatten();
        let sharing: BTreeSet<usize> = sharing.copied().collect();
        for &place in &sharing {
            self.key_sets[place].conflict(candidate, found);
        }
        if found.certain.is_some() {
            return;
        }
        // Labels with different keys are independent.
        for (place, key_set) in self.key_sets.iter().enumerate() {
            let first_place = key_set.all.first().map(|peer| peer.place);
            if found.possible.is_some_and(|possible| first_place > Some(possible.place)) {
                break;
            }
            if !sharing.contains(&place) {
                let peer = key_set.all.first_other(candidate.quantity, candidate.name);
                found.add(peer, Overlap::Possible);
            }
        }
    }
}

impl<'t> KeySet<'t> {
    fn add(&mut self, candidate: Candidate<'t>, peer: Peer<'t>) {
        let Candidate { selection, tests, .. } = candidate;
        self.all.add(peer);
        let place = *self.by_tests.entry(tests).or_insert_with(|| {
            let place = self.selectors.len();
            let values = tests.values();
            for key in tests.keys() {
                match values.get(key) {
                    Some(values) => {
                        for value in *values {
                            self.by_value.entry((key, value)).or_default().push(place);
                        }
                    }
                    None => self.without_values.entry(key).or_default().push(place),
                }
            }
            self.selectors.push((selection, Alike::default()));
            place
        });
        self.selectors[place].1.add(peer);
    }

    /// Compares a rule that has a requirement on at least one of the keys.
    fn conflict(&self, candidate: Candidate<'t>, found: &mut Found<'t>) {
        let Candidate { name, quantity, selection, tests } = candidate;
        for place in self.compared(tests) {
            let Some((other, alike)) = self.selectors.get(place) else { continue };
            let Some(peer) = alike.first_other(quantity, name) else { continue };
            if found.certain.is_none_or(|certain| peer.place < certain.place) {
                found.add(Some(peer), selection.overlap(other));
            }
        }
    }

    /// Returns the indices into `selectors` that a label can meet together with `tests`, by the most selective key.
    fn compared(&self, tests: &LabelTests) -> Vec<usize> {
        let values = tests.values();
        let values = values.into_iter().filter(|(key, _)| self.has_key(key));
        let lists = values.map(|(key, values)| {
            let of_values = values.iter().filter_map(|value| self.by_value.get(&(key, value.as_str())));
            of_values.chain(self.without_values.get(key)).collect::<Vec<_>>()
        });
        let count = |lists: &Vec<&Vec<usize>>| lists.iter().map(|list| list.len()).sum::<usize>();
        match lists.min_by_key(count) {
            Some(lists) => lists.into_iter().flatten().copied().collect(),
            None => (0..self.selectors.len()).collect(),
        }
    }

    fn has_key(&self, key: &str) -> bool {
        self.by_tests.keys().next().is_some_and(|tests| tests.keys().contains(key))
    }
}

/// The first conflicting rules so far.
#[derive(Default)]
struct Found<'t> {
    certain: Option<Peer<'t>>,
    possible: Option<Peer<'t>>,
}

impl<'t> Found<'t> {
    fn add(&mut self, peer: Option<Peer<'t>>, overlap: Overlap) {
        let first = match overlap {
            Overlap::Never => return,
            Overlap::Possible => &mut self.possible,
            Overlap::Certain => &mut self.certain,
        };
        if let Some(peer) = peer
            && first.is_none_or(|first| peer.place < first.place)
        {
            *first = Some(peer);
        }
    }
}

#[cfg(test)]
mod tests;
