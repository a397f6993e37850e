//! The lines of the log: a message for people, and the same data as fields for programs.
//!
//! A line has the level of the Event of its kind: a Warning is a `WARN`.

use tracing::field::display;
use tracing::{Level, debug, error, event, info, warn};

use crate::cluster::lease;
use crate::model::node::FieldManager;
use crate::planner::input::Lost;
use crate::planner::{Action, Change, Outcome, ReleaseCause};
use crate::reconciler::confinement;
use crate::reconciler::effect::Watched;
use crate::reconciler::events::contest;
use crate::reconciler::happening::Happening;
use crate::reconciler::nodes::Cause;
use crate::reconciler::protection::{self, Start};
use crate::reconciler::schedule::UNDONE;
use crate::reconciler::standing::Standing;
use crate::reconciler::words::ADMISSION;

/// Logs what has happened, unless it is only counted or shown. Of a value that stays because a patch failed, an existing
/// rule has the failure in its status.
pub(super) fn log(happening: &Happening) {
    match happening {
        Happening::Started { node, start, protection, .. } => log_start(node, *start, protection),
        Happening::Unreadable { node, error } => {
            let node = &node.name;
            warn!(
                %node,
                "cannot change the node: {error}; repair the annotation, or remove it with prune --repair-ledger \
                 --node {node} --force"
            );
        }
        Happening::Problem {
            node,
            rule,
            resource,
            standing: Standing::Planned(Outcome::Conflicted { present, manager }),
        } => {
            log_conflict(&node.name, rule, resource, present, manager.as_ref());
        }
        Happening::Changed { node, change } => log_change(&node.name, change),
        Happening::PutBack { node, rule, change } => {
            let (node, resource) = (&node.name, change.name());
            warn!(%node, %rule, %resource, "cannot withdraw {resource}: {ADMISSION} puts a value back");
        }
        Happening::Contested { node, change, lost } => log_contest(&node.name, change, *lost),
        Happening::Undone { node } => warn!(%node, "{UNDONE}"),
        Happening::NotBuilt { node, message } => warn!(%node, "{message}"),
        Happening::Failed { node, cause, message } => log_failure(node, *cause, message),
        Happening::Forbidden { message } => error!("{message}; grant the verb patch on nodes/status"),
        _ => log_of_rules(happening),
    }
}

fn log_of_rules(happening: &Happening) {
    match happening {
        Happening::RolloutStopped { rule, stopped, message, .. } => {
            let (nodes, pause) = (stopped.nodes(), stopped.pause());
            warn!(%rule, nodes, "stopped the rollout of the rule for {pause:?}, because patches fail: {message}");
        }
        Happening::Stalled { rule, why } => warn!(%rule, "the rule is stalled: {why}"),
        Happening::Tied { rule, other, resource } => warn!(
            %rule, %other, %resource,
            "rule {other} declares another quantity of {resource} with the same priority: the older rule decides"
        ),
        Happening::StatusRejected { rule, error } => {
            warn!(%rule, "the API server rejects the rule's status: {error}");
        }
        Happening::StatusFailed { rule, error } => {
            warn!(%rule, "cannot write the rule's status, retrying: {error}");
        }
        Happening::MemoryScarce { rules, unfit, size, limit } => warn!(
            rules,
            bytes = size,
            limit,
            "rules take nearly all memory that they may, and the youngest of those that do not fit are stalled, {unfit} \
             so far: delete rules, or raise --max-rules-memory and the memory limit of the pods"
        ),
        Happening::Missing { rules, of, delay } => warn!(
            rules,
            "{rules} of the {of} rules named in node annotations are missing: their values stay \
             for {delay:?}. To withdraw them now, run prune --rule NAME --force for each"
        ),
        Happening::StillMissing { rules } => warn!(rules, "the rules are still missing: withdrawing their values"),
        _ => log_of_process(happening),
    }
}

fn log_of_process(happening: &Happening) {
    match happening {
        Happening::Listed { watched: Watched::Nodes, number } => info!(nodes = number, "all nodes listed"),
        Happening::Listed { watched: Watched::Rules, number } => info!(rules = number, "all rules listed"),
        Happening::Expired { watched } => info!("{}: the watch is too old, listing again", watched.name()),
        Happening::WatchFailed { message } => warn!("{message}"),
        Happening::Election(note) => lease::log(note),
        Happening::Yields { watched, patience } => warn!(
            "the watch of {} has been broken for {patience:?} or longer while the lease could be renewed: letting \
             another replica lead",
            watched.name()
        ),
        Happening::Pods { broken: Some(why) } => warn!("{why}"),
        Happening::Pods { broken: None } => info!("the watch of pods works again"),
        Happening::UnreadablePod { error } => {
            warn!("a pod cannot be decoded, and what it requests is not known: {error}");
        }
        Happening::UnreadableClasses { why } => info!("not reporting resources that DRA maps too: {why}"),
        Happening::Protection(state) => info!("protection: {state}"),
        Happening::Confinement(state) => match state {
            confinement::State::Unconfined => warn!("confinement: {state}"),
            // The initial state, or the state after a loss of leadership.
            confinement::State::Standby => {}
            _ => info!("confinement: {state}"),
        },
        Happening::EventNotWritten { error } => debug!("an Event was not written: {error}"),
        Happening::WentBack => warn!("the API server went back to an earlier state, as after a restore of etcd"),
        Happening::Stopping { in_flight } => info!(in_flight, "stopping"),
        Happening::Unanswered { in_flight } => {
            warn!(in_flight, "stopped with requests unanswered: the lease is kept until it expires");
        }
        _ => {}
    }
}

