//! Renders a report.

mod table;

use serde::Serialize;

use crate::cli::output::API_VERSION;
use crate::inspect::diff::held::Held;
use crate::inspect::diff::node_diff::NodeDiff;
use crate::inspect::diff::rules::Note;
use crate::inspect::diff::totals::Total;
use crate::inspect::diff::{Report, Summary};
pub use table::TableLimits;

/// The output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table: one line per resource, on one or many nodes.
    Table {
        /// Whether to use colors.
        colour: bool,
        /// The limits of the table.
        limits: TableLimits,
    },
    /// An object of the kind `Plan`.
    Json,
    /// Like `Json`, as YAML.
    Yaml,
    /// One line of JSON per node that would be patched: `{"node": …, "patch": […]}`. If a value is lowered, the
    /// controller first sends the changes that do not depend on pods, if any: the same changes in two patches.
    Patch,
}

/// The output for programs, in the order of its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'t> {
    api_version: &'static str,
    kind: &'static str,
    summary: Summary,
    totals: &'t [Total],
    held: &'t [Held],
    notes: &'t [Note],
    nodes: &'t [NodeDiff],
}

impl Report {
    /// Returns the report as text, with a line break at its end.
    ///
    /// # Errors
    /// If the format cannot express the report, which would be a bug.
    pub fn render(&self, format: Format) -> Result<String, String> {
        let document = Document {
            api_version: API_VERSION,
            kind: "Plan",
            summary: self.summary,
            totals: &self.totals,
            held: &self.held,
            notes: &self.notes,
            nodes: &self.nodes,
        };
        match format {
            Format::Table { colour, limits } => Ok(table::render(self, colour, limits)),
            Format::Json => {
                serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(|error| error.to_string())
            }
            Format::Yaml => serde_saphyr::to_string(&document).map_err(|error| error.to_string()),
            Format::Patch => self.patches().map_err(|error| error.to_string()),
        }
    }

    fn patches(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Line<'t> {
            node: &'t str,
            patch: &'t json_patch::Patch,
        }

        let mut text = String::new();
        for node_diff in &self.nodes {
            if let Some(patch) = &node_diff.patch {
                text += &serde_json::to_string(&Line { node: &node_diff.node, patch })?;
                text.push('\n');
            }
        }
        Ok(text)
    }
}
