//! A code quality report for GitLab, shown in merge requests. For its fields, see
//! <https://docs.gitlab.com/ci/testing/code_quality/>.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::validate::diagnostic::{Diagnostic, Severity};
use crate::validate::report::Report;

pub(super) fn render(report: &Report) -> String {
    let (mut alike, overall) = (HashMap::new(), report.overall());
    let all = report.diagnostics.iter().chain(&overall);
    let issues = all.map(|diagnostic| issue(diagnostic, &mut alike));
    format!("{:#}\n", issues.collect::<Value>())
}

fn issue(diagnostic: &Diagnostic, alike: &mut HashMap<u64, u64>) -> Value {
    let severity = match diagnostic.severity {
        Severity::Unreadable => "critical",
        Severity::Error => "major",
        Severity::Warning => "minor",
    };
    let file = diagnostic.location.file();
    // GitLab compares paths with those in the repository.
    let file = file.strip_prefix("./").unwrap_or(file);
    let hint = diagnostic.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let title = diagnostic.title();
    // Without the line, so that a moved problem stays the same.
    let (_, name) = diagnostic.object.clone().unwrap_or_default();
    let mut fingerprint = fnv(&[file, diagnostic.code.as_str(), &name, &title]);
    let count = alike.entry(fingerprint).or_default();
    *count += 1;
    if *count > 1 {
        fingerprint = fnv(&[&fingerprint.to_string(), &count.to_string()]);
    }
    json!({
        "description": format!("{title}{hint}"),
        "check_name": diagnostic.code.as_str(),
        "fingerprint": format!("{fingerprint:016x}"),
        "severity": severity,
        "location": {
            "path": file,
            "lines": {"begin": diagnostic.location.start().map_or(1, |(line, _)| line)},
        },
    })
}

/// FNV-1a of texts, which is stable between releases.
fn fnv(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{self, Files, Limits, SourceLocation};
    use crate::validate::code::Code;
    use crate::validate::{Format, Validator};

    #[test]
    fn gitlab_fingerprints_are_distinct_and_stable() {
        let location = SourceLocation::file_alone("./a.yaml");
        let diagnostic = Diagnostic::new(Severity::Warning, Code::Type, "a \"b\"\n", location);
        let mut alike = HashMap::new();
        let [first, second] = [(), ()].map(|()| issue(&diagnostic, &mut alike));
        assert_eq!(first["location"]["path"], "a.yaml");
        assert_eq!(first["location"]["lines"]["begin"], 1);
        assert_eq!(fnv(&["a"]), 0x089b_e207_b544_f1e4);
        assert_ne!(first["fingerprint"], second["fingerprint"]);
    }

    /// Otherwise a merge request would report it as new.
    #[test]
    fn gitlab_fingerprint_stays_when_the_problem_moves() {
        let issue = |before: &str| {
            let mut validator = Validator::new().unwrap();
            let text = format!("{before}apiVersion: v1\nkind: [Pod]\n");
            manifest::read_text("a.yaml", text, &Limits::default(), &mut |document| validator.take(document));
            let report = validator.finish(Files::default()).render(Format::Gitlab);
            serde_json::from_str::<Value>(&report).unwrap()[0].clone()
        };
        let (here, below) = (issue(""), issue("# A comment\n"));
        assert_ne!(here["location"], below["location"]);
        assert_eq!(here["fingerprint"], below["fingerprint"]);
    }
}
