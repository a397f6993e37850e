//! The report of all checks.

use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use crate::manifest::{Files, SourceLocation};
use crate::model::count::{digits, plural};

/// The message for files without a rule.
pub const NO_RULES: &str = "no NodeExtendedResource found: there is nothing to validate";

/// The report on all files.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files, and what was skipped of them.
    pub files: Files,
    /// The number of rules in them.
    pub rules: usize,
    /// The diagnostics, up to a limit: see [`Report::omitted`].
    pub diagnostics: Vec<Diagnostic>,
    counts: [usize; 3],
    /// Whether warnings count as errors.
    pub(super) strict: bool,
}

/// The maximum number of diagnostics that are kept.
const MOST: usize = 10_000;

impl Report {
    pub(super) fn add(&mut self, mut diagnostic: Diagnostic) {
        if self.strict && diagnostic.severity == Severity::Warning {
            diagnostic.severity = Severity::Error;
        }
        self.counts[diagnostic.severity as usize] += 1;
        self.diagnostics.push(diagnostic);
        // Only when the limit is reached twice: at each diagnostic, it would take quadratic time.
        if self.diagnostics.len() == 2 * MOST {
            self.omit();
        }
    }

    /// Drops diagnostics beyond the limit, warnings first, so that no warning hides a later error.
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

    /// Returns the diagnostics about all files together: no rule is found, or diagnostics are omitted. Formats without
    /// a summary list them as problems.
    pub(super) fn overall(&self) -> Vec<Diagnostic> {
        let whole = || SourceLocation::file_alone(".");
        let no_rules =
            self.has_no_rules().then(|| Diagnostic::new(Severity::Unreadable, Code::NoRules, NO_RULES, whole()));
        let omitted = (self.omitted() > 0).then(|| {
            let message = format!("{} are not listed", plural(self.omitted(), "more problem", "more problems"));
            Diagnostic::new(Severity::Warning, Code::Omitted, message, whole())
        });
        no_rules.into_iter().chain(omitted).collect()
    }

    /// Returns whether everything could be read but no rule was found: the first command of a pipe failed, or the
    /// folder is wrong. A CI gate must fail then.
    #[must_use]
    pub fn has_no_rules(&self) -> bool {
        self.rules == 0 && self.count(Severity::Unreadable) == 0
    }

    /// Returns the number of problems of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.counts[severity as usize]
    }

    /// Returns the number of problems that are only counted: beyond 10,000, none is kept.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.counts.iter().sum::<usize>() - self.diagnostics.len()
    }

    /// Returns a summary in one line: `3 files, 5 rules: 2 errors, 1 warning`.
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
