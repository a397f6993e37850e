//! What a check of one object finds.

use serde_json::Value;

use super::code::Code;
use super::placeholder::placeholder;
use crate::manifest::{Path, Step};

/// Something that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// Of what is wrong.
    pub(super) path: Path,
    /// Whether it is the key that is wrong, and not the value.
    pub(super) at_key: bool,
    /// What it is about.
    pub(super) code: Code,
    /// What is wrong. Where the API server has words for it, these are its own.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: Option<String>,
    /// The CEL rule.
    pub(super) expression: Option<String>,
}

impl Violation {
    pub(super) fn new(path: &Path, code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { path: path.clone(), at_key: false, code, message, hint: None, expression: None }
    }

    pub(super) fn hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Returns what renders the placeholder in the value, or in its key.
    pub(super) fn placeholder(&self, value: Option<&Value>) -> Option<String> {
        let key = match self.path.steps().last() {
            Some(Step::Key(key)) => placeholder(key),
            _ => None,
        };
        let inside = match value {
            Some(Value::String(text)) => placeholder(text),
            // Which of the keys is none of a label, the rule of the map does not say.
            Some(Value::Object(labels)) if self.code == Code::LabelKey => {
                labels.keys().find_map(|key| placeholder(key))
            }
            _ => None,
        };
        inside.or(key).map(str::to_owned)
    }

    pub(super) fn at_key(self) -> Self {
        Self { at_key: true, ..self }
    }

    pub(super) fn expression(self, expression: &str) -> Self {
        Self { expression: Some(expression.to_owned()), ..self }
    }
}
