//! Kubernetes' quantity library for CEL (`k8s.io/apiserver/pkg/cel/cel/quantity.go`), as far as the
//! CRD uses it.
//!
//! The numbers are exact, by [`Quantity`]. `isInteger` and `asApproximateFloat` are not properties of
//! the number in Kubernetes: they tell how its parser happened to store it, and so does [`Amount`].

use std::any::Any;
use std::cmp::Ordering;

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use crate::model::quantity::{ParseQuantityError, Quantity};

static TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");

/// A quantity in CEL.
#[derive(Clone, Copy, Debug)]
struct Amount {
    number: Number,
    stored: Option<Stored>,
}

/// In the order of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Number {
    BelowAll,
    Exactly(Quantity),
    /// More than is kept here, which is far more than can be advertised.
    AboveAll,
}

/// An `int64Amount`: the value times ten to the scale. `ParseQuantity` falls back to big decimals
/// for long numbers, and for binary suffixes on fractions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    value: i64,
    scale: i32,
}

/// Registers the functions.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(TYPE.to_owned())?;
    cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    cel::add_overload!(env, fn quantity: (CelString) -> Result<Amount>)?;
    cel::add_member_overload!(env, fn is_integer: (Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn as_approximate_float: (Amount) -> CelDouble)?;
    cel::add_member_overload!(env, fn is_greater_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Amount, Amount) -> CelInt)?;
    Ok(())
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    Amount::parse(text).is_ok().into()
}

fn quantity(text: &CelString<'_>) -> Result<Amount, ExecutionError> {
    Amount::parse(text).map_err(|error| ExecutionError::function_error("quantity", error))
}

fn is_integer(this: &Amount) -> CelBool {
    this.stored.and_then(Stored::whole).is_some().into()
}

fn as_approximate_float(this: &Amount) -> CelDouble {
    this.float().into()
}

fn is_greater_than(this: &Amount, other: &Amount) -> CelBool {
    (this.number > other.number).into()
}

fn is_less_than(this: &Amount, other: &Amount) -> CelBool {
    (this.number < other.number).into()
}

fn compare_to(this: &Amount, other: &Amount) -> CelInt {
    let order = match this.number.cmp(&other.number) {
        Ordering::Less => -1_i64,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    order.into()
}

impl Amount {
    fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        let number = match text.parse() {
            Ok(quantity) => Number::Exactly(quantity),
            Err(ParseQuantityError::OutOfRange(_)) if text.starts_with('-') => Number::BelowAll,
            Err(ParseQuantityError::OutOfRange(_)) => Number::AboveAll,
            Err(error) => return Err(error),
        };
        Ok(Self { number, stored: Stored::parse(text) })
    }

    /// `AsApproximateFloat64`
    fn float(&self) -> f64 {
        match (self.stored, self.number) {
            (Some(Stored { value, scale }), _) => value as f64 * power_of_ten(scale),
            (None, Number::Exactly(quantity)) => quantity.nanos() as f64 * power_of_ten(-9),
            (None, Number::BelowAll) => f64::NEG_INFINITY,
            (None, Number::AboveAll) => f64::INFINITY,
        }
    }
}

/// The float nearest to a power of ten, as Go's `math.Pow10` has it.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::NAN)
}

impl Stored {
    /// The fast path of `ParseQuantity`; `None` where it does not take it.
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches('0');
        let after_digits = unsigned.trim_start_matches(|char: char| char.is_ascii_digit());
        let whole = unsigned.strip_suffix(after_digits)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        let fraction = after_digits.strip_prefix('.').unwrap_or_default();
        let suffix = match after_digits.strip_prefix('.') {
            Some(rest) => rest.trim_start_matches(|char: char| char.is_ascii_digit()),
            None => after_digits,
        };
        let fraction = fraction.strip_suffix(suffix).unwrap_or_default();
        let digits = i32::try_from(whole.len() + fraction.len()).ok()?;
        let negative = text.starts_with('-');
        let signed = |value: i64| if negative { -value } else { value };

        if let Some(two) = binary_exponent(suffix) {
            let precision = 15 - digits - two * 3 / 10 - 1;
            if !fraction.is_empty() || precision < 0 {
                return None;
            }
            let value =
                whole.parse::<i64>().ok()?.checked_mul(1_i64.checked_shl(two.cast_unsigned())?)?;
            return Some(Self { value: signed(value), scale: 0 });
        }
        let scale = decimal_exponent(suffix)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        if digits > 18 || scale < -9 {
            return None;
        }
        let value = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { value: signed(value), scale })
    }

    /// `AsInt64`: `None` where there are decimal places, even if they are 0, and where 64 bits do
    /// not hold it.
    fn whole(self) -> Option<i64> {
        let scale = u32::try_from(self.scale).ok()?;
        if self.value == 0 {
            return Some(0);
        }
        self.value.checked_mul(10_i64.checked_pow(scale)?)
    }
}

fn binary_exponent(suffix: &str) -> Option<i32> {
    let place = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix)?;
    i32::try_from(10 * (place + 1)).ok()
}

fn decimal_exponent(suffix: &str) -> Option<i32> {
    let known = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = known.iter().position(|known| *known == suffix) {
        return i32::try_from(place).ok().map(|place| 3 * place - 9);
    }
    suffix.strip_prefix(['e', 'E'])?.parse().ok()
}

impl Val for Amount {
    fn get_type(&self) -> &Type {
        &TYPE
    }

    fn cel_type() -> &'static Type {
        &TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self.number == other.number)
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
    fn cel_is_integer_matches_kubernetes() {
        for (text, whole) in [
            ("4", Some(4)),
            ("-4", Some(-4)),
            ("004", Some(4)),
            ("0", Some(0)),
            ("800Gi", Some(800 << 30)),
            ("0.5k", Some(500)),
            ("1e3", Some(1000)),
            ("1E3", Some(1000)),
            ("1k", Some(1000)),
            ("9E", Some(9_000_000_000_000_000_000)),
            // Whole, and not told so.
            ("1.5Gi", None),
            ("4.0", None),
            ("4000m", None),
            ("1e-0", Some(1)),
            ("4503599627370497.0", None),
            ("1000000000000000000", None),
            // Not whole, or too large.
            ("0.5", None),
            ("10E", None),
            ("8Ei", None),
            ("1e99", None),
            ("x", None),
        ] {
            assert_eq!(Stored::parse(text).and_then(Stored::whole), whole, "{text}");
        }
    }

    #[test]
    fn cel_quantities_compare_exactly_beyond_bounds() {
        let number = |text: &str| Amount::parse(text).unwrap().number;
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
        for (text, float) in [
            ("4.0", 4.0),
            ("1.5Gi", 1.5 * f64::from(1 << 30)),
            ("4000m", 4.0),
            ("1n", 1e-9),
            ("-2", -2.0),
            ("1e99", 1e99),
        ] {
            let found = Amount::parse(text).unwrap().float();
            assert!((found - float).abs() <= float.abs() * 1e-15, "{text}: {found}");
        }
    }
}
