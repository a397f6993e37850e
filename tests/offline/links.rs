//! The links of the pages: each leads to a file, and to a heading if it names one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::documents;
use regex::Regex;

/// The text without fenced code.
fn without_code(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the anchors of a page, as GitHub makes them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap();
    let headings = without_code(text);
    let headings = headings
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let anchor = |heading: &str| {
        let text = link.replace_all(heading, "$1").to_lowercase();
        let kept = text.chars().filter(|character| character.is_alphanumeric() || "-_ ".contains(*character));
        kept.map(|character| if character == ' ' { '-' } else { character }).collect()
    };
    headings.map(anchor).collect()
}

/// Returns the links of a page that lead nowhere.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let text = without_code(text);
    let targets = link.captures_iter(&text).map(|found| found[1].to_owned());
    let is_broken = |target: &String| {
        if target.contains("://") || target.starts_with("mailto:") {
            return false;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
        let has_anchor = |text: String| anchor.is_empty() || anchors(&text).contains(anchor);
        !(path.is_dir() || fs::read(&path).is_ok_and(|bytes| has_anchor(String::from_utf8_lossy(&bytes).into_owned())))
    };
    targets.filter(is_broken).collect()
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut wrong = Vec::new();
    for page in documents::pages().unwrap() {
        let text = fs::read_to_string(&page).unwrap();
        wrong.extend(broken(&page, &text).iter().map(|target| format!("{}: {target}", page.display())));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn link_to_a_heading_or_a_file_that_does_not_exist_is_broken() {
    let page = harness::project_file("docs/concepts.md");
    let text = "[a](#the-ledger) [b](#gone) [c](gone.md) [d](values.md#gone) [e](decisions) [f](https://example.com/#gone)\n\
        ## The `ledger`\n```text\n## gone\n[g](gone.md)\n```\n";
    assert_eq!(broken(&page, text), ["#gone", "gone.md", "values.md#gone"]);
}
