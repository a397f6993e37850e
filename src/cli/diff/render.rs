//! How a report is written.

mod table;

use serde::Serialize;

use super::report::{Report, Summary};

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: a line for each resource.
    Table {
        /// Whether to use colours.
        colour: bool,
    },
    /// A list of [`NodeDiff`](super::forecast::Forecast)s.
    Json,
    /// The same.
    Yaml,
    /// A line of JSON for each node that would be patched: `{"node": …, "patch": […]}`. Where a value
    /// is lowered, the controller sends first what does not depend on pods, if there is any: the same in
    /// two patches.
    Patch,
}

impl Report {
    /// The report as text, with a line break at its end.
    ///
    /// # Errors
    /// What the format cannot express, which would be a mistake in the program.
    pub fn render(&self, format: Format) -> Result<String, String> {
        match format {
            Format::Table { colour } => Ok(table::render(self, colour)),
            Format::Json => serde_json::to_string_pretty(&self.nodes)
                .map(|text| text + "\n")
                .map_err(|error| error.to_string()),
            Format::Yaml => serde_saphyr::to_string(&self.nodes).map_err(|error| error.to_string()),
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

impl Summary {
    /// All counts in one line, as Terraform has it.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { add, change, remove, unchanged, .. } = *self;
        let head = match add + change + remove {
            0 => "No changes".to_owned(),
            _ => format!("Plan: {add} to add, {change} to change, {remove} to remove"),
        };
        let problems = [
            (self.conflicted, "conflict", "conflicts"),
            (self.contested, "contested", "contested"),
            (self.held, "held", "held"),
            (self.maybe_held, "may be held", "may be held"),
            (self.unreadable, "node unreadable", "nodes unreadable"),
            (self.missing, "node missing", "nodes missing"),
        ];
        let problems = problems.into_iter().filter(|(count, ..)| *count > 0);
        let problems: Vec<_> =
            problems.map(|(count, one, many)| plural(count, one, many)).collect();
        let problems =
            if problems.is_empty() { String::new() } else { format!("; {}", problems.join(", ")) };
        format!("{head}{problems}; {unchanged} unchanged.")
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
