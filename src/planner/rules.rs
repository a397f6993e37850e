//! Compiled rules: checked, parsed once per change, and sorted by precedence.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use super::declared::{Declared, InvalidQuantity, OnNode};
use super::selector::{InvalidSelection, Selection};
use crate::model::api::{ConflictPolicy, DeletionPolicy, NodeExtendedResource, NodeExtendedResourceSpec, ShrinkPolicy};
use crate::model::node::Node;
use crate::model::resource_name::{InvalidResourceName, ResourceName};

/// A valid `NodeExtendedResource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `metadata.name`
    pub name: Arc<str>,
    /// The declared resource.
    pub resource: ResourceName,
    /// The declared quantity.
    pub quantity: Declared,
    /// The nodes that the rule selects.
    pub selection: Selection,
    /// The highest priority wins.
    pub priority: i32,
    /// What to do with the value of another field manager.
    pub conflict_policy: ConflictPolicy,
    /// What happens to a value that is no longer declared.
    pub deletion_policy: DeletionPolicy,
    /// How a value is lowered while pods use it.
    pub shrink_policy: ShrinkPolicy,
    /// Whether the rule keeps the values that it has, and gets no new ones.
    pub paused: bool,
    /// `metadata.creationTimestamp`; at equal priority, the oldest rule wins. A rule that is not in the cluster yet has
    /// none and is the youngest.
    pub created: Option<Timestamp>,
}

