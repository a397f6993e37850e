//! Decides, resource by resource, what a node is to carry, and what that takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::input::{PlanningInput, PodUsage};
use super::plan::{Action, Change, Outcome};
use super::rules::{Rule, RuleSet};

use crate::model::api::{ConflictPolicy, DeletionPolicy, ShrinkPolicy};
use crate::model::ledger::{Entry, Ledger};
use crate::model::node::{Node, ResourceManagers};
use crate::model::quantity::Quantity;

/// What was decided about a node.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) changes: Vec<Change>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) outcomes: Vec<(Arc<str>, Outcome)>,
    pub(super) needs_pods: bool,
}

/// What is to be written for one resource.
#[derive(Debug)]
pub(super) enum Mutation {
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
    /// List the value that is there, if it still is.
    Adopt { resource: String, entry: Entry },
    /// Do not list it.
    Release { resource: String },
}

/// What a node is to carry of one resource.
struct Desired {
    quantity: Quantity,
    rule: Arc<str>,
    /// `None` for a rule that is no longer valid.
    priority: Option<i32>,
    conflict_policy: ConflictPolicy,
    deletion_policy: DeletionPolicy,
    shrink_policy: ShrinkPolicy,
}

/// What is found on a node of one resource.
struct Observed<'a> {
    capacity: Option<&'a str>,
    allocatable: Option<&'a str>,
    listed: Option<&'a Entry>,
    managers: Option<&'a ResourceManagers>,
}

/// How much of a resource a node is to carry.
enum Target {
    /// This much: more than what is wanted where pods use it, or may.
    Quantity(Quantity),
    /// Whatever it carries, until it is known what pods use.
    Unchanged,
}

