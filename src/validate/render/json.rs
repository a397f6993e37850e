//! One JSON object, for programs.

use serde_json::{Value, json};

use crate::manifest::SourceLocation;
use crate::validate::diagnostic::{Diagnostic, Severity};
use crate::validate::report::Report;

pub(super) fn render(report: &Report) -> String {
    let value = json!({
        "files": report.files.names.len(),
        "skipped": report.files.skipped.iter().map(place).collect::<Vec<_>>(),
        "patchesNotRead": report.files.patches,
        "subfoldersNotRead": report.files.folders,
        "rules": report.rules,
        "unreadable": report.count(Severity::Unreadable),
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "omitted": report.omitted(),
        "diagnostics": report.diagnostics.iter().map(diagnostic).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// Missing properties are omitted.
fn diagnostic(diagnostic: &Diagnostic) -> Value {
    let mut value = place(&diagnostic.location);
    value["severity"] = diagnostic.severity.word().into();
    value["code"] = diagnostic.code.as_str().into();
    value["message"] = diagnostic.message.as_str().into();
    let text = [("hint", &diagnostic.hint), ("expression", &diagnostic.expression)];
    for (key, text) in text {
        if let Some(text) = text {
            value[key] = text.as_str().into();
        }
    }
    if let Some((kind, name)) = &diagnostic.object {
        value["kind"] = kind.as_str().into();
        value["name"] = name.as_str().into();
        value["path"] = diagnostic.path.as_str().into();
    }
    if !diagnostic.related.is_empty() {
        let related = diagnostic.related.iter().map(|(location, label)| {
            let mut value = place(location);
            value["message"] = label.as_str().into();
            value
        });
        value["related"] = related.collect();
    }
    value
}

fn place(location: &SourceLocation) -> Value {
    let mut value = json!({"file": location.file()});
    if let (Some((line, column)), Some((end_line, end_column))) = (location.start(), location.end()) {
        value["line"] = line.into();
        value["column"] = column.into();
        value["endLine"] = end_line.into();
        value["endColumn"] = end_column.into();
    }
    value
}
