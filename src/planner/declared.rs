//! The quantity that a rule declares: one for all nodes, or one that is read from each node.

mod checked;
mod table;

use std::fmt;
use std::sync::Arc;

use super::selector::{Requirement, Test};
use crate::model::api::{DeclaredQuantity, NodeExtendedResourceSpec, QuantityFrom, WhenMissing};
use crate::model::label::{excerpt, excerpt_of, is_qualified_name};
use crate::model::node::{Fact, Node};
use crate::model::quantity::{MAX_QUANTITY_LENGTH, Quantity};
pub use checked::InvalidQuantity;
use checked::{advertisable, quantity};
pub use table::Table;

/// The quantity of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// A whole number from 1 to [`crate::model::quantity::MAX_QUANTITY`], on every node.
    Fixed(Quantity),
    /// What each node says.
    Derived(Arc<Derivation>),
}

/// How a quantity is read from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derivation {
    fact: Fact,
    /// Why nothing is known of a node without the fact, and of one whose fact has not been read: one text for all nodes,
    /// because whoever writes rules chooses its length.
    absent: Arc<str>,
    unread: Arc<str>,
    /// How much of it messages quote. A status can be read by clients that may not read nodes.
    quote: Quote,
    /// Of a native resource.
    divisor: Option<Quantity>,
    /// Of a label.
    table: Option<Table>,
    min: Quantity,
    max: Quantity,
    default: Option<Quantity>,
    when_missing: WhenMissing,
}

/// How much of a text on a node messages quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    /// Nothing, of an annotation outside the domain of the resource: it may hold a secret.
    Nothing,
    /// A few characters.
    Beginning,
    /// A quantity.
    All,
}

/// How many characters of a label's value messages quote.
const QUOTED: usize = 10;

/// Quantities by the value of a label.
#[derive(Clone, Copy, Debug)]
pub struct ByLabel<'t> {
    /// The key of the label.
    pub key: &'t str,
    /// The quantities.
    pub table: &'t Table,
    /// The quantity of a node without the label, or with a value that is not in the table.
    pub default: Option<Quantity>,
}

/// The quantity that a rule declares on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnNode {
    /// This quantity.
    Known(Quantity),
    /// None: the rule declares nothing here.
    Nothing,
    /// It cannot be read: what is advertised stays. Why, without a period.
    Unknown(Arc<str>),
}

impl Declared {
    /// Checks the quantity of a rule.
    ///
    /// # Errors
    /// If the CRD's validation would reject it.
    pub fn new(spec: &NodeExtendedResourceSpec) -> Result<Self, InvalidQuantity> {
        match (&spec.quantity, &spec.quantity_from) {
            (Some(quantity), None) => Ok(Self::Fixed(advertisable("spec.quantity", quantity)?)),
            (None, Some(from)) => Ok(Self::Derived(Arc::new(Derivation::new(from, &spec.resource_name)?))),
            _ => Err(InvalidQuantity::NotOne),
        }
    }

    /// Returns the quantity on a node.
    #[must_use]
    pub fn on(&self, node: &Node) -> OnNode {
        match self {
            Self::Fixed(quantity) => OnNode::Known(*quantity),
            Self::Derived(derivation) => derivation.on(node),
        }
    }

    /// Returns the quantity on a node, if it is known.
    #[must_use]
    pub fn known_on(&self, node: &Node) -> Option<Quantity> {
        match self.on(node) {
            OnNode::Known(quantity) => Some(quantity),
            OnNode::Nothing | OnNode::Unknown(_) => None,
        }
    }

    /// Returns the quantity, if it is the same on all nodes.
    #[must_use]
    pub fn fixed(&self) -> Option<Quantity> {
        match self {
            Self::Fixed(quantity) => Some(*quantity),
            Self::Derived(_) => None,
        }
    }

    /// Returns the largest quantity that any node can get.
    #[must_use]
    pub fn most(&self) -> Quantity {
        match self {
            Self::Fixed(quantity) => *quantity,
            Self::Derived(derivation) => derivation.max,
        }
    }

