//! One thing to tell, with the place that it stands at.

use super::code::Code;
use super::violation::Violation;
use crate::manifest::{Document, Path, SourceLocation};

/// How much a problem matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something could not be read, so that it is not known what is in it.
    Unreadable,
    /// The API server refuses it, or one of two objects is lost.
    Error,
    /// It is taken, and may not be what was meant.
    Warning,
}

impl Severity {
    /// One word for machines.
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
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub code: Code,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The CEL rule that does not hold.
    pub expression: Option<String>,
    /// Where.
    pub location: SourceLocation,
    /// What to say at the place itself.
    pub label: Option<String>,
    /// Other places that it takes to understand it.
    pub related: Vec<(SourceLocation, String)>,
    /// Kind and name of the object.
    pub object: Option<(String, String)>,
    /// The path of what is wrong in the object, such as `spec.quantity`.
    pub path: String,
}

impl Diagnostic {
    pub(super) fn new(
        severity: Severity,
        code: Code,
        message: impl Into<String>,
        location: SourceLocation,
    ) -> Self {
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

    /// What a check of one object has found.
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

    /// The path and the message, in one line.
    #[must_use]
    pub fn title(&self) -> String {
        // The server's words for an unknown field name its path already.
        if self.message.contains(&self.path) {
            return self.message.clone();
        }
        format!("{}: {}", self.path, self.message)
    }
}
