//! The value of a YAML scalar in kubectl: sigs.k8s.io/yaml decodes with `go.yaml.in/yaml/v2`, which is YAML 1.1 with
//! exceptions (its `resolve.go`), and then converts to JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use granit_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

use crate::model::label::excerpt;

/// What the tags of YAML itself, such as `!!binary`, begin with.
const YAML_TAGS: &str = "tag:yaml.org,2002:";

/// Returns whether a key merges its value into the map. Quotes mean nothing beside the tags `!` and `!!merge`.
pub(super) fn is_merge(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    let is_meant =
        |tag: &Tag| *tag == Tag::new("", "!") || tag.suffix_in_namespace(YAML_TAGS).as_deref() == Some("merge");
    text == "<<" && tag.map_or(style == ScalarStyle::Plain, is_meant)
}

/// Returns the value of a scalar.
///
/// # Errors
/// If kubectl rejects it; in one line.
pub(super) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => plain(text),
            _ => Ok(text.into()),
        };
    };
    let kind = match tag.core_suffix() {
        Some(kind @ ("int" | "float" | "bool" | "null")) => kind,
        _ if tag.suffix_in_namespace(YAML_TAGS).as_deref() == Some("binary") => return binary(text),
        // Any other tag, and a lone `!`, makes it a string.
        _ => return Ok(text.into()),
    };
    match (kind, plain(text)?) {
        ("int", Value::Number(number)) if number.is_i64() && float_key(text).is_none() => Ok(Value::Number(number)),
        ("float", number @ Value::Number(_)) => Ok(number),
        ("bool", answer @ Value::Bool(_)) => Ok(answer),
        ("null", Value::Null) => Ok(Value::Null),
        _ => Err(format!("{:?} is no {kind}, as its tag says", excerpt(text))),
    }
}

/// Returns what a text in base64 stands for.
fn binary(text: &str) -> Result<Value, String> {
    let bytes = BASE64_STANDARD.decode(text.replace(['\n', '\r'], ""));
    let bytes = bytes.map_err(|_| format!("{:?} is no base64, as its tag says", excerpt(text)))?;
    Ok(String::from_utf8_lossy(&bytes).into())
}

fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => true.into(),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => false.into(),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => {
            return Err(format!("{text} cannot be sent as JSON: put it in quotes, or write a number"));
        }
        _ => number(text).map_or_else(|| text.into(), Value::Number),
    })
}

/// Returns a number of JSON as kubectl reads it.
///
/// # Errors
/// If it is too large for a float; in one line.
pub(super) fn json_number(text: &str) -> Result<Value, String> {
    let whole = text.parse::<i64>().map(Number::from).ok();
    let number = whole.or_else(|| json_float(text.parse().ok()?));
    let too_large = || format!("the number {} is too large", excerpt(text));
    number.map(Value::Number).ok_or_else(too_large)
}

/// Parses a number like Go's `strconv.ParseInt` with base 0, or a YAML float.
fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'.' {
        return float(text);
    }
    if !first.is_ascii_digit() && !matches!(first, b'+' | b'-') {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| float(&plain))
}

fn integer(text: &str) -> Option<Number> {
    let (negative, signed, digits) = match text.split_at_checked(1) {
        Some(("-", digits)) => (true, true, digits),
        Some(("+", digits)) => (false, true, digits),
        _ => (false, false, text),
    };
    let (radix, digits) = match (digits.get(..2), digits.get(2..)) {
        (Some("0x" | "0X"), Some(rest)) => (16, rest),
        (Some("0o" | "0O"), Some(rest)) => (8, rest),
        (Some("0b" | "0B"), Some(rest)) => (2, rest),
        _ => match digits.strip_prefix('0') {
            Some(rest) if !rest.is_empty() => (8, rest),
            _ => (10, digits),
        },
    };
    // Rust accepts a sign here, Go does not.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    match i64::try_from(value) {
        Ok(value) => Some(value.into()),
        // The API server has only signed 64-bit integers: it reads larger ones as floats.
        Err(_) if !signed => json_float(magnitude as f64),
        Err(_) => None,
    }
}

fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent),
        None => (unsigned, "0"),
    };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty())
        || exponent.is_empty()
        || ![whole, fraction, exponent].into_iter().all(digits)
    {
        return None;
    }
    json_float(text.parse().ok()?)
}

