//! What stands between the values of a YAML text: tabs, anchors and byte order marks that the parser reads, and kubectl rejects. go-yaml
//! takes no tab for a space where a key may begin (its `yaml_parser_scan_to_next_token`), and knows fewer characters of
//! anchors.

use granit_parser::{Event, ScalarStyle, Span as Range, StructureStyle};

/// The part of a text that is not read yet, and what is before it.
pub(super) struct Gaps<'t> {
    text: &'t str,
    /// The end of the last value.
    read: usize,
    before: Before,
    /// The maps and lists around it that have no brackets.
    blocks: Vec<Block>,
}

struct Block {
    is_map: bool,
    /// Where its keys or dashes begin.
    column: usize,
}

/// What is before a character between values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A line break, or an indicator after which a key may begin.
    KeyStart,
    /// A text without quotes, which would go on in a line with at least this indentation.
    Plain(usize),
    Other,
}

/// What kubectl rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The offset of the character.
    pub(super) at: usize,
    kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    TabAfter(char),
    TabInIndentation,
    Anchor,
    ByteOrderMark,
}

impl Fault {
    pub(super) fn reason(self) -> String {
        match self.kind {
            FaultKind::TabAfter(indicator) => {
                format!("not YAML: a tab cannot follow {indicator} in kubectl: write a space")
            }
            FaultKind::TabInIndentation => {
                "not YAML: kubectl rejects a tab at the start of a line, even of an empty one: remove it".to_owned()
            }
            FaultKind::ByteOrderMark => {
                "not YAML: kubectl reads a byte order mark (U+FEFF, invisible) at the start of a document only: remove it"
                    .to_owned()
            }
            FaultKind::Anchor => {
                "not YAML: in kubectl, the name of an anchor has only letters from a to z, digits, - and _".to_owned()
            }
        }
    }
}

impl<'t> Gaps<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, read: 0, before: Before::KeyStart, blocks: Vec::new() }
    }

    /// Returns the first fault between the previous value and this event. `in_brackets` is whether the event is in a list
    /// or map in brackets.
    pub(super) fn see(&mut self, event: &Event<'_>, range: Range, in_brackets: bool) -> Option<Fault> {
        let bytes = range.byte_range().unwrap_or_default();
        let before = match event {
            Event::StreamEnd => return self.fault(self.text.len(), false),
            // A value that is left out.
            Event::Scalar(..) if bytes.is_empty() => return None,
            Event::SequenceStart(StructureStyle::Block, ..) | Event::MappingStart(StructureStyle::Block, ..) => {
                self.open(matches!(event, Event::MappingStart(..)), bytes.start, range.start.col());
                return None;
            }
            Event::SequenceEnd | Event::MappingEnd if !in_brackets => {
                self.blocks.pop();
                return None;
            }
            Event::Scalar(_, ScalarStyle::Plain, ..) => {
                Before::Plain(self.blocks.last().map_or(0, |block| block.column + 1))
            }
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => Before::KeyStart,
            Event::Scalar(..)
            | Event::Alias(..)
            | Event::SequenceStart(..)
            | Event::MappingStart(..)
            | Event::SequenceEnd
            | Event::MappingEnd => Before::Other,
            _ => return None,
        };
        let fault = self.fault(bytes.start, in_brackets).or_else(|| self.fault_in_block(event, bytes.end));
        (self.read, self.before) = (bytes.end, before);
        fault
    }

    /// Adds a block. The parser gives a list whose dashes are below the key of the list the column of its first item.
    fn open(&mut self, is_map: bool, start: usize, column: usize) {
        let parent = self.blocks.last().filter(|parent| parent.is_map && !is_map);
        let gap = self.text.get(self.read..start).unwrap_or_default();
        let is_below = |parent: &&Block| {
            let dash = |line: &str| line.trim_start().starts_with('-') && indentation(line) == parent.column;
            gap.split('\n').skip(1).any(dash)
        };
        let column = parent.filter(is_below).map_or(column, |parent| parent.column);
        self.blocks.push(Block { is_map, column });
    }

    /// Returns the tab before the first character of a text after `|` or `>`, where the text has no indentation yet.
    fn fault_in_block(&self, event: &Event<'_>, end: usize) -> Option<Fault> {
        let Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) = event else { return None };
        let until = self.text.get(self.read..end)?;
        let (_, text) = until.split_once(['|', '>'])?;
        let (header, lines) = text.split_once('\n')?;
        let header = header.split('#').next().unwrap_or_default();
        if header.contains(|char: char| char.is_ascii_digit()) {
            return None;
        }
        let rest = lines.trim_start_matches([' ', '\r', '\n']);
        let at = end - rest.len();
        rest.starts_with('\t').then_some(Fault { at, kind: FaultKind::TabInIndentation })
    }

    fn fault(&self, until: usize, in_brackets: bool) -> Option<Fault> {
        let gap = self.text.get(self.read..until)?;
        if let Some(at) = gap.rfind('\u{feff}').map(|at| self.read + at).filter(|at| *at > 0) {
            return Some(Fault { at, kind: FaultKind::ByteOrderMark });
        }
        if !gap.contains(['\t', '&']) {
            return None;
        }
        let (mut before, mut start) = (self.before, self.read);
        for (number, text) in gap.split_inclusive('\n').enumerate() {
            let mut line = Line { text, is_whole: number > 0, before, in_brackets, indicator: None };
            if let Some((at, kind)) = line.fault() {
                return Some(Fault { at: start + at, kind });
            }
            before = if matches!(line.before, Before::Plain(_)) { line.before } else { Before::KeyStart };
            start += text.len();
        }
        None
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// A line between two values, or a part of one.
struct Line<'t> {
    text: &'t str,
    /// Whether it has its start.
    is_whole: bool,
    before: Before,
    in_brackets: bool,
    /// The last character, if it is an indicator.
    indicator: Option<char>,
}

