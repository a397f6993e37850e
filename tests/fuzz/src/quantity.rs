//! Quantities, compared with arithmetic on big integers and with Kubernetes' own parser.

use std::cell::RefCell;

use harness::oracle::Oracle;
use node_resource_advertiser::model::quantity::{ParseQuantityError, Quantity};
use num_bigint::BigInt;

use crate::limits::limited;

const SUFFIXES: [(&str, i64, u32); 16] = [
    ("n", -9, 0),
    ("u", -6, 0),
    ("m", -3, 0),
    ("", 0, 0),
    ("k", 3, 0),
    ("M", 6, 0),
    ("G", 9, 0),
    ("T", 12, 0),
    ("P", 15, 0),
    ("E", 18, 0),
    ("Ki", 0, 10),
    ("Mi", 0, 20),
    ("Gi", 0, 30),
    ("Ti", 0, 40),
    ("Pi", 0, 50),
    ("Ei", 0, 60),
];

/// Beyond this exponent neither Go nor a big integer finishes in time.
const LARGEST_EXPONENT: i64 = 1_000;

/// A text is read as its exact number, and the printed form reads as the same number.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let parsed = limited(text.len(), 1, || text.parse::<Quantity>());
    if let Ok(quantity) = parsed {
        let printed = quantity.to_string();
        let again: Quantity = printed.parse().expect("what is printed can be read");
        assert_eq!((again.nanos(), again.to_string()), (quantity.nanos(), printed.clone()));
        assert_eq!(exact(&printed), Some(BigInt::from(quantity.nanos())), "{printed}");
        // The largest quantities have no whole number above them.
        if let Some(whole) = quantity.ceil().whole() {
            let unit = BigInt::from(1_000_000_000);
            let difference = BigInt::from(whole) * &unit - quantity.nanos();
            assert!((BigInt::ZERO..unit).contains(&difference), "{printed} rounded to {whole}");
        }
    }
    let Some(exact) = exact(text) else { return };
    match i128::try_from(&exact) {
        Ok(exact) => assert_eq!(parsed.map(|quantity| quantity.nanos()), Ok(exact), "{text:?}"),
        // There is one more negative number than positive.
        Err(_) => assert!(matches!(parsed, Err(ParseQuantityError::OutOfRange(_))), "{text:?}: {parsed:?}"),
    }
}

/// The billionths of a number with digits, rounded away from zero, and with a binary suffix at most those of 2^63 - 1;
/// `None` if the text is not a number, or its exponent makes it too long to write out.
fn exact(text: &str) -> Option<BigInt> {
    let magnitude = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = magnitude.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(magnitude.len());
    let (number, suffix) = magnitude.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let known = SUFFIXES.into_iter().find(|(known, ..)| *known == suffix);
    let (ten, two) = match known {
        Some((_, ten, two)) => (ten, two),
        None => (exponent(suffix.strip_prefix(['e', 'E'])?)?, 0),
    };
    let places = 9 + ten - i64::try_from(fraction.len()).ok()?;
    let power = BigInt::from(10).pow(places.unsigned_abs().try_into().ok()?);
    let scaled = mantissa << two;
    let nanos = if places < 0 { (scaled + &power - 1) / power } else { scaled * power };
    let cap = BigInt::from(i64::MAX) * 1_000_000_000;
    let nanos = if suffix.ends_with('i') { nanos.min(cap) } else { nanos };
    Some(if text.starts_with('-') { -nanos } else { nanos })
}

fn exponent(digits: &str) -> Option<i64> {
    let exponent: i64 = digits.parse().ok()?;
    (-LARGEST_EXPONENT..=LARGEST_EXPONENT).contains(&exponent).then_some(exponent)
}

thread_local! {
    static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::start("quantity"));
}

/// Kubernetes accepts and rejects the same texts, and reads and prints the same number.
pub fn compare(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    // Go takes minutes for some exponents. It rejects exponents of more than 32 bits like invalid numbers.
    let after_e = text.rsplit_once(['e', 'E']).map(|(_, digits)| digits);
    if after_e.is_some_and(|digits| digits.parse::<i128>().is_ok() && exponent(digits).is_none()) {
        return;
    }
    let theirs = ORACLE.with_borrow_mut(|oracle| oracle.ask(text));
    let field = |name: &str| theirs[name].as_str();
    match (text.parse::<Quantity>(), field("value")) {
        (Ok(ours), Some(value)) => {
            assert_eq!(exact(value), Some(ours.nanos().into()), "{text:?} is {value}");
            let (printed, canonical) = (ours.to_string(), field("canonical").expect("it has a form"));
            // Go has no suffix for 10^21 and above, and omits it.
            let lost = (1..=3).any(|steps| printed == format!("{canonical}{}E", "000".repeat(steps)));
            assert!(printed == canonical || lost, "{text:?} is {canonical}, not {printed}");
        }
        (Err(ParseQuantityError::OutOfRange(_)), value) => {
            let is_larger = value.is_none_or(|value| exact(value).is_some_and(|exact| i128::try_from(exact).is_err()));
            let panicked = field("error").is_some_and(|error| error.starts_with("panic"));
            let exponent_too_long = after_e.is_some_and(|digits| digits.parse::<i32>().is_err());
            assert!((value.is_some() && is_larger) || panicked || exponent_too_long, "{text:?} is {theirs}");
        }
        (Err(error), value) => assert_eq!(value, None, "{text:?}: {error}"),
        (Ok(ours), None) => panic!("{text:?} is {theirs}, not {ours}"),
    }
}
