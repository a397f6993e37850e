//! Parses one YAML document to a JSON value with the locations of its parts.
//!
//! The parser reads like kubectl, which silently takes the last of repeated keys. Repeats are returned beside the value,
//! since a rule with one has a mistake.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span as Range, StrInput, StructureStyle, Tag};
use serde_json::{Map, Value};

use super::document::Limits;
use super::locations::{Children, Locations};
use super::scalar;
use super::source::{ParseError, Span};
use super::split::{MARK, RawDocument, is_comment};
use gaps::{BLANKS, Gaps};

mod gaps;

/// A parsed document.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) value: Value,
    pub(super) locations: Locations,
    /// Each key that repeats an earlier one of the same map.
    pub(super) repeated: Vec<ParseError>,
}

/// How many comments without a space before them are read: each takes another pass.
const GLUED_COMMENTS: usize = 20;

/// Parses a document; `None` if it is empty.
pub(super) fn read(raw_document: &RawDocument, limits: &Limits) -> Result<Option<Parsed>, ParseError> {
    let parsed = parse(raw_document, limits)?;
    // The parser skips some comments, and ends of documents that did not begin.
    let char = rejected_char(raw_document.text);
    let (at, length, what) = match (char, early_end(raw_document.text)) {
        (Some((at, MARK)), _) => {
            (at, MARK.len_utf8(), "a byte order mark (U+FEFF, invisible) except at the start of a document".to_owned())
        }
        (Some((at, char)), _) => (at, char.len_utf8(), format!("the character U+{:04X}", u32::from(char))),
        (None, Some(at)) => (at, 3, "... before a value".to_owned()),
        (None, None) => return Ok(parsed),
    };
    let at = at + raw_document.offset;
    let reason = format!("not YAML: kubectl rejects {what}: remove it");
    Err(ParseError { span: Span::new(at..at + length), reason })
}

/// Returns where a text ends its document with `...` before a value or a line of dashes.
fn early_end(text: &str) -> Option<usize> {
    let mut at = text.len() - text.trim_start_matches(MARK).len();
    let mut lines = text.get(at..)?.split_inclusive(['\n', '\r']);
    let first = lines.find(|line| {
        at += if is_comment(line) { line.len() } else { 0 };
        !is_comment(line)
    })?;
    let rest = first.strip_prefix("...")?;
    (rest.is_empty() || rest.starts_with(BLANKS)).then_some(at)
}

/// Returns the first character that kubectl rejects, and its offset.
fn rejected_char(text: &str) -> Option<(usize, char)> {
    // Most texts have nothing else, and their bytes are searched faster.
    if text.as_bytes().iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) {
        return None;
    }
    text.char_indices().find(|(at, char)| !is_allowed(*char) && (*at > 0 || *char != MARK))
}

/// Returns whether a character may be in a YAML text, according to go-yaml's `yaml_parser_update_buffer`. Behind a byte order
/// mark it may drop the first character of a line, or a whole line, without a word: its `is_bom` looks at the start of its
/// buffer.
fn is_allowed(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..) && char != MARK
}

fn parse(raw_document: &RawDocument, limits: &Limits) -> Result<Option<Parsed>, ParseError> {
    let mut text = with_line_breaks(raw_document);
    for _ in 0..GLUED_COMMENTS {
        match Reader::new(&text, raw_document, limits).document() {
            Err(NotRead::GluedComment(at)) => text = without_comment(&text, at).into(),
            Err(NotRead::Wrong(error)) => return Err(error),
            Ok(parsed) => return Ok(parsed),
        }
    }
    Reader::new(&text, raw_document, limits).document().map_err(|not_read| match not_read {
        NotRead::Wrong(error) => error,
        NotRead::GluedComment(at) => {
            let at = at + raw_document.offset;
            let reason = "not YAML: a comment needs a space before it".to_owned();
            ParseError { span: Span::new(at..at + 1), reason }
        }
    })
}

/// Why a pass over a document ends early.
enum NotRead {
    Wrong(ParseError),
    /// A comment directly after a quote or bracket, which kubectl reads, at this offset.
    GluedComment(usize),
}

impl From<ParseError> for NotRead {
    fn from(error: ParseError) -> Self {
        Self::Wrong(error)
    }
}

/// Returns the text with spaces in place of a comment. Every byte keeps its offset.
fn without_comment(text: &str, at: usize) -> String {
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let length = rest.find('\n').unwrap_or(rest.len());
    [before, &" ".repeat(length), rest.get(length..).unwrap_or_default()].concat()
}