pub(super) fn resolve(
    node: &Node,
    ledger: &Ledger,
    selecting: &[&Arc<Rule>],
    rules: &RuleSet,
    input: &PlanningInput,
) -> Resolved {
    let mut desired = retained_by_invalid_rules(ledger, rules);
    for rule in selecting {
        desired.entry(rule.resource.as_str()).or_insert_with(|| Desired {
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
    for (resource, desired) in &desired {
        let observed = Observed::on(node, ledger, resource);
        won.insert(&desired.rule, resolved.reconcile(resource, desired, &observed, input));
    }
    for (resource, entry) in ledger.entries() {
        if !desired.contains_key(resource) {
            resolved.withdraw(resource, entry);
        }
    }

    for rule in selecting {
        let outcome = won.remove(&rule.name).or_else(|| {
            let winner = desired.get(rule.resource.as_str())?;
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
fn retained_by_invalid_rules<'a>(
    ledger: &'a Ledger,
    rules: &RuleSet,
) -> BTreeMap<&'a str, Desired> {
    let entries = ledger.entries().filter_map(|(resource, entry)| {
        let Entry { quantity, rule, deletion_policy, unknown: _ } = entry;
        let held = Desired {
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
    fn reconcile(
        &mut self,
        resource: &str,
        desired: &Desired,
        observed: &Observed<'_>,
        input: &PlanningInput,
    ) -> Outcome {
        let (was, manager) = (observed.to_string(), observed.manager().cloned());
        let adopts = observed.is_adoptable(&desired.quantity);
        let is_foreign = observed.is_unlisted() && !adopts;
        if is_foreign && desired.conflict_policy == ConflictPolicy::Keep {
            return Outcome::Conflicted { present: was, manager };
        }
        let contest = input.contested.get(resource);
        // It stays contested for a while after a repair: a fight is not over with every blow.
        let contested =
            contest.map(|contest| Outcome::Contested { manager: contest.manager.clone() });
        if let Some(contested) = &contested
            && (adopts || !observed.is_as_listed())
            && !contest.is_some_and(|contest| contest.may_repair)
        {
            return contested.clone();
        }

        let held = |at: String| {
            let pods_error = match &input.pod_usage {
                PodUsage::Unavailable(why) => Some(why.clone()),
                PodUsage::NotFetched | PodUsage::Known(_) => None,
            };
            Outcome::Held { at, pods_error }
        };
        let target = match self.target(resource, desired, observed, &input.pod_usage) {
            Target::Quantity(quantity) => quantity,
            Target::Unchanged => return contested.unwrap_or_else(|| held(was)),
        };
        let is_held = target != desired.quantity;
        let quantity = target.to_string();
        let rule = Arc::clone(&desired.rule);
        let entry = Entry {
            quantity: quantity.clone(),
            rule: rule.to_string(),
            deletion_policy: desired.deletion_policy,
            unknown: observed.listed.map(|listed| listed.unknown.clone()).unwrap_or_default(),
        };
        if observed.is_listed_as(&entry) && observed.is(&target) {
            let settled = || if is_held { held(quantity) } else { Outcome::Advertised };
            return contested.unwrap_or_else(settled);
        }
        if adopts {
            self.change(resource, Action::Adopt { quantity, rule });
            self.mutations.push(Mutation::Adopt { resource: resource.to_owned(), entry });
            return contested.unwrap_or(Outcome::Pending);
        }
        let action = if is_foreign {
            Action::TakeOver { quantity, rule, observed: was, manager }
        } else if !observed.is_as_listed() {
            Action::Repair { quantity, rule, observed: was, manager }
        } else if is_held {
            Action::Hold { quantity, rule, declared: desired.quantity.to_string() }
        } else {
            Action::Advertise { quantity, rule }
        };
        self.change(resource, action);
        self.mutations.push(Mutation::Set {
            resource: resource.to_owned(),
            entry,
            vacant: observed.listed.is_none() && !is_foreign,
        });
        contested.unwrap_or(Outcome::Pending)
    }

    /// Lowering a value below what pods use would have the kubelet kill them when it starts again, so
    /// that it goes down no further than that, unless the rule says otherwise.
    fn target(
        &mut self,
        resource: &str,
        desired: &Desired,
        observed: &Observed<'_>,
        pod_usage: &PodUsage,
    ) -> Target {
        let listed = observed.listed_quantity();
        let current = observed.most().into_iter().chain(listed).max();
        let current = current.unwrap_or(desired.quantity);
        if current <= desired.quantity || desired.shrink_policy == ShrinkPolicy::Immediate {
            return Target::Quantity(desired.quantity);
        }
        if let PodUsage::Known(requests) = pod_usage {
            return Target::Quantity(desired.quantity.max(current.min(requests.get(resource))));
        }
        self.needs_pods = true;
        // What has been lost is written back at once: pods may be using it.
        let nothing_to_do = *pod_usage == PodUsage::NotFetched && observed.is_as_listed();
        match listed {
            Some(listed) if listed == current && !nothing_to_do => Target::Quantity(listed),
            _ => Target::Unchanged,
        }
    }

    /// Gives up what is listed and no longer wanted.
    pub(super) fn withdraw(&mut self, resource: &str, entry: &Entry) {
        let rule = entry.rule.clone();
        let resource_name = resource.to_owned();
        match entry.deletion_policy {
            DeletionPolicy::Withdraw => {
                self.change(resource, Action::Withdraw { rule });
                self.mutations.push(Mutation::Remove { resource: resource_name });
            }
            DeletionPolicy::Retain => {
                self.change(resource, Action::Release { rule });
                self.mutations.push(Mutation::Release { resource: resource_name });
            }
        }
    }

    /// Removes what a device plugin left behind.
    pub(super) fn remove_zero(&mut self, resource: &str) {
        self.change(resource, Action::RemoveZero);
        self.mutations.push(Mutation::RemoveZero { resource: resource.to_owned() });
    }

    fn change(&mut self, resource: &str, action: Action) {
        self.changes.push(Change { resource: resource.to_owned(), action });
    }
}

impl<'a> Observed<'a> {
    fn on(node: &'a Node, ledger: &'a Ledger, resource: &str) -> Self {
        Self {
            capacity: node.capacity.as_ref().and_then(|map| map.get(resource)),
            allocatable: node.allocatable.as_ref().and_then(|map| map.get(resource)),
            listed: ledger.get(resource),
            managers: node.field_managers(resource),
        }
    }

    /// Whether there is a value that the ledger does not list: not the 0 that the kubelet and device
    /// plugins leave behind.
    fn is_unlisted(&self) -> bool {
        let vacant = |map: Option<&str>| map.is_none_or(|text| same(text, &Quantity::from(0)));
        self.listed.is_none() && !(vacant(self.capacity) && vacant(self.allocatable))
    }

    /// Whether the value only lacks its ledger entry: it is as declared, and the controller alone wrote
    /// it, in both maps. A value that a kubelet, a device plugin or an applier has a part in may be
    /// reported anew by it, and withdrawing it with the rule would be wrong.
    fn is_adoptable(&self, quantity: &Quantity) -> bool {
        self.is_unlisted()
            && self.is(quantity)
            && self.managers.is_some_and(ResourceManagers::are_own)
    }

    /// The field manager that wrote what is not as the ledger has it.
    fn manager(&self) -> Option<&Arc<str>> {
        let listed = self.listed_quantity();
        let differs = |map: Option<&str>| match (map, &listed) {
            (Some(text), Some(listed)) => !same(text, listed),
            (Some(_), None) => true,
            (None, _) => false,
        };
        self.managers?.last(differs(self.capacity), differs(self.allocatable))
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

impl std::fmt::Display for Observed<'_> {
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
