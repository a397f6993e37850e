//! Kubernetes quantities (`4`, `1.5Gi`, `500m`, `1e3`), with exact arithmetic.
//!
//! The grammar, the rounding and the canonical form are those of `ParseQuantity` and
//! `CanonicalizeBytes` in `k8s.io/apimachinery/pkg/api/resource`; `tests/oracle` compares the two.

pub(crate) mod text;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::model::label::excerpt;

/// The largest quantity that can be declared. The API server validates the thousandths of an extended resource in 64
/// bits, so larger quantities overflow there (`ValidateNodeResources` and `Quantity.MilliValue` in Kubernetes).
pub const MAX_QUANTITY: i64 = i64::MAX / 1000;

/// The maximum length of a declared quantity: enough for the 16 digits of [`MAX_QUANTITY`] in every notation, such as
/// `0.009223372036854775E`.
pub const MAX_QUANTITY_LENGTH: usize = 32;

const NANOS_PER_UNIT: u128 = 1_000_000_000;

/// The largest magnitude that Kubernetes keeps of a number with a binary suffix.
const BINARY_CAP: u128 = i64::MAX as u128 * NANOS_PER_UNIT;

/// From 10^-9, each a thousand times the previous one.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// From 2^0, each 1024 times the previous one. The empty suffix is written, but parsed as decimal.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The notation of a quantity.
#[derive(Clone, Copy, Debug)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// An amount of a resource: an exact number of billionths, and the notation it was written in.
///
/// Holds up to `i128::MAX` billionths either way, which is about ±1.7 × 10^29. Two quantities are
/// equal if their numbers are: `1Ki` equals `1024`. [`Display`](fmt::Display) gives the canonical
/// form.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is not a [`Quantity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text is empty.
    #[error("the quantity is empty: write a number, such as 4")]
    Empty,
    /// The text does not start with a number.
    #[error(r#""{0}" is not a number: write digits, such as 4, 1.5Gi or 500m"#)]
    NotANumber(String),
    /// Something other than a suffix or an exponent follows the number.
    #[error(r#""{input}" ends in "{suffix}", which is no suffix of a quantity: {hint}"#)]
    UnknownSuffix {
        /// The whole text.
        input: String,
        /// What follows the number.
        suffix: String,
        /// The correct form.
        hint: &'static str,
    },
    /// The number is too large, or an exponent is not a 32-bit integer. Kubernetes accepts some of these, and takes
    /// minutes or gets the number wrong.
    #[error(r#""{0}" is out of range: write a number below 1.7e29, with a shorter exponent if any"#)]
    OutOfRange(String),
}

impl Quantity {
    /// Returns whether the amount is 0.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Returns the amount in billionths.
    #[must_use]
    pub const fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Returns the amount as a whole number of units, or `None` if it has a fraction.
    ///
    /// Kubernetes requires a whole number for an extended resource
    /// (`ValidateResourceQuantityValue` in `k8s.io/kubernetes/pkg/apis/core/validation`).
    #[must_use]
    pub const fn whole(&self) -> Option<i128> {
        let unit = NANOS_PER_UNIT.cast_signed();
        if self.nanos % unit == 0 { Some(self.nanos / unit) } else { None }
    }

    /// Returns the smallest whole number of units that is not less.
    #[must_use]
    pub const fn ceil(self) -> Self {
        let unit = NANOS_PER_UNIT.cast_signed();
        match self.nanos.rem_euclid(unit) {
            0 => self,
            rest => Self { nanos: self.nanos.saturating_add(unit - rest), ..self },
        }
    }

    /// Returns how many times `divisor`, which is more than 0, fits into the amount; 0 for anything else.
    #[must_use]
    pub const fn whole_quotient(self, divisor: Self) -> Self {
        let whole = if divisor.nanos > 0 && self.nanos > 0 { self.nanos / divisor.nanos } else { 0 };
        let unit = NANOS_PER_UNIT.cast_signed();
        Self { nanos: whole.saturating_mul(unit), format: Format::DecimalSi }
    }

