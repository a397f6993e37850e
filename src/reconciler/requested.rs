//! The pods' requests for the resource of each rule, on the nodes where the rule has a value.
//!
//! Each node's part is kept, so that a change of one node costs the same however many there are, and so that the sums
//! come out even where a rule gets another resource.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;

use crate::model::quantity::Quantity;

/// How much pods request of each rule's resource.
type Amounts = [(Arc<str>, Quantity)];

#[derive(Clone, Debug, Default)]
pub(super) struct Requested {
    /// On each node where they request anything.
    nodes: HashMap<Arc<str>, Box<Amounts>>,
    /// On all nodes.
    rules: HashMap<Arc<str>, Quantity>,
    /// Rules whose sum may have changed since the last call.
    changed: BTreeSet<Arc<str>>,
}

impl Requested {
    /// Replaces what pods on a node request.
    pub(super) fn record(&mut self, node: &Arc<str>, amounts: Box<Amounts>) {
        if self.nodes.get(node).map_or(&[][..], |before| before) == &*amounts {
            return;
        }
        for (rule, amount) in self.nodes.remove(node).unwrap_or_default() {
            let sum = self.of(&rule).saturating_sub(amount);
            match sum.is_zero() {
                true => self.rules.remove(&rule),
                false => self.rules.insert(Arc::clone(&rule), sum),
            };
            self.changed.insert(rule);
        }
        for (rule, amount) in &amounts {
            let sum = self.rules.entry(Arc::clone(rule)).or_default();
            *sum = sum.saturating_add(*amount);
            self.changed.insert(Arc::clone(rule));
        }
        if !amounts.is_empty() {
            self.nodes.insert(Arc::clone(node), amounts);
        }
    }

    /// Returns how much pods request of a rule's resource.
    pub(super) fn of(&self, rule: &str) -> Quantity {
        self.rules.get(rule).copied().unwrap_or_default()
    }

    /// Returns the rules whose sum may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(amounts: &[(&str, i64)]) -> Box<Amounts> {
        amounts.iter().map(|(rule, amount)| (Arc::from(*rule), Quantity::from(*amount))).collect()
    }

    #[test]
    fn requested_sums_follow_each_node() {
        let mut requested = Requested::default();
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        requested.record(&a, amounts(&[("dongle", 2), ("key", 1)]));
        requested.record(&b, amounts(&[("dongle", 3)]));
        let sums = |requested: &Requested| ["dongle", "key"].map(|rule| requested.of(rule).to_string());
        assert_eq!(sums(&requested), ["5", "1"]);
        assert_eq!(requested.take_changed().len(), 2);
        requested.record(&b, amounts(&[("dongle", 3)]));
        assert!(requested.take_changed().is_empty(), "nothing changed");
        requested.record(&a, amounts(&[("dongle", 1)]));
        assert_eq!(sums(&requested), ["4", "0"]);
        requested.record(&a, amounts(&[]));
        requested.record(&b, amounts(&[]));
        assert_eq!(sums(&requested), ["0", "0"]);
        assert!(requested.nodes.is_empty() && requested.rules.is_empty(), "nothing is left behind");
    }
}