fn log_start(node: &str, start: Start, protection: &protection::State) {
    match start {
        Start::Kept | Start::Untouched => info!(%node, "the node rebooted, and recorded values were kept"),
        Start::Reset if matches!(protection, protection::State::Present(_) | protection::State::Static(_)) => {
            warn!(%node, "the kubelet reset recorded values despite the policy: {protection}");
        }
        Start::Reset => info!(%node, "the kubelet reset recorded values"),
    }
}

fn log_contest(node: &str, change: &Change, lost: Lost) {
    let (resource, manager) = (change.name(), change.manager().map(display));
    let (rule, message) = (change.rule().unwrap_or_default(), contest(node, change, lost));
    warn!(%node, %rule, %resource, manager, "backing off from {message}");
}

fn log_failure(node: &str, cause: Cause, message: &str) {
    match cause {
        Cause::Stale => debug!(%node, "the node changed in the meantime, planning again"),
        Cause::NotFound => debug!(%node, "the node does not exist"),
        Cause::Rejected => warn!(%node, "the API server rejects the patch: {message}"),
        Cause::Forbidden | Cause::Overload | Cause::Deferred | Cause::Undone => {
            warn!(%node, "cannot patch the node, retrying: {message}");
        }
    }
}

/// Logs the change of one resource by a patch.
fn log_change(node: &str, change: &Change) {
    let (resource, action) = (change.name(), &change.action);
    let (rule, quantity) = (change.rule().map(display), change.quantity().map(display));
    let (name, manager) = (change.action_name(), change.manager().map(display));
    // The level of a log line is a constant.
    macro_rules! line {
        ($level:expr) => {
            event!($level, %node, rule, %resource, action = %name, quantity, manager, "{change}")
        };
    }
    match action {
        Action::Repair { .. }
        | Action::TakeOver { .. }
        | Action::Release { cause: ReleaseCause::Overwritten { .. }, .. } => line!(Level::WARN),
        // Once for each node, with the changes that make it true.
        Action::SetCondition(condition) if condition.is_true => line!(Level::DEBUG),
        _ => line!(Level::INFO),
    }
}

/// Logs that the value of another field manager stays, with that manager if it is known.
fn log_conflict(node: &str, rule: &str, resource: &str, quantity: &str, manager: Option<&FieldManager>) {
    let by = FieldManager::display(manager);
    warn!(
        %node, %rule, %resource, action = %"conflict", %quantity, manager = manager.map(display),
        "skipped {resource}: already {quantity}, last written by {by} (rule {rule}; conflictPolicy: Keep)"
    );
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged, as text and as JSON.
    fn logged(log: impl Fn()) -> (String, Value) {
        let (text, json) = (Lines::default(), Lines::default());
        let writer = |lines: &Lines| {
            let lines = lines.clone();
            move || lines.clone()
        };
        let format = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false);
        tracing::subscriber::with_default(format.with_writer(writer(&text)).finish(), &log);
        let format = tracing_subscriber::fmt().json().flatten_event(true).without_time();
        tracing::subscriber::with_default(format.with_writer(writer(&json)).finish(), &log);
        let read = |lines: &Lines| String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let mut object: Value = serde_json::from_str(&read(&json)).unwrap();
        object.as_object_mut().unwrap().remove("target");
        (read(&text).trim().to_owned(), object)
    }

    fn change(action: Action) -> Change {
        Change::for_test("example.com/dongle", action)
    }

    #[test]
    fn change_is_logged_as_prose_and_as_fields() {
        let repair = change(Action::Repair {
            quantity: "4".to_owned(),
            rule: "dongle".into(),
            observed: "9".to_owned(),
            manager: Some(FieldManager::other("kubectl-patch")),
        });
        let (text, fields) = logged(|| log_change("node-1", &repair));
        assert_eq!(
            text,
            "WARN repaired example.com/dongle=4 (rule dongle; was 9, written by kubectl-patch) \
             node=node-1 rule=dongle resource=example.com/dongle action=repair quantity=4 \
             manager=kubectl-patch"
        );
        let expected = json!({
            "level": "WARN", "node": "node-1", "rule": "dongle", "resource": "example.com/dongle",
            "action": "repair", "quantity": "4", "manager": "kubectl-patch",
            "message": "repaired example.com/dongle=4 (rule dongle; was 9, written by kubectl-patch)",
        });
        assert_eq!(fields, expected);
    }

    #[test]
    fn log_line_has_no_field_that_does_not_apply() {
        let withdraw = change(Action::Withdraw { rule: "dongle".into() });
        let (_, fields) = logged(|| log_change("node-1", &withdraw));
        assert_eq!(fields["level"], "INFO");
        assert_eq!(fields["action"], "withdraw");
        assert_eq!((fields.get("quantity"), fields.get("manager")), (None, None));
        let (_, fields) = logged(|| log_change("node-1", &change(Action::RemoveZero)));
        assert_eq!(fields.get("rule"), None);
    }

    #[test]
    fn conflict_is_logged_as_a_warning_with_its_manager() {
        let (text, fields) =
            logged(|| log_conflict("node-1", "r", "example.com/a", "8", Some(&FieldManager::other("nfd"))));
        assert!(text.starts_with("WARN skipped example.com/a: already 8, last written by nfd"), "{text}");
        assert_eq!((&fields["manager"], &fields["quantity"]), (&json!("nfd"), &json!("8")));
        let (text, fields) = logged(|| log_conflict("node-1", "r", "example.com/a", "8", None));
        assert!(text.contains("an unknown field manager"), "{text}");
        assert_eq!(fields.get("manager"), None);
    }
}