/// Returns the text with line feeds in place of the other characters that end a line in kubectl, which editors may not
/// show. Every byte keeps its offset.
fn with_line_breaks<'t>(raw_document: &RawDocument<'t>) -> Cow<'t, str> {
    const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    let text = with_line_feeds(raw_document.text);
    // One after another: each is one fast search.
    if !BREAKS.iter().any(|char| text.contains(*char)) {
        return text;
    }
    let replaced = text.replace('\u{85}', " \n");
    replaced.replace(['\u{2028}', '\u{2029}'], "  \n").into()
}

/// Returns the text with a line feed in place of each carriage return that none follows.
fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') || text.split('\r').skip(1).all(|rest| rest.starts_with('\n')) {
        return text.into();
    }
    let mut replaced = String::with_capacity(text.len());
    let mut pieces = text.split('\r').peekable();
    while let Some(piece) = pieces.next() {
        replaced.push_str(piece);
        replaced.extend(pieces.peek().map(|next| if next.starts_with('\n') { '\r' } else { '\n' }));
    }
    replaced.into()
}

/// Returns what to do about an escape in double quotes that JSON or YAML 1.2 has, and kubectl rejects.
fn rejected_escape(quoted: &str) -> Option<&'static str> {
    let mut rest = quoted;
    while let Some((_, escape)) = rest.split_once('\\') {
        match escape.as_bytes() {
            [b'/', ..] => return Some("\\/ is no escape in kubectl: write / alone"),
            [b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..] => {
                return Some(
                    "kubectl reads no half of a character: write the character itself, or \\U and eight digits",
                );
            }
            _ => {}
        }
        let length = escape.chars().next().map_or(0, char::len_utf8);
        rest = escape.get(length..).unwrap_or_default();
    }
    None
}

/// The number of bytes of text that count as one more value.
pub(super) const BYTES_A_VALUE: usize = 64;

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    text: &'t str,
    raw_document: &'t RawDocument<'t>,
    limits: &'t Limits,
    /// The number of values so far, including those that aliases repeat.
    values: usize,
    anchors: HashMap<usize, Node>,
    repeated: Vec<ParseError>,
    /// Where the parser found a comment directly after a quote or bracket.
    glued_comment: Option<usize>,
    /// How many lists in brackets and maps in braces are open.
    flows: usize,
    gaps: Gaps<'t>,
}

