//! For people, as the Rust compiler would tell them.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::manifest::Spot;
use crate::validate::problem::{Problem, Severity};
use crate::validate::report::Report;

/// A longer CEL rule is mostly a regular expression, and tells nobody more than its message does.
const LONGEST_EXPRESSION: usize = 100;

pub(super) fn render(report: &Report, colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for problem in &report.problems {
        text.push_str(&renderer.render(&[group(problem)]));
        text.push_str("\n\n");
    }
    text.push_str(&report.summary());
    text.push('\n');
    text
}

fn group(problem: &Problem) -> Group<'_> {
    let level = match problem.severity {
        Severity::Unreadable | Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(problem.title()).id(&*problem.rule);
    let mut group = Group::with_title(title);
    group = shown(group, &problem.spot, AnnotationKind::Primary, problem.label.as_deref());
    for (spot, label) in &problem.related {
        group = shown(group, spot, AnnotationKind::Context, Some(label));
    }
    let expression = problem.expression.as_ref();
    if let Some(expression) = expression.filter(|text| text.len() <= LONGEST_EXPRESSION) {
        group = group.element(Level::NOTE.message(format!("the rule is {expression}")));
    }
    if let Some(hint) = &problem.hint {
        group = group.element(Level::HELP.message(hint));
    }
    group
}

/// Adds a place: its line with a part of it underlined; only its number where that is too long.
fn shown<'t>(
    group: Group<'t>,
    spot: &'t Spot,
    kind: AnnotationKind,
    label: Option<&'t str>,
) -> Group<'t> {
    let Some((line, column)) = spot.start() else {
        return group.element(Origin::path(spot.file()));
    };
    let Some((text, range)) = spot.shown() else {
        return group.element(Origin::path(spot.file()).line(line).char_column(column));
    };
    let annotation: Annotation<'_> = kind.span(range).label(label);
    let snippet = Snippet::source(text).path(spot.file()).line_start(line);
    group.element(snippet.annotation(annotation))
}
