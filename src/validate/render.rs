//! The output formats of a report.

mod annotations;
mod gitlab;
mod json;
mod junit;
mod text;

use super::report::Report;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people, with the text underlined.
    Text {
        /// Whether to use colours.
        colour: bool,
    },
    /// One JSON object.
    Json,
    /// Annotations of GitHub Actions.
    Github,
    /// A code quality report of GitLab.
    Gitlab,
    /// JUnit XML.
    Junit,
}

impl Report {
    /// The report as text, with a line break at its end.
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
