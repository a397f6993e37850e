//! For programs: one JSON object.

use serde_json::{Value, json};

use crate::manifest::Spot;
use crate::validate::problem::{Problem, Severity};
use crate::validate::report::Report;

pub(super) fn render(report: &Report) -> String {
    let value = json!({
        "files": report.files,
        "rules": report.rules,
        "unreadable": report.count(Severity::Unreadable),
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "omitted": report.omitted(),
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// What a problem has none of is left out.
fn problem(problem: &Problem) -> Value {
    let mut value = place(&problem.spot);
    value["severity"] = problem.severity.word().into();
    value["rule"] = problem.rule.as_ref().into();
    value["message"] = problem.message.as_str().into();
    let text = [("hint", &problem.hint), ("expression", &problem.expression)];
    for (key, text) in text {
        if let Some(text) = text {
            value[key] = text.as_str().into();
        }
    }
    if let Some((kind, name)) = &problem.object {
        value["kind"] = kind.as_str().into();
        value["name"] = name.as_str().into();
        value["path"] = problem.path.as_str().into();
    }
    if !problem.related.is_empty() {
        let related = problem.related.iter().map(|(spot, label)| {
            let mut value = place(spot);
            value["message"] = label.as_str().into();
            value
        });
        value["related"] = related.collect();
    }
    value
}

fn place(spot: &Spot) -> Value {
    let mut value = json!({"file": spot.file()});
    if let (Some((line, column)), Some((end_line, end_column))) = (spot.start(), spot.end()) {
        value["line"] = line.into();
        value["column"] = column.into();
        value["endLine"] = end_line.into();
        value["endColumn"] = end_column.into();
    }
    value
}