/// Returns a plain text as kubectl writes it where it is a key, if it is a float: like Go's `strconv.FormatFloat` with
/// the format `g` and 32 bits.
pub(super) fn float_key(text: &str) -> Option<String> {
    let plain = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    if number(text).is_none() || integer(&plain).is_some() {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is written with the digits of 32 bits")]
    let float = plain.parse::<f64>().ok()? as f32;
    let scientific = format!("{float:e}");
    Some(match scientific.split_once('e') {
        None => if float < 0.0 { "-.inf" } else { ".inf" }.to_owned(),
        Some((digits, exponent)) => match exponent.parse::<i32>().ok()? {
            -4..6 => float.to_string(),
            exponent => {
                let sign = if exponent < 0 { '-' } else { '+' };
                format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
            }
        },
    })
}

/// Converts a float like JSON does: without a fraction, it becomes an integer.
fn json_float(float: f64) -> Option<Number> {
    // Go writes floats from 10^21 with an exponent, and reads those as floats.
    let text = if float.abs() < 1e21 { format!("{float}") } else { String::new() };
    text.parse::<i64>().map_or_else(|_| Number::from_f64(float), |whole| Some(whole.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalar_has_the_type_that_kubectl_reads() {
        // Each as `kubectl label --local -o json` prints it.
        for (text, value) in [
            ("4", json!(4)),
            ("+4", json!(4)),
            ("-0", json!(0)),
            ("017", json!(15)),
            ("0o17", json!(15)),
            ("-0o17", json!(-15)),
            ("08", json!(8)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("+0b11", json!(3)),
            ("0b12", json!("0b12")),
            ("0o9", json!("0o9")),
            ("1_000", json!(1000)),
            ("_1", json!("_1")),
            ("0x", json!("0x")),
            ("0x-1", json!("0x-1")),
            ("--1", json!("--1")),
            ("-", json!("-")),
            ("1e3", json!(1000)),
            ("1e+3", json!(1000)),
            ("12E03", json!(12000)),
            ("4.0", json!(4)),
            ("4.", json!(4)),
            (".5", json!(0.5)),
            ("+.5", json!(0.5)),
            ("-0.0", json!(0)),
            ("1e-1", json!(0.1)),
            ("1e", json!("1e")),
            (".", json!(".")),
            ("1.2.3", json!("1.2.3")),
            ("1e22", json!(1e22)),
            ("1E400", json!("1E400")),
            ("1.2345678901234567e18", json!(1_234_567_890_123_456_800_i64)),
            ("9223372036854775807", json!(i64::MAX)),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_f64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1:30", json!("1:30")),
            ("2026-01-01", json!("2026-01-01")),
            ("800Gi", json!("800Gi")),
            ("yes", json!(true)),
            ("y", json!(true)),
            ("Off", json!(false)),
            ("oN", json!("oN")),
            ("", json!(null)),
            ("~", json!(null)),
            ("null", json!(null)),
            ("nULL", json!("nULL")),
        ] {
            assert_eq!(resolve(text, ScalarStyle::Plain, None), Ok(value), "{text:?}");
        }
        assert!(resolve("-.Inf", ScalarStyle::Plain, None).unwrap_err().contains("JSON"));
        assert_eq!(resolve("4", ScalarStyle::DoubleQuoted, None), Ok(json!("4")));
        assert_eq!(resolve("", ScalarStyle::Literal, None), Ok(json!("")));
    }

    #[test]
    fn scalar_tag_overrides_its_plain_type() {
        let core = |suffix: &str| Tag::new(YAML_TAGS, suffix);
        let tagged = |text, tag: &Tag| resolve(text, ScalarStyle::Plain, Some(tag));
        assert_eq!(tagged("5", &core("str")), Ok(json!("5")));
        assert_eq!(tagged(".inf", &core("str")), Ok(json!(".inf")));
        assert_eq!(tagged("0x10", &core("int")), Ok(json!(16)));
        assert_eq!(tagged("3", &core("float")), Ok(json!(3)));
        assert_eq!(tagged("on", &core("bool")), Ok(json!(true)));
        assert_eq!(tagged("2026-01-01", &core("timestamp")), Ok(json!("2026-01-01")));
        assert_eq!(tagged("5", &Tag::new("!", "foo")), Ok(json!("5")));
        assert_eq!(tagged("5", &Tag::new("", "!")), Ok(json!("5")));
        assert_eq!(tagged("1.0", &core("int")), Err("\"1.0\" is no int, as its tag says".to_owned()));
        assert_eq!(tagged("aGVs\nbG8=", &core("binary")), Ok(json!("hello")));
        assert_eq!(tagged("@@", &core("binary")), Err("\"@@\" is no base64, as its tag says".to_owned()));
        assert_eq!(tagged("foo", &core("int")), Err("\"foo\" is no int, as its tag says".to_owned()));
        assert_eq!(tagged("x", &core("null")), Err("\"x\" is no null, as its tag says".to_owned()));
        let quoted = resolve("5", ScalarStyle::DoubleQuoted, Some(&core("int")));
        assert_eq!(quoted, Ok(json!(5)));
    }
}
