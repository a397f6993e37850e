//! The node selection of a rule.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

use crate::model::label;
use crate::model::node::Node;

/// The nodes that a rule selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Nodes by name.
    Names(BTreeSet<Arc<str>>),
    /// Nodes whose labels meet every requirement; there is at least one.
    Labels(Vec<Requirement>),
    /// Every node.
    All,
}

/// One requirement on a node's labels, with the semantics of `metav1.LabelSelector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub(super) key: String,
    pub(super) test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

/// Why a selection is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidSelection {
    /// None or several of the three fields are set.
    #[error("give exactly one of nodeSelector, nodeNames and allNodes: true")]
    NotExactlyOne,
    /// `nodeSelector: {}`, possibly the rest of a selector whose label lost its value. Older versions of the CRD
    /// treated it as every node.
    #[error("nodeSelector has no requirement: to select every node, replace nodeSelector: {{}} by allNodes: true")]
    NoRequirement,
    /// `allNodes: false`
    #[error("allNodes can only be true: remove it, and give nodeSelector or nodeNames")]
    AllNodesFalse,
    /// `nodeNames: []`
    #[error("nodeNames is empty: name at least one node")]
    NoNames,
    /// A name that no Node can have.
    #[error("nodeNames holds {0:?}, which is not a node name")]
    NodeName(String),
    /// A key that no label can have.
    #[error("nodeSelector asks for label {0:?}, which is not a label key")]
    Key(String),
    /// A value that no label can have.
    #[error("nodeSelector asks for label {0} with {1:?}, which is not a label value")]
    Value(String, String),
    /// An operator that the Kubernetes API does not support.
    #[error("nodeSelector has operator {0:?}; write In, NotIn, Exists or DoesNotExist")]
    Operator(String),
    /// Missing values, or values where none are allowed.
    #[error("nodeSelector has {operator} on {key} with {count} values")]
    ValueCount {
        /// The label's key.
        key: String,
        /// The operator.
        operator: String,
        /// The number of values.
        count: usize,
    },
}

impl Selection {
    /// Reads the three fields of a rule's spec.
    ///
    /// # Errors
    /// If the Kubernetes API would reject the selector (`ValidateLabelSelector`), or a name is not a node name.
    pub fn new(
        selector: Option<&LabelSelector>,
        names: Option<&[String]>,
        all: Option<bool>,
    ) -> Result<Self, InvalidSelection> {
        match (selector, names, all) {
            (Some(selector), None, None) => Self::by_labels(selector),
            (None, Some(names), None) => Self::by_names(names),
            (None, None, Some(true)) => Ok(Self::All),
            (None, None, Some(false)) => Err(InvalidSelection::AllNodesFalse),
            _ => Err(InvalidSelection::NotExactlyOne),
        }
    }

    fn by_names(names: &[String]) -> Result<Self, InvalidSelection> {
        let mut distinct = BTreeSet::<Arc<str>>::new();
        for name in names {
            if !label::is_dns_subdomain(name) {
                return Err(InvalidSelection::NodeName(name.clone()));
            }
            distinct.insert(name.as_str().into());
        }
        if distinct.is_empty() {
            return Err(InvalidSelection::NoNames);
        }
        Ok(Self::Names(distinct))
    }