    /// Returns where the quantity of a node comes from, if it is not the same on all.
    #[must_use]
    pub fn origin(&self) -> Option<String> {
        let Self::Derived(derivation) = self else { return None };
        let divided = derivation.divisor.map(|divisor| format!(" / {divisor}")).unwrap_or_default();
        let default = derivation.default.map(|default| format!(", by default {default}")).unwrap_or_default();
        Some(format!("{}{divided}{default}", derivation.fact))
    }

    /// Returns the key of a label, the quantities by its value, and the quantity of other nodes, if there is a table.
    #[must_use]
    pub fn by_label(&self) -> Option<ByLabel<'_>> {
        let Self::Derived(derivation) = self else { return None };
        let Derivation { fact: Fact::Label(key), table: Some(table), default, .. } = &**derivation else { return None };
        Some(ByLabel { key, table, default: *default })
    }

    /// Returns about how many bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let Self::Derived(derivation) = self else { return 0 };
        let texts = derivation.absent.len() + derivation.unread.len();
        texts + derivation.table.as_ref().map_or(0, Table::size)
    }

    /// Returns what the labels of a node must be, if it declares nothing on all others.
    pub(super) fn required_label(&self) -> Option<Requirement> {
        let Self::Derived(derivation) = self else { return None };
        let Derivation { fact: Fact::Label(key), table, default: None, when_missing: WhenMissing::None, .. } =
            &**derivation
        else {
            return None;
        };
        let values = |table: &Table| Test::In(table.values().map(str::to_owned).collect());
        Some(Requirement { key: key.to_string(), test: table.as_ref().map_or(Test::Exists, values) })
    }

    /// Returns what is read from nodes, if anything.
    #[must_use]
    pub fn fact(&self) -> Option<&Fact> {
        match self {
            Self::Fixed(_) => None,
            Self::Derived(derivation) => Some(&derivation.fact),
        }
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(quantity) => quantity.fmt(f),
            Self::Derived(derivation) => match derivation.divisor {
                Some(divisor) => write!(f, "the {} of the node, divided by {divisor}", derivation.fact),
                None if derivation.table.is_some() => write!(f, "a quantity for the {} of the node", derivation.fact),
                None => write!(f, "the quantity in the {} of the node", derivation.fact),
            },
        }
    }
}

impl Derivation {
    fn new(from: &QuantityFrom, declared: &str) -> Result<Self, InvalidQuantity> {
        let QuantityFrom { node_label, node_annotation, resource, max, min, default, when_missing } = from;
        let (fact, divisor) = match (node_label, node_annotation, resource) {
            (Some(label), None, None) => (Fact::Label(key(&label.key)?), None),
            (None, Some(annotation), None) => (Fact::Annotation(key(&annotation.key)?), None),
            (None, None, Some(resource)) => {
                if !is_native(&resource.name) {
                    return Err(InvalidQuantity::NotNative(excerpt(&resource.name)));
                }
                let divisor = quantity("spec.quantityFrom.resource.divisor", &resource.divisor)?;
                if divisor <= Quantity::from(0) {
                    return Err(InvalidQuantity::Divisor(divisor));
                }
                (Fact::Capacity(resource.name.as_str().into()), Some(divisor))
            }
            _ => return Err(InvalidQuantity::NotOneSource),
        };
        let quote = match &fact {
            Fact::Label(_) => Quote::Beginning,
            Fact::Annotation(key) if domain(key).is_some() && domain(key) == domain(declared) => Quote::Beginning,
            Fact::Annotation(_) => Quote::Nothing,
            Fact::Capacity(_) => Quote::All,
        };
        let bound =
            |name, bound: &Option<DeclaredQuantity>| bound.as_ref().map(|bound| advertisable(name, bound)).transpose();
        let default = bound("spec.quantityFrom.default", default)?;
        let table = node_label.as_ref().and_then(|label| label.values.as_ref()).map(Table::new).transpose()?;
        let max = match (bound("spec.quantityFrom.max", max)?, &table) {
            (Some(max), None) => max,
            (None, Some(table)) if min.is_none() => table.most().max(default.unwrap_or_default()),
            (None, Some(_)) => return Err(InvalidQuantity::MinOfTable),
            _ => return Err(InvalidQuantity::NotOneBound),
        };
        let min = bound("spec.quantityFrom.min", min)?.unwrap_or(Quantity::from(1));
        if min > max {
            return Err(InvalidQuantity::AboveMax("min"));
        }
        if default.is_some_and(|default| default > max) {
            return Err(InvalidQuantity::AboveMax("default"));
        }
        if default.is_some() && when_missing.is_some() {
            return Err(InvalidQuantity::DefaultAndWhenMissing);
        }
        let when_missing = when_missing.unwrap_or_default();
        let absent = format!("the node has no {fact}").into();
        let unread = format!("the {fact} has not been read yet").into();
        Ok(Self { fact, absent, unread, quote, divisor, table, min, max, default, when_missing })
    }

