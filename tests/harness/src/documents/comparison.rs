//! Compares a command's result with its page.

use anyhow::{Result, bail};

use super::Step;
use crate::Output;

/// The columns whose cells are ages.
const AGE_COLUMNS: [&str; 2] = ["AGE", "LAST SEEN"];

/// Compares a command's exit code, and its output if the page shows it.
pub fn check(step: &Step, output: &Output) -> Result<()> {
    let Output { stdout, stderr, code } = output;
    let stderr: Vec<_> = stderr.lines().filter(|line| !is_of_reflector(line)).collect();
    let printed = format!("{stdout}{}", stderr.join("\n"));
    if let Some(expected) = &step.output {
        let (expected, printed) = (lines(expected), lines(&printed));
        let alike = expected.len() == printed.len()
            && expected.iter().zip(&printed).all(|(expected, line)| matches(expected, line));
        if !alike {
            bail!(
                "prints something else than the page shows (code {code})\n--- the page\n{}\n--- the command\n{}",
                expected.join("\n"),
                printed.join("\n")
            );
        }
    }
    if *code != step.code {
        bail!(
            "ended with {code}, and the page shows {}; where that is right, add `# exit {code}` to the command\n{printed}",
            step.code
        );
    }
    Ok(())
}

/// Returns whether a line is kubectl's own log of a watch: `kubectl wait` cancels its watch when it has seen enough, and
/// sometimes reports that as a warning.
fn is_of_reflector(line: &str) -> bool {
    line.starts_with(['I', 'W', 'E']) && line.contains(" reflector.go:") && line.contains("watch ended with error")
}

/// Returns the non-empty lines with single spaces, and every age and time replaced by the same text.
fn lines(text: &str) -> Vec<String> {
    let mut columns = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line: Vec<char> = line.trim_end().chars().collect();
        if line.is_empty() {
            // The table ends.
            columns.clear();
            continue;
        }
        let found = age_columns(&line);
        if found.is_empty() {
            for column in &columns {
                replace_age(&mut line, *column);
            }
        } else {
            columns = found;
        }
        let line: String = line.into_iter().collect();
        let words = line.split_whitespace().map(|word| if is_time(word) { "<time>" } else { word });
        lines.push(words.collect::<Vec<_>>().join(" "));
    }
    lines
}

/// Returns the positions of age columns in a line of table headings, the last first; empty for other lines.
fn age_columns(line: &[char]) -> Vec<usize> {
    if line.iter().any(|c| c.is_lowercase()) {
        return Vec::new();
    }
    let is_heading = |start: usize| {
        let rest = &line[start..];
        AGE_COLUMNS.iter().any(|title| {
            let after = title.len();
            rest.iter().copied().take(after).eq(title.chars()) && rest[after..].iter().take(2).all(|c| *c == ' ')
        })
    };
    let begins = |start: usize| start == 0 || line[start - 1] == ' ';
    (0..line.len()).rev().filter(|start| begins(*start) && is_heading(*start)).collect()
}

fn replace_age(line: &mut Vec<char>, column: usize) {
    let begins = column == 0 || line.get(column - 1) == Some(&' ');
    let Some(rest) = line.get(column..).filter(|_| begins) else { return };
    let word: String = rest.iter().take_while(|c| **c != ' ').collect();
    if is_age(&word) {
        line.splice(column..column + word.chars().count(), "<age>".chars());
    }
}

/// Returns whether a text is an age as kubectl prints it: `3m2s`, `5d`, `2y10d`.
fn is_age(word: &str) -> bool {
    let mut units = "ydhms".chars();
    let mut parts = word.split_inclusive(|c: char| !c.is_ascii_digit()).peekable();
    parts.peek().is_some()
        && parts.all(|part| {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            let unit = part[digits.len()..].chars().next();
            !digits.is_empty() && unit.is_some_and(|unit| units.any(|next| next == unit))
        })
}

/// Returns whether a text is a time in RFC 3339, in UTC and whole seconds: `2026-01-31T09:30:00Z`.
fn is_time(word: &str) -> bool {
    const PATTERN: &str = "0000-00-00T00:00:00Z";
    let is_like = |(c, like): (char, char)| if like == '0' { c.is_ascii_digit() } else { c == like };
    word.len() == PATTERN.len() && word.chars().zip(PATTERN.chars()).all(is_like)
}

/// Returns whether a line contains the parts between `…` in order, and begins and ends with the outer ones.
fn matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut ends_open = false;
    for part in parts {
        let Some(at) = (if part.is_empty() { Some(0) } else { rest.rfind(part) }) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        ends_open = part.is_empty();
    }
    ends_open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_of_a_watch_that_kubectl_ends_is_no_output() {
        let warning =
            "I1129 18:11:05.251263 5992 reflector.go:664] \"Warning: watch ended with error\" err=\"canceled\"";
        assert!(is_of_reflector(warning));
        for line in ["nodeextendedresource.noderesource.dev/dongle condition met", "Error: watch ended with error"] {
            assert!(!is_of_reflector(line), "{line}");
        }
    }
}
