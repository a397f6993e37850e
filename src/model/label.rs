//! The syntax of Kubernetes names and labels, from `k8s.io/apimachinery/pkg/api/validate/content`.

use std::borrow::Cow;

/// Returns whether this is a lowercase RFC 1123 subdomain of at most 253 bytes, like the name of a Node.
///
/// As in Kubernetes, and unlike in DNS, one part between dots may be longer than 63 bytes.
#[must_use]
pub fn is_dns_subdomain(name: &str) -> bool {
    let inner = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let outer = |byte| inner(byte) && byte != b'-';
    name.len() <= 253 && name.split('.').all(|part| is_made_of(part, inner, outer))
}

/// Returns whether this is a qualified name, the syntax of a label key: an optional DNS subdomain and a slash, then 1
/// to 63 letters, digits, `-`, `_` and `.` that start and end with a letter or digit.
#[must_use]
pub fn is_qualified_name(name: &str) -> bool {
    let (prefix, name) = name.split_once('/').unwrap_or(("prefix", name));
    is_dns_subdomain(prefix) && !name.is_empty() && is_label_value(name)
}

/// Returns whether this is a label value: empty, or up to 63 letters, digits, `-`, `_` and `.` that start and end with
/// a letter or digit.
#[must_use]
pub fn is_label_value(value: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_alphanumeric();
    let inner = |byte| outer(byte) || matches!(byte, b'-' | b'_' | b'.');
    value.len() <= 63 && (value.is_empty() || is_made_of(value, inner, outer))
}

/// Returns whether `text` is not empty, consists of `inner` bytes, and starts and ends with `outer` ones.
fn is_made_of(text: &str, inner: impl Fn(u8) -> bool, outer: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&byte| outer(byte))
        && bytes.last().is_some_and(|&byte| outer(byte))
        && bytes.iter().all(|&byte| inner(byte))
}

/// Returns whether a domain is another one or below it: `a.example.com` and `example.com`, but not `my-example.com`.
pub(crate) fn is_domain_below(domain: &str, parent: &str) -> bool {
    domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns an untrusted text as an error message may show it: one line, and limited in length.
pub(crate) fn excerpt(text: &str) -> String {
    excerpt_of(text, 80)
}

/// Returns at most so many characters of an untrusted text, without control characters.
pub(crate) fn excerpt_of(text: &str, most: usize) -> String {
    let mut shown: String = text.escape_debug().take(most).collect();
    if text.escape_debug().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns an excerpt of JSON, whose quotes remain as they are, like in messages of the API server.
pub(crate) fn excerpt_of_json(json: &str) -> String {
    const MOST: usize = 80;
    let text = printable(json);
    let end = text.char_indices().nth(MOST).map(|(end, _)| end);
    match end.and_then(|end| text.get(..end)) {
        Some(start) => format!("{start}…"),
        None => text.into_owned(),
    }
}

/// Returns an untrusted text as one printable line: characters that control a terminal, end the line or change its
/// direction are escaped.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| match is_unsafe(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    });
    Cow::Owned(escaped.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_is_below_itself_and_its_parents() {
        for (domain, parent, below) in [
            ("example.com", "example.com", true),
            ("a.b.example.com", "example.com", true),
            ("my-example.com", "example.com", false),
            ("com", "example.com", false),
            ("", "example.com", false),
        ] {
            assert_eq!(is_domain_below(domain, parent), below, "{domain} {parent}");
        }
    }

    #[test]
    fn dns_subdomain_validation_matches_kubernetes() {
        let longest = format!("{}.b", "a".repeat(251));
        for good in ["a", "0", "node-1", "10.0.0.1", "a.b-c.d", longest.as_str()] {
            assert!(is_dns_subdomain(good), "{good}");
        }
        let too_long = format!("{longest}b");
        for bad in ["", ".", "a.", ".a", "a..b", "-a", "a-", "a-.b", "A", "a_b", "ä", "a\n", too_long.as_str()] {
            assert!(!is_dns_subdomain(bad), "{bad:?}");
        }
    }

    #[test]
    fn qualified_name_validation_matches_kubernetes() {
        let longest = format!("example.com/{}", "a".repeat(63));
        for good in ["a", "A_b.c-D", "example/a", "example.com/A", longest.as_str()] {
            assert!(is_qualified_name(good), "{good}");
        }
        let too_long = format!("{longest}a");
        for bad in ["", "/", "/a", "a/", "a/b/c", "Example.com/a", "a/-b", "a b", "a\n", too_long.as_str()] {
            assert!(!is_qualified_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn label_value_validation_matches_kubernetes() {
        let longest = "a".repeat(63);
        for good in ["", "a", "A_b.c-D", longest.as_str()] {
            assert!(is_label_value(good), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in ["-", "a.", "_a", "a/b", "a b", "é", too_long.as_str()] {
            assert!(!is_label_value(bad), "{bad:?}");
        }
    }

    #[test]
    fn excerpt_is_short_and_printable() {
        assert_eq!(excerpt("4\n\"x\""), r#"4\n\"x\""#);
        assert_eq!(excerpt(&"a".repeat(80)), "a".repeat(80));
        assert_eq!(excerpt(&"a".repeat(1000)), format!("{}…", "a".repeat(80)));
    }

    #[test]
    fn excerpt_of_json_keeps_its_quotes() {
        assert_eq!(excerpt_of_json(r#"{"value":1}"#), r#"{"value":1}"#);
        assert_eq!(excerpt_of_json("[\u{202e}]"), "[\\u{202e}]");
        assert_eq!(excerpt_of_json(&"ä".repeat(80)), "ä".repeat(80));
        assert_eq!(excerpt_of_json(&"ä".repeat(81)), format!("{}…", "ä".repeat(80)));
    }

    #[test]
    fn printable_text_has_no_control_characters() {
        assert_eq!(printable("ä rule/…"), "ä rule/…");
        assert_eq!(printable("\u{1b}[2J\n::error::x\u{7}"), "\\u{1b}[2J\\u{a}::error::x\\u{7}");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
    }
}
