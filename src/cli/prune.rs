//! `prune`: withdraws all that ledgers list.

pub(super) mod lease_guard;
pub(super) mod nodes;

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use kube::Client;

use super::args::ClusterArgs;
use super::error::Error;
use super::output::{self, progress_style};
use crate::cluster::lease::AtEnd;
use crate::controller::prune::{NodePrune, NodeResult, PruneEnd, Scope, Settled, prune};
use crate::planner::withdraw::Withdrawal;
use crate::planner::{Action, Change};
use lease_guard::{EndedLease, IfControllerActive, LeaseEnd, LeaseGuard, LeaseSelector};
use nodes::{PlanPruneError, PrunePlan, plan_prune};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only this node; may be given several times.
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,
    /// Only what this rule declared, whether it still exists or not; may be given several times.
    #[arg(long, value_name = "NAME")]
    rule: Vec<String>,
    /// Say what would be done, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Also remove the zeros that device plugins left behind: places where capacity and allocatable of
    /// an extended resource are both 0, and no rule declares it.
    #[arg(long, conflicts_with = "rule")]
    zeros: bool,
    /// On nodes whose annotation cannot be read, remove it, and what the controller has written by the
    /// node's managedFields.
    #[arg(long, conflicts_with = "rule")]
    repair_ledger: bool,
    /// Work beside a controller that is running. It writes again what its rules declare.
    #[arg(long)]
    force: bool,
    /// Have a controller that is running stop writing, for ten minutes: for what comes before its
    /// removal.
    #[arg(long, conflicts_with = "force")]
    take_over: bool,
    /// The namespace of the controllers' Lease [default: all namespaces are searched]
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// The Lease's name [default: every Lease counts that a controller has labelled
    /// noderesource.dev/leader-election]
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAME")]
    leader_elect_resource_name: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Error> {
    let client = args.cluster.connect_and_print().await?.client;
    let kubectl = format!("kubectl{}", args.cluster.kubectl_flags());
    let if_active = match &args {
        // Looking does no harm.
        Args { force: true, .. } | Args { dry_run: true, .. } => IfControllerActive::Ignore,
        Args { take_over: true, .. } => IfControllerActive::TakeOver,
        _ => IfControllerActive::Refuse,
    };
    let choice = LeaseSelector {
        namespace: args.leader_elect_resource_namespace,
        name: args.leader_elect_resource_name,
    };
    let scope = Scope {
        nodes: args.node,
        withdrawal: Withdrawal { rules: args.rule.into_iter().collect(), zeros: args.zeros },
        repair_ledgers: args.repair_ledger,
    };

    let lease_guard =
        LeaseGuard::new(&client, &choice, if_active, |progress| eprintln!("{progress}")).await?;
    // Nothing in between returns early: a Lease that is held is always ended.
    let (PruneEnd { at_end, alone }, outcome) =
        work(&client, &scope, args.dry_run, &lease_guard).await;
    let ended = lease_guard.end(at_end).await;

    let mut errors = report_leases(&ended, alone, &kubectl);
    match outcome {
        Ok((report, plan)) => errors.extend(report.finish(&plan)),
        Err(error) => errors.push(error.into()),
    }
    let last = errors.pop();
    for error in errors {
        eprintln!("error: {error}");
    }
    last.map_or(Ok(()), Err)
}

/// Plans and prunes. Returns what it means for the Leases, and what there is to report.
async fn work(
    client: &Client,
    scope: &Scope,
    dry_run: bool,
    lease_guard: &LeaseGuard,
) -> (PruneEnd, Result<(Report, PrunePlan), PlanPruneError>) {
    let unchanged = PruneEnd { at_end: AtEnd::Release, alone: Ok(()) };
    let reading = ProgressBar::new_spinner().with_message("nodes looked at");
    reading.set_style(progress_style("{spinner} {pos} {msg}"));
    let plan = plan_prune(client, scope, |nodes| reading.set_position(nodes as u64)).await;
    reading.finish_and_clear();
    let mut plan = match plan {
        Ok(plan) => plan,
        Err(error) => return (unchanged, Err(error)),
    };
    for rule in &plan.unlisted_rules {
        eprintln!("{}", describe_unlisted(rule, &scope.nodes, plan.unreadable.len()));
    }
    let planned = std::mem::take(&mut plan.planned);
    let mut report = Report::new(dry_run, plan.nodes);
    report.announce(&planned);
    if dry_run {
        for planned in planned {
            let (node, changes) = (Arc::clone(&planned.node().name), planned.changes().to_vec());
            report.add(&NodeResult { node, changes, settled: Settled::Pruned });
        }
        return (unchanged, Ok((report, plan)));
    }
    // What cannot be announced is not touched.
    let planned = if report.output.is_ok() { planned } else { Vec::new() };
    let working = ProgressBar::new(planned.len() as u64).with_message("nodes");
    working.set_style(progress_style("{bar:30} {pos}/{len} {msg}"));
    working.enable_steady_tick(Duration::from_millis(200));
    let permissions = lease_guard.permissions();
    let ended = prune(client.clone(), scope.clone(), planned, permissions, |result| {
        working.inc(1);
        working.suspend(|| report.add(&result));
    })
    .await;
    working.finish_and_clear();
    (ended, Ok((report, plan)))
}

