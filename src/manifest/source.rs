//! The text of a document, and locations in it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::model::label::excerpt;

/// A file, as text.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    text: String,
    /// The start of each line, computed on first use.
    lines: OnceLock<Vec<usize>>,
}

/// A part of a [`Source`], as byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset after the last byte.
    pub end: u32,
}

/// A location to report: a part of one line of a file, or a whole file.
#[derive(Clone, Debug)]
pub struct SourceLocation {
    file: Arc<str>,
    place: Option<(Arc<Source>, Span)>,
}

/// The maximum length of a line that is shown; of longer lines, only the number is.
const LONGEST_LINE: usize = 4096;

impl Span {
    pub(super) fn new(range: Range<usize>) -> Self {
        // A file is at most `Limits::file` bytes, far below 4 GiB.
        let at = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: at(range.start), end: at(range.end) }
    }

    /// Returns the span as a range of bytes.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl Source {
    pub(super) fn new(name: &str, text: String) -> Self {
        Self { name: name.into(), text, lines: OnceLock::new() }
    }

    /// Returns the name of the file, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line of a byte, from 0, and the bytes of that line without its end.
    fn line(&self, offset: usize) -> (usize, Range<usize>) {
        let lines = self.lines.get_or_init(|| {
            let breaks = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            [0].into_iter().chain(breaks.map(|(place, _)| place + 1)).collect()
        });
        let number = lines.partition_point(|&start| start <= offset).saturating_sub(1);
        let start = lines.get(number).copied().unwrap_or_default();
        let end = lines.get(number + 1).map_or(self.text.len(), |next| next - 1);
        let line = self.text.get(start..end).unwrap_or_default();
        (number, start..start + line.trim_end_matches('\r').len())
    }

    /// Returns the first line of a span, without trailing spaces.
    pub(super) fn first_line(&self, span: Span) -> Span {
        let Range { start, end } = span.range();
        let (_, line) = self.line(start);
        let part = self.text.get(start..end.min(line.end).max(start)).unwrap_or_default();
        Span::new(start..start + part.trim_end().len())
    }

    /// Returns the span from a byte to the end of its line.
    pub(super) fn rest_of_line(&self, offset: usize) -> Span {
        let (_, line) = self.line(offset);
        self.first_line(Span::new(offset..line.end.max(offset)))
    }

    pub(super) fn is_one_line(&self, span: Span) -> bool {
        let text = self.text.get(span.range()).unwrap_or_default();
        !text.trim_end().contains('\n')
    }
}

impl SourceLocation {
    pub(super) fn within(source: &Arc<Source>, span: Span) -> Self {
        let place = Some((Arc::clone(source), source.first_line(span)));
        Self { file: Arc::clone(&source.name), place }
    }

    /// Returns the location of a whole file.
    #[must_use]
    pub fn file_alone(name: &str) -> Self {
        Self { file: name.into(), place: None }
    }

    /// Returns the name of the file, as given.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns line and column, each from 1; columns count characters.
    #[must_use]
    pub fn start(&self) -> Option<(usize, usize)> {
        self.place.as_ref().map(|(source, span)| position(source, span.start))
    }

    /// Returns line and column after the last character.
    #[must_use]
    pub fn end(&self) -> Option<(usize, usize)> {
        self.place.as_ref().map(|(source, span)| position(source, span.end))
    }

    /// Returns the file, with the line if it is not the first.
    pub(super) fn short(&self) -> String {
        match self.start() {
            Some((line, _)) if line > 1 => format!("{}:{line}", self.file),
            _ => self.file.to_string(),
        }
    }

    /// Returns the text at the location.
    #[must_use]
    pub fn text(&self) -> &str {
        let place = self.place.as_ref();
        place.and_then(|(source, span)| source.text.get(span.range())).unwrap_or_default()
    }

    /// Returns the whole file; empty if it could not be opened.
    #[must_use]
    pub fn file_text(&self) -> &str {
        self.place.as_ref().map_or("", |(source, _)| source.text())
    }

    /// Returns the line of the location.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        let (source, span) = self.place.as_ref()?;
        let (_, line) = source.line(span.start as usize);
        source.text.get(line)
    }

    /// Returns the line of the location, and the bytes of the location in it; `None` if the line is too long to show.
    #[must_use]
    pub fn shown(&self) -> Option<(&str, Range<usize>)> {
        let (source, span) = self.place.as_ref()?;
        let Range { start, end } = span.range();
        let (_, line) = source.line(start);
        let text = source.text.get(line.clone())?;
        (text.len() <= LONGEST_LINE).then(|| (text, start - line.start..end - line.start))
    }
}

impl PartialEq for SourceLocation {
    fn eq(&self, other: &Self) -> bool {
        (&self.file, self.start(), self.end()) == (&other.file, other.start(), other.end())
    }
}

impl Eq for SourceLocation {}

fn position(source: &Source, offset: u32) -> (usize, usize) {
    let offset = offset as usize;
    let (number, line) = source.line(offset);
    let before = source.text.get(line.start..offset).unwrap_or_default();
    // A byte order mark is not a character of the first line.
    (number + 1, before.trim_start_matches('\u{feff}').chars().count() + 1)
}

/// Why a document cannot be parsed, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParseError {
    pub(super) span: Span,
    pub(super) reason: String,
}

impl ParseError {
    /// Returns the error for a key that is in this line already.
    pub(super) fn repeated(key: &str, line: usize, span: Span) -> Self {
        let reason = format!("the key {:?} is given twice: it is in line {line} already", excerpt(key));
        Self { span, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str, range: Range<usize>) -> SourceLocation {
        SourceLocation::within(&Arc::new(Source::new("a.yaml", text.to_owned())), Span::new(range))
    }

    #[test]
    fn source_columns_count_characters_with_crlf_lines() {
        let location = location("ä: 1\r\nöl: 23 \r\n", 12..16);
        assert_eq!(location.start(), Some((2, 5)));
        assert_eq!(location.end(), Some((2, 7)));
        assert_eq!(location.text(), "23");
        assert_eq!(location.shown(), Some(("öl: 23 ", 5..7)));
    }

    #[test]
    fn source_byte_order_mark_is_not_a_column() {
        assert_eq!(location("\u{feff}a: 1", 3..4).start(), Some((1, 1)));
    }

    #[test]
    fn source_span_is_cut_at_its_line_end() {
        assert_eq!(location("a: |\n  b\n  c\n", 3..13).text(), "|");
        assert_eq!(location("a", 1..1).start(), Some((1, 2)));
        assert_eq!(location("", 0..0).start(), Some((1, 1)));
    }

    #[test]
    fn source_very_long_line_is_not_shown() {
        let long = format!("a: {}", "x".repeat(LONGEST_LINE));
        assert_eq!(location(&long, 0..1).shown(), None);
        assert_eq!(location(&long, 0..1).start(), Some((1, 1)));
    }
}
