//! Whose turn it is in a rollout: of thousands of nodes, few are planned at a time, and of few the pods are listed.

use super::{Key, Now, PLAN_BATCH_SIZE, Rank, Reconciler, Stage};

impl Reconciler {
    /// Returns whether the next nodes of a rollout are to be planned.
    pub(super) fn has_due_backlog(&self) -> bool {
        self.has_due_patches() || self.has_due_lists()
    }

    /// Returns whether few nodes wait for their patch. How many wait for a list of pods does not matter: lists that fail
    /// delay no rollout that needs none.
    fn has_due_patches(&self) -> bool {
        let few = self.options.rollouts.max_planned.div_ceil(2);
        self.schedule.queue.len(Stage::Patch) < few && self.schedule.queue.len(Stage::Backlog) > 0
    }

    fn has_due_lists(&self) -> bool {
        let few = self.schedule.lists_ahead.limit().div_ceil(2);
        self.schedule.ahead() < few && self.schedule.queue.len(Stage::ListBacklog) > 0
    }

    /// Plans the next nodes of a rollout, if they are due: of those that need a list of pods, and of those that do not.
    pub(super) fn plan_backlog(&mut self, now: Now) {
        let (due_lists, due_patches) = (self.has_due_lists(), self.has_due_patches());
        while due_lists
            && self.reports.planned < PLAN_BATCH_SIZE
            && self.schedule.has_room_for_lists()
            && let Some((Key::Node(name), _)) = self.schedule.queue.pop(Stage::ListBacklog, Rank::Replan)
        {
            self.reconcile(&name, now);
        }
        while due_patches
            && self.reports.planned < PLAN_BATCH_SIZE
            && self.schedule.queue.len(Stage::Patch) < self.options.rollouts.max_planned
            && let Some((Key::Node(name), _)) = self.schedule.queue.pop(Stage::Backlog, Rank::Replan)
        {
            self.reconcile(&name, now);
        }
    }

    /// Returns where a node of a rollout waits whose pods must be listed before its patch, and that has no other work.
    ///
    /// `None` if lists of single nodes are not cheap: then as many nodes as possible share one list of all pods.
    pub(super) fn stage_before_list(&self) -> Option<Stage> {
        let stage = if self.schedule.has_room_for_lists() { Stage::ListAhead } else { Stage::ListBacklog };
        self.nodes.lists_pods_from_cache().then_some(stage)
    }
}
