//! Documents, compared with how kubectl reads them.

use std::cell::RefCell;

use harness::oracle::Oracle;
use node_resource_advertiser::manifest::{self, Limits, ReadError};
use serde_json::Value;

thread_local! {
    static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::start("yaml"));
}

/// Errors where kubectl reads an object: it takes the last of equal keys, follows more aliases, and reads `{a:, b: c}` with
/// a key `a:`, `[?a]` with a map in it, `.NaN` as a key, a comma, bracket or `!` as a part of a tag, a byte order mark as one
/// of a key, and more than twenty comments without a space before them. From a line that begins with `%`, it drops the rest
/// of a document without a word.
const INTENDED: [&str; 11] = [
    "is given twice",
    "more than 500000 values",
    "the colon after this key needs a space",
    "between brackets for a key",
    "a key must be text",
    "a tag up to the next space",
    "while scanning a tag",
    "while parsing a tag",
    "a byte order mark",
    "a comment needs a space",
    "before directive",
];

/// Whether an error is intended, where kubectl reads an object. It also reads `{a: b:}` with a value `b:`, and a text after
/// `|` or `>` that begins in the column of its dash.
fn is_intended(error: &ReadError, text: &str) -> bool {
    let ends_with_colon = || [":,", ":}", ":]"].iter().any(|end| text.contains(end));
    let is_block = || error.location.text().starts_with(['|', '>']);
    let reason = &error.reason;
    INTENDED.iter().any(|intended| reason.contains(intended))
        || reason.contains("while parsing a flow mapping, did not find") && ends_with_colon()
        || reason.contains("simple key expected ':'") && is_block()
}

/// An object means the same to kubectl, and what kubectl cannot read is an error.
pub fn compare(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Some(difference) = difference(text) {
        panic!("{difference}");
    }
}

/// Whether kubectl does more with a text than to read it as one YAML document: it separates documents first, and reads JSON
/// otherwise, value by value. go-yaml rejects some texts between braces that this program reads, with rare line breaks;
/// only go-yaml reads an anchor that a colon follows at once, and only this program some names of aliases.
fn is_read_otherwise(text: &str) -> bool {
    let after_name = |rest: &str| {
        rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-').chars().next()
    };
    let is_odd_anchor = |rest: &str| after_name(rest) == Some(':');
    let is_odd_alias = |rest: &str| after_name(rest).is_some_and(|char| !" \t\n\r,]}".contains(char));
    let is_marker = |line: &str| line.starts_with("---") || line.starts_with("...");
    text.contains(['\u{85}', '\u{2028}', '\u{2029}'])
        || text.split('&').skip(1).any(is_odd_anchor)
        || text.split('*').skip(1).any(is_odd_alias)
        || text.split(['\n', '\r']).any(is_marker)
        || text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with(['{', '['])
}

/// Returns how the two differ.
fn difference(text: &str) -> Option<String> {
    if is_read_otherwise(text) {
        return None;
    }
    // kubectl removes one byte order mark from a file, and its YAML parser another one (`FileVisitor` in
    // <https://github.com/kubernetes/cli-runtime/blob/v0.37.1/pkg/resource/visitor.go>).
    let document = text.strip_prefix('\u{feff}').unwrap_or(text);
    let theirs = ORACLE.with_borrow_mut(|oracle| oracle.ask(document));
    let is_object = |value: &Value| {
        let has = |field: &str| value[field].as_str().is_some_and(|text| !text.is_empty());
        has("apiVersion") && has("kind")
    };
    let theirs = theirs.get("json").filter(|value| is_object(value));
    let mut ours = Vec::new();
    manifest::read_text("a.yaml", text.to_owned(), &Limits::default(), &mut |read| ours.push(read));
    match (ours.as_slice(), theirs) {
        ([Ok(document)], Some(theirs)) if document.value == *theirs => None,
        // A list is read as its items.
        (_, Some(theirs)) if theirs["items"].is_array() => None,
        ([Err(error), ..], Some(_)) if is_intended(error, text) => None,
        ([Err(_), ..] | [], None) => None,
        (ours, theirs) => Some(format!("kubectl: {theirs:?}\n ours: {ours:?}")),
    }
}