    fn by_labels(selector: &LabelSelector) -> Result<Self, InvalidSelection> {
        let equalities = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::new(key, "In", std::slice::from_ref(value)));
        let expressions =
            selector.match_expressions.iter().flatten().map(|LabelSelectorRequirement { key, operator, values }| {
                Requirement::new(key, operator, values.as_deref().unwrap_or_default())
            });
        let requirements: Vec<_> = equalities.chain(expressions).collect::<Result<_, _>>()?;
        if requirements.is_empty() {
            return Err(InvalidSelection::NoRequirement);
        }
        Ok(Self::Labels(requirements))
    }

    /// Returns whether `node` is selected.
    #[must_use]
    pub fn selects(&self, node: &Node) -> bool {
        match self {
            Self::Names(names) => names.contains(&node.name),
            Self::Labels(requirements) => {
                requirements.iter().all(|requirement| requirement.is_met_by(node.labels.get(&requirement.key)))
            }
            Self::All => true,
        }
    }

    /// Returns why `node` is not selected: the first requirement that it does not meet, and what it has instead.
    #[must_use]
    pub fn mismatch(&self, node: &Node) -> Option<String> {
        match self {
            Self::Names(names) => (!names.contains(&node.name)).then(|| "nodeNames does not list the node".to_owned()),
            Self::Labels(requirements) => requirements.iter().find_map(|requirement| {
                let value = node.labels.get(&requirement.key);
                let found = match value {
                    Some(value) => format!("the node has {}={value}", requirement.key),
                    None => format!("the node has no label {}", requirement.key),
                };
                (!requirement.is_met_by(value)).then(|| format!("it selects {requirement}, and {found}"))
            }),
            Self::All => None,
        }
    }

    /// Returns the named nodes, if nodes are selected by name.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let names = match self {
            Self::Names(names) => Some(names),
            Self::Labels(_) | Self::All => None,
        };
        names.into_iter().flatten()
    }

    /// Returns the requirements on labels, if nodes are selected by labels.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Self::Labels(requirements) => requirements,
            Self::Names(_) | Self::All => &[],
        }
    }

    /// Returns labels (key and value) of which every selected node has at least one, so that rules can be looked up by
    /// a node's labels; `None` if no such list exists.
    #[must_use]
    pub fn indexable_labels(&self) -> Option<impl Iterator<Item = (&str, &str)>> {
        self.requirements().iter().find_map(|Requirement { key, test }| {
            let Test::In(values) = test else {
                return None;
            };
            Some(values.iter().map(|value| (key.as_str(), value.as_str())))
        })
    }
}

impl Requirement {
    fn new(key: &str, operator: &str, values: &[String]) -> Result<Self, InvalidSelection> {
        if !label::is_qualified_name(key) {
            return Err(InvalidSelection::Key(key.to_owned()));
        }
        if let Some(value) = values.iter().find(|value| !label::is_label_value(value)) {
            return Err(InvalidSelection::Value(key.to_owned(), value.clone()));
        }
        let set = || values.iter().cloned().collect();
        let test = match (operator, values.is_empty()) {
            ("In", false) => Test::In(set()),
            ("NotIn", false) => Test::NotIn(set()),
            ("Exists", true) => Test::Exists,
            ("DoesNotExist", true) => Test::DoesNotExist,
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {
                return Err(InvalidSelection::ValueCount {
                    key: key.to_owned(),
                    operator: operator.to_owned(),
                    count: values.len(),
                });
            }
            _ => return Err(InvalidSelection::Operator(operator.to_owned())),
        };
        Ok(Self { key: key.to_owned(), test })
    }

