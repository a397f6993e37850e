//! What differs, and how it is printed.

use serde::Serialize;

use crate::cli::autoscaler::error::AutoscalerError;
use crate::cli::autoscaler::render::{self, Format};
use crate::cli::output::API_VERSION;
use crate::model::count::plural;
use crate::model::label::printable;

/// Something that is not as the rules declare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    /// The object or node group that has it, such as `NodeOverlay dongle`.
    pub(crate) object: String,
    /// The field, tag, label or annotation, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// A sentence, without a period.
    pub(crate) message: String,
}

impl Difference {
    /// Returns a difference of a whole object.
    pub(super) fn of_object(object: String, message: String) -> Self {
        Self { object, field: None, expected: None, found: None, message }
    }

    /// Returns a difference of one field.
    pub(super) fn of_field(object: &str, field: &str, expected: Option<String>, found: Option<String>) -> Self {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let message = format!("{field}: expected {}, found {}", shown(&expected), shown(&found));
        Self { object: object.to_owned(), field: Some(field.to_owned()), expected, found, message }
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) differences: Vec<Difference>,
    /// How many objects or values were expected.
    pub(crate) compared: usize,
    pub(crate) notes: Vec<String>,
}

/// The comparison, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'t> {
    api_version: &'static str,
    kind: &'static str,
    differences: &'t [Difference],
    /// Sentences about what the autoscaler has no way to express.
    unexpressed: &'t [String],
}

impl Comparison {
    pub(crate) fn render(&self, unexpressed: &[String], format: Format) -> Result<String, AutoscalerError> {
        let differences = &self.differences;
        if format != Format::Text {
            let kind = "AutoscalerCheck";
            return render::value(&Document { api_version: API_VERSION, kind, differences, unexpressed }, format);
        }
        let lines = differences.iter().map(|it| format!("{}: {}", it.object, it.message));
        let lines: String = lines.map(|line| printable(&line).into_owned() + "\n").collect();
        let compared = plural(self.compared, "expected value", "expected values");
        Ok(match differences.len() {
            0 => format!("No differences: {compared}.\n"),
            count => format!("{lines}{}, {compared}.\n", plural(count, "difference", "differences")),
        })
    }
}
