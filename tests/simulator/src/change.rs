//! What a patch changes on a node, and the Event that reports it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::invariants::{NodeWrite, Place};
use crate::ledger::{is_adoptable, ledger};
use crate::rules::{declared, is_derived, is_frozen};

/// The effect of a patch on one resource.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource.
    pub resource: String,
    /// The name of the action.
    pub name: &'static str,
    /// The previous value, if a rule lowered it.
    pub lowered_from: Option<i128>,
    /// Whether the new quantity may be more than the rule declares.
    pub may_be_held: bool,
    /// The reasons of Events, one of which reports the change. Empty if none does, or if the sender may have seen
    /// another change.
    pub reasons: &'static [&'static str],
}

impl NodeWrite<'_> {
    /// Returns the changes of the patch.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let [before, after] = [self.before, self.after].map(|node| ledger(node).unwrap_or_default());
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let changes = names.into_iter().filter_map(|name| {
            let old = Place::on(self.before, &before, name);
            let new = Place::on(self.after, &after, name);
            (old != new).then(|| self.change(name, &old, &new))
        });
        changes.collect()
    }

    fn change(&self, resource: &str, old: &Place, new: &Place) -> Change {
        // The sender did not intend to lower a value that it had not seen.
        let listed = old.entry.as_ref().map(|(listed, ..)| *listed);
        let value = match self.was_seen {
            true => old.values.iter().copied().flatten().max().max(listed),
            false => listed,
        };
        let lowered_from = match (&new.entry, value) {
            (Some((quantity, rule, _)), Some(most)) => (*quantity < most && !self.is_immediate(rule)).then_some(most),
            _ => None,
        };
        let name = self.name(resource, old, new);
        let entry = new.entry.as_ref();
        let may_be_held = entry.is_some_and(|(quantity, rule, _)| self.declares_less(rule, *quantity));
        let is_held = entry.is_some_and(|(quantity, rule, _)| self.is_certainly_held(resource, *quantity, rule))
            && !self.leaves(resource, new, old);
        let reasons: &[_] = match name {
            _ if !self.was_seen => &[],
            "repaired" => &["Repaired"],
            // A value of another that pods keep where it was.
            "adopted" if may_be_held => &["Adopted", "TakenOver"],
            "adopted" => &["Adopted"],
            "adopted from a kubelet" => &["Adopted", "TakenOver"],
            "taken over" => &["TakenOver"],
            "withdrawn" => &["Withdrawn"],
            "released" => &["Released"],
            "advertised" | "raised" | "lowered" | "relisted" if is_held => &["Held"],
            _ => &[],
        };
        Change { resource: resource.to_owned(), name, lowered_from, may_be_held, reasons }
    }

    fn name(&self, resource: &str, old: &Place, new: &Place) -> &'static str {
        let writes = old.values != new.values;
        let vacant = old.values.iter().all(|value| value.is_none_or(|value| value == 0));
        match (&old.entry, &new.entry) {
            (None, Some((quantity, ..))) if !writes && is_adoptable(self.before, &[], resource, *quantity) => "adopted",
            // Whether the sender remembers that the ledger listed it is its own affair.
            (None, Some((quantity, ..))) if !writes && is_adoptable(self.before, self.history, resource, *quantity) => {
                "adopted from a kubelet"
            }
            (None, Some(_)) if !writes => "taken over",
            (None, _) if vacant => "advertised",
            (None, _) => "taken over",
            (Some(_), None) if old.values == [None; 2] => "unlisted",
            (Some(_), None) if new.values == [None; 2] => "withdrawn",
            (Some(_), None) => "released",
            (Some(old_entry), Some(_)) if old.values != [Some(old_entry.0); 2] => "repaired",
            (Some(old_entry), Some(new_entry)) if old_entry.0 < new_entry.0 => "raised",
            (Some(old_entry), Some(new_entry)) if old_entry.0 > new_entry.0 => "lowered",
            (Some(_), Some(_)) => "relisted",
        }
    }

    /// Whether the rule declares less than this, at one of the moments.
    fn declares_less(&self, rule: &str, quantity: i128) -> bool {
        self.objects(rule).any(|rule| {
            let declared = self.labels.iter().map(|labels| declared(rule, labels).quantity());
            declared.flatten().any(|declared| declared < quantity)
        })
    }

    /// Whether the new quantity is what pods request, and certainly more than the rule declared when the patch was
    /// sent: there is one state of the rule, and it is in force.
    fn is_certainly_held(&self, resource: &str, quantity: i128, rule: &str) -> bool {
        let requested = self.pods.and_then(|pods| pods.bound.get(resource)).copied();
        let is_open = |rule: &Arc<Value>| !is_frozen(rule) && !is_derived(rule);
        let is_certain = self.known.len() == 1 && self.labels.len() == 1 && self.objects(rule).all(is_open);
        is_certain && requested == Some(quantity) && self.declares_less(rule, quantity)
    }
}
