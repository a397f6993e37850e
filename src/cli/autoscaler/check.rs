//! `--check`: whether an autoscaler knows what the rules declare.
//!
//! ```text
//! rules ─▶ overlays, or a group's values ─▶ expected ─┐
//! a file, or the cluster ─▶ sources ─▶ found ─────────┴▶ overlays, groups ─▶ difference ─▶ lines or JSON
//! ```

pub(super) mod groups;
pub(super) mod sources;

use serde::Serialize;

use super::error::AutoscalerError;
use super::render::{self, Format};
use crate::cli::output::API_VERSION;
use crate::inspect::overlays::difference::{Comparison, Difference};
use crate::model::count::plural;
use crate::model::label::printable;

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

/// Returns a comparison as text.
pub(super) fn text(comparison: &Comparison, unexpressed: &[String], format: Format) -> Result<String, AutoscalerError> {
    let differences = &comparison.differences;
    if format != Format::Text {
        let kind = "AutoscalerCheck";
        return render::value(&Document { api_version: API_VERSION, kind, differences, unexpressed }, format);
    }
    let lines = differences.iter().map(|it| format!("{}: {}", it.object, it.message));
    let lines: String = lines.map(|line| printable(&line).into_owned() + "\n").collect();
    let compared = plural(comparison.compared, "expected value", "expected values");
    Ok(match differences.len() {
        0 => format!("No differences: {compared}.\n"),
        count => format!("{lines}{}, {compared}.\n", plural(count, "difference", "differences")),
    })
}
