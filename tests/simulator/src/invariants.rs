//! The invariants of every node patch of the controller (`docs/architecture.md`), checked from the objects alone,
//! independently of the planner.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

pub use crate::change::Change;
use crate::condition::remove_conditions;
pub use crate::condition::{conditions, due_status};
use crate::ledger::{LEDGER, MAPS, is_adoptable};
pub use crate::ledger::{Ledger, ledger, managers, units};
use crate::pods::{Amounts, Usage};
use crate::rules::may_declare;
pub use crate::rules::{Calm, Declared, decider, declared, is_derived, is_frozen, selections, selects};

/// What the other invariants are about.
const LEDGER_AND_VALUES: [&str; 3] =
    ["/metadata/annotations/noderesource.dev~1advertised", "/status/capacity", "/status/allocatable"];

/// The writes that a process may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Repairs of a kubelet's resets, because the process does not lead.
    Resets,
    /// Repairs of ledger values, because the process leads but does not know the rules.
    Repairs,
    /// All writes.
    All,
}

/// An applied patch.
#[derive(Clone, Debug)]
pub struct NodeWrite<'a> {
    /// The node before the patch.
    pub before: &'a Value,
    /// The node after the patch.
    pub after: &'a Value,
    /// The writes that the sender may make.
    pub right: Right,
    /// The rules at each moment that the sender may have known last when it sent the patch.
    pub known: &'a [Vec<Arc<Value>>],
    /// The labels that the node had at one of these moments.
    pub labels: &'a [Value],
    /// Whether the sender had seen the node as it was before the patch. If not, only the ledger is certain.
    pub was_seen: bool,
    /// The known versions of the node before this one.
    pub history: &'a [Arc<Value>],
    /// Whether the sender keeps the node's condition; if not, it removes it.
    pub keeps_condition: bool,
    /// What pods on the node requested when the sender listed them last. If that is uncertain, the least.
    pub pods: Option<&'a Usage>,
    /// The most that they may have requested, if that is uncertain.
    pub most_pods: Option<&'a Usage>,
}

/// The violated invariant, and how.
pub type Violation = String;

/// One resource on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The values in both maps.
    pub(crate) values: [Option<i128>; 2],
    /// Quantity, rule and the rest.
    pub(crate) entry: Option<(i128, String, Value)>,
}

