//! What stands between the values of a YAML text: tabs, anchors and tags that the parser reads, and kubectl rejects.
//! go-yaml takes no tab for a space where a key may begin (its `yaml_parser_scan_to_next_token`), knows fewer
//! characters of anchors, and reads a tag up to the next space.

use granit_parser::{Event, ScalarStyle, Span as Range, StructureStyle};

/// What ends an anchor or a tag. Other spaces, such as U+00A0, are parts of it.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// With which each fault between values begins.
const SUSPECTS: [char; 3] = ['\t', '&', '!'];

/// The part of a text that is not read yet, and what is before it.
pub(super) struct Gaps<'t> {
    text: &'t str,
    /// Whether it has, anywhere, what may be a fault.
    has_suspects: bool,
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
    Tag,
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
            FaultKind::Anchor => {
                "not YAML: in kubectl, the name of an anchor has only letters from a to z, digits, - and _".to_owned()
            }
            FaultKind::Tag => {
                "not YAML: kubectl reads a tag up to the next space: write one after it, and only ASCII letters, digits and \
                 - in it"
                    .to_owned()
            }
        }
    }
}

impl<'t> Gaps<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        // A byte order mark may begin the document, and then three dashes, after which a tab may stand.
        let marked = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (rest, before) = match marked.strip_prefix("---") {
            Some(rest) => (rest, Before::Other),
            None => (marked, Before::KeyStart),
        };
        let has_suspects = SUSPECTS.iter().any(|char| rest.contains(*char));
        Self { text, has_suspects, read: text.len() - rest.len(), before, blocks: Vec::new() }
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
            Event::Scalar(_, ScalarStyle::Plain, ..) => Before::Plain(self.indentation()),
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => Before::KeyStart,
            Event::Scalar(..)
            | Event::Alias(..)
            | Event::SequenceStart(..)
            | Event::MappingStart(..)
            | Event::SequenceEnd
            | Event::MappingEnd => Before::Other,
            _ => return None,
        };
        let fault = match event {
            _ if !self.has_suspects => None,
            Event::Scalar(_, ScalarStyle::Plain, ..) => {
                self.fault(bytes.start, in_brackets).or_else(|| self.fault_in_plain(bytes.start, bytes.end))
            }
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => {
                self.fault(bytes.start, in_brackets).or_else(|| self.fault_in_block(bytes.end))
            }
            _ => self.fault(bytes.start, in_brackets),
        };
        (self.read, self.before) = (bytes.end, before);
        fault
    }

    /// Returns the least indentation with which a text without quotes goes on in the next line.
    fn indentation(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.column + 1)
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
    fn fault_in_block(&self, end: usize) -> Option<Fault> {
        let mut at = self.read;
        let mut lines = self.text.get(at..end)?.split_inclusive('\n');
        let header = lines.find_map(|line| {
            at += line.len();
            block_header(line)
        })?;
        let rest = self.text.get(at..end)?.trim_start_matches([' ', '\r', '\n']);
        let is_indented = header.contains(|char: char| char.is_ascii_digit());
        (!is_indented && rest.starts_with('\t'))
            .then_some(Fault { at: end - rest.len(), kind: FaultKind::TabInIndentation })
    }

    /// Returns the first tab in the indentation of the lines with which a text without quotes goes on, even of an empty one.
    fn fault_in_plain(&self, start: usize, end: usize) -> Option<Fault> {
        let mut at = start;
        for line in self.text.get(start..end)?.split_inclusive('\n') {
            let tab = indentation(line);
            if at > start && tab < self.indentation() && line.as_bytes().get(tab) == Some(&b'\t') {
                return Some(Fault { at: at + tab, kind: FaultKind::TabInIndentation });
            }
            at += line.len();
        }
        None
    }

    fn fault(&self, until: usize, in_brackets: bool) -> Option<Fault> {
        let gap = self.text.get(self.read..until)?;
        if !gap.contains(SUSPECTS) {
            return None;
        }
        let (mut before, mut start) = (self.before, self.read);
        for (number, text) in gap.split_inclusive('\n').enumerate() {
            let rest = self.text.get(start..)?;
            let mut line = Line { text, rest, is_whole: number > 0, before, in_brackets, indicator: None };
            if let Some((at, kind)) = line.fault() {
                return Some(Fault { at: start + at, kind });
            }
            before = if matches!(line.before, Before::Plain(_)) { line.before } else { Before::KeyStart };
            start += text.len();
        }
        None
    }
}

/// Returns the header of a text after `|` or `>`, such as `|2-`, if it is in a line.
fn block_header(line: &str) -> Option<&str> {
    let mut words = line.split(BLANKS).take_while(|word| !word.starts_with('#'));
    let header = words.find(|word| word.starts_with(['|', '>']))?;
    header.split('#').next()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// A line between two values, or a part of one.
struct Line<'t> {
    text: &'t str,
    /// The text from here to the end, also beyond the gap.
    rest: &'t str,
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
                ' ' | '\n' | '\r' => {}
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
                    let rest = self.rest.get(at..).unwrap_or_default();
                    match next {
                        '&' if !is_anchor(rest, self.in_brackets) => return Some((at, FaultKind::Anchor)),
                        '!' if !is_tag(rest, self.in_brackets) => return Some((at, FaultKind::Tag)),
                        _ => {}
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
        match self.before {
            Before::KeyStart => !self.in_brackets,
            Before::Plain(indentation) => self.is_whole && at < indentation,
            Before::Other => false,
        }
    }

    /// Returns the anchor or tag at this offset.
    fn word(&self, at: usize) -> &'t str {
        let rest = self.text.get(at..).unwrap_or_default();
        let ends = |char: char| BLANKS.contains(&char) || self.in_brackets && ",[]{}".contains(char);
        rest.split(ends).next().unwrap_or_default()
    }
}

/// Returns whether the anchor at the start of a text ends where one does in go-yaml's `yaml_parser_scan_anchor`.
fn is_anchor(text: &str, in_brackets: bool) -> bool {
    let name = text.strip_prefix('&').unwrap_or(text);
    let rest = name.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
    // Outside brackets, whatever follows at once is an error; inside, a colon makes a key of nothing.
    let may_follow = in_brackets && rest.starts_with([',', ']', '}']);
    rest.len() < name.len() && (rest.is_empty() || rest.starts_with(BLANKS) || may_follow)
}

/// Returns whether the tag at the start of a text ends where a space does, as in go-yaml's `yaml_parser_scan_tag_uri`. That
/// takes a bracket or comma for a part of it, so that a list is not what it looks like.
fn is_tag(text: &str, in_brackets: bool) -> bool {
    let word = text.split(BLANKS).next().unwrap_or_default();
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-_;/?:@&=+$.!~*'()%".contains(char);
    match word.strip_prefix("!<") {
        Some(uri) => {
            uri.strip_suffix('>').is_some_and(|uri| uri.chars().all(|char| is_part(char) || ",[]".contains(char)))
        }
        None => word.chars().all(|char| is_part(char) || !in_brackets && ",[]".contains(char)),
    }
}
