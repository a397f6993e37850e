//! Parses one JSON document to a value with the locations of its parts. kubectl reads a file that begins with a brace as
//! JSON, of which some is no YAML.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::document::Limits;
use super::locations::{Children, Locations};
use super::scalar;
use super::source::{ParseError, Span};
use super::split::RawDocument;
use super::yaml::{BYTES_A_VALUE, Parsed};

/// Parses a document whose syntax is known to be right; `None` if it is null.
pub(super) fn read(raw_document: &RawDocument, limits: &Limits) -> Result<Option<Parsed>, ParseError> {
    let lines = Lines { line: raw_document.lines_before + 1, counted: 0 };
    let mut reader = Reader { raw_document, limits, at: 0, lines, values: 0, repeated: Vec::new() };
    let Node { value, locations } = reader.node(0)?;
    let parsed = Parsed { value, locations, repeated: reader.repeated };
    Ok(Some(parsed).filter(|parsed| !parsed.value.is_null()))
}

struct Reader<'t> {
    raw_document: &'t RawDocument<'t>,
    limits: &'t Limits,
    /// The offset of what is read next.
    at: usize,
    lines: Lines,
    /// The number of values so far.
    values: usize,
    repeated: Vec<ParseError>,
}

/// A line, from 1, and the offset to which lines are counted: a document may have as many repeated keys as lines.
struct Lines {
    line: usize,
    counted: usize,
}

struct Node {
    value: Value,
    locations: Locations,
}

impl<'t> Reader<'t> {
    fn node(&mut self, depth: usize) -> Result<Node, ParseError> {
        self.skip_spaces();
        let start = self.at;
        self.count(1, depth)?;
        let (value, children) = match self.rest().as_bytes() {
            [b'{', ..] => self.map(depth)?,
            [b'[', ..] => self.list(depth)?,
            [b'"', ..] => (Value::String(self.string(depth)?), Children::None),
            _ => (self.word()?, Children::None),
        };
        Ok(Node { value, locations: Locations::new(self.span(start), children) })
    }

    fn map(&mut self, depth: usize) -> Result<(Value, Children), ParseError> {
        let (mut values, mut places) = (Map::new(), BTreeMap::new());
        // Each key with the line in which it is first.
        let mut given = HashMap::new();
        self.at += 1;
        while !self.ends_with('}') {
            let start = self.at;
            self.count(1, depth)?;
            let key = self.string(depth)?;
            let span = self.span(start);
            if let Some(first) = given.insert(key.clone(), self.line()) {
                self.repeated.push(ParseError::repeated(&key, first, span));
            }
            self.skip(':');
            let node = self.node(depth + 1)?;
            self.skip(',');
            places.insert(key.as_str().into(), node.locations.with_key(span));
            values.insert(key, node.value);
        }
        Ok((Value::Object(values), Children::Fields(places)))
    }

    fn list(&mut self, depth: usize) -> Result<(Value, Children), ParseError> {
        let (mut values, mut places) = (Vec::new(), Vec::new());
        self.at += 1;
        while !self.ends_with(']') {
            let node = self.node(depth + 1)?;
            self.skip(',');
            values.push(node.value);
            places.push(node.locations);
        }
        Ok((values.into(), Children::Items(places)))
    }

    /// Returns a text in quotes.
    fn string(&mut self, depth: usize) -> Result<String, ParseError> {
        let rest = self.rest();
        let quoted = rest.strip_prefix('"').and_then(until_quote).ok_or_else(|| self.unexpected())?;
        self.at += quoted.len() + 2;
        self.count(quoted.len() / BYTES_A_VALUE, depth)?;
        Ok(unescaped(quoted))
    }

    /// Returns a number, a truth value or null.
    fn word(&mut self) -> Result<Value, ParseError> {
        let rest = self.rest();
        let end = rest.find(|char: char| !char.is_ascii_alphanumeric() && !"+-.".contains(char));
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let start = self.at;
        self.at += word.len();
        match word {
            "" => Err(self.unexpected()),
            "null" => Ok(Value::Null),
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            number => scalar::json_number(number).map_err(|reason| ParseError { span: self.span(start), reason }),
        }
    }

    fn rest(&self) -> &'t str {
        self.raw_document.text.get(self.at..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        // An editor may have put a byte order mark before the document.
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']).len();
    }

    /// Passes a character, if it is next, and spaces.
    fn skip(&mut self, next: char) {
        self.skip_spaces();
        self.at += usize::from(self.rest().starts_with(next));
        self.skip_spaces();
    }

    /// Passes the end of a map or list, and returns whether it is next.
    fn ends_with(&mut self, end: char) -> bool {
        self.skip_spaces();
        let ends = self.rest().starts_with(end);
        self.at += usize::from(ends);
        ends
    }

    fn count(&mut self, values: usize, depth: usize) -> Result<(), ParseError> {
        self.values += values;
        let reason = match (self.values > self.limits.values, depth > self.limits.depth) {
            (true, _) => self.limits.too_many(),
            (false, true) => self.limits.too_deep(),
            (false, false) => return Ok(()),
        };
        Err(ParseError { span: self.span(self.at), reason })
    }

    /// Returns the line of what is read next, in the file.
    fn line(&mut self) -> usize {
        let more = self.raw_document.text.get(self.lines.counted..self.at).unwrap_or_default();
        self.lines.line += more.matches('\n').count();
        self.lines.counted = self.at;
        self.lines.line
    }

    /// Returns what is read since an offset; at least one byte.
    fn span(&self, start: usize) -> Span {
        let offset = self.raw_document.offset;
        Span::new(start + offset..self.at.max(start + 1) + offset)
    }