impl NodeWrite<'_> {
    /// Checks all invariants.
    ///
    /// # Errors
    /// Returns the first violation.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_rest()?;
        self.check_condition()?;
        if LEDGER_AND_VALUES.iter().all(|part| self.before.pointer(part) == self.after.pointer(part)) {
            return Ok(());
        }
        let ledgers = [self.before, self.after].map(ledger);
        let [Some(before), Some(after)] = ledgers else {
            return Err("I1: a ledger that cannot be read is written, or is written over".to_owned());
        };
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (node, ledger) in [(self.before, &before), (self.after, &after)] {
            names.extend(ledger.keys().map(String::as_str));
            for map in MAPS {
                let members = node["status"][map].as_object().into_iter().flatten();
                names.extend(members.map(|(name, _)| name.as_str()));
            }
        }
        for name in names.into_iter().filter(|name| name.contains('/')) {
            let old = Place::on(self.before, &before, name);
            let new = Place::on(self.after, &after, name);
            if old != new {
                let checked = self.check_place(name, &old, &new);
                checked.map_err(|what| format!("{what} ({name}: {old} -> {new})"))?;
            }
        }
        Ok(())
    }

    /// Nothing else of the node changes.
    fn check_rest(&self) -> Result<(), Violation> {
        let rest = |node: &Value| {
            let mut node = node.clone();
            for map in MAPS {
                if let Some(members) = node["status"][map].as_object_mut() {
                    members.retain(|name, _| !name.contains('/'));
                }
                if node["status"][map].as_object().is_none_or(serde_json::Map::is_empty) {
                    node["status"][map] = Value::Null;
                }
            }
            if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
                annotations.remove(LEDGER);
            }
            if node["metadata"]["annotations"].as_object().is_none_or(serde_json::Map::is_empty) {
                node["metadata"]["annotations"] = Value::Null;
            }
            remove_conditions(&mut node);
            for field in ["managedFields", "resourceVersion"] {
                node["metadata"][field] = Value::Null;
            }
            node
        };
        if rest(self.before) == rest(self.after) {
            return Ok(());
        }
        Err("I1: more is changed than extended resources, the ledger and the condition".to_owned())
    }

    /// The condition is there once, only what knows the rules writes it, and it is what the rules and values ask for.
    fn check_condition(&self) -> Result<(), Violation> {
        let [before, after] = [self.before, self.after].map(conditions);
        if before == after {
            return Ok(());
        }
        if self.right != Right::All {
            return Err("I4, I6: a condition is written without knowing the rules".to_owned());
        }
        if after.len() > before.len().max(1) {
            return Err("I1: the condition is there twice".to_owned());
        }
        // The values may have changed since the sender saw them.
        if !self.was_seen {
            return Ok(());
        }
        let status = after.first().map(|condition| condition["status"].as_str().unwrap_or_default());
        let is_due =
            |rules: &Vec<Arc<Value>>| self.labels.iter().any(|labels| due_status(rules, self.after, labels) == status);
        if status.is_none() && !self.keeps_condition || self.keeps_condition && self.known.iter().any(is_due) {
            return Ok(());
        }
        Err(format!("I10: the condition becomes {status:?}"))
    }

    fn check_place(&self, name: &str, old: &Place, new: &Place) -> Result<(), Violation> {
        let writes = old.values != new.values;
        let is_zero = |value: &Option<i128>| value.is_none_or(|value| value == 0);
        let wrote_zero = (0..2).any(|map| new.values[map] == Some(0) && old.values[map] != Some(0));
        if wrote_zero {
            return Err("I3: a 0 is written".to_owned());
        }
        let edited = old.entry != new.entry;
        if self.right != Right::All {
            let Some((listed, ..)) = &old.entry else {
                return Err("I4, I6: something is written that the ledger does not list".to_owned());
            };
            if edited || new.values != [Some(*listed); 2] {
                return Err("I4, I6: something else is written than what the ledger lists".to_owned());
            }
            if self.right == Right::Resets && old.values != [Some(0); 2] {
                return Err("I6: what does not lead writes back what is not reset".to_owned());
            }
            return Ok(());
        }
        match (&old.entry, &new.entry) {
            (None, None) => Err("I1: an unlisted resource is changed".to_owned()),
            (_, Some((quantity, rule, _))) => {
                // The controller repairs concurrent changes later.
                if new.values != [Some(*quantity); 2] && old.agrees() {
                    return Err("I2: values and ledger do not agree".to_owned());
                }
                let is_foreign = old.entry.is_none() && !old.values.iter().all(is_zero);
                let takes_over = |rules: &Vec<Arc<Value>>| {
                    rules.iter().any(|object| {
                        object["metadata"]["name"] == rule.as_str() && object["spec"]["conflictPolicy"] == "Overwrite"
                    })
                };
                if is_foreign && !self.known.iter().any(takes_over) {
                    if writes {
                        let what = "I1: a value that the ledger does not list is overwritten";
                        return Err(what.to_owned());
                    }
                    // The controller detects later that another client has written the same value meanwhile.
                    if self.was_seen && !is_adoptable(self.before, self.history, name, *quantity) {
                        return Err("I1: another client's value is adopted".to_owned());
                    }
                }
                let leaves = self.leaves(name, new, old);
                if edited && !leaves {
                    self.check_declared(name, *quantity, rule, old)?;
                }
                if self.is_immediate(rule) && !leaves {
                    return Ok(());
                }
                self.check_pods(name, *quantity, rule, old)
            }
            (Some((listed, rule, rest)), None) => {
                let retains = rest["deletionPolicy"] == "Retain";
                let is_own = old.values.iter().all(|value| is_zero(value) || *value == Some(*listed));
                let expected = match (is_own, retains) {
                    (true, false) => [None; 2],
                    (true, true) if old.values.iter().all(is_zero) && old.values != [None; 2] => [Some(*listed); 2],
                    _ => old.values,
                };
                if new.values != expected {
                    return Err(format!("I2: the values are not {expected:?}"));
                }
                if is_own && leaves_when_unused(rest) {
                    self.check_pods(name, 0, rule, old)?;
                }
                let is_kept = |object: &Arc<Value>| object["metadata"]["name"] == rule.as_str() && is_frozen(object);
                let is_declared = |rules: &Vec<Arc<Value>>| {
                    !is_leaving(rest) && rules.iter().any(is_kept)
                        || self.labels.iter().all(|labels| {
                            decider(rules, self.before, labels, name).is_some()
                                || rules.iter().any(|rule| may_declare(rule, self.before, labels, name))
                        })
                };
                if !self.known.is_empty() && self.known.iter().all(is_declared) {
                    return Err("I1: a declared value is withdrawn".to_owned());
                }
                Ok(())
            }
        }
    }

    /// Returns whether a value that no rule declares goes down as pods end, as its entry demands, or up with pods that
    /// have started.
    pub(crate) fn leaves(&self, name: &str, new: &Place, old: &Place) -> bool {
        let (Some((quantity, rule, rest)), Some((_, old_rule, old_rest))) = (&new.entry, &old.entry) else {
            return false;
        };
        let pods = self.most_pods.or(self.pods);
        let requested = pods.and_then(|pods| pods.bound.get(name)).copied().unwrap_or_default();
        let is_undeclared = |rules: &Vec<Arc<Value>>| {
            let is_decided = |labels| decider(rules, self.before, labels, name).is_some();
            !self.labels.iter().all(is_decided)
        };
        leaves_when_unused(rest)
            && rule == old_rule
            && (rest == old_rest || is_leaving(rest))
            && *quantity <= requested
            && self.known.iter().any(is_undeclared)
    }

    /// An entry is what a rule declares, or more.
    fn check_declared(&self, name: &str, quantity: i128, rule: &str, old: &Place) -> Result<(), Violation> {
        let pods = self.most_pods.or(self.pods);
        let requested = pods.and_then(|pods| pods.bound.get(name)).copied().unwrap_or_default();
        let most = old.most().unwrap_or_default().max(requested);
        let declares = |rules: &Vec<Arc<Value>>| {
            self.labels.iter().any(|labels| {
                decider(rules, self.before, labels, name).is_some_and(|decider| {
                    let declared = declared(decider, labels).quantity();
                    let may_hold = decider["spec"]["shrinkPolicy"] != "Immediate";
                    decider["metadata"]["name"] == rule
                        && declared.is_some_and(|declared| {
                            declared == quantity || may_hold && declared < quantity && quantity <= most
                        })
                })
            })
        };
        // The value of a rule that is paused or has become invalid is kept, and held if pods request more. So is that of
        // a rule that is missing: it may be one of the many that are missing from a list.
        let is_kept_as_is = self.objects(rule).any(|rule| is_frozen(rule));
        let is_missing = |rules: &Vec<Arc<Value>>| rules.iter().all(|object| object["metadata"]["name"] != rule);
        let is_frozen = is_kept_as_is || self.known.iter().any(is_missing);
        let is_kept_of = |of: fn(&str, &str) -> bool| {
            let entry = old.entry.as_ref();
            entry.is_some_and(|(listed, old_rule, _)| of(old_rule, rule) && *listed <= quantity && quantity <= most)
        };
        let is_kept = is_kept_of(|old, new| old == new);
        // A quantity that is unknown, or has moved a moment ago, stays as another rule listed it.
        let is_derived = self.objects(rule).any(|rule| is_derived(rule));
        if self.known.iter().any(declares) || is_frozen && is_kept || is_derived && is_kept_of(|_, _| true) {
            return Ok(());
        }
        Err("I1: what no rule declares is listed".to_owned())
    }

    /// Returns the versions of a rule at the moments.
    pub(crate) fn objects(&self, rule: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.known.iter().flatten().filter(move |object| object["metadata"]["name"] == rule)
    }

    pub(crate) fn is_immediate(&self, rule: &str) -> bool {
        self.objects(rule).any(|rule| rule["spec"]["shrinkPolicy"] == "Immediate")
    }

    fn overwrites(&self, rule: &str) -> bool {
        self.objects(rule).any(|rule| rule["spec"]["conflictPolicy"] == "Overwrite")
    }

    /// Checks I5, as far as a single patch can violate it.
    fn check_pods(&self, name: &str, quantity: i128, rule: &str, old: &Place) -> Result<(), Violation> {
        let mut objects = self.objects(rule);
        let appears = old.entry.is_none() && old.values.iter().all(|value| value.is_none_or(|value| value == 0));
        // The value that the sender wanted to raise may have been removed meanwhile.
        if appears && !self.was_seen && self.overwrites(rule) {
            return Ok(());
        }
        let limit = if appears {
            let age = |object: &Value| object["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
            let node = age(self.before);
            // A node that is younger than the rule has no pods that are older than the value.
            if objects.any(|rule| node > age(rule)) {
                return Ok(());
            }
            0
        } else {
            let listed = old.entry.as_ref().map(|(listed, ..)| *listed);
            match if self.was_seen { old.most() } else { listed } {
                Some(most) if quantity < most => most,
                _ => return Ok(()),
            }
        };
        let Some(pods) = self.pods else {
            return Err("I5: a value is lowered, or appears, without a list of pods".to_owned());
        };
        let amount = |amounts: &Amounts| amounts.get(name).copied().unwrap_or_default();
        let requested = amount(&pods.bound).min(limit.max(amount(&pods.started)));
        if quantity < requested {
            return Err(format!("I5: pods request {requested}"));
        }
        Ok(())
    }
}