    /// Returns the sum, in the notation of the larger quantity; at most what a [`Quantity`] holds.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        let larger = self.max(other);
        Self { nanos: self.nanos.saturating_add(other.nanos), ..larger }
    }

    /// Returns the difference, in the notation of this quantity; at least what a [`Quantity`] holds.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }

    /// Returns the sum of `count` such quantities; at most what a [`Quantity`] holds.
    #[must_use]
    pub fn saturating_mul(self, count: usize) -> Self {
        let count = i128::try_from(count).unwrap_or(i128::MAX);
        Self { nanos: self.nanos.saturating_mul(count), ..self }
    }
}

impl Quantity {
    /// Returns the same amount in the notation of another quantity.
    #[must_use]
    pub const fn in_notation_of(self, other: Self) -> Self {
        Self { format: other.format, ..self }
    }

    /// Returns the closest number of units that a float holds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
    pub const fn to_float(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }
}

impl Default for Quantity {
    /// Returns 0.
    fn default() -> Self {
        Self::from(0)
    }
}

impl From<i64> for Quantity {
    /// Returns a number of units, with a decimal suffix.
    fn from(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS_PER_UNIT.cast_signed(), format: Format::DecimalSi }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    /// Parses what Kubernetes parses, in time linear in the length of the text.
    ///
    /// A fraction of a billionth is rounded away from zero, and a number with a binary suffix is
    /// capped at ±(2^63 - 1), as in Kubernetes.
    ///
    /// # Errors
    ///
    /// [`ParseQuantityError`] describes the problem. Only `OutOfRange` is stricter than Kubernetes.
    fn from_str(input: &str) -> Result<Self, Self::Err> {
        if input.is_empty() {
            return Err(ParseQuantityError::Empty);
        }
        let unsigned = input.strip_prefix(['+', '-']).unwrap_or(input);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        let digitless = whole.is_empty() && fraction.is_empty();

        // Kubernetes parses a number without digits (`k`, `.Gi`) as 0, but only on its fast path.
        let fast = |unit: &Unit| unit.ten.is_none_or(|ten| ten >= -9) && unit.two <= 40;
        let unit = Unit::parse(suffix).filter(|unit| !digitless || fast(unit));
        let unit = unit.ok_or_else(|| {
            if digitless {
                return ParseQuantityError::NotANumber(excerpt(input));
            }
            ParseQuantityError::UnknownSuffix { input: excerpt(input), suffix: excerpt(suffix), hint: hint(suffix) }
        })?;

        let mut format = unit.format;
        let mut magnitude = nanos(whole, fraction, &unit);
        if matches!(format, Format::BinarySi) {
            let capped = magnitude.map_or(BINARY_CAP, |nanos| nanos.min(BINARY_CAP));
            if capped < NANOS_PER_UNIT {
                format = Format::DecimalSi;
            }
            magnitude = Some(capped);
        }
        let nanos = magnitude
            .and_then(|nanos| i128::try_from(nanos).ok())
            .ok_or_else(|| ParseQuantityError::OutOfRange(excerpt(input)))?;
        let sign = if input.starts_with('-') { -1 } else { 1 };
        Ok(Self { nanos: sign * nanos, format })
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix without a fraction.
    ///
    /// One difference: Kubernetes drops the suffix of a multiple of 10^21, so that its `1000E`
    /// becomes `1`; here it stays `1000E`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        if let (Format::BinarySi, Some(units)) = (self.format, self.whole())
            && units.abs() >= 1024
        {
            let (mantissa, steps) = divide_out(units, 1024, BINARY_SUFFIXES.len() - 1);
            return write!(f, "{mantissa}{}", BINARY_SUFFIXES[steps]);
        }
        if matches!(self.format, Format::DecimalExponent) {
            return match divide_out(self.nanos, 1000, usize::MAX) {
                (mantissa, 3) => write!(f, "{mantissa}"),
                (mantissa, steps @ 0..3) => write!(f, "{mantissa}e-{}", 9 - 3 * steps),
                (mantissa, steps) => write!(f, "{mantissa}e{}", 3 * steps - 9),
            };
        }
        let (mantissa, steps) = divide_out(self.nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
        write!(f, "{mantissa}{}", DECIMAL_SUFFIXES[steps])
    }
}

/// Divides a nonzero number by `factor` while nothing remains, at most `limit` times; also returns the number of
/// divisions.
fn divide_out(mut number: i128, factor: i128, limit: usize) -> (i128, usize) {
    let mut steps = 0;
    while steps < limit && number % factor == 0 {
        number /= factor;
        steps += 1;
    }
    (number, steps)
}

/// The value of a suffix: 10^`ten` × 2^`two`.
struct Unit {
    format: Format,
    /// `None` for an exponent beyond `i32`.
    ten: Option<i32>,
    two: u32,
}

impl Unit {
    fn parse(suffix: &str) -> Option<Self> {
        let unit = |format, ten, two| Some(Self { format, ten, two });
        let mut decimal = DECIMAL_SUFFIXES.into_iter().zip((-9..).step_by(3));
        if let Some((_, ten)) = decimal.find(|known| known.0 == suffix) {
            return unit(Format::DecimalSi, Some(ten), 0);
        }
        let mut binary = BINARY_SUFFIXES.into_iter().zip((0..).step_by(10));
        if let Some((_, two)) = binary.find(|known| known.0 == suffix) {
            return unit(Format::BinarySi, Some(0), two);
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        unit(Format::DecimalExponent, exponent.parse().ok(), 0)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Returns the billionths in `whole.fraction` × `unit`, rounded up; `None` if they exceed `u128`, or if the exponent,
/// or that of the last digit, exceeds `i32`.
fn nanos(whole: &str, fraction: &str, unit: &Unit) -> Option<u128> {
    let ten = i64::from(unit.ten?);
    let written = [whole, fraction].concat();
    let digits = written.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    if ten - i64::try_from(fraction.len()).ok()? < i64::from(i32::MIN) {
        return None; // Kubernetes wraps around: 0.5e-2147483648 is 5e2147483647.
    }
    // The number is 0.`digits` × 10^`point` × 2^`two`, and the first digit is not 0.
    let leading_zeros = written.len() - digits.len();
    let point = ten + i64::try_from(whole.len()).ok()? - i64::try_from(leading_zeros).ok()?;
    if point > 30 {
        return None;
    }
    let split = usize::try_from(point).unwrap_or(0).min(digits.len());
    let (before, after) = digits.as_bytes().split_at(split);
    let nanos_per_one = NANOS_PER_UNIT << unit.two;

    let digit = |byte: &u8| u128::from(byte - b'0');
    let mut ones = before.iter().fold(0, |sum, byte| sum * 10 + digit(byte));
    for _ in i64::try_from(before.len()).ok()?..point {
        ones *= 10;
    }
    // From the last digit to the first, so that everything below a billionth counts.
    let mut below = 0;
    let mut remainder = false;
    let mut shift_in = |digit: u128| {
        let sum = digit * nanos_per_one + below;
        remainder |= !sum.is_multiple_of(10);
        below = sum / 10;
    };
    after.iter().rev().map(digit).for_each(&mut shift_in);
    // `below` has fewer than 40 digits, so more leading zeros do not change it.
    (point.max(-40)..0).for_each(|_| shift_in(0));

    ones.checked_mul(nanos_per_one)?.checked_add(below + u128::from(remainder))
}

fn hint(suffix: &str) -> &'static str {
    let unit = suffix.trim().to_ascii_lowercase();
    match unit.trim_end_matches('b').trim_end_matches('i') {
        "k" => "did you mean k (1000) or Ki (1024)?",
        "m" => "did you mean M (10^6) or Mi (2^20)?",
        "g" => "did you mean G (10^9) or Gi (2^30)?",
        "t" => "did you mean T (10^12) or Ti (2^40)?",
        "p" => "did you mean P (10^15) or Pi (2^50)?",
        "e" => "did you mean E (10^18), Ei (2^60) or an exponent, such as e3?",
        "" => "leave it out",
        _ => "write n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent, such as e3",
    }
}

#[cfg(test)]
mod tests;
