//! I10: what the notes of Events state has been so, and what is logged.

use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};
use simulator::invariants::{ledger, managers, units};

use super::checks::Checks;
use crate::planner::Change;

const MAPS: [&str; 2] = ["capacity", "allocatable"];

/// The facts in a note.
struct Note<'a> {
    node: &'a str,
    resource: &'a str,
    /// The value that was found, and who wrote it.
    observed: Option<(&'a str, &'a str)>,
    quantity: Option<&'a str>,
    rule: &'a str,
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

impl<'a> Note<'a> {
    /// Reads a note about a resource on a node.
    fn read(note: &'a str) -> Option<Self> {
        let (head, rest) = note.split_once(" on ").or_else(|| note.split_once(" from "))?;
        let word = |text: &'a str| text.split([' ', ',', ':', ';', '.']).next().unwrap_or_default();
        let observed = rest.split_once(" (by ").and_then(|(before, after)| {
            let values = before.rsplit_once(" stays at ").or_else(|| before.rsplit_once(": "))?.1;
            Some((values.trim_start_matches("already "), after.split_once(')')?.0))
        });
        let written = between(rest, ") -> ", ",").or_else(|| between(rest, " at ", ", which pods"));
        Some(Self {
            node: word(rest),
            resource: head.rsplit(' ').next()?,
            observed,
            quantity: written.or_else(|| between(rest, ": already ", ", as rule ")),
            rule: word(rest.split_once("rule ")?.1),
        })
    }
}

/// Both values of a resource, as notes have them.
fn values(node: &Value, resource: &str) -> String {
    let [capacity, allocatable] = MAPS.map(|map| node["status"][map][resource].as_str().unwrap_or("absent"));
    match capacity == allocatable {
        true => capacity.to_owned(),
        false => format!("{capacity} in capacity, {allocatable} in allocatable"),
    }
}

/// Whether somebody, as notes name field managers, has written a value of a resource of a node.
fn is_writer(node: &Value, resource: &str, who: &str) -> bool {
    let mut writers = MAPS.into_iter().flat_map(|map| managers(node, map, resource));
    match who {
        "an unknown field manager" => MAPS.iter().any(|map| managers(node, map, resource).is_empty()),
        "admission, or an edit of the annotation" => writers.any(|writer| writer == "node-resource-advertiser"),
        who => writers.any(|writer| writer == who),
    }
}

impl Checks {
    /// What a note states that has never been so.
    pub(super) fn wrong_note(&self, event: &Event) -> Option<String> {
        let text = event.note.as_deref().unwrap_or_default();
        let subjects = [&event.regarding, &event.related].into_iter().flatten();
        let mut nodes = subjects.filter(|subject| subject.kind.as_deref() == Some("Node"));
        let node = nodes.next()?.name.as_deref().unwrap_or_default();
        let note = Note::read(text).filter(|note| note.resource.contains('/'))?;
        if note.node != node {
            return Some(format!("{} instead of {node}", note.node));
        }
        if let Some((found, who)) = note.observed {
            let mut versions = self.versions(node).filter(|node| values(node, note.resource) == found).peekable();
            if versions.peek().is_none() {
                return Some(format!("the value {found}"));
            }
            if !versions.any(|node| is_writer(node, note.resource, who)) {
                return Some(format!("the field manager {who} of {found}"));
            }
        }
        let is_recorded = self.versions(node).any(|node| {
            let entry = ledger(node).and_then(|mut ledger| ledger.remove(note.resource));
            entry.is_some_and(|(quantity, rule, _)| {
                rule == note.rule && note.quantity.is_none_or(|text| units(&json!(text)) == Some(quantity))
            })
        });
        let is_declared = note.quantity.is_none()
            && self
                .all_rules()
                .any(|rule| rule["metadata"]["name"] == note.rule && rule["spec"]["resourceName"] == note.resource);
        (!is_recorded && !is_declared).then(|| format!("{:?} of {}", note.quantity, note.rule))
    }

    /// Whether a node has never been as a change makes it.
    pub(super) fn is_invented(&self, node: &str, change: &Change) -> bool {
        !self.versions(node).any(|node| {
            let entry = ledger(node).and_then(|mut ledger| ledger.remove(change.name()));
            match (change.recorded_quantity(), change.rule()) {
                (Some(quantity), Some(rule)) => {
                    entry.is_some_and(|(recorded, by, _)| by == rule && Some(recorded) == units(&json!(quantity)))
                }
                _ => entry.is_none(),
            }
        })
    }
}