/// Returns whether a value leaves when it is unused, by the rest of its entry.
pub(crate) fn leaves_when_unused(rest: &Value) -> bool {
    rest["whenUnused"] == true && rest["deletionPolicy"] != "Retain"
}

/// Returns whether the rest of an entry says that its value has begun to leave.
pub(crate) fn is_leaving(rest: &Value) -> bool {
    leaves_when_unused(rest) && rest["leaving"] == true
}

impl Place {
    pub(crate) fn on(node: &Value, ledger: &Ledger, name: &str) -> Self {
        let value = |map: &str| units(&node["status"][map][name]);
        Self { values: MAPS.map(value), entry: ledger.get(name).cloned() }
    }

    /// Returns whether values are as the ledger lists them.
    fn agrees(&self) -> bool {
        self.entry.as_ref().is_none_or(|(quantity, ..)| self.values == [Some(*quantity); 2])
    }

    fn most(&self) -> Option<i128> {
        let listed = self.entry.as_ref().map(|(quantity, ..)| *quantity);
        self.values.iter().copied().chain([listed]).flatten().max()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |value: Option<i128>| value.map_or("none".to_owned(), |value| value.to_string());
        let [capacity, allocatable] = self.values.map(text);
        write!(f, "{capacity}/{allocatable}")?;
        match &self.entry {
            Some((quantity, rule, _)) => write!(f, " listed as {quantity} by {rule}"),
            None => f.write_str(" unlisted"),
        }
    }
}
