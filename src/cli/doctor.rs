//! `doctor`: the known traps of extended resources, looked for on a cluster.

mod report;
#[cfg(test)]
mod tests;

use thiserror::Error;

use super::answers::answer::Shown;
use super::end::{Failure, Verdict};
use crate::inspect::doctor::finding::NotRun;
use crate::inspect::doctor::report::Report;
use crate::inspect::doctor::{checks, read};
use crate::model::label;

/// Check a cluster for the known traps of extended resources
///
/// doctor looks for requests and quotas of resources that nothing provides, other writers of the same values, leftover
/// zeros, annotations that cannot be read, an absent leader, policies that are not in force, versions that do not fit,
/// and more. It prints what to do about each problem, and only reads. A check that lacks a permission is named on
/// standard error, and never counts as passed.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Checks:\n{}\n{AFTER_HELP}", help()))]
pub(super) struct Args {
    /// Count warnings as problems
    #[arg(long)]
    strict: bool,
    /// Namespace of the controller [default: all namespaces]
    #[arg(long, value_name = "NAME")]
    controller_namespace: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

const AFTER_HELP: &str = "\
Exits with 0 if there is no problem, or only warnings; 1 if there is an error, or with --strict a warning; 2 if the
cluster cannot be asked, or a request fails; and 3 if a check could not run because you have no permission.

Examples:
  # Check the cluster of the current context
  node-resource-advertiser doctor

  # Fail a pipeline at any problem, or if something cannot be checked
  node-resource-advertiser doctor --strict";

/// Returns the checks, one per line, as `--help` prints them.
fn help() -> String {
    checks::ALL.iter().map(|check| format!("  {:<20}{}\n", check.name, check.finds)).collect()
}

/// Why a cluster cannot be examined.
#[derive(Debug, Error)]
enum DoctorError {
    #[error("{0:?} is no namespace")]
    Namespace(String),
    /// Nothing but the version can be read.
    #[error("nothing can be checked: {0}")]
    Nothing(NotRun),
}

/// Runs the command.
pub(super) async fn run(args: Args) -> Result<Verdict, Failure> {
    let namespace = args.controller_namespace.as_deref();
    if let Some(namespace) = namespace.filter(|namespace| !label::is_dns_subdomain(namespace)) {
        return Err(DoctorError::Namespace(namespace.to_owned()).into());
    }
    let client = args.shown.connect().await?;
    let snapshot = read::snapshot(&client, namespace).await;
    if let Some(why) = snapshot.why_blank() {
        return Err(DoctorError::Nothing(why.clone()).into());
    }
    let report = Report::new(&snapshot);
    args.shown.print(&report, &report.notes())?;
    Ok(report.verdict(args.strict))
}
