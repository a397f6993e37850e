//! Log lines about changes and conflicts: a message for people, and the same data as fields for programs.
//!
//! A line has the level of the Event of its kind: a Warning is a `WARN`.

use tracing::field::display;
use tracing::{Level, event, warn};

use crate::model::node::FieldManager;
use crate::planner::{Action, Change, ReleaseCause};

/// Logs the change of one resource by a patch.
pub(super) fn log_change(node: &str, change: &Change) {
    let Change { resource, action, .. } = change;
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
pub(super) fn log_conflict(node: &str, rule: &str, resource: &str, quantity: &str, manager: Option<&FieldManager>) {
    let by = FieldManager::display(manager);
    warn!(
        %node, %rule, %resource, action = %"conflict", %quantity, manager = manager.map(display),
        "skipped {resource}: already {quantity}, last written by {by} (rule {rule}; conflictPolicy: Keep)"
    );
}

/// Logs that two rules of equal priority declare different quantities of a resource on a node.
pub(super) fn log_equal_priority(rule: &str, other: &str, resource: &str) {
    warn!(
        %rule, %other, %resource,
        "rule {other} declares another quantity of {resource} with the same priority: the older rule decides"
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
