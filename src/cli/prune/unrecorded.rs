//! `prune --resource`: removes values of one resource that no ledger records, that no rule declares, and that nobody seems
//! to write anymore.
//!
//! ```text
//! nodes, rules, pods ─▶ Snapshot ─▶ Survey (pure): to remove, or why not ─▶ question ─▶ a guarded patch per node
//! ```
//!
//! No Lease is needed: a controller does not write what no rule declares, and each patch tests the ledger.

pub mod error;
mod read;
mod removal;
mod report;
mod scope;
mod survey;
#[cfg(test)]
mod tests;

use futures::{StreamExt as _, stream};
use indicatif::ProgressBar;
use kube::Client;

use super::confirm;
use crate::cli::error::Error;
use crate::cli::message::print_notes;
use crate::cli::output::print;
use crate::cli::printer::Printer;
use crate::cli::stop;
use crate::cluster::node_client::NodeClient;
use crate::model::count::plural;
use crate::response::TIMEOUT;
use removal::remove;
use report::Report;
pub(super) use scope::Scope;
use survey::Survey;

/// The number of nodes that are patched at once.
const AT_ONCE: usize = 8;

/// Runs the command.
pub(super) async fn run(client: &Client, scope: &Scope) -> Result<(), Error> {
    let resource = scope.resource.as_str();
    let snapshot = read::snapshot(client, scope).await?;
    let survey = Survey::new(&snapshot, resource);
    let mut report = Report::new(resource, scope.dry_run);
    print(&report.announcement(&survey, snapshot.now))?;
    print_notes(&survey.notes(resource, &scope.choice));
    let planned = survey.removals;
    if scope.dry_run {
        planned.iter().try_for_each(|removal| print(&report.removed(removal)))?;
    } else if !planned.is_empty() {
        let question = format!(
            "this removes {resource} from {} of {}",
            plural(planned.len(), "node", "nodes"),
            plural(snapshot.nodes, "node", "nodes")
        );
        if scope.asks && !confirm::ask(&question).map_err(Error::Ask)? {
            return Err(Error::NotConfirmed);
        }
        let nodes = NodeClient::new(client.clone(), TIMEOUT);
        let patches = stream::iter(&planned).take_until(stop::requested_or_exit().map_err(Error::Signal)?);
        let patches = patches.map(|removal| {
            let nodes = nodes.clone();
            async move { (removal, remove(nodes, removal, resource).await) }
        });
        let mut results = std::pin::pin!(patches.buffer_unordered(AT_ONCE));
        // What is in flight is finished also where the output fails, or nobody reads it.
        let printer = Printer::start(ProgressBar::hidden());
        while let Some((removal, result)) = results.next().await {
            printer.print(report.add(removal, result));
        }
        printer.end().await?;
    }
    print(&report.total(snapshot.nodes))?;
    Ok(report.finish(planned.len(), &survey.left)?)
}
