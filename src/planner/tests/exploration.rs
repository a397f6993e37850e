//! Every state that a small world can come to: one node, two resources, two rules, with the planner that ships.
//!
//! The environment is without limit: it may do anything at any time, as often as it likes. A controller of a few
//! fields stands for the reconciler: it knows the node, the rules and the pods as they are or as they were, and has
//! one patch in flight, which may be lost, late or half of the plan. Each patch that is applied is checked (I1 to I6).
//! Where nothing else happens, every end is one state with nothing to do.
//!
//! Values are absent, 0, 1 and 2 in both maps, with a ledger and up to two pods. Actors are a kubelet that resets, another
//! field manager, an administrator who removes the annotation, and a second process; processes crash and hand over. Each
//! family has a few of them, and together they cover the whole.

mod actors;
pub(crate) mod checks;
mod components;
mod families;
pub(crate) mod node;
pub(crate) mod planning;
mod search;
mod state;
mod world;

use families::{families, small_families};
use search::run_all;
use world::World;

#[test]
fn small_worlds_keep_the_invariants_and_come_to_rest() {
    run_all(small_families().into_iter().map(|family| (family.name, World::new(family))).collect());
}

/// `make explore` runs it, with optimization.
#[test]
#[ignore = "takes minutes without optimization"]
fn worlds_keep_the_invariants_and_come_to_rest() {
    run_all(families().into_iter().map(|family| (family.name, World::new(family))).collect());
}
