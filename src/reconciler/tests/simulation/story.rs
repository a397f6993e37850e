//! What happens in a run, in words, and how often.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;
use simulator::Failure;

use crate::reconciler::effect::Effect;

/// How often something happened: an actor's doing, a fault, what came of it.
pub(super) type Tally = BTreeMap<&'static str, u64>;

#[derive(Debug, Default)]
pub(super) struct Story {
    /// Whether lines are kept.
    pub(super) is_recorded: bool,
    pub(super) lines: Vec<String>,
    pub(super) tally: Tally,
}

impl Story {
    pub(super) fn record(&mut self, at: u64, line: impl FnOnce() -> String) {
        if self.is_recorded {
            self.lines.push(format!("{:>8.3}s  {}", at as f64 / 1000.0, line()));
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }
}

/// What came of a request.
pub(super) fn outcome(response: &Result<Value, Failure>) -> String {
    match response {
        Ok(_) => "done".to_owned(),
        Err(failure) => format!("{}: {}", failure.code, failure.message()),
    }
}

/// A request.
pub(super) fn describe(effect: &Effect) -> String {
    let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
    match effect {
        Effect::WriteLease(write) => format!("writes the Lease as {}", holder(&write.lease)),
        Effect::ReleaseLease(_) => "releases the Lease".to_owned(),
        Effect::PatchNode { node, patch, .. } => {
            format!("sends a patch of {node}: {}", show_patch(patch))
        }
        Effect::PatchStatus { rule, status, .. } => {
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            let ready = ready.map(|ready| format!("{} {}: {}", ready.status, ready.reason, ready.message));
            format!("writes the status of {rule}: Ready={}", ready.unwrap_or_default())
        }
        Effect::TestConfinement { node, .. } => format!("tries a label of {node}"),
        Effect::CreateEvent { event, .. } => {
            format!(
                "reports {}: {}",
                event.reason.as_deref().unwrap_or_default(),
                event.note.as_deref().unwrap_or_default()
            )
        }
    }
}

/// A patch without its tests, for a story.
fn show_patch(patch: &Patch) -> String {
    let operations = patch.0.iter().filter_map(|operation| {
        let path = operation.path().as_str();
        let path = path.trim_start_matches("/status/").replace("example.com~1", "");
        match operation {
            PatchOperation::Add(add) => Some(format!("{path} = {}", add.value)),
            PatchOperation::Remove(_) => Some(format!("without {path}")),
            _ => None,
        }
    });
    operations.collect::<Vec<_>>().join(", ")
}
