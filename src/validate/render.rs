//! The output formats of a report.

mod annotations;
mod gitlab;
mod json;
mod junit;
mod text;

use super::report::Report;

/// The output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text with the source underlined.
    Text {
        /// Whether to use colors.
        colour: bool,
    },
    /// One JSON object.
    Json,
    /// Annotations for GitHub Actions.
    Github,
    /// A code quality report for GitLab.
    Gitlab,
    /// JUnit XML.
    Junit,
}

impl Report {
    /// Returns the report as text, with a line break at its end.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Text { colour } => text::render(self, colour),
            Format::Json => json::render(self),
            Format::Github => annotations::render(self),
            Format::Gitlab => gitlab::render(self),
            Format::Junit => junit::render(self),
        }
    }
}
