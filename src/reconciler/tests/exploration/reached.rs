//! What an exploration has reached: that it enters no stage, or sends no request, would hide what happens there.

use super::world::{NODES, Open, Size, World};
use crate::planner::input::PodUsage;
use crate::reconciler::limiter::Kind;
use crate::reconciler::work_queue::Stage;
use crate::reconciler::*;

const PLACES: [&str; 4] =
    ["node at rest", "node with a patch in flight", "node waiting for a moment", "node awaiting pods"];
const WAITS_FOR_SLOT: &str = "node waiting for a slot";
const USAGE: [&str; 4] =
    ["pods not watched, or not listed yet", "pods known", "pods known until a while ago", "pods unavailable"];
const PATCHES: [&str; 3] = ["request: repair", "request: patch", "request: rollout of an edit"];
const OTHER: [&str; 5] = [
    "request: Lease",
    "request: status of a rule",
    "request: Event",
    "request: watch of rules",
    "request: watch of pods",
];

/// Everything that an exploration of this size reaches.
pub(super) fn expected(size: Size) -> impl Iterator<Item = &'static str> {
    let shared = (size.nodes > 1).then_some(WAITS_FOR_SLOT);
    PLACES.into_iter().chain(USAGE).chain(PATCHES).chain(OTHER).chain(shared)
}

/// Returns what an effect is.
pub(super) fn request(effect: &Effect) -> &'static str {
    match effect {
        Effect::WriteLease(_) | Effect::ReleaseLease(_) => OTHER[0],
        Effect::PatchNode { slot, .. } => match slot.kind() {
            Kind::Repair => PATCHES[0],
            Kind::Rollout => PATCHES[2],
            _ => PATCHES[1],
        },
        Effect::PatchStatus { .. } => OTHER[1],
        Effect::CreateEvent { .. } => OTHER[2],
        Effect::TestConfinement { .. } => "request: dry run",
    }
}

impl World {
    /// Returns what is so in this state.
    pub(super) fn reached(&self) -> Vec<&'static str> {
        let queue = self.reconciler.queue();
        let place = |node: &str| {
            let key = node.into();
            match () {
                () if queue.is_in_flight(&key) => PLACES[1],
                () if queue.awaits_usage(&key) => PLACES[3],
                () if queue.is_waiting(&key) => PLACES[2],
                () if queue.has(&key) && queue.len(Stage::Patch) > 0 => WAITS_FOR_SLOT,
                () => PLACES[0],
            }
        };
        let usage = match self.reconciler.usage_on(NODES[0], self.now.instant) {
            PodUsage::NotFetched => USAGE[0],
            PodUsage::Known(_) => USAGE[1],
            PodUsage::LastKnown { .. } => USAGE[2],
            PodUsage::Unavailable(_) => USAGE[3],
        };
        let watches = self.open.iter().filter_map(|open| match open {
            Open::Patch { .. } => None,
            Open::Rules { .. } => Some(OTHER[3]),
            Open::Pods => Some(OTHER[4]),
        });
        NODES[..self.nodes.len()].iter().map(|node| place(node)).chain([usage]).chain(watches).collect()
    }
}