impl<'t> Line<'t> {
    /// Returns the first fault and its offset.
    fn fault(&mut self) -> Option<(usize, FaultKind)> {
        let mut at = 0;
        while let Some(next) = self.text.get(at..).and_then(|rest| rest.chars().next()) {
            match next {
                ' ' | '\n' | '\r' | '\u{feff}' => {}
                '\t' if self.rejects_tab(at) => {
                    return Some((at, self.indicator.map_or(FaultKind::TabInIndentation, FaultKind::TabAfter)));
                }
                '\t' => {}
                '-' | '?' => self.passed(Before::KeyStart, Some(next)),
                // Directly after a key, no other key may begin.
                ':' if self.begins_line() => self.passed(Before::KeyStart, Some(next)),
                ':' | ',' | '[' | ']' | '{' | '}' => self.passed(Before::Other, None),
                '#' => {
                    self.passed(Before::Other, None);
                    return None;
                }
                _ => {
                    let word = self.word(at);
                    if next == '&' && !is_anchor(word, self.in_brackets) {
                        return Some((at, FaultKind::Anchor));
                    }
                    self.passed(Before::Other, None);
                    at += word.len();
                    continue;
                }
            }
            at += next.len_utf8();
        }
        None
    }

    fn passed(&mut self, before: Before, indicator: Option<char>) {
        (self.before, self.indicator) = (before, indicator);
    }

    /// Returns whether only spaces and indicators are before.
    fn begins_line(&self) -> bool {
        match self.before {
            Before::KeyStart => true,
            Before::Plain(_) => self.is_whole,
            Before::Other => false,
        }
    }

    /// Returns whether a tab at this offset, before which there are only spaces and indicators, is rejected.
    fn rejects_tab(&self, at: usize) -> bool {
        !self.in_brackets
            && match self.before {
                Before::KeyStart => true,
                Before::Plain(indentation) => self.is_whole && at < indentation,
                Before::Other => false,
            }
    }

    /// Returns the anchor or tag at this offset.
    fn word(&self, at: usize) -> &'t str {
        let rest = self.text.get(at..).unwrap_or_default();
        let ends = |char: char| char.is_whitespace() || self.in_brackets && ",[]{}".contains(char);
        rest.split(ends).next().unwrap_or_default()
    }
}

fn is_anchor(word: &str, in_brackets: bool) -> bool {
    let name = word.trim_start_matches('&');
    let rest = name.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
    // Outside brackets, whatever follows at once is an error.
    let may_follow = |rest: &str| in_brackets && rest.starts_with(['?', ':', '%', '@', '`']);
    rest.len() < name.len() && (rest.is_empty() || may_follow(rest))
}
