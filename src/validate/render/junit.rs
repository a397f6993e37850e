//! JUnit XML for CI systems. Each file is a suite with one case per problem, or one case that passes; a warning is a
//! case that passes and outputs its text.

use std::collections::BTreeMap;

use crate::validate::diagnostic::{Diagnostic, Severity};
use crate::validate::report::Report;

pub(super) fn render(report: &Report) -> String {
    let overall = report.overall();
    let mut suites = BTreeMap::<&str, Vec<&Diagnostic>>::new();
    for name in &report.files.names {
        suites.entry(name).or_default();
    }
    for diagnostic in report.diagnostics.iter().chain(&overall) {
        suites.entry(diagnostic.location.file()).or_default().push(diagnostic);
    }
    let all = || suites.values().flatten().copied();
    let tests: usize = suites.values().map(|found| found.len().max(1)).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"validate\" tests=\"{tests}\" {}>\n",
        counts(all())
    );
    for (file, found) in &suites {
        text.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" {}>\n",
            escape(file),
            found.len().max(1),
            counts(found.iter().copied())
        ));
        if found.is_empty() {
            text.push_str(&format!("    <testcase classname=\"{}\" name=\"valid\"/>\n", escape(file)));
        }
        for diagnostic in found {
            text.push_str(&case(diagnostic));
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn counts<'t>(found: impl Iterator<Item = &'t Diagnostic> + Clone) -> String {
    let count = |severity| found.clone().filter(|it| it.severity == severity).count();
    let (errors, failures) = (count(Severity::Unreadable), count(Severity::Error));
    format!("errors=\"{errors}\" failures=\"{failures}\"")
}

fn case(diagnostic: &Diagnostic) -> String {
    let location = &diagnostic.location;
    let file = escape(location.file());
    let place = match location.start() {
        Some((line, column)) => format!("{}:{line}:{column}", location.file()),
        None => location.file().to_owned(),
    };
    let (code, title) = (diagnostic.code.as_str(), diagnostic.title());
    let hint = diagnostic.hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default();
    let body = escape(&format!("{place}: {title}{hint}"));
    let result = match diagnostic.severity {
        Severity::Warning => format!("<system-out>{body}</system-out>"),
        severity => {
            let tag = if severity == Severity::Error { "failure" } else { "error" };
            format!("<{tag} type=\"{code}\" message=\"{}\">{body}</{tag}>", escape(&title))
        }
    };
    let line = location.start().map(|(line, _)| format!(" line=\"{line}\"")).unwrap_or_default();
    let name = escape(&format!("{code} {}", diagnostic.path)).trim_end().to_owned();
    format!(
        "    <testcase classname=\"{file}\" name=\"{name}\" file=\"{file}\"{line}>\n      {result}\n    </testcase>\n"
    )
}

/// Escapes text for elements and attributes, and replaces characters that XML cannot hold.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\r' | '\t' => escaped.push_str(&format!("&#{};", u32::from(character))),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_text_is_escaped() {
        assert_eq!(
            escape("<a b=\"c\">&amp;\r\n\u{1b}[0m]]>\u{e4}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;amp;&#13;&#10;\u{fffd}[0m]]&gt;\u{e4}"
        );
    }
}
