//! Rules that are being deleted, and that somebody's finalizer keeps. They declare nothing, as if they were gone: a
//! finalizer keeps the object, not its values. What is left of them is a status that reports it.

use std::sync::Arc;

use kube::ResourceExt as _;

use super::{Enqueue, ObservedStatus, RuleObject, RuleState, RuleStates, Rules, Seen};

impl Rules {
    /// Handles a rule that is being deleted.
    pub(super) fn observe_deletion(&mut self, object: RuleObject) -> Seen {
        let (name, rule) = (Arc::from(object.name_any()), RuleState::new(object));
        let mut seen = self.end(&name);
        self.deleting.insert(Arc::clone(&name), rule);
        if self.deleting.contains(&name) {
            seen.touched.push(name);
        }
        seen
    }

    /// Handles a rule that is gone.
    pub(super) fn observe_end(&mut self, object: &RuleObject) -> Seen {
        let name = Arc::from(object.name_any());
        let mut seen = self.end(&name);
        if self.deleting.remove(&name).is_some() {
            seen.removed.push(name);
        }
        seen
    }

    /// Forgets what a rule declares.
    fn end(&mut self, name: &Arc<str>) -> Seen {
        let was_held = self.hold.deleted(name);
        self.is_dirty |= was_held;
        let Some(old) = self.by_name.remove(name) else {
            // A list has shown that before, but not why.
            return if was_held { Seen { enqueue: Enqueue::All, ..Seen::nothing() } } else { Seen::nothing() };
        };
        let enqueue = self.changed(Some(old), name);
        Seen { enqueue, removed: vec![Arc::clone(name)], ..Seen::nothing() }
    }

    /// Replaces the rules that are being deleted by those of a complete list of the watch.
    pub(super) fn replace_deleting(&mut self, mut listed: RuleStates, seen: &mut Seen) {
        self.by_name.names().for_each(|name| drop(listed.remove(name)));
        // Their deletion is certain, unlike that of rules that a list lacks.
        for name in listed.names() {
            self.is_dirty |= self.hold.deleted(name);
        }
        let before = std::mem::replace(&mut self.deleting, listed);
        let gone = before.names().filter(|name| !self.deleting.contains(name) && !self.by_name.contains(name));
        seen.removed.extend(gone.cloned());
        seen.touched.extend(self.deleting.names().cloned());
    }

    /// Returns a rule that has a status: one that exists, or that is being deleted.
    pub(in crate::controller) fn with_status(&self, name: &str) -> Option<&RuleState> {
        self.by_name.get(name).or_else(|| self.deleting.get(name))
    }

    /// Replaces the status that was observed of a rule.
    pub(in crate::controller) fn set_status(&mut self, name: &str, status: ObservedStatus) {
        let rules = if self.by_name.contains(name) { &mut self.by_name } else { &mut self.deleting };
        rules.set_status(name, status);
    }

    /// Returns the names of all rules that have a status.
    pub(in crate::controller) fn names_with_status(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.names().chain(self.deleting.names())
    }
}
