//! Kubernetes' quantity library for CEL (`k8s.io/apiserver/pkg/cel/library/quantity.go`), as far as the CRD uses it.
//!
//! Numbers are exact, as [`Quantity`]. `asApproximateFloat` is as close to the number as in Kubernetes, but may be a
//! different float.

use std::any::Any;
use std::cmp::Ordering;

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use crate::model::quantity::{ParseQuantityError, Quantity};

static TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");

/// A quantity in CEL, ordered by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Amount {
    BelowAll,
    Exactly(Quantity),
    /// More than a [`Quantity`] holds, which is far more than can be advertised.
    AboveAll,
}

/// Registers the functions.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(TYPE.to_owned())?;
    cel::add_overload!(env, fn quantity: (CelString) -> Result<Amount>)?;
    cel::add_member_overload!(env, fn as_approximate_float: (Amount) -> CelDouble)?;
    cel::add_member_overload!(env, fn is_greater_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Amount, Amount) -> CelInt)?;
    cel::add_member_overload!(env, fn sub: (Amount, CelInt) -> Amount)?;
    Ok(())
}

fn quantity(text: &CelString<'_>) -> Result<Amount, ExecutionError> {
    Amount::parse(text).map_err(|error| ExecutionError::function_error("quantity", error))
}

fn as_approximate_float(this: &Amount) -> CelDouble {
    this.float().into()
}

fn is_greater_than(this: &Amount, other: &Amount) -> CelBool {
    (this > other).into()
}

fn compare_to(this: &Amount, other: &Amount) -> CelInt {
    let order = match this.cmp(other) {
        Ordering::Less => -1_i64,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    order.into()
}

fn sub(this: &Amount, units: &CelInt) -> Amount {
    match this {
        Amount::Exactly(quantity) => Amount::Exactly(quantity.saturating_add(Quantity::from(units.saturating_neg()))),
        beyond => *beyond,
    }
}

impl Amount {
    fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        match text.parse() {
            Ok(quantity) => Ok(Self::Exactly(quantity)),
            Err(ParseQuantityError::OutOfRange(_)) if text.starts_with('-') => Ok(Self::BelowAll),
            Err(ParseQuantityError::OutOfRange(_)) => Ok(Self::AboveAll),
            Err(error) => Err(error),
        }
    }

    fn float(&self) -> f64 {
        match self {
            Self::BelowAll => f64::NEG_INFINITY,
            Self::Exactly(quantity) => quantity.nanos() as f64 / 1e9,
            Self::AboveAll => f64::INFINITY,
        }
    }
}

impl Val for Amount {
    fn get_type(&self) -> &Type {
        &TYPE
    }

    fn cel_type() -> &'static Type {
        &TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Amount {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cel_quantities_compare_exactly_beyond_bounds() {
        let number = |text: &str| Amount::parse(text).unwrap();
        let order = |one: &str, other: &str| number(one).cmp(&number(other));
        assert_eq!(order("1Ki", "1024"), Ordering::Equal);
        assert_eq!(order("4503599627370497.5", "4503599627370497"), Ordering::Greater);
        assert_eq!(order("1e99", "10E"), Ordering::Greater);
        assert_eq!(order("-1e99", "-10E"), Ordering::Less);
        assert_eq!(order("1e99", "1e98"), Ordering::Equal, "both are beyond what is kept");
        assert!(Amount::parse("4 dongles").is_err());
    }

    #[test]
    fn cel_quantity_as_float_is_approximate() {
        for (text, float) in
            [("4.0", 4.0), ("1.5Gi", 1.5 * f64::from(1 << 30)), ("4000m", 4.0), ("1n", 1e-9), ("-2", -2.0)]
        {
            let found = Amount::parse(text).unwrap().float();
            assert!((found - float).abs() <= float.abs() * 1e-15, "{text}: {found}");
        }
        assert_eq!(Amount::parse("1e99").unwrap().float(), f64::INFINITY);
    }
}