    fn unexpected(&self) -> ParseError {
        ParseError { span: self.span(self.at), reason: "not JSON: a value is missing here".to_owned() }
    }
}

/// Returns the text before the quote that ends it.
fn until_quote(text: &str) -> Option<&str> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return text.get(..at),
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// Returns a text without escapes. As in Go, half a character becomes a replacement character.
fn unescaped(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut rest = quoted;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let (char, length) = escaped(escape);
        text.push(char);
        rest = escape.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// A character, and how many bytes after the backslash stand for it.
type Escape = (char, usize);

fn escaped(escape: &str) -> Escape {
    match escape.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER) {
        'b' => ('\u{8}', 1),
        'f' => ('\u{c}', 1),
        'n' => ('\n', 1),
        'r' => ('\r', 1),
        't' => ('\t', 1),
        'u' => escaped_unit(escape),
        other => (other, other.len_utf8()),
    }
}

fn escaped_unit(escape: &str) -> Escape {
    let unit = |at: usize| escape.get(at..at + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let second = unit(7).filter(|_| escape.get(5..7) == Some("\\u"));
    let units = [unit(1).unwrap_or_default(), second.unwrap_or_default()];
    match char::decode_utf16(units).next() {
        Some(Ok(char)) => (char, 1 + 4 * char.len_utf16() + 2 * (char.len_utf16() - 1)),
        _ => (char::REPLACEMENT_CHARACTER, 5),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::path::Path;
    use super::super::source::Source;
    use super::*;

    fn read_all(text: &str, limits: &Limits) -> Result<Option<Parsed>, ParseError> {
        read(&RawDocument { text, offset: 0, lines_before: 0, is_json: true }, limits)
    }

    fn value(text: &str) -> Value {
        read_all(text, &Limits::default()).unwrap().map_or(Value::Null, |parsed| parsed.value)
    }

    #[test]
    fn json_that_is_no_yaml_is_read() {
        let long = "k".repeat(2000);
        for (text, expected) in [
            ("{\"a\"\n : 1}".to_owned(), json!({"a": 1})),
            (format!("{{\"{long}\": [1, 2]}}"), json!({ long: [1, 2] })),
            ("{\"a\": \"\u{7f}\u{9f}\u{fffe}\u{85}\"}".to_owned(), json!({"a": "\u{7f}\u{9f}\u{fffe}\u{85}"})),
            (r#"{"a": "\ud83d"}"#.to_owned(), json!({"a": "\u{fffd}"})),
            (r#"{"a": "\ud83d\ude00\ud83dx\ude00"}"#.to_owned(), json!({"a": "😀\u{fffd}x\u{fffd}"})),
            (r#"{"a": "\"\\\/\b\f\n\r\t\u00e4"}"#.to_owned(), json!({"a": "\"\\/\u{8}\u{c}\n\r\tä"})),
            ("\u{feff} {\"a\" : [ ] , \"b\":{ }}\n".to_owned(), json!({"a": [], "b": {}})),
            ("[true, false, null, \"\"]".to_owned(), json!([true, false, null, ""])),
            ("{\"<<\": {\"a\": 1}}".to_owned(), json!({"<<": {"a": 1}})),
        ] {
            assert_eq!(value(&text), expected, "{text}");
        }
    }

    #[test]
    fn json_number_is_what_kubectl_makes_of_it() {
        for (number, expected) in [
            ("0", json!(0)),
            ("-5", json!(-5)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("0.5", json!(0.5)),
            ("9223372036854775807", json!(i64::MAX)),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_f64)),
        ] {
            assert_eq!(value(&format!("{{\"a\": {number}}}")), json!({"a": expected}), "{number}");
        }
        let error = read_all("{\"a\": 1e400}", &Limits::default()).unwrap_err();
        assert_eq!((error.reason.as_str(), error.span), ("the number 1e400 is too large", Span::new(6..11)));
    }

    #[test]
    fn json_key_that_is_repeated_is_returned_with_its_line() {
        let parsed = read_all("{\"a\": 1,\n\"b\": {\"a\": 2},\n\"a\": 3}", &Limits::default()).unwrap().unwrap();
        assert_eq!(parsed.value, json!({"a": 3, "b": {"a": 2}}));
        let [repeated] = parsed.repeated.as_slice() else { panic!("{:?}", parsed.repeated) };
        assert_eq!(repeated.reason, "the key \"a\" is given twice: it is in line 1 already");
        assert_eq!(repeated.span, Span::new(24..27));
    }

    #[test]
    fn json_value_has_its_location() {
        let text = "{\"a\": {\"b\":\n [1, \"two\"]}}";
        let locations = read_all(text, &Limits::default()).unwrap().unwrap().locations;
        let source = Source::new("a.json", text.to_owned());
        let b = Path::from_keys(["a", "b"]);
        assert_eq!(text.get(locations.shown(&b.item(1), &source).range()), Some("\"two\""));
        assert_eq!(text.get(locations.shown_key(&b, &source).range()), Some("\"b\""));
        assert_eq!(locations.whole(), Span::new(0..text.len()));
    }

    #[test]
    fn json_beyond_limits_is_rejected() {
        let limits = Limits { values: 20, depth: 5, ..Limits::default() };
        let refused = |text: &str| read_all(text, &limits).err().map(|error| error.reason);
        assert_eq!(refused("[[[[[1]]]]]"), None);
        assert_eq!(refused("[[[[[[1]]]]]]").unwrap(), "maps and lists are nested more than 5 deep here");
        assert!(refused(&format!("[{}1]", "1,".repeat(20))).unwrap().contains("more than 20 values"));
        assert!(refused(&format!("\"{}\"", "x".repeat(2000))).unwrap().contains("more than 20 values"));
    }
}