    /// Returns the key of the label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator, as in `metav1.LabelSelector` and `v1.NodeSelectorRequirement`.
    #[must_use]
    pub fn operator(&self) -> &'static str {
        match &self.test {
            Test::In(_) => "In",
            Test::NotIn(_) => "NotIn",
            Test::Exists => "Exists",
            Test::DoesNotExist => "DoesNotExist",
        }
    }

    /// Returns the values of `In` and `NotIn`, sorted.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        let values = match &self.test {
            Test::In(values) | Test::NotIn(values) => Some(values),
            Test::Exists | Test::DoesNotExist => None,
        };
        values.into_iter().flatten().map(String::as_str)
    }

    /// As in Kubernetes, a node without the label meets `NotIn`.
    pub(super) fn is_met_by(&self, value: Option<&str>) -> bool {
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    /// In kubectl's syntax: `k=v`, `k in (a,b)`, `k notin (a,b)`, `k` or `!k`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let joined = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.test {
            Test::In(values) if values.len() == 1 => write!(f, "{key}={}", joined(values)),
            Test::In(values) => write!(f, "{key} in ({})", joined(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", joined(values)),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::node::Interner;

    fn selection(spec: Value) -> Result<Selection, InvalidSelection> {
        let selector = spec.get("nodeSelector").cloned();
        let selector: Option<LabelSelector> = selector.map(|selector| serde_json::from_value(selector).unwrap());
        let names: Option<Vec<String>> =
            spec.get("nodeNames").map(|names| serde_json::from_value(names.clone()).unwrap());
        let all = spec.get("allNodes").and_then(Value::as_bool);
        Selection::new(selector.as_ref(), names.as_deref(), all)
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"nodeSelector": {"matchExpressions": [
            {"key": key, "operator": operator, "values": values}
        ]}})
    }

    #[test]
    fn selector_matches_like_kubernetes() {
        let node = serde_json::from_value(json!({
            "metadata": {"name": "node-1", "labels": {"zone": "a", "ssd": ""}}
        }));
        let node = Node::new(node.unwrap(), &mut Interner::default());
        for (spec, selects) in [
            (json!({"allNodes": true}), true),
            (json!({"nodeSelector": {"matchLabels": {"zone": "a"}}}), true),
            (json!({"nodeSelector": {"matchLabels": {"zone": "a", "ssd": "x"}}}), false),
            (expression("zone", "In", &["a", "b"]), true),
            (expression("zone", "In", &["b"]), false),
            (expression("rack", "In", &["b"]), false),
            (expression("zone", "NotIn", &["b"]), true),
            (expression("zone", "NotIn", &["a"]), false),
            (expression("rack", "NotIn", &["a"]), true),
            (expression("ssd", "Exists", &[]), true),
            (expression("rack", "Exists", &[]), false),
            (expression("rack", "DoesNotExist", &[]), true),
            (expression("ssd", "DoesNotExist", &[]), false),
            (json!({"nodeNames": ["node-1", "node-2"]}), true),
            (json!({"nodeNames": ["node-2"]}), false),
        ] {
            assert_eq!(selection(spec.clone()).unwrap().selects(&node), selects, "{spec}");
        }
    }

    #[test]
    fn repeated_node_name_counts_once() {
        let selection = selection(json!({"nodeNames": ["a", "b", "a"]})).unwrap();
        assert!(matches!(selection, Selection::Names(names) if names.len() == 2));
    }

    #[test]
    fn selector_rejects_what_kubernetes_rejects() {
        for (spec, says) in [
            (json!({}), "exactly one"),
            (json!({"allNodes": true, "nodeNames": ["a"]}), "exactly one"),
            (json!({"allNodes": true, "nodeSelector": {}}), "exactly one"),
            (json!({"allNodes": false}), "can only be true"),
            (json!({"nodeSelector": {}}), "replace nodeSelector: {} by allNodes: true"),
            (
                json!({"nodeSelector": {"matchLabels": {}, "matchExpressions": []}}),
                "replace nodeSelector: {} by allNodes: true",
            ),
            (json!({"nodeNames": []}), "empty"),
            (json!({"nodeNames": ["Node"]}), "not a node name"),
            (json!({"nodeNames": [""]}), "not a node name"),
            (expression("zone", "in", &["a"]), "operator \"in\""),
            (expression("zone", "In", &[]), "In on zone with 0 values"),
            (expression("zone", "Exists", &["a"]), "Exists on zone with 1 values"),
            (expression("-zone", "Exists", &[]), "not a label key"),
            (expression("zone", "In", &["a b"]), "not a label value"),
            (json!({"nodeSelector": {"matchLabels": {"a/b/c": "x"}}}), "not a label key"),
        ] {
            let error = selection(spec.clone()).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }

    #[test]
    fn selector_in_requirement_is_indexable() {
        let labels = |spec| {
            let selection = selection(spec).unwrap();
            selection.indexable_labels().map(|labels| labels.map(|(key, value)| format!("{key}={value}")).collect())
        };
        let by_value = labels(expression("zone", "In", &["a", "b"]));
        assert_eq!(by_value, Some(vec!["zone=a".to_owned(), "zone=b".to_owned()]));
        assert_eq!(labels(expression("zone", "NotIn", &["a"])), None::<Vec<_>>);
        assert_eq!(labels(json!({"allNodes": true})), None);
    }
}
