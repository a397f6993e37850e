//! What all checks find.

use super::diagnostic::{Diagnostic, Severity};
use crate::manifest::Files;
use crate::model::count::{digits, plural};

/// What all files together come to.
#[derive(Debug, Default)]
pub struct Report {
    /// The files, and what of them was skipped.
    pub files: Files,
    /// How many rules are in them.
    pub rules: usize,
    /// What has been found, as far as it is kept: see [`Report::omitted`].
    pub diagnostics: Vec<Diagnostic>,
    counts: [usize; 3],
    /// Whether warnings count as errors.
    pub(super) strict: bool,
}

/// The most problems that are kept. Whoever has more has one problem, many times.
const MOST: usize = 10_000;

impl Report {
    pub(super) fn add(&mut self, mut diagnostic: Diagnostic) {
        if self.strict && diagnostic.severity == Severity::Warning {
            diagnostic.severity = Severity::Error;
        }
        self.counts[diagnostic.severity as usize] += 1;
        if self.diagnostics.len() < MOST {
            self.diagnostics.push(diagnostic);
        }
    }

    /// How many problems of this severity there are.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.counts[severity as usize]
    }

    /// How many problems are only counted: beyond 10,000 none is kept.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.counts.iter().sum::<usize>() - self.diagnostics.len()
    }

    /// What comes to what, in one line: `3 files, 5 rules: 2 errors, 1 warning`.
    #[must_use]
    pub fn summary(&self) -> String {
        let found = [
            (self.count(Severity::Unreadable), "unreadable", "unreadable"),
            (self.count(Severity::Error), "error", "errors"),
            (self.count(Severity::Warning), "warning", "warnings"),
        ];
        let found: Vec<_> = found
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| plural(count, one, many))
            .collect();
        let found = if found.is_empty() { "no problems".to_owned() } else { found.join(", ") };
        let files = plural(self.files.names.len(), "file", "files");
        let rules = plural(self.rules, "rule", "rules");
        let omitted = match self.omitted() {
            0 => String::new(),
            omitted => format!(" ({} not shown)", digits(omitted)),
        };
        format!("{files}, {rules}: {found}{omitted}")
    }
}
