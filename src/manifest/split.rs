//! Splits the text of a file into documents, like kubectl does before parsing: an invalid document does not stop the
//! ones after it.

use serde::de::IgnoredAny;

use super::source::{ParseError, Span};

/// A document that is not parsed yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawDocument<'t> {
    pub(super) text: &'t str,
    /// Its offset in the file.
    pub(super) offset: usize,
    /// The number of lines before it.
    pub(super) lines_before: usize,
    /// Whether it is JSON, which kubectl does not read as YAML.
    pub(super) is_json: bool,
}

/// The byte order mark.
pub(super) const MARK: char = '\u{feff}';

/// Splits a file into consecutive JSON objects, or YAML documents separated by lines of `---`. A text that starts as
/// JSON and continues as something else is YAML from there on.
pub(super) fn split(text: &str) -> Vec<Result<RawDocument<'_>, ParseError>> {
    let mark = text.len() - text.strip_prefix(MARK).unwrap_or(text).len();
    let (mut raw_documents, rest) = json(text, mark);
    raw_documents.extend(yaml(text, rest));
    raw_documents
}

/// Returns whether a line, or the rest of one, is empty or a comment.
pub(super) fn is_comment(line: &str) -> bool {
    let text = line.trim_start();
    text.is_empty() || text.starts_with('#')
}

fn raw_document(text: &str, start: usize, end: usize, lines_before: usize) -> RawDocument<'_> {
    RawDocument { text: text.get(start..end).unwrap_or_default(), offset: start, lines_before, is_json: false }
}

/// Returns the JSON objects at the start of the text, and where they end.
fn json(text: &str, start: usize) -> (Vec<Result<RawDocument<'_>, ParseError>>, usize) {
    let (mut raw_documents, mut end, mut lines) = (Vec::new(), start, 0);
    let rest = text.get(start..).unwrap_or_default();
    if !rest.trim_start().starts_with('{') {
        return (raw_documents, end);
    }
    let mut objects = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
    while let Some(Ok(_)) = objects.next() {
        let next = start + objects.byte_offset();
        let found = RawDocument { is_json: true, ..raw_document(text, end, next, lines) };
        lines += found.text.bytes().filter(|byte| *byte == b'\n').count();
        raw_documents.push(Ok(found));
        end = next;
    }
    (raw_documents, end)
}

fn yaml(text: &str, start: usize) -> Vec<Result<RawDocument<'_>, ParseError>> {
    let mut raw_documents = Vec::new();
    let before = text.get(..start).unwrap_or_default();
    let mut line_number = before.bytes().filter(|byte| *byte == b'\n').count();
    let (mut piece_start, mut piece_line, mut line_start) = (start, line_number, start);
    for line in text.get(start..).unwrap_or_default().split_inclusive('\n') {
        let line_end = line_start + line.len();
        line_number += 1;
        if let Some(rest) = line.strip_prefix("---") {
            let is_bare = is_comment(rest);
            // Where a document begins with a separator, kubectl leaves it to the parser.
            if !is_bare || piece_start < line_start {
                raw_documents.push(Ok(raw_document(text, piece_start, line_start, piece_line)));
                (piece_start, piece_line) = (line_end, line_number);
            }
            if !is_bare {
                raw_documents.push(Err(ParseError {
                    span: Span::new(line_start..line_end),
                    reason: "a line that begins with --- separates documents, and holds nothing else but a comment"
                        .to_owned(),
                }));
            }
        }
        line_start = line_end;
    }
    raw_documents.push(Ok(raw_document(text, piece_start, text.len(), piece_line)));
    raw_documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(&str, usize)> {
        let raw_documents = split(text).into_iter().map(|raw_document| raw_document.expect("no fault"));
        let filled = raw_documents.filter(|raw_document| !raw_document.text.trim().is_empty());
        filled.map(|raw_document| (raw_document.text, raw_document.lines_before)).collect()
    }

    #[test]
    fn split_separates_yaml_documents_at_dashes() {
        assert_eq!(texts("a: 1\n---\nb: 2\n--- # c\nd: 3"), [("a: 1\n", 0), ("b: 2\n", 2), ("d: 3", 4)]);
        assert_eq!(texts("---\r\na: |\r\n  ---\r\n---\r\n"), [("---\r\na: |\r\n  ---\r\n", 0)]);
        assert_eq!(texts("a: 1"), [("a: 1", 0)]);
        assert_eq!(texts(""), []);
    }

    #[test]
    fn split_separates_concatenated_json_objects() {
        assert_eq!(texts("{\"a\":\n1}{\"b\":2}\n"), [("{\"a\":\n1}", 0), ("{\"b\":2}", 1)]);
        assert_eq!(texts("\u{feff}{}"), [("{}", 0)]);
        assert_eq!(texts("{\"a\":1}\n---\nb: 2\n"), [("{\"a\":1}", 0), ("b: 2\n", 2)]);
        // A flow map is no JSON, unless it is.
        assert_eq!(texts("{a: 1}\n---\n{b: 2}\n"), [("{a: 1}\n", 0), ("{b: 2}\n", 2)]);
    }

    #[test]
    fn split_rejects_text_after_a_separator() {
        let raw_documents = split("a: 1\n--- b: 2\nc: 3\n");
        assert_eq!(raw_documents.len(), 3);
        let parse_error = raw_documents[1].as_ref().unwrap_err();
        assert_eq!(parse_error.span, Span::new(5..14));
    }
}
