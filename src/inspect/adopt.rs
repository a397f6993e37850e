//! Rules for the values that nodes have already: the engine of the subcommand `adopt`.
//!
//! ```text
//! lists ─▶ Snapshot ─▶ Survey ─────────────▶ proposals
//!                      values, or why not    which label
//! ```

pub(crate) mod choice;
pub(crate) mod few;
pub(crate) mod labels;
mod names;
pub(crate) mod proposal;
pub(crate) mod read;
pub(crate) mod snapshot;
pub(crate) mod survey;
