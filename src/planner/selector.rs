//! The node selection of a rule.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

use crate::model::api::{MAX_NAMES, MAX_NAMES_LENGTH, MAX_REQUIREMENTS, MAX_VALUES, MAX_VALUES_LENGTH};
use crate::model::label;
use crate::model::node::Node;

/// What a node name or a label's value takes besides its text, in bytes, with its place in an index.
const ITEM_SIZE: usize = 192;

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
    /// More names than one rule may have, or longer ones.
    #[error(
        "nodeNames holds {0} names of {1} characters together, and at most {MAX_NAMES} of {MAX_NAMES_LENGTH} are allowed: \
         select the nodes by a label"
    )]
    TooManyNames(usize, usize),
    /// More requirements than one selector may have, or more or longer values.
    #[error(
        "nodeSelector is too large: at most {MAX_REQUIREMENTS} labels and as many expressions are allowed, with {MAX_VALUES} \
         values each that have {MAX_VALUES_LENGTH} characters together"
    )]
    TooManyRequirements,
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
        let length = names.iter().map(String::len).sum();
        if names.len() > MAX_NAMES || length > MAX_NAMES_LENGTH {
            return Err(InvalidSelection::TooManyNames(names.len(), length));
        }
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
        let (labels, expressions) = (selector.match_labels.iter().flatten(), selector.match_expressions.as_deref());
        let expressions = expressions.unwrap_or_default();
        let values = expressions.iter().filter_map(|expression| expression.values.as_deref());
        let length: usize = values.clone().flatten().map(String::len).sum();
        if labels.count() > MAX_REQUIREMENTS
            || expressions.len() > MAX_REQUIREMENTS
            || values.clone().any(|values| values.len() > MAX_VALUES)
            || length > MAX_VALUES_LENGTH
        {
            return Err(InvalidSelection::TooManyRequirements);
        }
        let equalities = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::new(key, "In", std::slice::from_ref(value)));
        let expressions = expressions.iter().map(|LabelSelectorRequirement { key, operator, values }| {
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

    /// Returns about how many bytes it takes, with its place in the index of a set of rules.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Names(names) => names.iter().map(|name| ITEM_SIZE + name.len()).sum(),
            Self::Labels(requirements) => requirements.iter().map(Requirement::size).sum(),
            Self::All => 0,
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

    fn size(&self) -> usize {
        let values = match &self.test {
            Test::In(values) | Test::NotIn(values) => values.iter(),
            Test::Exists | Test::DoesNotExist => return ITEM_SIZE + self.key.len(),
        };
        ITEM_SIZE + self.key.len() + values.map(|value| ITEM_SIZE + 2 * value.len()).sum::<usize>()
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

    /// Returns whether a label with this value, or its absence, is as required. As in Kubernetes, a node without the label
    /// meets `NotIn`.
    #[must_use]
    pub fn is_met_by(&self, value: Option<&str>) -> bool {
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
mod tests;
