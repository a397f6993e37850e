//! A violation as a story: which node, which versions, what its writer may have known.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

use super::history::{Knowledge, Version};
use crate::objects::LEDGER;

/// Returns the story.
pub(super) fn describe(violation: &str, before: &Version, after: &Version, knowledge: &Knowledge) -> String {
    let name = before.node["metadata"]["name"].as_str().unwrap_or_default();
    let mut story = format!("{violation}\n  node {name}\n");
    for (when, version) in [("before", before), ("after", after)] {
        let writer = &version.writer;
        let number = version.node["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let by = if writer.is_program { "the program as " } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(story, "  {when}: version {number}, written by {by}{}", writer.client);
        let is_known = writer.end != Timestamp::MAX;
        let _ = if is_known { writeln!(story, " at {}", writer.end) } else { writeln!(story) };
        for map in ["capacity", "allocatable"] {
            let _ = writeln!(story, "    {map} {}", extended(&version.node["status"][map]));
        }
        let _ = writeln!(story, "    ledger {}", version.node["metadata"]["annotations"][LEDGER]);
    }
    let _ = writeln!(
        story,
        "  the writer had permission to {:?}, and knew one of {} states of the rules, from",
        knowledge.right,
        knowledge.rules.len()
    );
    let ends = knowledge.rules.first().into_iter().chain(knowledge.rules.last().filter(|_| knowledge.rules.len() > 1));
    for rules in ends {
        let specs: Vec<_> =
            rules.iter().map(|rule| format!("{}: {}", rule["metadata"]["name"], rule["spec"])).collect();
        let _ = writeln!(story, "    [{}]", specs.join(", "));
    }
    story
}

/// Returns the extended resources of a map.
fn extended(map: &Value) -> Value {
    let members = map.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| name.contains('/'));
    Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}
