//! Hints and warnings for common mistakes.

use serde_json::Value;

use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::placeholder::{placeholder, template};
use super::violation::Violation;
use crate::manifest::{Document, Path, SourceLocation};
use crate::model::quantity::Quantity;
use crate::planner::overlap::Overlap;
use crate::planner::rules::Rule;

/// Integers up to this one are exact as JSON numbers in every program.
const EXACT: i64 = 1 << 53;

/// Returns why a file may be unreadable.
pub(super) fn unreadable(location: &SourceLocation) -> Option<String> {
    let line = location.line().filter(|line| line.contains("${"));
    if let Some(hint) = template(location.file_text()).or_else(|| line.and_then(placeholder)) {
        return Some(hint.to_owned());
    }
    // A mistake that joins a line to the previous one is reported in a later line.
    let (line, _) = location.start()?;
    let lines = location.file_text().lines().take(line).enumerate();
    let suspects = lines.filter(|(_, line)| has_no_break_space(line));
    suspects.last().map(|(number, _)| no_break_space(&format!("line {}", number + 1)))
}

/// Returns why a text may be where a map is expected.
pub(super) fn of_type(value: Option<&Value>) -> Option<String> {
    value?.as_str().filter(|text| has_no_break_space(text)).map(|_| no_break_space("it"))
}

/// Returns whether a no-break space is where YAML needs a space.
fn has_no_break_space(line: &str) -> bool {
    line.trim_start_matches(' ').starts_with('\u{a0}')
        || [":\u{a0}", "-\u{a0}"].iter().any(|words| line.contains(words))
}

fn no_break_space(place: &str) -> String {
    format!("{place} has a no-break space (U+00A0), which YAML treats as text: use a plain space")
}

/// Returns the quantities that an invalid text may mean.
pub(super) fn quantity(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && !"_,'".contains(*c)).collect();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) =
        text.split_at_checked(digits).filter(|(number, _)| number.contains(|c: char| c.is_ascii_digit()))?;
    let unit = unit.to_lowercase();
    // Bytes are plain numbers, without a unit.
    let unit = ["bytes", "byte", "b"].into_iter().find_map(|end| unit.strip_suffix(end)).unwrap_or(&unit);
    let (decimal, binary) = match unit {
        "" => ("", ""),
        "k" | "ki" => ("k", "Ki"),
        "m" | "mi" => ("M", "Mi"),
        "g" | "gi" => ("G", "Gi"),
        "t" | "ti" => ("T", "Ti"),
        "p" | "pi" => ("P", "Pi"),
        "e" | "ei" => ("E", "Ei"),
        _ => return None,
    };
    let suffixes: &[&str] = match unit {
        "" => &[decimal],
        _ if unit.ends_with('i') => &[binary],
        _ => &[decimal, binary],
    };
    let meant = suffixes.iter().map(|suffix| format!("{number}{suffix}"));
    let meant: Vec<_> = meant.filter(|text| text.parse::<Quantity>().is_ok()).collect();
    (!meant.is_empty()).then(|| format!("did you mean {}?", meant.join(" or ")))
}

/// Warns about numbers that are read differently from what they look like.
pub(super) fn numbers(document: &Document) -> Vec<Diagnostic> {
    let mut fields = ["quantity", "priority"].map(|field| Path::from_keys(["spec", field])).to_vec();
    fields.extend(["max", "min", "default"].map(|field| Path::from_keys(["spec", "quantityFrom", field])));
    let table = Path::from_keys(["spec", "quantityFrom", "nodeLabel", "values"]);
    let entries = document.at(&table).and_then(Value::as_object).into_iter().flatten();
    fields.extend(entries.map(|(value, _)| table.key(value)));
    let found = fields.iter().filter_map(|path| {
        let value = document.at(path).and_then(Value::as_i64)?;
        let location = document.location(path);
        let (code, message, hint) = number(location.text(), value)?;
        let warning = Violation::new(path, code, message).hint(Some(hint));
        let diagnostic = Diagnostic::found(warning, document);
        Some(Diagnostic { severity: Severity::Warning, ..diagnostic })
    });
    found.collect()
}

/// Warns about a selector that no labels can meet.
pub(super) fn selector(rule: &Rule, document: &Document) -> Option<Diagnostic> {
    // A contradictory selection overlaps with nothing, not even itself.
    if rule.selection.overlap(&rule.selection) != Overlap::Never {
        return None;
    }
    let path = Path::from_keys(["spec", "nodeSelector"]);
    let message = "no node can be selected: the requirements contradict each other";
    let hint = "remove one of two requirements on the same label".to_owned();
    let warning = Violation::new(&path, Code::NoNodeSelectable, message).hint(Some(hint));
    let diagnostic = Diagnostic::found(warning, document);
    Some(Diagnostic { severity: Severity::Warning, ..diagnostic })
}

fn number(text: &str, value: i64) -> Option<(Code, String, String)> {
    let mut digits = text.trim_start_matches(['+', '-']).bytes();
    if (digits.next(), digits.next().is_some_and(|byte| byte != b'.')) == (Some(b'0'), true) {
        let message = format!("{text} is read as {value}");
        let hint = "write it in decimal digits, without a 0 before them".to_owned();
        return Some((Code::NumberNotation, message, hint));
    }
    let float = value as f64 as i64;
    if value.saturating_abs() > EXACT && float != value {
        let message = format!("{value} becomes {float} in programs that read numbers as floats");
        let hint = format!("put it in quotes: \"{value}\"");
        return Some((Code::NumberPrecision, message, hint));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_hint_suggests_what_kubernetes_takes() {
        for (text, hint) in [
            ("800 GB", Some("800G or 800Gi")),
            ("800GB", Some("800G or 800Gi")),
            ("800gi", Some("800Gi")),
            ("800 GiB", Some("800Gi")),
            ("4K", Some("4k or 4Ki")),
            ("1 000", Some("1000")),
            ("1,000", Some("1000")),
            ("12 bytes", Some("12")),
            ("1.5 tb", Some("1.5T or 1.5Ti")),
            ("four", None),
            ("4x", None),
            ("", None),
            ("GB", None),
            ("4\u{a0}\u{e4}", None),
            ("1.2.3G", None),
            (".G", None),
        ] {
            let hint = hint.map(|hint| format!("did you mean {hint}?"));
            assert_eq!(quantity(text), hint, "{text:?}");
        }
    }

    #[test]
    fn number_warning_is_given_for_other_bases_and_lost_digits() {
        for (text, value, code) in [
            ("010", 8, Some(Code::NumberNotation)),
            ("-0x10", -16, Some(Code::NumberNotation)),
            ("0b1", 1, Some(Code::NumberNotation)),
            ("0", 0, None),
            ("-0", 0, None),
            ("0.5e1", 5, None),
            ("10", 10, None),
            ("9007199254740992", EXACT, None),
            ("9007199254740993", EXACT + 1, Some(Code::NumberPrecision)),
            ("-9223372036854775808", i64::MIN, None),
            ("", 5, None),
        ] {
            assert_eq!(number(text, value).map(|(code, ..)| code), code, "{text}");
        }
    }
}
