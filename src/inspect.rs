//! What a cluster has, and what follows from it: readers, and pure functions of what they have read.

pub(crate) mod adopt;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod hint;
pub(crate) mod inventory;
pub(crate) mod lists;
pub(crate) mod overlays;
pub(crate) mod program;
pub(crate) mod timeline;