/// Reports that no ledger lists a rule, and which have been searched.
fn describe_unlisted(rule: &str, nodes: &[String], unreadable: usize) -> String {
    let searched = match nodes {
        [] => "no node lists it".to_owned(),
        nodes => format!("of the nodes searched ({}), none lists it", nodes.join(", ")),
    };
    let but = match unreadable {
        0 => "so that there is nothing to withdraw".to_owned(),
        1 => "apart perhaps from 1 node whose annotation cannot be read".to_owned(),
        nodes => format!("apart perhaps from {nodes} nodes whose annotations cannot be read"),
    };
    format!("rule {rule}: {searched}, {but}")
}

/// Reports which Leases stay, and how to give them back; returns what was wrong.
fn report_leases(ended: &[EndedLease], alone: Result<(), String>, kubectl: &str) -> Vec<Error> {
    let is_alone = alone.is_ok();
    let mut errors: Vec<_> = alone.err().map(Error::NotAlone).into_iter().collect();
    for EndedLease { lease, end } in ended {
        match end {
            LeaseEnd::Released => {}
            LeaseEnd::Kept(until) => eprintln!(
                "the lease {lease} is kept until {until:.0}, so that no controller writes; to let one \
                 write before: {kubectl} --namespace {} delete lease {}",
                lease.namespace, lease.name
            ),
            LeaseEnd::NotKept(why) => {
                errors.push(Error::LeaseNotKept { lease: lease.clone(), why: why.clone() });
            }
            LeaseEnd::Expires(why) => {
                eprintln!("the lease {lease} is not released, and expires within a minute: {why}");
            }
            LeaseEnd::Lost if is_alone => errors.push(Error::NotAlone(format!(
                "the lease {lease} was taken or released by somebody else meanwhile, so that a \
                 controller may have been at work; run it again"
            ))),
            LeaseEnd::Lost => {}
        }
    }
    errors
}

/// What is printed: a line for each node, and what it comes to.
struct Report {
    /// What follows each line that is not true yet.
    dry_run: &'static str,
    nodes: usize,
    changed_nodes: usize,
    changes: usize,
    failed: usize,
    /// The first error of standard output, after which nothing more is printed.
    output: Result<(), Error>,
}

impl Report {
    fn new(dry_run: bool, nodes: usize) -> Self {
        let dry_run = if dry_run { " (dry run)" } else { "" };
        Self { dry_run, nodes, changed_nodes: 0, changes: 0, failed: 0, output: Ok(()) }
    }

    /// What nobody has declared is listed before it is touched.
    fn announce(&mut self, planned: &[NodePrune]) {
        let mut lines = Vec::new();
        for planned in planned {
            let node = &planned.node().name;
            if let Some(text) = planned.unreadable_ledger() {
                lines.push(format!("{node}: has an annotation that cannot be read: {text}"));
            }
            let zeros =
                planned.changes().iter().filter(|change| change.action == Action::RemoveZero);
            lines.extend(zeros.map(|Change { resource, .. }| format!("{node}: has 0 {resource}")));
        }
        self.print(lines);
    }

    fn add(&mut self, result: &NodeResult) {
        let NodeResult { node, changes, settled } = result;
        if !changes.is_empty() {
            self.changed_nodes += 1;
            self.changes += changes.len();
            let done: Vec<_> = changes.iter().map(ToString::to_string).collect();
            self.print([format!("{node}: {}{}", done.join(", "), self.dry_run)]);
        }
        match settled {
            Settled::Pruned if changes.is_empty() => {
                self.print([format!("{node}: nothing is left to withdraw")]);
            }
            Settled::Pruned => {}
            Settled::Gone => self.print([format!("{node}: the node no longer exists")]),
            Settled::Failed(message) => {
                self.failed += 1;
                eprintln!("{node}: failed: {message}");
            }
        }
    }

    /// Prints what it comes to, and returns what was wrong.
    fn finish(mut self, plan: &PrunePlan) -> Vec<Error> {
        self.print(plan.zeros.iter().map(|(node, resource)| {
            format!(
                "{node}: has 0 {resource}, as a device plugin leaves behind; --zeros removes it"
            )
        }));
        for (node, why) in &plan.unreadable {
            eprintln!("{node}: left alone: {why}; --repair-ledger removes it");
        }
        let (changes, nodes) = (count(self.changes, "change"), count(self.nodes, "node"));
        self.print([format!("{changes} on {} of {nodes}{}", self.changed_nodes, self.dry_run)]);
        let (failed, unreadable) = (self.failed, plan.unreadable.len());
        let mut errors: Vec<_> = self.output.err().into_iter().collect();
        if failed + unreadable > 0 {
            errors.push(Error::NotPruned { failed, unreadable });
        }
        errors
    }

    fn print(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            if self.output.is_ok() {
                self.output = output::print(&format!("{line}\n"));
            }
        }
    }
}

/// "1 node", "2 nodes".
fn count(number: usize, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}

#[cfg(test)]
mod tests;
