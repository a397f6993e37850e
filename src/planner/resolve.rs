//! Decides, resource by resource, what a node is to carry, and what that takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::input::{Circumstances, InUse};
use super::plan::{Action, Change, Outcome};
use super::rules::{Rule, RuleSet};

use crate::model::api::{ConflictPolicy, DeletionPolicy, ShrinkPolicy};
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::Node;
use crate::model::quantity::Quantity;

/// What was decided about a node.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) changes: Vec<Change>,
    pub(super) writes: Vec<Write>,
    pub(super) outcomes: Vec<(Arc<str>, Outcome)>,
    pub(super) needs_pods: bool,
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
    /// Have the 0 that is there in neither map, if nobody puts another value there in this moment.
    RemoveZero { resource: String },
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
    shrink_policy: ShrinkPolicy,
}

/// What is found on a node of one resource.
struct Found<'a> {
    capacity: Option<&'a str>,
    allocatable: Option<&'a str>,
    listed: Option<&'a Entry>,
    /// The other writer that was the last to write it.
    writer: Option<&'a Arc<str>>,
}

/// How much of a resource a node is to carry.
enum Aim {
    /// This much: more than what is wanted where pods use it, or may.
    At(Quantity),
    /// Whatever it carries, until it is known what pods use.
    AsItIs,
}

