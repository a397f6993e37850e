//! A group of nodes that are alike: what the controller will advertise on each of them.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::json;
use thiserror::Error;

use crate::inspect::overlays::label_keys::LabelKey;
use crate::model::count::{NAMED, few};
use crate::model::label::{excerpt, is_label_value, is_qualified_name};
use crate::model::node::{ApiNode, Fact, FactNames, Interner, Node};
use crate::model::quantity::Quantity;
use crate::planner::input::PlanningInput;
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::selector::Requirement;
use crate::planner::{Action, Outcome, plan};

/// The labels of every node in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeLabels(BTreeMap<String, String>);

/// Why a text is no list of labels.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum InvalidLabels {
    #[error("\"{0}\" has no \"=\": write KEY=VALUE")]
    NoValue(String),
    #[error("\"{0}\" is not a label key")]
    Key(String),
    #[error("\"{0}\" is not a label value")]
    Value(String),
    #[error("the label {0} is given twice")]
    Twice(String),
}

impl FromStr for NodeLabels {
    type Err = InvalidLabels;

    /// Parses `key=value`, separated by commas; the empty text has no labels.
    fn from_str(text: &str) -> Result<Self, InvalidLabels> {
        let mut labels = BTreeMap::new();
        for label in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (key, value) = label.split_once('=').ok_or_else(|| InvalidLabels::NoValue(excerpt(label)))?;
            if !is_qualified_name(key) {
                return Err(InvalidLabels::Key(excerpt(key)));
            }
            if !is_label_value(value) {
                return Err(InvalidLabels::Value(excerpt(value)));
            }
            if labels.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(InvalidLabels::Twice(key.to_owned()));
            }
        }
        Ok(Self(labels))
    }
}

/// What the controller advertises on every node of a group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The quantities, by resource.
    pub(super) values: BTreeMap<String, Quantity>,
    /// Every resource that some rule declares, also on other nodes.
    pub(super) declared: Vec<String>,
    /// Sentences about rules that count for less than may be expected.
    pub(super) notes: Vec<String>,
    /// Sentences about rules whose resource the nodes lack.
    pub(super) problems: Vec<String>,
}

impl Group {
    /// Plans a new node with these labels, and without a name that a rule could have.
    pub(super) fn new(rules: &RuleSet, labels: &NodeLabels) -> Self {
        let object = json!({"metadata": {"labels": labels.0}});
        let Ok(node) = serde_json::from_value::<ApiNode>(object) else {
            return Self::default();
        };
        let node = Node::new(node, &mut Interner::keeping(FactNames::All));
        let node_plan = plan(&node, rules, &PlanningInput::default());
        let mut group = Self::default();
        for rule in rules.by_precedence() {
            group.declared.push(rule.resource.to_string());
        }
        group.declared.sort_unstable();
        group.declared.dedup();
        for change in node_plan.changes() {
            if let Action::Advertise { quantity, .. } = &change.action
                && let Ok(quantity) = quantity.parse()
            {
                group.values.insert(change.name().to_owned(), quantity);
            }
        }
        let by_name: BTreeMap<_, _> = rules.by_precedence().map(|rule| (&*rule.name, rule)).collect();
        for (name, outcome) in &node_plan.outcomes {
            if let Some(rule) = by_name.get(&**name) {
                group.explain(rule, outcome);
            }
        }
        if node_plan.outcomes.is_empty() {
            let mismatches =
                rules.by_precedence().filter_map(|rule| Some((&rule.name, rule.selection.mismatch(&node)?)));
            let mismatches: Vec<_> = mismatches.map(|(rule, why)| format!("rule {rule}: {why}")).collect();
            group.notes.push(format!("nothing for these nodes: {}", few(&mismatches, NAMED, "; ")));
        }
        group
    }

    fn explain(&mut self, rule: &Rule, outcome: &Outcome) {
        let name = &rule.name;
        match outcome {
            Outcome::Advertised => {
                for key in late_keys(rule) {
                    self.notes.push(format!(
                        "rule {name} selects by {key}, which nodes have only some time after their start: give them a \
                         startup taint until the resource is there"
                    ));
                }
            }
            Outcome::Overridden { by, tied: true } if rule.created.is_none() => {
                self.notes.push(format!(
                    "rules {by} and {name} have the same priority: in a cluster the oldest wins, and files do not have \
                     its age; give them different priorities"
                ));
            }
            Outcome::Overridden { .. } => {}
            Outcome::Paused { .. } => self.notes.push(format!("rule {name} is paused: no new node gets its resource")),
            Outcome::LedgerFull => {
                self.problems.push(format!("rule {name}: the annotation of a node has no room for one more resource"));
            }
            Outcome::QuantityUnknown { why, .. } => {
                let remedy = match rule.quantity.fact() {
                    Some(Fact::Label(_)) => "give its label with --labels, or a default in the rule",
                    _ => "it is unknown before there is a node: give a default in the rule",
                };
                self.problems.push(format!("rule {name} declares {}: {why}; {remedy}", rule.quantity));
            }
            // A new node has neither values nor pods.
            other => self.problems.push(format!("rule {name} is not advertised on a new node: {other:?}")),
        }
    }
}

