//! Annotations for GitHub Actions: workflow commands, shown at the lines of a pull request.

use crate::validate::diagnostic::{Diagnostic, Severity};
use crate::validate::report::Report;

pub(super) fn render(report: &Report) -> String {
    let overall = report.overall();
    let mut text: String = report.diagnostics.iter().chain(&overall).map(annotation).collect();
    for note in report.files.notes() {
        text.push_str(&format!("::notice::{}\n", data(&note)));
    }
    text.push_str(&report.summary());
    text.push('\n');
    text
}

fn annotation(diagnostic: &Diagnostic) -> String {
    let command = match diagnostic.severity {
        Severity::Unreadable | Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let location = &diagnostic.location;
    let mut properties = format!("file={}", property(location.file()));
    if let (Some((line, column)), Some((end_line, end_column))) = (location.start(), location.end()) {
        properties.push_str(&format!(",line={line},col={column},endLine={end_line},endColumn={end_column}"));
    }
    let title = property(diagnostic.code.as_str());
    let hint = diagnostic.hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    let message = data(&format!("{}{hint}", diagnostic.title()));
    format!("::{command} {properties},title={title}::{message}\n")
}

/// Escapes characters that end the line or start an escape.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::SourceLocation;
    use crate::validate::code::Code;

    #[test]
    fn github_annotation_escapes_newlines_and_commands() {
        let location = SourceLocation::file_alone("a,b:c\n%.yaml");
        let diagnostic = Diagnostic::new(Severity::Warning, Code::Type, "one\r\n::error::two, 3%", location);
        assert_eq!(
            annotation(&diagnostic.hint("four")),
            "::warning file=a%2Cb%3Ac%0A%25.yaml,title=type::one%0D%0A::error::two, 3%25%0Afour\n"
        );
    }
}