pub(super) fn resolve(
    node: &Node,
    ledger: &Ledger,
    selecting: &[&Arc<Rule>],
    rules: &RuleSet,
    circumstances: &Circumstances,
) -> Resolved {
    let mut wanted = frozen(ledger, rules);
    for rule in selecting {
        wanted.entry(rule.resource.as_str()).or_insert_with(|| Wanted {
            quantity: rule.quantity,
            rule: Arc::clone(&rule.name),
            priority: Some(rule.priority),
            conflict_policy: rule.conflict_policy,
            deletion_policy: rule.deletion_policy,
            shrink_policy: rule.shrink_policy,
        });
    }

    let mut resolved = Resolved::default();
    let mut won = BTreeMap::new();
    for (resource, wanted) in &wanted {
        let found = Found::on(node, ledger, resource);
        won.insert(&wanted.rule, resolved.want(resource, wanted, &found, circumstances));
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
        let Entry { quantity, rule, deletion_policy, unknown: _ } = entry;
        let held = Wanted {
            quantity: quantity.parse().ok()?,
            rule: rule.as_str().into(),
            priority: None,
            conflict_policy: ConflictPolicy::Keep,
            deletion_policy: *deletion_policy,
            shrink_policy: ShrinkPolicy::WhenFree,
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
        found: &Found<'_>,
        circumstances: &Circumstances,
    ) -> Outcome {
        let (was, writer) = (found.to_string(), found.writer.cloned());
        let is_foreign = found.is_foreign();
        if is_foreign && wanted.conflict_policy == ConflictPolicy::Keep {
            return Outcome::Conflicted { present: was, writer };
        }
        let contest = circumstances.contested.get(resource);
        // It stays contested for a while after a repair: a fight is not over with every blow.
        let contested =
            contest.map(|contest| Outcome::Contested { writer: contest.writer.clone() });
        if let Some(contested) = &contested
            && !found.is_as_listed()
            && !contest.is_some_and(|contest| contest.may_repair)
        {
            return contested.clone();
        }

        let held = |at: String| {
            let pods_error = match &circumstances.in_use {
                InUse::Unreadable(why) => Some(why.clone()),
                InUse::Unknown | InUse::Known(_) => None,
            };
            Outcome::Held { at, pods_error }
        };
        let aim = match self.aim(resource, wanted, found, &circumstances.in_use) {
            Aim::At(quantity) => quantity,
            Aim::AsItIs => return contested.unwrap_or_else(|| held(was)),
        };
        let is_held = aim != wanted.quantity;
        let quantity = aim.to_string();
        let rule = Arc::clone(&wanted.rule);
        let entry = Entry {
            quantity: quantity.clone(),
            rule: rule.to_string(),
            deletion_policy: wanted.deletion_policy,
            unknown: found.listed.map(|listed| listed.unknown.clone()).unwrap_or_default(),
        };
        if found.is_listed_as(&entry) && found.is(&aim) {
            let settled = || if is_held { held(quantity) } else { Outcome::Advertised };
            return contested.unwrap_or_else(settled);
        }
        let action = if is_foreign {
            Action::TakeOver { quantity, rule, found: was, writer }
        } else if !found.is_as_listed() {
            Action::Repair { quantity, rule, found: was, writer }
        } else if is_held {
            Action::Hold { quantity, rule, declared: wanted.quantity.to_string() }
        } else {
            Action::Advertise { quantity, rule }
        };
        self.change(resource, action);
        self.writes.push(Write::Set {
            resource: resource.to_owned(),
            entry,
            vacant: found.listed.is_none() && !is_foreign,
        });
        contested.unwrap_or(Outcome::Pending)
    }

    /// Lowering a value below what pods use would have the kubelet kill them when it starts again, so
    /// that it goes down no further than that, unless the rule says otherwise.
    fn aim(&mut self, resource: &str, wanted: &Wanted, found: &Found<'_>, in_use: &InUse) -> Aim {
        let listed = found.listed_quantity();
        let current = found.most().into_iter().chain(listed).max();
        let current = current.unwrap_or(wanted.quantity);
        if current <= wanted.quantity || wanted.shrink_policy == ShrinkPolicy::Immediate {
            return Aim::At(wanted.quantity);
        }
        if let InUse::Known(requests) = in_use {
            return Aim::At(wanted.quantity.max(current.min(requests.get(resource))));
        }
        self.needs_pods = true;
        // What has been lost is written back at once: pods may be using it.
        let nothing_to_do = *in_use == InUse::Unknown && found.is_as_listed();
        match listed {
            Some(listed) if listed == current && !nothing_to_do => Aim::At(listed),
            _ => Aim::AsItIs,
        }
    }

    /// Gives up what is listed and no longer wanted.
    pub(super) fn withdraw(&mut self, resource: &str, entry: &Entry) {
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

    /// Removes what a device plugin left behind.
    pub(super) fn remove_zero(&mut self, resource: &str) {
        self.change(resource, Action::RemoveZero);
        self.writes.push(Write::RemoveZero { resource: resource.to_owned() });
    }

    fn change(&mut self, resource: &str, action: Action) {
        self.changes.push(Change { resource: resource.to_owned(), action });
    }
}

impl<'a> Found<'a> {
    fn on(node: &'a Node, ledger: &'a Ledger, resource: &str) -> Self {
        Self {
            capacity: node.capacity.as_ref().and_then(|map| map.get(resource)),
            allocatable: node.allocatable.as_ref().and_then(|map| map.get(resource)),
            listed: ledger.get(resource),
            writer: node.last_writer(resource),
        }
    }

    /// Whether another writer has put a value there: not the 0 that the kubelet and device plugins
    /// leave behind.
    fn is_foreign(&self) -> bool {
        let vacant = |map: Option<&str>| map.is_none_or(|text| same(text, &Quantity::from(0)));
        self.listed.is_none() && !(vacant(self.capacity) && vacant(self.allocatable))
    }

    /// Whether both maps are at `quantity`.
    fn is(&self, quantity: &Quantity) -> bool {
        let is = |map: Option<&str>| map.is_some_and(|text| same(text, quantity));
        is(self.capacity) && is(self.allocatable)
    }

    fn listed_quantity(&self) -> Option<Quantity> {
        self.listed.and_then(|listed| listed.quantity.parse().ok())
    }

    /// Whether nobody has changed it since it was listed.
    fn is_as_listed(&self) -> bool {
        self.listed.is_none() || self.listed_quantity().is_some_and(|listed| self.is(&listed))
    }

    fn is_listed_as(&self, entry: &Entry) -> bool {
        let Entry { quantity, rule, deletion_policy, unknown: _ } = entry;
        let quantity = quantity.parse().ok();
        self.listed_quantity() == quantity
            && self.listed.is_some_and(|listed| {
                (&listed.rule, &listed.deletion_policy) == (rule, deletion_policy)
            })
    }

    /// The larger of the two maps' values.
    fn most(&self) -> Option<Quantity> {
        let maps = [self.capacity, self.allocatable].into_iter().flatten();
        maps.filter_map(|text| text.parse().ok()).max()
    }
}

impl std::fmt::Display for Found<'_> {
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
