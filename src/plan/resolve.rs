//! Decides, resource by resource, what a node is to carry, and what that takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::{Rule, RuleSet};
use super::{Action, Change, Contest, Contested, Outcome};
use crate::api::{ConflictPolicy, DeletionPolicy};
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
    /// Do not list it.
    Release { resource: String },
}

/// What a node is to carry of one resource.
struct Wanted {
    quantity: Quantity,
    rule: Arc<str>,
    /// `None` for a rule that is no longer valid.
    priority: Option<i32>,
    conflict_policy: ConflictPolicy,
    deletion_policy: DeletionPolicy,
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
    contested: &Contested,
) -> Resolved {
    let mut wanted = frozen(ledger, rules);
    for rule in selecting {
        wanted.entry(rule.resource.as_str()).or_insert_with(|| Wanted {
            quantity: rule.quantity,
            rule: Arc::clone(&rule.name),
            priority: Some(rule.priority),
            conflict_policy: rule.conflict_policy,
            deletion_policy: rule.deletion_policy,
        });
    }

    let mut resolved = Resolved::default();
    let mut won = BTreeMap::new();
    for (resource, wanted) in &wanted {
        let contest = contested.get(*resource);
        won.insert(&wanted.rule, resolved.want(resource, wanted, node, ledger, contest));
    }
    for (resource, entry) in ledger.entries() {
        if !wanted.contains_key(resource) {
            resolved.withdraw(resource, entry);
        }
    }

    for rule in selecting {
        let outcome = won.remove(&rule.name).or_else(|| {
            let winner = wanted.get(rule.resource.as_str())?;
            let by = Arc::clone(&winner.rule);
            let same_priority = winner.priority == Some(rule.priority);
            Some(Outcome::Overridden {
                by,
                tied: same_priority && winner.quantity != rule.quantity,
            })
        });
        resolved.outcomes.extend(outcome.map(|outcome| (Arc::clone(&rule.name), outcome)));
    }
    resolved
}

/// What rules that are no longer valid advertised: it stays as the ledger has it, and is repaired,
/// since pods may be using it.
fn frozen<'a>(ledger: &'a Ledger, rules: &RuleSet) -> BTreeMap<&'a str, Wanted> {
    let entries = ledger.entries().filter_map(|(resource, entry)| {
        let Entry { quantity, rule, deletion_policy } = entry;
        let held = Wanted {
            quantity: quantity.parse().ok()?,
            rule: rule.as_str().into(),
            priority: None,
            conflict_policy: ConflictPolicy::Keep,
            deletion_policy: *deletion_policy,
        };
        rules.is_frozen(rule).then_some((resource, held))
    });
    entries.collect()
}

impl Resolved {
    /// Sees to it that the node carries what is wanted, unless another writer's value is there and
    /// is to be kept.
    fn want(
        &mut self,
        resource: &str,
        wanted: &Wanted,
        node: &Node,
        ledger: &Ledger,
        contest: Option<&Contest>,
    ) -> Outcome {
        // It stays contested for a while after a repair: a fight is not over with every blow.
        let contested =
            contest.map(|contest| Outcome::Contested { writer: contest.writer.clone() });
        let present = Present::on(node, resource);
        let found = || (present.to_string(), node.last_writer(resource).cloned());
        let rule = Arc::clone(&wanted.rule);
        let quantity = wanted.quantity.to_string();
        let entry = Entry {
            quantity: quantity.clone(),
            rule: rule.to_string(),
            deletion_policy: wanted.deletion_policy,
        };
        let listed = ledger.get(resource);
        let is_listed = listed.is_some_and(|listed| {
            same(&listed.quantity, &wanted.quantity)
                && (&listed.rule, listed.deletion_policy) == (&entry.rule, entry.deletion_policy)
        });
        if is_listed && present.is(&wanted.quantity) {
            return contested.unwrap_or(Outcome::Advertised);
        }
        let as_listed = listed
            .is_none_or(|listed| listed.quantity.parse().is_ok_and(|listed| present.is(&listed)));
        if let Some(contested) = &contested
            && !as_listed
            && !contest.is_some_and(|contest| contest.may_repair)
        {
            return contested.clone();
        }
        let is_foreign = listed.is_none() && !present.is_vacant();
        let action = match wanted.conflict_policy {
            ConflictPolicy::Keep if is_foreign => {
                let (present, writer) = found();
                return Outcome::Conflicted { present, writer };
            }
            ConflictPolicy::Overwrite if is_foreign => {
                let (found, writer) = found();
                Action::TakeOver { quantity, rule, found, writer }
            }
            _ if !as_listed => {
                let (found, writer) = found();
                Action::Repair { quantity, rule, found, writer }
            }
            _ => Action::Advertise { quantity, rule },
        };
        self.change(resource, action);
        self.writes.push(Write::Set {
            resource: resource.to_owned(),
            entry,
            vacant: listed.is_none() && !is_foreign,
        });
        contested.unwrap_or(Outcome::Pending)
    }

    /// Gives up what is listed and no longer wanted.
    fn withdraw(&mut self, resource: &str, entry: &Entry) {
        let rule = entry.rule.clone();
        let resource_name = resource.to_owned();
        match entry.deletion_policy {
            DeletionPolicy::Withdraw => {
                self.change(resource, Action::Withdraw { rule });
                self.writes.push(Write::Remove { resource: resource_name });
            }
            DeletionPolicy::Retain => {
                self.change(resource, Action::Release { rule });
                self.writes.push(Write::Release { resource: resource_name });
            }
        }
    }

    fn change(&mut self, resource: &str, action: Action) {
        self.changes.push(Change { resource: resource.to_owned(), action });
    }
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