fn late_keys(rule: &Rule) -> impl Iterator<Item = &str> {
    let keys = rule.selection.requirements().iter().map(Requirement::key);
    keys.filter(|key| LabelKey::of(key) == LabelKey::AfterStart)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::model::api::NodeExtendedResource;

    fn group(rules: &[(&str, Value)], labels: &str) -> Group {
        let rule = |(name, fields): &(&str, Value)| {
            let mut spec = json!({"resourceName": "example.com/dongle", "quantity": 4});
            spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let object = NodeExtendedResource::new(name, serde_json::from_value(spec).unwrap());
            Arc::new(Rule::new(&object).unwrap())
        };
        Group::new(&RuleSet::new(rules.iter().map(rule), []), &labels.parse().unwrap())
    }

    fn values(group: &Group) -> Vec<String> {
        group.values.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect()
    }

    #[test]
    fn labels_are_read_or_rejected() {
        for (text, count) in [("", 0), (" ", 0), ("a=b", 1), ("a=,example.com/b=c", 2), (" a=b , c=d", 2)] {
            assert_eq!(text.parse::<NodeLabels>().unwrap().0.len(), count, "{text:?}");
        }
        for (text, why) in [
            ("a", "\"a\" has no \"=\""),
            ("a=b,", "has no \"=\""),
            ("-=b", "\"-\" is not a label key"),
            ("a=b c", "\"b c\" is not a label value"),
            ("a=b,a=c", "a is given twice"),
            ("a=\u{1b}[2J", "not a label value"),
        ] {
            let error = text.parse::<NodeLabels>().unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\u{1b}'), "{text:?}: {error}");
        }
    }

    #[test]
    fn group_has_what_the_planner_advertises() {
        let big = json!({"nodeSelector": {"matchLabels": {"pool": "big"}}, "quantity": "8000m", "priority": 1});
        let rules = [
            ("all", json!({"allNodes": true})),
            ("big", big),
            ("named", json!({"nodeNames": ["node-1"], "resourceName": "example.com/named"})),
            ("disk", json!({"allNodes": true, "resourceName": "example.com/disk", "quantity": 858_993_459_200_i64})),
            ("paused", json!({"allNodes": true, "resourceName": "example.com/paused", "paused": true})),
        ];
        let small = group(&rules, "pool=small");
        assert_eq!(values(&small), ["example.com/disk=858993459200", "example.com/dongle=4"]);
        assert_eq!(small.notes, ["rule paused is paused: no new node gets its resource"]);
        assert!(small.problems.is_empty());
        assert_eq!(small.declared.len(), 4);
        assert_eq!(values(&group(&rules, "pool=big")), ["example.com/disk=858993459200", "example.com/dongle=8"]);
    }

    #[test]
    fn group_explains_what_it_lacks() {
        let selector = json!({"nodeSelector": {"matchLabels": {"pool": "big"}}});
        let nothing = group(&[("big", selector)], "pool=small");
        let why = "nothing for these nodes: rule big: it selects pool=big, and the node has pool=small";
        assert_eq!((nothing.values.len(), nothing.notes), (0, vec![why.to_owned()]));

        let names: Vec<_> = (0..9).map(|number| format!("r{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), json!({"nodeNames": ["a"]}))).collect();
        assert!(group(&many, "").notes[0].ends_with(" and 4 more"), "{:?}", group(&many, "").notes);

        let tied = group(&[("a", json!({"allNodes": true})), ("b", json!({"allNodes": true, "quantity": 5}))], "");
        assert!(tied.notes[0].starts_with("rules a and b have the same priority"), "{:?}", tied.notes);

        let memory = json!({"resource": {"name": "memory", "divisor": "1Gi"}, "max": 900});
        let memory = group(&[("mem", json!({"allNodes": true, "quantity": null, "quantityFrom": memory}))], "");
        assert!(memory.problems[0].ends_with("give a default in the rule"), "{:?}", memory.problems);
        assert!(!memory.problems[0].contains("--labels"), "{:?}", memory.problems);

        let late = json!({"nodeSelector": {"matchLabels": {"feature.node.kubernetes.io/usb": "true"}}});
        let late = group(&[("late", late)], "feature.node.kubernetes.io/usb=true");
        assert!(late.notes[0].contains("startup taint"), "{:?}", late.notes);
    }

    #[test]
    fn group_names_resources_for_which_a_node_has_no_room() {
        let resource = |number: usize| format!("{}.example.com/{number}", "a".repeat(220));
        let names: Vec<_> = (0..300).map(|number| format!("r{number}")).collect();
        let rules: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(number, name)| (&**name, json!({"allNodes": true, "resourceName": resource(number)})))
            .collect();
        let full = group(&rules, "");
        assert!(!full.problems.is_empty() && full.values.len() + full.problems.len() == 300, "{}", full.values.len());
        assert!(full.problems[0].contains("no room"), "{}", full.problems[0]);
    }
}