/// A value, with what must be known before it is repeated.
#[derive(Clone)]
struct Node {
    value: Value,
    locations: Locations,
    values: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, raw_document: &'t RawDocument<'t>, limits: &'t Limits) -> Self {
        let options = granit_parser::options! {
            emit_comments: false,
            // As go-yaml, which is a port of libyaml.
            bom_inside_document_as_content: true,
            block_scalar_eof_without_line_feed: true,
            flow_nesting_limit: limits.depth,
            block_nesting_limit: limits.depth,
        };
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            text,
            raw_document,
            limits,
            values: 0,
            anchors: HashMap::new(),
            repeated: Vec::new(),
            glued_comment: None,
            flows: 0,
            gaps: Gaps::new(text),
        }
    }

    fn document(mut self) -> Result<Option<Parsed>, NotRead> {
        let document = self.nodes().map_err(|error| self.glued_comment.map_or(error.into(), NotRead::GluedComment))?;
        let repeated = self.repeated;
        let parsed = document.map(|Node { value, locations, .. }| Parsed { value, locations, repeated });
        Ok(parsed.filter(|parsed| !parsed.value.is_null()))
    }

    fn nodes(&mut self) -> Result<Option<Node>, ParseError> {
        let mut document = None;
        while let Some((event, range)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(..) if document.is_none() => {}
                // kubectl splits at lines of `---`, and would silently drop what follows `...`.
                Event::DocumentStart(..) => {
                    return Err(self.parse_error(range, "a document that follows ... needs a line of --- before it"));
                }
                event => document = Some(self.node(event, range, 0)?),
            }
        }
        Ok(document)
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Range)>, ParseError> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok((event, range))) => match self.gaps.see(&event, range, self.flows > 0) {
                Some(fault) => Err(self.fault(fault)),
                None => Ok(Some((event, range))),
            },
            Some(Err(error)) => {
                let place = error.marker().byte_offset();
                if *error.kind() == ErrorKind::CommentNotSeparated {
                    self.glued_comment = place;
                }
                let at = place.unwrap_or_default() + self.raw_document.offset;
                let reason = match error.kind() {
                    ErrorKind::RecursionLimitExceeded => self.limits.too_deep(),
                    _ => format!("not YAML: {}", error.info()),
                };
                Err(ParseError { span: Span::new(at..at + 1), reason })
            }
        }
    }

    /// Returns the next event of a collection; the parser reports a missing end.
    fn inside(&mut self, start: Range) -> Result<(Event<'t>, Range), ParseError> {
        self.next()?.ok_or_else(|| self.parse_error(start, "it does not end"))
    }

    fn span(&self, range: Range) -> Span {
        let range = range.byte_range().unwrap_or_default();
        Span::new(range.start + self.raw_document.offset..range.end + self.raw_document.offset)
    }

    fn parse_error(&self, range: Range, reason: impl Into<String>) -> ParseError {
        ParseError { span: self.span(range), reason: reason.into() }
    }

    fn fault(&self, fault: gaps::Fault) -> ParseError {
        let at = fault.at + self.raw_document.offset;
        ParseError { span: Span::new(at..at + 1), reason: fault.reason() }
    }

    /// Counts values, including those that an alias repeats: a document of a few hundred bytes can expand to any size.
    fn count(&mut self, values: usize, depth: usize, range: Range) -> Result<(), ParseError> {
        self.values = self.values.saturating_add(values);
        if self.values > self.limits.values {
            return Err(self.parse_error(range, self.limits.too_many()));
        }
        if depth > self.limits.depth {
            return Err(self.parse_error(range, self.limits.too_deep()));
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'t>, range: Range, depth: usize) -> Result<Node, ParseError> {
        let before = self.values;
        if let Event::Alias(anchor) = event {
            return self.alias(anchor, range, depth);
        }
        // A long text counts as much as many short ones of the same size.
        let weight = match &event {
            Event::Scalar(text, ..) => 1 + text.len() / BYTES_A_VALUE,
            _ => 1,
        };
        self.count(weight, depth, range)?;
        let flow = match &event {
            Event::SequenceStart(style, ..) | Event::MappingStart(style, ..) => {
                usize::from(*style == StructureStyle::Flow)
            }
            _ => 0,
        };
        self.flows += flow;
        let (anchor, mut node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), range)?;
                let locations = Locations::new(self.span(range), Children::None);
                (anchor, Node { value, locations, values: 1, depth: 0 })
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(range, depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.map(range, depth)?),
            _ => return Err(self.parse_error(range, "a value was expected here")),
        };
        self.flows -= flow;
        node.values = self.values - before;
        if anchor != 0 {
            // Kept for its aliases, so it counts twice.
            self.count(node.values, depth, range)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, range: Range, depth: usize) -> Result<Node, ParseError> {
        // An anchor is defined only when its node is complete, so no node can contain itself.
        let Some((values, inner)) = self.anchors.get(&anchor).map(|node| (node.values, node.depth)) else {
            return Err(self.parse_error(range, "the alias is within its own anchor"));
        };
        self.count(values, depth + inner, range)?;
        let node = self.anchors.get(&anchor).cloned();
        node.ok_or_else(|| self.parse_error(range, "the alias has no anchor"))
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, range: Range) -> Result<Value, ParseError> {
        let quoted = || self.text.get(range.byte_range().unwrap_or_default()).unwrap_or_default();
        let escape = if style == ScalarStyle::DoubleQuoted { rejected_escape(quoted()) } else { None };
        if let Some(escape) = escape {
            return Err(self.parse_error(range, format!("not YAML: {escape}")));
        }
        // Between brackets, go-yaml takes any question mark for an indicator, and a colon where a text begins.
        let indicator = match style == ScalarStyle::Plain && self.flows > 0 {
            true if text.contains('?') => Some("question mark"),
            true if text.starts_with(':') => Some("colon before a word"),
            _ => None,
        };
        if let Some(what) = indicator {
            let reason = format!("not YAML: kubectl takes a {what} between brackets for a key: put the text in quotes");
            return Err(self.parse_error(range, reason));
        }
        scalar::resolve(text, style, tag).map_err(|reason| self.parse_error(range, reason))
    }

    fn list(&mut self, start: Range, depth: usize) -> Result<Node, ParseError> {
        let (mut values, mut places, mut inner) = (Vec::new(), Vec::new(), 0);
        loop {
            let (event, range) = self.inside(start)?;
            if event == Event::SequenceEnd {
                let locations = Locations::new(self.whole(start, range), Children::Items(places));
                return Ok(Node { value: values.into(), locations, values: 0, depth: inner + 1 });
            }
            let item = self.node(event, range, depth + 1)?;
            inner = inner.max(item.depth);
            values.push(item.value);
            places.push(item.locations);
        }
    }

    fn map(&mut self, start: Range, depth: usize) -> Result<Node, ParseError> {
        let mut fields = Fields::default();
        let mut inner = 0;
        loop {
            let (event, range) = self.inside(start)?;
            if event == Event::MappingEnd {
                let children = Children::Fields(fields.places);
                let locations = Locations::new(self.whole(start, range), children);
                let value = Value::Object(fields.values);
                return Ok(Node { value, locations, values: 0, depth: inner + 1 });
            }
            let merge = matches!(
                &event,
                Event::Scalar(text, style, _, tag) if scalar::is_merge(text, *style, tag.as_deref())
            );
            self.check_key(&event, start, range)?;
            let float = match &event {
                Event::Scalar(text, ScalarStyle::Plain, _, None) => scalar::float_key(text),
                _ => None,
            };
            let key = self.node(event, range, depth + 1)?;
            let (event, value_range) = self.inside(start)?;
            let value = self.node(event, value_range, depth + 1)?;
            inner = inner.max(value.depth);
            if merge {
                fields.merge(&value).ok_or_else(|| {
                    self.parse_error(value_range, "<< merges a map, or a list of maps, and this is neither")
                })?;
                continue;
            }
            let name = float
                .or_else(|| key_text(&key.value))
                .ok_or_else(|| self.parse_error(range, "a key must be text, a number or a truth value"))?;
            if let Some(first) = fields.given.insert(name.clone(), range) {
                let line = first.start.line() + self.raw_document.lines_before;
                self.repeated.push(ParseError::repeated(&name, line, self.span(range)));
            }
            fields.insert(name, value.value, value.locations.with_key(self.span(range)));
        }
    }

    /// Rejects keys between braces that kubectl rejects, or reads as others: `{a:, b: 1}` has the key `a:` there.
    fn check_key(&self, key: &Event<'t>, map: Range, range: Range) -> Result<(), ParseError> {
        let part = |from: usize, to: usize| self.text.get(from..to).unwrap_or_default();
        let [map, key_range] = [map, range].map(|range| range.byte_range().unwrap_or_default());
        if self.flows == 0 {
            return Ok(());
        }
        let is_explicit = part(map.start, key_range.start).trim_end().ends_with('?');
        let rest = part(key_range.end, self.text.len());
        let until_colon = self.text.len() - rest.trim_start().len();
        let has_colon = rest.trim_start().starts_with(':');
        let until_colon = part(key_range.start, until_colon);
        let is_glued =
            rest.trim_start().strip_prefix(':').is_some_and(|rest| rest.starts_with([',', '[', ']', '{', '}']));
        if is_glued && matches!(key, Event::Scalar(_, ScalarStyle::Plain, ..)) {
            return Err(self
                .parse_error(range, "the colon after this key needs a space: kubectl takes it for a part of the key"));
        }
        if has_colon && until_colon.contains('\n') && !is_explicit {
            let reason = match until_colon.starts_with('/') {
                true => "not YAML: JSON has no comments, and those of YAML begin with #",
                false => "not YAML: a key and its colon have to be in one line",
            };
            return Err(self.parse_error(range, reason));
        }
        Ok(())
    }

    fn whole(&self, start: Range, end: Range) -> Span {
        Span { start: self.span(start).start, end: self.span(end).end }
    }
}

/// The fields of a map so far.
#[derive(Default)]
struct Fields {
    values: Map<String, Value>,
    places: BTreeMap<Box<str>, Locations>,
    /// The location of each key, except keys from a merge.
    given: HashMap<String, Range>,
}

impl Fields {
    fn insert(&mut self, key: String, value: Value, place: Locations) {
        self.places.insert(key.as_str().into(), place);
        self.values.insert(key, value);
    }

    /// Merges the fields of a map, or of a list of maps of which the first wins. As in kubectl, they replace fields
    /// before the merge, and later fields replace them.
    fn merge(&mut self, node: &Node) -> Option<()> {
        let items = match &node.value {
            Value::Array(items) => items.as_slice(),
            item => std::slice::from_ref(item),
        };
        let places = match &node.value {
            Value::Array(_) => node.locations.items()?,
            _ => std::slice::from_ref(&node.locations),
        };
        for (item, place) in items.iter().zip(places).rev() {
            for (key, value) in item.as_object()? {
                let place = place.fields()?.get(key.as_str())?;
                self.insert(key.clone(), value.clone(), place.clone());
            }
        }
        Some(())
    }
}

/// Returns a key as kubectl writes it into JSON.
fn key_text(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(key.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
