//! Decides whether two rules can select the same node, without reading nodes.

use super::selector::{Requirement, Selection, Test};

/// How two selections overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// No node can be selected by both.
    Never,
    /// It depends on the nodes' labels.
    Possible,
    /// One selection contains the other, or both name the same node.
    Certain,
}

impl Selection {
    /// Returns whether a node can be selected by both. A selection that selects no node overlaps with none.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Overlap {
        match (self, other) {
            (Self::Names(these), Self::Names(those)) => {
                if these.is_disjoint(those) {
                    Overlap::Never
                } else {
                    Overlap::Certain
                }
            }
            (Self::Names(_), unnamed) | (unnamed, Self::Names(_)) => {
                let requirements = unnamed.requirements();
                if requirements.is_empty() {
                    Overlap::Certain
                } else if contradict(requirements, &[]) {
                    Overlap::Never
                } else {
                    Overlap::Possible
                }
            }
            _ => {
                let (these, those) = (self.requirements(), other.requirements());
                if contradict(these, those) {
                    Overlap::Never
                } else if within(these, those) || within(those, these) {
                    Overlap::Certain
                } else {
                    Overlap::Possible
                }
            }
        }
    }

    /// Returns whether the other selection, by labels too, selects every node that this one does.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        within(self.requirements(), other.requirements())
    }
}

/// Returns whether no labels can meet both lists. Labels with different keys are independent, so it checks one key at a
/// time.
fn contradict(these: &[Requirement], those: &[Requirement]) -> bool {
    let all = || these.iter().chain(those);
    all().any(|one| {
        let same_key = || all().filter(|other| other.key == one.key);
        let meets = |value| same_key().all(|other| other.is_met_by(value));
        match &one.test {
            Test::In(values) => !values.iter().any(|value| meets(Some(value))),
            Test::DoesNotExist => !meets(None),
            // Only Exists can contradict a missing label here, and only In can contradict most values.
            Test::Exists => same_key().any(|other| matches!(other.test, Test::DoesNotExist)),
            Test::NotIn(_) => false,
        }
    })
}

/// Returns whether labels that meet all of `narrow` also meet all of `wide`.
fn within(narrow: &[Requirement], wide: &[Requirement]) -> bool {
    wide.iter().all(|wide| narrow.iter().any(|narrow| narrow.key == wide.key && implies(narrow, wide)))
}

fn implies(one: &Requirement, other: &Requirement) -> bool {
    match (&one.test, &other.test) {
        (Test::In(values), _) => values.iter().all(|value| other.is_met_by(Some(value))),
        (Test::DoesNotExist, _) => other.is_met_by(None),
        (Test::NotIn(these), Test::NotIn(those)) => those.is_subset(these),
        (Test::Exists, Test::Exists) => true,
        (Test::NotIn(_) | Test::Exists, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::{Value, json};

    use super::*;

    /// A selector by `key operator values`, or node names.
    fn selection(text: &str) -> Selection {
        if let Some(names) = text.strip_prefix("names ") {
            let names: Vec<_> = names.split(' ').map(str::to_owned).collect();
            return Selection::new(None, Some(&names), None).unwrap();
        }
        if text.is_empty() {
            return Selection::All;
        }
        let expressions: Vec<Value> = text
            .split(" and ")
            .map(|text| {
                let mut words = text.split(' ');
                let (key, operator) = (words.next(), words.next());
                json!({"key": key, "operator": operator, "values": words.collect::<Vec<_>>()})
            })
            .collect();
        let selector: LabelSelector = serde_json::from_value(json!({"matchExpressions": expressions})).unwrap();
        Selection::new(Some(&selector), None, None).unwrap()
    }

    #[test]
    fn selector_overlap_is_decided_without_nodes() {
        use Overlap::{Certain, Never, Possible};
        for (one, other, overlap) in [
            ("names a b", "names b c", Certain),
            ("names a", "names b", Never),
            ("names a", "", Certain),
            ("names a", "zone In x", Possible),
            ("names a", "zone In x and zone In y", Never),
            ("", "", Certain),
            ("", "zone In x", Certain),
            ("", "zone Exists and zone DoesNotExist", Never),
            ("zone In x", "zone In x y", Certain),
            ("zone In x y", "zone In y z", Possible),
            ("zone In x", "zone In y", Never),
            ("zone In x", "rack In x", Possible),
            ("zone In x", "zone NotIn x", Never),
            ("zone In x y", "zone NotIn x", Possible),
            ("zone In x", "zone NotIn y", Certain),
            ("zone In x", "zone Exists", Certain),
            ("zone In x", "zone DoesNotExist", Never),
            ("zone Exists", "zone DoesNotExist", Never),
            ("zone Exists", "zone NotIn x", Possible),
            ("zone NotIn x", "zone DoesNotExist", Certain),
            ("zone NotIn x y", "zone NotIn x", Certain),
            ("zone In x and rack In r", "zone In x", Certain),
            ("zone In x and rack In r", "zone In x and ssd Exists", Possible),
            ("zone In x y and zone NotIn x", "zone NotIn y", Never),
        ] {
            let (this, that) = (selection(one), selection(other));
            assert_eq!(this.overlap(&that), overlap, "{one:?} {other:?}");
            assert_eq!(that.overlap(&this), overlap, "{other:?} {one:?}");
        }
    }
}
