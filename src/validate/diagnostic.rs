//! A diagnostic with its location.

use super::code::Code;
use super::violation::Violation;
use crate::manifest::{Document, Path, SourceLocation};

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something cannot be read, so its contents are unknown.
    Unreadable,
    /// The API server rejects it, or one of two objects is lost.
    Error,
    /// The API server accepts it, but it may not be what was meant.
    Warning,
}

impl Severity {
    /// Returns the machine-readable name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// A problem.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The kind.
    pub code: Code,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The CEL rule that does not hold.
    pub expression: Option<String>,
    /// The location.
    pub location: SourceLocation,
    /// The label at the location.
    pub label: Option<String>,
    /// Other relevant locations.
    pub related: Vec<(SourceLocation, String)>,
    /// The kind and name of the object.
    pub object: Option<(String, String)>,
    /// The path in the object, such as `spec.quantity`.
    pub path: String,
}

impl Diagnostic {
    pub(super) fn new(severity: Severity, code: Code, message: impl Into<String>, location: SourceLocation) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            hint: None,
            expression: None,
            location,
            label: None,
            related: Vec::new(),
            object: None,
            path: String::new(),
        }
    }

    /// Returns the diagnostic for a violation in an object.
    pub(super) fn found(violation: Violation, document: &Document) -> Self {
        let Violation { path, at_key, code, message, hint, expression } = violation;
        let location = if at_key { document.key_location(&path) } else { document.location(&path) };
        let diagnostic = Self::new(Severity::Error, code, message, location).of(document, &path);
        Self { hint, expression, ..diagnostic }
    }

    pub(super) fn of(self, document: &Document, path: &Path) -> Self {
        let object = Some((document.kind().to_owned(), document.name().to_owned()));
        Self { object, path: path.to_string(), ..self }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(super) fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    pub(super) fn related(mut self, location: SourceLocation, label: impl Into<String>) -> Self {
        self.related.push((location, label.into()));
        self
    }

    /// Returns the path and the message, in one line.
    #[must_use]
    pub fn title(&self) -> String {
        // The API server's message for an unknown field already contains the path.
        if self.message.contains(&self.path) {
            return self.message.clone();
        }
        format!("{}: {}", self.path, self.message)
    }
}
