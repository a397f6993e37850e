//! For GitHub Actions: workflow commands, which it shows at the lines of a pull request.

use crate::validate::problem::{Problem, Severity};
use crate::validate::report::Report;

pub(super) fn render(report: &Report) -> String {
    let mut text: String = report.problems.iter().map(annotation).collect();
    text.push_str(&report.summary());
    text.push('\n');
    text
}

fn annotation(problem: &Problem) -> String {
    let command = match problem.severity {
        Severity::Unreadable | Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let spot = &problem.spot;
    let mut properties = format!("file={}", property(spot.file()));
    if let (Some((line, column)), Some((end_line, end_column))) = (spot.start(), spot.end()) {
        properties.push_str(&format!(
            ",line={line},col={column},endLine={end_line},endColumn={end_column}"
        ));
    }
    let title = property(&problem.rule);
    let hint = problem.hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    let message = data(&format!("{}{hint}", problem.title()));
    format!("::{command} {properties},title={title}::{message}\n")
}

/// Whatever would end the line, or be taken for an escape.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Spot;

    #[test]
    fn nothing_in_a_problem_ends_its_line_or_starts_a_command() {
        let spot = Spot::file_alone("a,b:c\n%.yaml");
        let problem = Problem::new(Severity::Warning, "x", "one\r\n::error::two, 3%", spot);
        assert_eq!(
            annotation(&problem.hint("four")),
            "::warning file=a%2Cb%3Ac%0A%25.yaml,title=x::one%0D%0A::error::two, 3%25%0Afour\n"
        );
    }
}