    fn on(&self, node: &Node) -> OnNode {
        let text = match node.fact(&self.fact) {
            Ok(text) => text,
            // Only a list of the nodes shows it.
            Err(_) => return OnNode::Unknown(Arc::clone(&self.unread)),
        };
        let Some(text) = text else { return self.missing(|| Arc::clone(&self.absent)) };
        if let Some(table) = &self.table {
            let missing = || self.missing(|| self.judged(text, "not in nodeLabel.values"));
            return table.get(text).map_or_else(missing, OnNode::Known);
        }
        let max = self.max;
        let unknown = |why: &str| OnNode::Unknown(self.judged(text, why));
        if text.chars().count() > MAX_QUANTITY_LENGTH {
            return unknown("too long for a quantity");
        }
        let Ok(amount) = text.parse::<Quantity>() else { return unknown("not a quantity") };
        if amount < Quantity::from(0) {
            return unknown("negative");
        }
        let quantity = match self.divisor {
            Some(divisor) => amount.whole_quotient(divisor),
            None if amount.whole().is_none() => return unknown("not a whole number"),
            None => amount,
        };
        if quantity > max {
            let more = if self.divisor.is_some() { format!("{quantity} of its units, ") } else { String::new() };
            return unknown(&format!("{more}more than max, {max}"));
        }
        if quantity < self.min {
            return self.missing(|| self.judged(text, &format!("too little for min, {}", self.min)));
        }
        OnNode::Known(quantity)
    }

    /// Returns what is wrong with a text on a node.
    fn judged(&self, text: &str, why: &str) -> Arc<str> {
        let fact = &self.fact;
        let quoted = match self.quote {
            Quote::Nothing => return format!("the {fact} is {why}").into(),
            Quote::Beginning => excerpt_of(text, QUOTED),
            Quote::All => excerpt(text),
        };
        format!("the {fact} is \"{quoted}\", which is {why}").into()
    }

    fn missing(&self, why: impl FnOnce() -> Arc<str>) -> OnNode {
        match (self.default, self.when_missing) {
            (Some(default), _) => OnNode::Known(default),
            (None, WhenMissing::Keep) => OnNode::Unknown(why()),
            (None, WhenMissing::None) => OnNode::Nothing,
        }
    }
}

/// Returns the part before the slash.
fn domain(name: &str) -> Option<&str> {
    name.split_once('/').map(|(domain, _)| domain)
}

/// Returns the key of a label or annotation that is not the controller's own.
fn key(key: &str) -> Result<Arc<str>, InvalidQuantity> {
    let is_own = key.split_once('/').is_some_and(|(domain, _)| domain == crate::model::api::GROUP);
    match is_qualified_name(key) && !is_own {
        true => Ok(key.into()),
        false => Err(InvalidQuantity::Key(excerpt(key))),
    }
}

/// Returns whether no rule can declare the resource.
fn is_native(name: &str) -> bool {
    let is_size = |size: &str| {
        let unit = size.trim_start_matches(|digit: char| digit.is_ascii_digit());
        ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].contains(&unit) && !size.starts_with('0') && unit.len() < size.len()
    };
    ["cpu", "memory", "ephemeral-storage", "pods"].contains(&name)
        || name.strip_prefix("hugepages-").is_some_and(is_size)
}
