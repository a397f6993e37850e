//! Text in the style of the Rust compiler.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::manifest::SourceLocation;
use crate::validate::diagnostic::{Diagnostic, Severity};
use crate::validate::report::Report;

/// The maximum length of a CEL rule that is shown: longer rules are mostly regular expressions and say less than their
/// message.
const LONGEST_EXPRESSION: usize = 100;

pub(super) fn render(report: &Report, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for diagnostic in &report.diagnostics {
        text.push_str(&renderer.render(&[group(diagnostic)]));
        text.push_str("\n\n");
    }
    for note in report.files.notes() {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push_str(&report.summary());
    text.push('\n');
    text
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let level = match diagnostic.severity {
        Severity::Unreadable | Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.title()).id(diagnostic.code.as_str());
    let mut group = Group::with_title(title);
    group = shown(group, &diagnostic.location, AnnotationKind::Primary, diagnostic.label.as_deref());
    for (location, label) in &diagnostic.related {
        group = shown(group, location, AnnotationKind::Context, Some(label));
    }
    let expression = diagnostic.expression.as_ref();
    if let Some(expression) = expression.filter(|text| text.len() <= LONGEST_EXPRESSION) {
        group = group.element(Level::NOTE.message(format!("the rule is {expression}")));
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.message(hint));
    }
    group
}

/// Adds a location: its line with a part underlined; only its number if the line is too long.
fn shown<'t>(
    group: Group<'t>,
    location: &'t SourceLocation,
    kind: AnnotationKind,
    label: Option<&'t str>,
) -> Group<'t> {
    let Some((line, column)) = location.start() else {
        return group.element(Origin::path(location.file()));
    };
    let Some((text, range)) = location.shown() else {
        return group.element(Origin::path(location.file()).line(line).char_column(column));
    };
    let annotation: Annotation<'_> = kind.span(range).label(label);
    let snippet = Snippet::source(text).path(location.file()).line_start(line);
    group.element(snippet.annotation(annotation))
}
