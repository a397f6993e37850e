//! Manifests, read as in `validate`.

use std::sync::LazyLock;
use std::{env, fs};

use harness::reports;
use kube::Resource as _;
use node_resource_advertiser::manifest::{self, Document, Files, Inputs, Limits, ReadError};
use node_resource_advertiser::model::api::NodeExtendedResource;
use node_resource_advertiser::model::label::printable;
use node_resource_advertiser::planner::rules::Rule;
use node_resource_advertiser::validate::{Format, Report, Severity, Validator};
use serde_json::Value;

use crate::limits::limited;

/// Aliases make 500,000 values of a few bytes: see [`Limits`].
const MEBIBYTES: u64 = 512;

/// Every problem is reported with its location, and every accepted document is a valid rule for the controller.
pub fn check(bytes: &[u8]) {
    let (documents, report) = limited(bytes.len(), MEBIBYTES, || validate(bytes));
    let text = String::from_utf8_lossy(bytes);
    for diagnostic in &report.diagnostics {
        if let Some((line, column)) = diagnostic.location.start() {
            let line = text.split('\n').nth(line - 1).expect("a line that is there");
            assert!(column <= line.chars().count() + 1, "{column} in {line:?}");
        }
        assert!(!diagnostic.title().contains(char::is_control), "{:?}", diagnostic.title());
    }
    assert!(!report.render(Format::Text { colour: true }).is_empty());
    for format in [Format::Json, Format::Gitlab] {
        let rendered = report.render(format);
        serde_json::from_str::<Value>(&rendered).unwrap_or_else(|error| panic!("{format:?}: {error}: {rendered}"));
    }
    check_junit(&report);
    check_annotations(&report);
    let has_errors = [Severity::Unreadable, Severity::Error].iter().any(|severity| report.count(*severity) > 0);
    let rules = documents.iter().filter(|document| {
        document.kind() == NodeExtendedResource::kind(&())
            && document.api_version() == NodeExtendedResource::api_version(&())
    });
    for Document { value, .. } in rules.filter(|_| !has_errors) {
        let mut value = without_nulls(value.clone());
        value.as_object_mut().expect("a rule is an object").remove("status");
        let object = serde_json::from_value::<NodeExtendedResource>(value).expect("it can be decoded");
        Rule::new(&object).expect("the controller accepts what validate accepts");
    }
    documents.iter().for_each(same_as_json);
}

/// JUnit XML has every diagnostic of a file, in order.
fn check_junit(report: &Report) {
    let xml = report.render(Format::Junit);
    let cases = reports::junit(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    for diagnostic in &report.diagnostics {
        let is_shown = cases.iter().any(|case| {
            let message = case.message.as_ref().is_none_or(|message| *message == in_xml(&diagnostic.title()));
            let hint = diagnostic.hint.as_ref().is_none_or(|hint| case.text.ends_with(&in_xml(&format!("\n{hint}"))));
            let is_of_file = case.file == in_xml(diagnostic.location.file());
            is_of_file && message && hint && case.text.contains(&in_xml(&diagnostic.title()))
        });
        assert!(is_shown, "{diagnostic:?} in {xml}");
    }
}

/// Replaces the characters that XML cannot have.
fn in_xml(text: &str) -> String {
    let is_odd = |c: char| matches!(c, '\u{fffe}' | '\u{ffff}') || c < ' ' && !"\n\r\t".contains(c);
    text.replace(is_odd, "\u{fffd}")
}

/// GitHub's annotations have every diagnostic, in order, and nothing else but the summary.
fn check_annotations(report: &Report) {
    let output = report.render(Format::Github);
    let (found, others) = reports::annotations(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    assert_eq!(others, [report.summary()], "{output}");
    assert!(found.len() >= report.diagnostics.len(), "{output}");
    for (diagnostic, annotation) in report.diagnostics.iter().zip(&found) {
        assert_eq!(annotation.properties["file"], diagnostic.location.file(), "{output}");
        assert_eq!(annotation.properties["title"], diagnostic.code.as_str(), "{output}");
        let line = diagnostic.location.start().map(|(line, _)| line.to_string());
        assert_eq!(annotation.properties.get("line"), line.as_ref(), "{output}");
        let hint = diagnostic.hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default();
        assert_eq!(annotation.message, format!("{}{hint}", diagnostic.title()), "{output}");
    }
}

/// Runs the code of the command, on a file if the bytes are not text.
fn validate(bytes: &[u8]) -> (Vec<Document>, Report) {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| Validator::new().expect("the CRD is valid"));
    let mut validator = VALIDATOR.clone();
    let mut documents = Vec::new();
    let mut take = |read: Result<Document, ReadError>| {
        documents.extend(read.clone());
        validator.take(read);
    };
    let mut files = Files::default();
    match str::from_utf8(bytes) {
        Ok(text) => {
            // A name of a file may have any characters, of which the command prints some as escapes.
            let name: String = text.chars().take(12).collect();
            let name = format!("{}.yaml", printable(&name));
            manifest::read_text(&name, text.to_owned(), &Limits::default(), &mut take);
        }
        Err(_) => {
            let path = env::temp_dir().join(format!("fuzz-{}.yaml", std::process::id()));
            fs::write(&path, bytes).expect("the file is written");
            let inputs = Inputs { paths: vec![path], ..Inputs::default() };
            files = manifest::read(&inputs, &Limits::default(), &mut take);
        }
    }
    (documents, validator.finish(files))
}

/// A document means the same when written as JSON.
fn same_as_json(document: &Document) {
    let mut again = Vec::new();
    let text = document.value.to_string();
    manifest::read_text("file.json", text.clone(), &Limits::default(), &mut |read| again.push(read));
    let values: Vec<_> = again.iter().map(|read| read.as_ref().map(|document| &document.value)).collect();
    assert_eq!(values, [Ok(&document.value)], "{text}");
}

/// Drops nulls like the API server.
fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(|value| *value = without_nulls(value.take()));
    }
    value
}
