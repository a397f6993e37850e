//! The known traps of extended resources, looked for on a cluster: the engine of the subcommand `doctor`.
//!
//! ```text
//! lists, each of which may fail ─▶ Snapshot ─▶ checks (pure) ─▶ Report
//! ```

mod accounts;
pub(crate) mod checks;
pub(crate) mod finding;
pub(crate) mod guards;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod snapshot;
#[cfg(test)]
pub(crate) mod tests;
