//! Decides, resource by resource, what a node is to carry, and what that takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::{Rule, RuleSet};
use super::{Action, Change, Outcome};
use crate::ledger::{Entry, Ledger};
use crate::node::Node;
use crate::quantity::Quantity;

/// What was decided about a node.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) changes: Vec<Change>,
    pub(super) writes: Vec<Write>,
    pub(super) outcomes: Vec<(Arc<str>, Outcome)>,
}

/// What is to be written for one resource.
#[derive(Debug)]
pub(super) enum Write {
    /// Have both maps at a quantity, and list it.
    Set {
        resource: String,
        entry: Entry,
        /// Whether the place was found vacant. The patch then requires that it still is, so as not
        /// to overwrite what another writer puts there in this moment.
        vacant: bool,
    },
    /// Have it in neither map, and do not list it.
    Remove { resource: String },
}

/// What a node is to carry of one resource.
struct Wanted {
    quantity: Quantity,
    rule: Arc<str>,
}

/// What a node carries of one resource.
#[derive(Clone, Copy)]
struct Present<'a> {
    capacity: Option<&'a str>,
    allocatable: Option<&'a str>,
}

pub(super) fn resolve(
    node: &Node,
    ledger: &Ledger,
    selecting: &[&Arc<Rule>],
    rules: &RuleSet,
) -> Resolved {
    let mut wanted = frozen(ledger, rules);
    for rule in selecting {
        wanted
            .entry(rule.resource.as_str())
            .or_insert_with(|| Wanted { quantity: rule.quantity, rule: Arc::clone(&rule.name) });
    }

    let mut resolved = Resolved::default();
    let mut won = BTreeMap::new();
    for (resource, wanted) in &wanted {
        won.insert(&wanted.rule, resolved.want(resource, wanted, node, ledger));
    }
    for resource in ledger.resources() {
        if !wanted.contains_key(resource) {
            resolved.withdraw(resource, ledger);
        }
    }

    for rule in selecting {
        let outcome = won.remove(&rule.name).or_else(|| {
            let winner = wanted.get(rule.resource.as_str())?;
            let by = Arc::clone(&winner.rule);
            Some(Outcome::Overridden { by })
        });
        resolved.outcomes.extend(outcome.map(|outcome| (Arc::clone(&rule.name), outcome)));
    }
    resolved
}

/// What rules that are no longer valid advertised: it stays as the ledger has it, and is repaired,
/// since pods may be using it.
fn frozen<'a>(ledger: &'a Ledger, rules: &RuleSet) -> BTreeMap<&'a str, Wanted> {
    let entries = ledger.resources().filter_map(|resource| {
        let Entry { quantity, rule } = ledger.get(resource)?;
        let quantity = quantity.parse().ok()?;
        let held = Wanted { quantity, rule: rule.as_str().into() };
        rules.is_frozen(rule).then_some((resource, held))
    });
    entries.collect()
}

impl Resolved {
    /// Sees to it that the node carries what is wanted, unless another writer's value is there.
    fn want(&mut self, resource: &str, wanted: &Wanted, node: &Node, ledger: &Ledger) -> Outcome {
        let present = Present::on(node, resource);
        let Wanted { quantity, rule } = wanted;
        let entry = Entry { quantity: quantity.to_string(), rule: rule.to_string() };
        let Some(listed) = ledger.get(resource) else {
            if !present.is_vacant() {
                return Outcome::Conflicted {
                    present: present.to_string(),
                    writer: node.last_writer(resource).cloned(),
                };
            }
            let action = advertise(&entry, rule);
            self.set(resource, entry, true, action);
            return Outcome::Pending;
        };
        let is_listed = listed.rule == entry.rule && same(&listed.quantity, quantity);
        if present.is(quantity) && is_listed {
            return Outcome::Advertised;
        }
        let drifted = listed.quantity.parse().is_ok_and(|listed| !present.is(&listed));
        let action = if drifted {
            Action::Repair {
                quantity: entry.quantity.clone(),
                rule: Arc::clone(rule),
                found: present.to_string(),
                writer: node.last_writer(resource).cloned(),
            }
        } else {
            advertise(&entry, rule)
        };
        self.set(resource, entry, false, action);
        Outcome::Pending
    }

    fn set(&mut self, resource: &str, entry: Entry, vacant: bool, action: Action) {
        self.change(resource, action);
        self.writes.push(Write::Set { resource: resource.to_owned(), entry, vacant });
    }

    fn withdraw(&mut self, resource: &str, ledger: &Ledger) {
        let rule = ledger.get(resource).map(|entry| entry.rule.clone()).unwrap_or_default();
        self.change(resource, Action::Withdraw { rule });
        self.writes.push(Write::Remove { resource: resource.to_owned() });
    }

    fn change(&mut self, resource: &str, action: Action) {
        self.changes.push(Change { resource: resource.to_owned(), action });
    }
}

fn advertise(entry: &Entry, rule: &Arc<str>) -> Action {
    Action::Advertise { quantity: entry.quantity.clone(), rule: Arc::clone(rule) }
}

impl<'a> Present<'a> {
    fn on(node: &'a Node, resource: &str) -> Self {
        Self {
            capacity: node.capacity.as_ref().and_then(|map| map.get(resource)),
            allocatable: node.allocatable.as_ref().and_then(|map| map.get(resource)),
        }
    }

    /// Whether nobody has put a value there: absent, or the 0 that the kubelet and device plugins
    /// leave behind.
    fn is_vacant(self) -> bool {
        let vacant = |map: Option<&str>| map.is_none_or(|text| same(text, &Quantity::from(0)));
        vacant(self.capacity) && vacant(self.allocatable)
    }

    /// Whether both maps are at `quantity`.
    fn is(self, quantity: &Quantity) -> bool {
        let is = |map: Option<&str>| map.is_some_and(|text| same(text, quantity));
        is(self.capacity) && is(self.allocatable)
    }
}

impl std::fmt::Display for Present<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn text(map: Option<&str>) -> &str {
            map.unwrap_or("absent")
        }
        let (capacity, allocatable) = (text(self.capacity), text(self.allocatable));
        if capacity == allocatable {
            f.write_str(capacity)
        } else {
            write!(f, "{capacity} in capacity, {allocatable} in allocatable")
        }
    }
}

/// Whether `text` is `quantity`, however it is written: the API server rewrites `1000` as `1k`.
pub(super) fn same(text: &str, quantity: &Quantity) -> bool {
    text.parse::<Quantity>().is_ok_and(|parsed| parsed == *quantity)
}
