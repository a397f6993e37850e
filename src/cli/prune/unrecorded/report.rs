//! What is printed: one line per node, and a total.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::error::UnrecordedError;
use super::removal::Removed;
use super::survey::{Left, Removal, Stays, Survey};
use crate::cli::age::age;
use crate::cli::printer::Line;
use crate::model::count::plural;

pub(super) struct Report<'r> {
    resource: &'r str,
    /// The mark of each line in a dry run.
    dry_run: &'static str,
    removed: usize,
    /// Nodes that no longer have the value, or no longer exist.
    gone: usize,
    used: usize,
    failed: usize,
}

impl<'r> Report<'r> {
    pub(super) fn new(resource: &'r str, dry_run: bool) -> Self {
        let dry_run = if dry_run { " (dry run)" } else { "" };
        Self { resource, dry_run, removed: 0, gone: 0, used: 0, failed: 0 }
    }

    /// Returns what is about to be removed, and who wrote it.
    pub(super) fn announcement(&self, survey: &Survey, now: Timestamp) -> String {
        let lines = survey.removals.iter().map(|Removal { node, writer }| {
            let (value, age) = (amount(node.values(self.resource)), age(now, writer.time));
            format!("{}: has {value} {}, last written by {} {age} ago\n", node.name, self.resource, writer.manager)
        });
        lines.collect()
    }

    /// Counts a value that is removed, or would be, and returns its line.
    pub(super) fn removed(&mut self, Removal { node, .. }: &Removal) -> String {
        self.removed += 1;
        let value = amount(node.values(self.resource));
        format!("{}: removed {value} {}{}\n", node.name, self.resource, self.dry_run)
    }

    /// Counts a result, and returns its line.
    pub(super) fn add(&mut self, removal: &Removal, result: Removed) -> Line {
        let node = &removal.node.name;
        match result {
            Removed::Done => Line::Output(self.removed(removal)),
            Removed::Gone => {
                self.gone += 1;
                Line::Output(format!("{node}: nothing left to remove\n"))
            }
            Removed::Used => {
                self.used += 1;
                Line::Message(format!("{node}: {} stays: a pod there requests it by now", self.resource))
            }
            Removed::Failed(why) => {
                self.failed += 1;
                Line::Message(format!("{node}: failed: {why}"))
            }
        }
    }

    pub(super) fn total(&self, nodes: usize) -> String {
        let (removed, nodes) = (plural(self.removed, "value", "values"), plural(nodes, "node", "nodes"));
        format!("{removed} of {} on {nodes}{}\n", self.resource, self.dry_run)
    }

    /// Returns an error if a value is left that may be removed. A value that belongs to something is not left over.
    pub(super) fn finish(self, planned: usize, left: &BTreeMap<Stays, Left>) -> Result<(), UnrecordedError> {
        let Self { removed, gone, used, failed, .. } = self;
        let held = left.iter().filter(|(stays, _)| stays.is_for_now()).map(|(_, left)| left.len()).sum::<usize>();
        let (held, stopped) = (held + used, planned - removed - gone - used - failed);
        match failed + stopped + held {
            0 => Ok(()),
            _ => Err(UnrecordedError::Left { failed, stopped, held }),
        }
    }
}

/// Returns capacity and allocatable, as one number where they are equal.
fn amount(values: [Option<&str>; 2]) -> String {
    match values {
        [Some(capacity), Some(allocatable)] if capacity == allocatable => capacity.to_owned(),
        values => {
            let [capacity, allocatable] = values.map(|value| value.unwrap_or("none"));
            format!("{capacity} (allocatable {allocatable}) of")
        }
    }
}