/// Why an object is not a valid rule. The API server rejects such objects, but may hold some from before the CRD's
/// validation, so the controller checks each.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidRule {
    /// The object does not match the CRD's schema.
    #[error("the object cannot be read: {0}")]
    Malformed(String),
    /// `spec.resourceName`
    #[error("spec.resourceName: {0}")]
    ResourceName(#[from] InvalidResourceName),
    /// `spec.quantity` or `spec.quantityFrom`
    #[error(transparent)]
    Quantity(#[from] InvalidQuantity),
    /// `spec.nodeSelector`, `spec.nodeNames` or `spec.allNodes`
    #[error("spec: {0}")]
    Selection(#[from] InvalidSelection),
}

impl Rule {
    /// Checks an object, and extracts what the plan needs.
    ///
    /// # Errors
    /// If the CRD's validation would reject the object.
    pub fn new(object: &NodeExtendedResource) -> Result<Self, InvalidRule> {
        Self::of(&object.metadata, &object.spec)
    }

    /// Does the same with the parts of an object.
    ///
    /// # Errors
    /// If the CRD's validation would reject the object.
    pub fn of(metadata: &ObjectMeta, spec: &NodeExtendedResourceSpec) -> Result<Self, InvalidRule> {
        let quantity = Declared::new(spec)?;
        Ok(Self {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            resource: ResourceName::parse(&spec.resource_name)?,
            quantity,
            selection: Selection::new(spec.node_selector.as_ref(), spec.node_names.as_deref(), spec.all_nodes)?,
            priority: spec.priority,
            conflict_policy: spec.conflict_policy,
            deletion_policy: spec.deletion_policy,
            shrink_policy: spec.shrink_policy,
            paused: spec.paused,
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        })
    }

    /// Returns the nodes on which the rule may declare something, as far as their names or labels say it: of those that
    /// it selects, the ones with the label that its quantity comes from, if it declares nothing on the others.
    #[must_use]
    pub fn declares_on(&self) -> Selection {
        match (&self.selection, self.quantity.required_label()) {
            (Selection::All, Some(label)) => Selection::Labels(vec![label]),
            (Selection::Labels(requirements), Some(label)) => {
                Selection::Labels(requirements.iter().cloned().chain([label]).collect())
            }
            (selection, _) => selection.clone(),
        }
    }

    /// Compares the precedence of two rules that declare the same resource: the winner is `Less`.
    fn precedence(&self, other: &Self) -> Ordering {
        let age = |rule: &Self| (rule.created.is_none(), rule.created);
        other
            .priority
            .cmp(&self.priority)
            .then_with(|| age(self).cmp(&age(other)))
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// All rules at one moment.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// By precedence, the winner first.
    rules: Vec<Arc<Rule>>,
    /// The frozen rules, which keep their values, each with its priority if it can be read.
    frozen: BTreeMap<Arc<str>, Option<i32>>,
    /// The rules that may select a node, by node name, as indices into `rules`.
    by_node: HashMap<Arc<str>, Vec<usize>>,
    /// The same, by the key of a label and its value.
    by_label: HashMap<String, HashMap<String, Vec<usize>>>,
    unindexed: Vec<usize>,
    /// The names of the rules, if there may be more rules than these. What others have advertised stays too.
    known: Option<HashSet<Arc<str>>>,
}

impl RuleSet {
    /// Sorts and indexes the valid rules. `frozen` names more rules that keep and repair their values but get no new
    /// ones, as paused ones do: they exist but are invalid, or are missing and not yet considered deleted. Each has its
    /// priority, if it can be read.
    #[must_use]
    pub fn new(
        valid: impl IntoIterator<Item = Arc<Rule>>,
        frozen: impl IntoIterator<Item = (Arc<str>, Option<i32>)>,
    ) -> Self {
        let mut rules: Vec<_> = valid.into_iter().collect();
        rules.sort_by(|this, other| this.precedence(other));
        let mut set = Self { frozen: frozen.into_iter().collect(), ..Self::default() };
        for rule in &rules {
            set.frozen.remove(&rule.name);
            if rule.paused {
                set.frozen.insert(Arc::clone(&rule.name), Some(rule.priority));
            }
        }
        for (place, rule) in rules.iter().enumerate() {
            if let Selection::Names(names) = &rule.selection {
                for name in names {
                    let places = set.by_node.entry(Arc::clone(name)).or_default();
                    places.push(place);
                }
            } else if let Some(labels) = rule.selection.indexable_labels() {
                for (key, value) in labels {
                    let values = set.by_label.entry(key.to_owned()).or_default();
                    values.entry(value.to_owned()).or_default().push(place);
                }
            } else {
                set.unindexed.push(place);
            }
        }
        set.rules = rules;
        set
    }

    /// Treats each other rule as frozen, because it may exist, but for those that are `gone`.
    #[must_use]
    pub fn among_others<'a>(mut self, gone: impl IntoIterator<Item = &'a Arc<str>>) -> Self {
        let names = self.rules.iter().map(|rule| Arc::clone(&rule.name));
        self.known = Some(names.chain(gone.into_iter().cloned()).collect());
        self
    }

    /// Returns the rules that select `node`, the winner first.
    #[must_use]
    pub fn selecting(&self, node: &Node) -> Vec<&Arc<Rule>> {
        self.at(&self.places_selecting(node)).collect()
    }

    /// Returns those of them that declare a quantity on `node`, or may: one that reads it there may declare none.
    #[must_use]
    pub fn declaring(&self, node: &Node) -> Vec<&Arc<Rule>> {
        let mut declaring = self.selecting(node);
        declaring.retain(|rule| rule.quantity.on(node) != OnNode::Nothing);
        declaring
    }

    /// Returns those of them that declare `resource`.
    #[must_use]
    pub fn declaring_resource(&self, node: &Node, resource: &str) -> Vec<&Arc<Rule>> {
        let mut declaring = self.declaring(node);
        declaring.retain(|rule| rule.resource.as_str() == resource);
        declaring
    }

    /// Returns the places of the rules that select `node`, in ascending order.
    pub(super) fn places_selecting(&self, node: &Node) -> Vec<usize> {
        let mut places = self.unindexed.clone();
        places.extend(self.by_node.get(&node.name).into_iter().flatten());
        // Most rules select by a few keys, of which a node has many.
        if self.by_label.len() <= node.labels.len() {
            for (key, by_value) in &self.by_label {
                let value = node.labels.get(key);
                places.extend(value.and_then(|value| by_value.get(value)).into_iter().flatten());
            }
        } else {
            for (key, value) in node.labels.iter() {
                let by_value = self.by_label.get(key);
                places.extend(by_value.and_then(|by_value| by_value.get(value)).into_iter().flatten());
            }
        }
        places.sort_unstable();
        places.retain(|place| self.rules.get(*place).is_some_and(|rule| rule.selection.selects(node)));
        places
    }

    /// Returns the rules at these places.
    pub(super) fn at(&self, places: &[usize]) -> impl Iterator<Item = &Arc<Rule>> {
        places.iter().filter_map(|place| self.rules.get(*place))
    }

    /// Returns the valid rules, also paused ones. Of two that declare the same resource on a node, the winner is first.
    pub fn by_precedence(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter()
    }

    /// Returns whether the rule of this name is frozen: it keeps its values, and gets no new ones.
    #[must_use]
    pub fn is_frozen(&self, rule: &str) -> bool {
        self.frozen.contains_key(rule) || self.known.as_ref().is_some_and(|known| !known.contains(rule))
    }

    /// Returns the priority of a frozen rule, if it can be read.
    pub(super) fn frozen_priority(&self, rule: &str) -> Option<i32> {
        self.frozen.get(rule).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::node::Interner;

    fn rule<'t>(name: &str, created: impl Into<Option<&'t str>>, spec: Value) -> Result<Rule, InvalidRule> {
        let created = created.into();
        let mut object = json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"resourceName": "example.com/dongle", "quantity": 4},
        });
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Rule::new(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn rule_validation_matches_the_crd() {
        for (spec, expected) in [
            (json!({"quantity": 0}), "less than 1"),
            (json!({"quantity": "-4"}), "less than 1"),
            (json!({"quantity": "4500m"}), "not a whole number"),
            (json!({"quantity": "4 dongles"}), "spec.quantity"),
            (json!({"quantity": 9_223_372_036_854_776_i64}), "more than 9223372036854775"),
            (json!({"quantity": "10E"}), "more than 9223372036854775"),
            (json!({"quantity": format!("{:033}", 4)}), "33 characters are too long"),
            (json!({"quantity": "1e-2147483648"}), "not a whole number"),
            (json!({"resourceName": "cpu"}), "spec.resourceName"),
            (json!({"nodeNames": ["a"]}), "spec: give exactly one"),
        ] {
            let mut spec = spec;
            spec.as_object_mut().unwrap().insert("allNodes".into(), json!(true));
            let error = rule("a", "2026-01-01T00:00:00Z", spec.clone()).unwrap_err();
            assert!(error.to_string().contains(expected), "{spec}: {error}");
        }
    }

    #[test]
    fn table_of_a_stored_rule_is_checked_and_its_entry_named() {
        let at = |entry: &str| format!("spec.quantityFrom.nodeLabel.values: {entry}");
        let many: serde_json::Map<_, _> = (0..257).map(|number| (number.to_string(), json!(1))).collect();
        let most: serde_json::Map<_, _> = (0..256).map(|number| (number.to_string(), json!(1))).collect();
        let longest: serde_json::Map<_, _> = (0..131).map(|number| (format!("{number:063}"), json!(1))).collect();
        let long = format!("{:033}", 4);
        let from = |values: Value, more: Value| {
            let mut from = json!({"nodeLabel": {"key": "a", "values": values}});
            from.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            rule("a", None, json!({"allNodes": true, "quantity": null, "quantityFrom": from}))
        };
        for (values, more, expected) in [
            (json!({"m5.large": 0, "b": 1}), json!({}), at("m5.large: 0 is less than 1")),
            (json!({"b": "1500m"}), json!({}), at("b: 1500m is not a whole number")),
            (json!({"b": "four"}), json!({}), at("b: ")),
            (json!({"b": "10E"}), json!({}), at("b: 10E is more than 9223372036854775")),
            (json!({ "b": long }), json!({}), at("b: 33 characters are too long")),
            (json!({"a b": 1}), json!({}), at("\"a b\" is not a label value")),
            (json!({"x".repeat(64): 1}), json!({}), at("\"xxx")),
            (json!({}), json!({}), at("the table is empty")),
            (Value::Object(many), json!({}), "values holds 257 entries for values of 661 characters".to_owned()),
            (Value::Object(longest), json!({}), "values holds 131 entries for values of 8253 characters".to_owned()),
            (json!({"b": 1}), json!({"max": 4}), "exactly one of max and nodeLabel.values".to_owned()),
            (json!(null), json!({}), "exactly one of max and nodeLabel.values".to_owned()),
            (json!({"b": 1}), json!({"min": 1}), "min has no meaning".to_owned()),
        ] {
            let error = from(values, more).unwrap_err().to_string();
            assert!(error.contains(&expected), "{error}, not {expected}");
        }
        // Two entries may be equal.
        assert!(from(json!({"a": 1000, "b": "1k", "c": "1000000m"}), json!({})).is_ok());
        let large = from(Value::Object(most), json!({"default": 7})).unwrap();
        assert_eq!(large.quantity.most(), 7.into());
        assert!(large.quantity.size() > 256 * 64, "it counts for the memory of rules");
    }

    #[test]
    fn rule_set_returns_selecting_rules_by_precedence() {
        let early = "2026-01-01T00:00:00Z";
        let late = "2026-01-02T00:00:00Z";
        let zone = json!({"matchLabels": {"zone": "a"}});
        let rules = [
            rule("0-late", late, json!({"allNodes": true})),
            rule("b", early, json!({"nodeSelector": zone})),
            rule("a", early, json!({"nodeNames": ["node-1"]})),
            rule("high", late, json!({"nodeSelector": zone, "priority": 1})),
            rule("0-a-new", None, json!({"allNodes": true})),
            rule("other-zone", early, json!({"nodeSelector": {"matchLabels": {"zone": "b"}}})),
            rule("other-node", early, json!({"nodeNames": ["node-2"]})),
        ];
        let rules = RuleSet::new(rules.map(|rule| Arc::new(rule.unwrap())), [("bad".into(), None)]);
        let node = json!({"metadata": {"name": "node-1", "labels": {"zone": "a"}}});
        let node = Node::new(serde_json::from_value(node).unwrap(), &mut Interner::default());
        let names: Vec<_> = rules.selecting(&node).iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["high", "a", "b", "0-late", "0-a-new"]);
        assert!(rules.is_frozen("bad") && !rules.is_frozen("a"));
    }
}
