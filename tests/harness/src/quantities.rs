//! Whole quantities in every notation, and texts that are almost whole quantities.

use std::collections::BTreeSet;

const FRACTIONS: [&str; 3] = ["n", "u", "m"];
const SUFFIXES: [&str; 13] = ["", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The longest text that the CRD accepts.
const MAX_LENGTH: usize = 32;

const MALFORMED: [&str; 24] = [
    "", " 4", "4 ", "4\n", "+", "-", ".", "k", "Ti", ".Ti", "e3", "4K", "4ki", "4B", "4 k", "4e", "4e+", "4e1.5",
    "1_0", "1,0", "0x4", "--4", "4e2Ki", "\u{664}",
];

/// Returns those of the numbers from 1 to 8192 with every multiplying suffix.
pub fn multiples(is_one: impl Fn(u64) -> bool) -> impl Iterator<Item = String> {
    let numbers = (1..=8192).filter(move |number| is_one(*number));
    numbers.flat_map(|number| SUFFIXES.map(|suffix| format!("{number}{suffix}")))
}

/// Returns decimals, exponents and numbers near every bound, each in many notations.
#[must_use]
pub fn notations() -> Vec<String> {
    let mut texts: BTreeSet<String> = MALFORMED.map(str::to_owned).into();
    for suffix in FRACTIONS.into_iter().chain(SUFFIXES) {
        for whole in (0..=8).chain([15, 31, 62, 123, 1023, 1024, 8191, 8192]) {
            for fraction in [".", ".0", ".00", ".5", ".25", ".75", ".125", ".1", ".9999999999"] {
                texts.insert(format!("{whole}{fraction}{suffix}"));
            }
        }
    }
    for exponent in -20..=20 {
        for mantissa in ["1", "1.5", "0.001", ".5", "1024", "9223372036854775", "9.223372036854775"] {
            texts.insert(format!("{mantissa}e{exponent}"));
        }
    }
    for number in numbers() {
        texts.extend(spellings(number));
    }
    texts.into_iter().filter(|text| text.chars().count() <= MAX_LENGTH).collect()
}

/// Returns powers, the largest declarable quantity, the limits of 64 bits and of a float, and their neighbors.
fn numbers() -> BTreeSet<u128> {
    let twos = (0..=64).map(|power| 1 << power);
    let tens = (0..=20).map(|power| 10_u128.pow(power));
    let bounds = [9_223_372_036_854_775, i64::MAX.unsigned_abs().into(), 120 << 40, 3 << 51];
    let near = |number: u128| number.saturating_sub(2)..=number + 2;
    twos.chain(tens).chain(bounds).flat_map(near).collect()
}

/// Returns notations of a number, and fractions next to it.
fn spellings(number: u128) -> Vec<String> {
    let digits = number.to_string();
    let mut texts = vec![digits.clone(), format!("+{digits}"), format!("-{digits}")];
    texts.push(format!("00{digits}"));
    for end in [".", ".0", ".5", ".000000001", ".999999999", "e0", "e-0", "E+00", "000m", "500m"] {
        texts.push(format!("{digits}{end}"));
    }
    for (zeros, suffix) in [(3, "m"), (6, "u"), (9, "n"), (1, "e-1"), (5, "e-5"), (12, "e-012")] {
        texts.push(format!("{digits}{}{suffix}", "0".repeat(zeros)));
    }
    let suffixes = [(1, "e1"), (2, "E2"), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
    for (places, suffix) in suffixes {
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        texts.push(format!("{whole}.{fraction}{suffix}"));
        texts.push(format!("{whole}.{fraction}0{suffix}"));
    }
    texts
}
