//! Quantities as the API server reads and writes them: `k8s.io/apimachinery/pkg/api/resource`.

/// Decimal suffixes, with their power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// Binary suffixes, with their power of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Numbers with more digits use other arithmetic, which does not preserve the notation.
const MAX_DIGITS: i32 = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    /// With an exponent, such as `1e3`.
    Exponent,
}

/// A number of units: `mantissa` × 10^`scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    mantissa: i128,
    scale: i32,
    format: Format,
    /// Whether the server uses 64-bit arithmetic for the number.
    is_small: bool,
    /// The original text, if it is stored as is.
    text: Option<String>,
}

/// The parts of a text.
struct Parts<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl Quantity {
    /// Parses a quantity; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let zero = Self { mantissa: 0, scale: 0, format: Format::Decimal, is_small: true, text: None };
        if text == "0" {
            return Some(zero);
        }
        let parts = split(text)?;
        let (exponent, format) = interpret(parts.suffix)?;
        let places = i32::try_from(parts.fraction.len()).ok()?;
        let length = i32::try_from(parts.whole.len()).ok()? + places;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let number: i128 = digits.parse().ok()?;
        let (mut mantissa, scale, precision) = match format {
            Format::Binary => {
                let bits = u32::try_from(exponent).ok()?;
                // The approximate number of digits of a power of two.
                let spent = (exponent * 3) / 10;
                let precision = if places == 0 { 15 - length - spent - 1 } else { -1 };
                (number.checked_mul(1_i128.checked_shl(bits)?)?, -places, precision)
            }
            _ => (number, exponent - places, MAX_DIGITS - length),
        };
        if parts.is_negative {
            mantissa = -mantissa;
        }
        let is_small = precision >= 0 && scale >= -9 && i64::try_from(mantissa).is_ok();
        let as_written = is_small
            && match format {
                Format::Binary => exponent % 10 == 0 && number & 7 != 0,
                _ => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
            };
        let mut quantity = Self { mantissa, scale, format, is_small, text: as_written.then(|| text.to_owned()) };
        if !is_small {
            quantity.round_up(-9);
            if format == Format::Binary {
                let max = i128::from(i64::MAX);
                if quantity.scale >= 0 && quantity.mantissa.abs() > max {
                    quantity.mantissa = max * quantity.mantissa.signum();
                }
            }
        }
        // Kubernetes rounds values in a list of resources up to thousandths.
        quantity.round_up(-3);
        Some(quantity)
    }

    /// Rounds up to a multiple of 10^`scale`, away from zero.
    fn round_up(&mut self, scale: i32) {
        if self.scale >= scale {
            return;
        }
        self.text = None;
        while self.scale < scale {
            // Rounding step by step would lose a remainder, so round all digits at once.
            let steps = u32::try_from(scale - self.scale).unwrap_or(u32::MAX).min(38);
            let power = 10_i128.checked_pow(steps).unwrap_or(i128::MAX);
            let rest = self.mantissa % power;
            self.mantissa = self.mantissa / power + if rest == 0 { 0 } else { rest.signum() };
            self.scale += i32::try_from(steps).unwrap_or(38);
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.mantissa < 0
    }

    /// Returns the number of units; `None` if it is not whole, or out of range.
    pub(crate) fn units(&self) -> Option<i128> {
        match u32::try_from(self.scale) {
            Ok(zeros) => self.mantissa.checked_mul(10_i128.checked_pow(zeros)?),
            Err(_) => {
                let power = 10_i128.checked_pow(self.scale.unsigned_abs())?;
                (self.mantissa % power == 0).then_some(self.mantissa / power)
            }
        }
    }

    /// Returns whether the server considers it whole, from a number of thousandths that may overflow.
    pub(crate) fn is_whole(&self) -> bool {
        let steps = u32::try_from(self.scale + 3).unwrap_or(0);
        let power = 10_i128.checked_pow(steps);
        let thousandths = power.and_then(|power| self.mantissa.checked_mul(power));
        match thousandths.map(i64::try_from) {
            Some(Ok(number)) => number % 1000 == 0,
            // With 64-bit arithmetic, stepwise multiplication turns an overflow into 0.
            _ if self.is_small && !matches!(steps, 0..=3 | 6 | 9) => true,
            _ => {
                let power = 10_i64.checked_pow(steps).unwrap_or(0);
                wrapped(self.mantissa).wrapping_mul(power) % 1000 == 0
            }
        }
    }

    /// The text that is stored.
    pub(crate) fn canonical(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        if self.format == Format::Binary
            && let Some(text) = self.binary()
        {
            return text;
        }
        let (mut number, mut exponent) = (self.mantissa, self.scale);
        while number % 10 == 0 {
            (number, exponent) = (number / 10, exponent + 1);
        }
        while exponent % 3 != 0 {
            (number, exponent) = (number * 10, exponent - 1);
        }
        let suffix = match self.format {
            Format::Exponent if exponent == 0 => String::new(),
            Format::Exponent => format!("e{exponent}"),
            _ => {
                let suffix = DECIMAL.iter().find(|(_, other)| *other == exponent);
                suffix.map_or("", |(suffix, _)| suffix).to_owned()
            }
        };
        format!("{number}{suffix}")
    }

    /// Formats with a binary suffix, if it is a whole number from 1024 on.
    fn binary(&self) -> Option<String> {
        let mut whole = self.clone();
        whole.round_up(0);
        let power = 10_i128.checked_pow(u32::try_from(whole.scale).ok()?)?;
        let mut number = whole.mantissa.checked_mul(power)?;
        let back = 10_i128.checked_pow(u32::try_from(-self.scale).unwrap_or(0))?;
        let is_exact = self.scale >= 0 || number.checked_mul(back)? == self.mantissa;
        if number.abs() < 1024 || !is_exact {
            return None;
        }
        let mut suffix = "";
        for (next, _) in BINARY {
            if number % 1024 != 0 {
                break;
            }
            (number, suffix) = (number / 1024, next);
        }
        Some(format!("{number}{suffix}"))
    }
}

/// Returns the low 64 bits, like a conversion in Go.
fn wrapped(number: i128) -> i64 {
    let bytes = number.to_le_bytes();
    let mut low = [0; 8];
    low.copy_from_slice(&bytes[..8]);
    i64::from_le_bytes(low)
}

/// Splits a text like the server's scanner, which ends early after a number of only zeros.
fn split(text: &str) -> Option<Parts<'_>> {
    let (is_negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let rest = rest.trim_start_matches('0');
    if rest.is_empty() {
        return Some(Parts { is_negative: false, whole: "0", fraction: "", suffix: "" });
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = rest.split_at(digits(rest));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    Some(Parts { is_negative, whole, fraction, suffix })
}

fn interpret(suffix: &str) -> Option<(i32, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(other, _)| *other == suffix) {
        return Some((*exponent, Format::Decimal));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(other, _)| *other == suffix) {
        return Some((i32::try_from(*exponent).ok()?, Format::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((exponent.parse().ok()?, Format::Exponent))
}
