//! The output of `kubectl cluster-info dump` without its logs, which stand between the lists of two namespaces.

use std::io::{self, BufRead, Read};

/// How the logs of a container begin and end. No line of JSON begins with this character.
const START: &[u8] = b"==== START logs for container ";
const END: &[u8] = b"==== END logs for container ";

/// The most of a line that is held.
const LONGEST: u64 = 4096;

/// A text without logs. Their lines are empty, so that the others keep their numbers.
pub(super) struct WithoutLogs<R> {
    text: R,
    /// Whether a line begins here.
    begins_line: bool,
    /// What is read and not passed on yet, in reverse.
    held: Vec<u8>,
}

impl<R: BufRead> WithoutLogs<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text, begins_line: true, held: Vec::new() }
    }

    /// Reads a line that may begin logs, and those logs.
    fn line(&mut self) -> io::Result<()> {
        let mut line = self.part()?;
        if line.starts_with(START) {
            line = vec![b'\n'; 1 + self.logs()?];
        }
        line.reverse();
        self.begins_line = line.first() == Some(&b'\n');
        self.held = line;
        Ok(())
    }

    /// Reads logs to the end of the line that ends them, and returns the number of lines.
    fn logs(&mut self) -> io::Result<usize> {
        let (mut lines, mut has_end, mut recent) = (0, false, Vec::new());
        loop {
            let part = self.part()?;
            let is_whole = part.ends_with(b"\n");
            // A log may end without a line break, and the words after it be in two parts.
            recent.extend_from_slice(&part);
            has_end |= recent.windows(END.len()).any(|bytes| bytes == END);
            recent.drain(..recent.len().saturating_sub(END.len() - 1));
            lines += usize::from(is_whole);
            match (has_end, part.is_empty()) {
                (true, is_at_end) if is_whole || is_at_end => return Ok(lines),
                (false, true) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within the logs of a container"));
                }
                _ => {}
            }
        }
    }

    /// Reads a line, or the next part of a long one; nothing at the end.
    fn part(&mut self) -> io::Result<Vec<u8>> {
        let mut part = Vec::new();
        (&mut self.text).take(LONGEST).read_until(b'\n', &mut part)?;
        Ok(part)
    }

    fn pass_held(&mut self, into: &mut [u8]) -> usize {
        let length = self.held.len().min(into.len());
        for byte in &mut into[..length] {
            *byte = self.held.pop().unwrap_or_default();
        }
        length
    }
}

impl<R: BufRead> Read for WithoutLogs<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.held.is_empty() && self.begins_line && self.text.fill_buf()?.first() == Some(&b'=') {
            self.line()?;
        }
        if !self.held.is_empty() {
            return Ok(self.pass_held(into));
        }
        let text = self.text.fill_buf()?;
        let text = &text[..text.len().min(into.len())];
        // The next line may be one of logs.
        let end = text.windows(2).position(|pair| pair == b"\n=").map_or(text.len(), |at| at + 1);
        into[..end].copy_from_slice(&text[..end]);
        self.begins_line = text[..end].last() == Some(&b'\n');
        self.text.consume(end);
        Ok(end)
    }
}
