//! `--check`: whether an autoscaler knows what the rules declare.
//!
//! ```text
//! rules ─▶ overlays, or a group's values ─▶ expected ─┐
//! a file, or the cluster ─▶ sources ─▶ found ─────────┴▶ overlays, groups ─▶ difference ─▶ lines or JSON
//! ```

pub(super) mod difference;
pub(super) mod groups;
pub(crate) mod overlays;
pub(crate) mod sources;
