//! Formats counts, and the first few of many names.

/// Returns a number of things: `1 rule`, `12,000 rules`.
#[must_use]
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", digits(count), if count == 1 { one } else { many })
}

/// Returns the verb of a number of things that have something.
#[must_use]
pub const fn have(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

/// Returns a number with thousands separators.
#[must_use]
pub fn digits(number: usize) -> String {
    with_commas(&number.to_string())
}

/// How many names a message has where nothing else limits it.
pub const NAMED: usize = 5;

/// Returns the first few names, and the number of the others.
#[must_use]
pub fn few<T: std::fmt::Display>(names: &[T], most: usize, separator: &str) -> String {
    let (shown, more) = names.split_at(most.min(names.len()));
    and_more(shown, more.len(), separator)
}

/// Returns names, and the number of the others.
#[must_use]
pub fn and_more<T: std::fmt::Display>(names: &[T], more: usize, separator: &str) -> String {
    let shown = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator);
    if more > 0 { format!("{shown} and {} more", digits(more)) } else { shown }
}

/// Adds thousands separators to the leading digits of a text.
#[must_use]
pub fn with_commas(text: &str) -> String {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let mut grouped = String::new();
    for (at, digit) in number.chars().enumerate() {
        if at > 0 && (number.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_of_many_are_listed() {
        let names: Vec<_> = (1..2_000).collect();
        assert_eq!(few(&names, 5, ", "), "1, 2, 3, 4, 5 and 1,994 more");
        assert_eq!(few(&names[..5], 5, "; "), "1; 2; 3; 4; 5");
        assert_eq!(few(&names[..0], 5, ", "), "");
    }

    #[test]
    fn number_has_a_comma_at_each_thousand() {
        for (text, shown) in [
            ("0", "0"),
            ("999", "999"),
            ("1000", "1,000"),
            ("27000", "27,000"),
            ("1234567", "1,234,567"),
            ("5000Ti", "5,000Ti"),
            ("1500m", "1,500m"),
            ("", ""),
        ] {
            assert_eq!(with_commas(text), shown);
        }
    }
}
