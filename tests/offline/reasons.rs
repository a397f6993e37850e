use std::collections::BTreeSet;

use node_resource_advertiser::model::api::Reason;

use crate::read;

/// The names in the first column of the table below a heading, without its marks.
fn column(heading: &str) -> BTreeSet<String> {
    let text = read("docs/status-and-events.md");
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.split('`').step_by(2)).filter(|name| name.len() > 2).map(str::to_owned).collect()
}

#[test]
fn condition_reasons_are_documented() {
    let reasons: BTreeSet<_> = Reason::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(reasons.len(), Reason::ALL.len(), "no two are alike");
    assert_eq!(column("Reasons"), reasons);
}

#[test]
fn event_reasons_are_documented() {
    let source = read("src/reconciler/events/templates.rs");
    let calls = source.split(['(', '\n']).map(str::trim).filter(|part| part.starts_with('"'));
    let reasons = calls.filter_map(|part| part[1..].split_once("\", \""));
    let reasons: BTreeSet<_> = reasons.map(|(reason, _)| reason.to_owned()).collect();
    assert!(reasons.len() > 5, "{reasons:?}");
    assert_eq!(column("Events"), reasons);
}
