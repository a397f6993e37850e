//! What is kept of a node's conditions: the controller's own, and where to put it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// The type of the condition: whether the resource of every rule that selects the node is advertised there.
pub const CONDITION_TYPE: &str = "noderesource.dev/Advertised";

/// `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions {
    pub(crate) first: First,
    /// The controller's condition, if there is one.
    pub own: Option<OwnCondition>,
}

/// The start of the list. Kubelets set the last condition, `Ready`, so the controller's one comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum First {
    /// There is no list.
    #[default]
    Absent,
    /// The list is empty.
    Nothing,
    /// The type of the first condition.
    Type(Box<str>),
}

/// The controller's condition on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnCondition {
    /// Its index in the list.
    pub(crate) place: usize,
    /// `True`, `False`, or what another client wrote.
    pub status: Box<str>,
    /// Why, in one word.
    pub reason: Box<str>,
    /// Why, in a sentence.
    pub message: Box<str>,
}

impl OwnCondition {
    fn says(&self) -> [&str; 3] {
        [&self.status, &self.reason, &self.message]
    }
}

impl From<&Conditions> for Arc<Conditions> {
    fn from(conditions: &Conditions) -> Self {
        Self::new(conditions.clone())
    }
}

impl Conditions {
    /// Returns whether `other` has the same condition of the controller, wherever it is in the list.
    pub(super) fn same_for_planning(&self, other: &Self) -> bool {
        self.own.as_ref().map(OwnCondition::says) == other.own.as_ref().map(OwnCondition::says)
    }
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_seq(List)
    }
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Conditions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of conditions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Conditions, A::Error> {
        let mut conditions = Conditions { first: First::Nothing, own: None };
        let mut place = 0;
        while let Some(Item { kind, status, reason, message }) = list.next_element()? {
            if place == 0 {
                conditions.first = First::Type(kind.0.as_ref().into());
            }
            if conditions.own.is_none() && kind.0 == CONDITION_TYPE {
                let [status, reason, message] = [status, reason, message].map(|text| text.0.as_ref().into());
                conditions.own = Some(OwnCondition { place, status, reason, message });
            }
            place += 1;
        }
        Ok(conditions)
    }
}

/// A condition. Its texts are copied only for the controller's own: a node reports all of them with every heartbeat.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    reason: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

/// A text; empty for null, as in Kubernetes.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

        let text = Option::<Borrowed<'de>>::deserialize(decoder)?;
        Ok(Self(text.map(|text| text.0).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(list: Value) -> Conditions {
        let text = list.to_string();
        let borrowed: Conditions = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::from_reader::<_, Conditions>(text.as_bytes()).unwrap(), borrowed);
        assert_eq!(serde_json::from_value::<Conditions>(list).unwrap(), borrowed);
        borrowed
    }

    #[test]
    fn conditions_keep_the_first_type_and_the_own_condition_only() {
        let conditions = read(json!([
            {"type": "Memory\"Pressure", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
            {"message": "m\n", "status": "True", "type": CONDITION_TYPE, "reason": "Advertised", "other": [1, {}]},
            {"type": "Ready", "status": "True", "reason": null},
        ]));
        assert_eq!(conditions.first, First::Type("Memory\"Pressure".into()));
        let [status, reason, message] = ["True", "Advertised", "m\n"].map(Box::from);
        assert_eq!(conditions.own, Some(OwnCondition { place: 1, status, reason, message }));
    }

    /// Patches test and change the place of the first.
    #[test]
    fn first_of_two_own_conditions_counts() {
        let own = |status: &str| json!({"type": CONDITION_TYPE, "status": status});
        let conditions = read(json!([{"type": "Ready"}, own("True"), own("False")]));
        let own = conditions.own.unwrap();
        assert_eq!((own.place, &*own.status), (1, "True"));
    }

    #[test]
    fn conditions_without_texts_are_read() {
        assert_eq!(read(json!([])), Conditions { first: First::Nothing, own: None });
        let own = read(json!([{"type": CONDITION_TYPE, "status": null}])).own.unwrap();
        assert_eq!(own.says(), ["", "", ""]);
        assert_eq!(read(json!([{}])).first, First::Type("".into()));
    }

    #[test]
    fn conditions_are_the_same_for_planning_wherever_they_are() {
        let own = json!({"type": CONDITION_TYPE, "status": "True"});
        let (before, after) = (read(json!([own, {"type": "Ready"}])), read(json!([{"type": "Ready"}, own])));
        assert!(before != after && before.same_for_planning(&after));
        assert!(!before.same_for_planning(&read(json!([{"type": "Ready"}]))));
        assert!(!before.same_for_planning(&read(json!([{"type": CONDITION_TYPE, "status": "False"}]))));
    }
}
