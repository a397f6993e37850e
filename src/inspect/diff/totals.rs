//! The sum of the changes of all nodes, by resource.

use std::collections::BTreeMap;

use serde::Serialize;

use super::amounts::Amounts;
use super::node_diff::Change;
use crate::model::quantity::Quantity;

/// The total of a resource on the nodes where its value changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Total {
    /// The resource's name.
    pub resource: String,
    /// The number of nodes where its value changes.
    pub nodes: usize,
    /// The total before the changes.
    pub before: Amounts,
    /// The total after the changes.
    pub after: Amounts,
}

/// The sums so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(BTreeMap<String, Sums>);

#[derive(Clone, Copy, Debug)]
struct Sums {
    nodes: usize,
    before: Sum,
    after: Sum,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    capacity: Quantity,
    allocatable: Quantity,
}

impl Totals {
    /// Adds the change of a node, unless the value stays.
    pub(super) fn add(&mut self, change: &Change) {
        if change.before == change.after {
            return;
        }
        let nothing = Sum { capacity: Quantity::from(0), allocatable: Quantity::from(0) };
        let sums = self.0.entry(change.resource.clone());
        let sums = sums.or_insert(Sums { nodes: 0, before: nothing, after: nothing });
        sums.nodes += 1;
        sums.before.add(&change.before);
        sums.after.add(&change.after);
    }

    pub(super) fn finish(self) -> Vec<Total> {
        let total = |(resource, sums): (String, Sums)| Total {
            resource,
            nodes: sums.nodes,
            before: sums.before.amounts(),
            after: sums.after.amounts(),
        };
        self.0.into_iter().map(total).collect()
    }
}

impl Sum {
    /// Absent values and values that are not quantities count as 0.
    fn add(&mut self, amounts: &Amounts) {
        let parsed = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
        for (sum, text) in [(&mut self.capacity, &amounts.capacity), (&mut self.allocatable, &amounts.allocatable)] {
            *sum = sum.saturating_add(parsed(text).unwrap_or(Quantity::from(0)));
        }
    }

    fn amounts(self) -> Amounts {
        Amounts { capacity: Some(text(self.capacity)), allocatable: Some(text(self.allocatable)) }
    }
}

/// Returns 27000 instead of the canonical form 27k, which is easier to read in a sum. 27Gi stays.
fn text(sum: Quantity) -> String {
    let canonical = sum.to_string();
    match sum.whole() {
        Some(whole) if !canonical.ends_with('i') => whole.to_string(),
        _ => canonical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_written_without_decimal_suffix() {
        for (terms, sum) in [
            (&["9k", "18k"][..], "27000"),
            (&["1Ti", "1Ti"], "2Ti"),
            (&["0", "4"], "4"),
            (&["1500m"], "1500m"),
            (&["2e3"], "2000"),
            (&["1Gi", "1Ki"], "1048577Ki"),
            (&[], "0"),
        ] {
            let parsed = terms.iter().map(|term| term.parse::<Quantity>().unwrap());
            let total = parsed.fold(Quantity::from(0), Quantity::saturating_add);
            assert_eq!(text(total), sum, "{terms:?}");
        }
    }
}
