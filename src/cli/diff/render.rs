//! How a report is written.

mod table;

use serde::Serialize;

use super::node_diff::NodeDiff;
use super::report::{Report, Summary};
use super::rules::Note;
use super::totals::Total;
pub use table::TableLimits;

/// The version of what programs read. It is not a kind of the API server's, as kubeadm's
/// `output.kubeadm.k8s.io` is not.
const API_VERSION: &str = "output.noderesource.dev/v1alpha1";

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: a line for each resource, of a node or of many.
    Table {
        /// Whether to use colours.
        colour: bool,
        /// How long it gets.
        limits: TableLimits,
    },
    /// An object of the kind `Plan`.
    Json,
    /// The same.
    Yaml,
    /// A line of JSON for each node that would be patched: `{"node": …, "patch": […]}`. Where a value
    /// is lowered, the controller sends first what does not depend on pods, if there is any: the same in
    /// two patches.
    Patch,
}

/// What programs read. The order of the fields is that of the output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'t> {
    api_version: &'static str,
    kind: &'static str,
    summary: Summary,
    totals: &'t [Total],
    notes: &'t [Note],
    nodes: &'t [NodeDiff],
}

impl Report {
    /// The report as text, with a line break at its end.
    ///
    /// # Errors
    /// What the format cannot express, which would be a mistake in the program.
    pub fn render(&self, format: Format) -> Result<String, String> {
        let document = Document {
            api_version: API_VERSION,
            kind: "Plan",
            summary: self.summary,
            totals: &self.totals,
            notes: &self.notes,
            nodes: &self.nodes,
        };
        match format {
            Format::Table { colour, limits } => Ok(table::render(self, colour, limits)),
            Format::Json => serde_json::to_string_pretty(&document)
                .map(|text| text + "\n")
                .map_err(|error| error.to_string()),
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
