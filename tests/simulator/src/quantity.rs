//! Quantities as the API server reads and writes them, as far as they are whole numbers.

/// From 10^3 on, each a thousand times the one before.
const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
/// From 2^10 on, each 1024 times the one before.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A whole number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    units: i128,
    is_binary: bool,
}

impl Quantity {
    /// Reads digits with a sign and a suffix; `None` is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
        let (digits, suffix) = text.split_at(end);
        let number: i128 = digits.parse().ok()?;
        let power = |list: &[&str], base: i128| {
            let at = list.iter().position(|other| *other == suffix)?;
            base.checked_pow(u32::try_from(at).ok()? + 1)
        };
        let (scale, is_binary) = match suffix {
            "" => (1, false),
            _ => match power(&DECIMAL, 1000) {
                Some(scale) => (scale, false),
                None => (power(&BINARY, 1024)?, true),
            },
        };
        Some(Self { units: number.checked_mul(scale)?, is_binary })
    }

    pub(crate) fn is_negative(self) -> bool {
        self.units < 0
    }

    /// The text that is stored.
    pub(crate) fn canonical(self) -> String {
        let (base, suffixes) = if self.is_binary && self.units.abs() >= 1024 {
            (1024, BINARY)
        } else {
            (1000, DECIMAL)
        };
        let (mut number, mut suffix) = (self.units, "");
        for next in suffixes {
            if number == 0 || number % base != 0 {
                break;
            }
            (number, suffix) = (number / base, next);
        }
        format!("{number}{suffix}")
    }
}
