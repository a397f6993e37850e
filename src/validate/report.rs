//! What all checks find.

use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use crate::manifest::{Files, SourceLocation};
use crate::model::count::{digits, plural};

/// What is wrong with files that have no rule.
pub const NO_RULES: &str = "no NodeExtendedResource found: there is nothing to validate";

/// What all files together come to.
#[derive(Clone, Debug, Default)]
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
        self.diagnostics.push(diagnostic);
        // Not with each one, which would take time that grows with the square of their number.
        if self.diagnostics.len() == 2 * MOST {
            self.omit();
        }
    }

    /// Drops what is beyond the limit, warnings first: none of them hides an error that comes later.
    pub(super) fn omit(&mut self) {
        let is_warning = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Warning;
        let warnings = self.diagnostics.iter().filter(|it| is_warning(it)).count();
        let mut errors_left = MOST.min(self.diagnostics.len() - warnings);
        let mut warnings_left = MOST - errors_left;
        self.diagnostics.retain(|diagnostic| {
            let left = if is_warning(diagnostic) { &mut warnings_left } else { &mut errors_left };
            let kept = *left > 0;
            *left = left.saturating_sub(1);
            kept
        });
    }

    /// What is about all files together: that there is no rule in them, and that not every problem is
    /// listed. Formats that have no place for a summary list it as problems.
    pub(super) fn overall(&self) -> Vec<Diagnostic> {
        let whole = || SourceLocation::file_alone(".");
        let no_rules = self
            .has_no_rules()
            .then(|| Diagnostic::new(Severity::Unreadable, Code::NoRules, NO_RULES, whole()));
        let omitted = (self.omitted() > 0).then(|| {
            let message = format!(
                "{} are not listed",
                plural(self.omitted(), "more problem", "more problems")
            );
            Diagnostic::new(Severity::Warning, Code::Omitted, message, whole())
        });
        no_rules.into_iter().chain(omitted).collect()
    }

    /// Whether everything could be read, and no rule is in it: a pipe whose first command failed, or the
    /// wrong folder. A gate must not open for it.
    #[must_use]
    pub fn has_no_rules(&self) -> bool {
        self.rules == 0 && self.count(Severity::Unreadable) == 0
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
