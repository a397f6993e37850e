//! `prune`: withdraws all that ledgers list.

pub(super) mod lease_guard;
pub(super) mod nodes;

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;

use super::args::ClusterArgs;
use super::error::Error;
use super::output::{self, progress_style};
use crate::model::ledger::InvalidLedger;
use crate::planner::withdraw::Withdrawal;
use crate::planner::{Action, Change};
use lease_guard::{IfControllerActive, KeptLease, LeaseGuard, LeaseSelector};
use nodes::{NodePrune, NodeResult, PrunePlan, Pruned, Scope, plan_prune, prune};

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
    let reading = ProgressBar::new_spinner().with_message("nodes looked at");
    reading.set_style(progress_style("{spinner} {pos} {msg}"));
    let found = plan_prune(&client, &scope, |nodes| reading.set_position(nodes as u64)).await;
    reading.finish_and_clear();
    let PrunePlan { nodes, planned, unreadable, zeros, unlisted_rules } = match found {
        Ok(found) => found,
        Err(error) => {
            // What comes first is why nothing is pruned.
            let _ = report_kept(&lease_guard.end().await, &kubectl);
            return Err(error.into());
        }
    };

    for rule in &unlisted_rules {
        eprintln!("rule {rule}: no node lists it, so that there is nothing to withdraw");
    }
    let mut report = Report::new(args.dry_run, nodes);
    report.announce(&planned)?;
    if args.dry_run {
        for planned in planned {
            let changes = planned.changes().to_vec();
            report.add(&NodeResult {
                node: Arc::from(planned.node()),
                result: Ok(Pruned::Changed(changes)),
            })?;
        }
    } else {
        let working = ProgressBar::new(planned.len() as u64).with_message("nodes");
        working.set_style(progress_style("{bar:30} {pos}/{len} {msg}"));
        working.enable_steady_tick(Duration::from_millis(200));
        let mut written = Ok(());
        prune(&client, &scope, planned, &lease_guard, |pruned| {
            working.inc(1);
            if written.is_ok() {
                written = working.suspend(|| report.add(&pruned));
            }
        })
        .await;
        working.finish_and_clear();
        let alone = lease_guard.check().map_err(Error::NotAlone);
        let kept = report_kept(&lease_guard.end().await, &kubectl);
        written?;
        report.finish(&unreadable, &zeros)?;
        return alone.and(kept);
    }
    report.finish(&unreadable, &zeros)
}

/// Reports which Leases stay, and how to give them back.
fn report_kept(leases: &[KeptLease], kubectl: &str) -> Result<(), Error> {
    let mut result = Ok(());
    for KeptLease { lease, until } in leases {
        match until {
            Ok(until) => eprintln!(
                "the lease {lease} is kept until {until:.0}, so that no controller writes; to let one \
                 write before: {kubectl} --namespace {} delete lease {}",
                lease.namespace, lease.name
            ),
            Err(why) => {
                let lease = lease.clone();
                result = Err(Error::LeaseNotKept { lease, why: why.clone() });
            }
        }
    }
    result
}

/// What is printed: a line for each node, and what it comes to.
struct Report {
    /// What follows each line that is not true yet.
    dry_run: &'static str,
    nodes: usize,
    changed_nodes: usize,
    changes: usize,
    failed: usize,
}

impl Report {
    fn new(dry_run: bool, nodes: usize) -> Self {
        let dry_run = if dry_run { " (dry run)" } else { "" };
        Self { dry_run, nodes, changed_nodes: 0, changes: 0, failed: 0 }
    }

    /// What nobody has declared is listed before it is touched.
    fn announce(&self, planned: &[NodePrune]) -> Result<(), Error> {
        let mut lines = Vec::new();
        for planned in planned {
            let node = planned.node();
            if let Some(text) = planned.unreadable_ledger() {
                lines.push(format!("{node}: has an annotation that cannot be read: {text}"));
            }
            let zeros =
                planned.changes().iter().filter(|change| change.action == Action::RemoveZero);
            lines.extend(zeros.map(|Change { resource, .. }| format!("{node}: has 0 {resource}")));
        }
        print(lines)
    }

    fn add(&mut self, pruned: &NodeResult) -> Result<(), Error> {
        let node = &pruned.node;
        match &pruned.result {
            Ok(Pruned::NothingLeft) => print([format!("{node}: nothing is left to withdraw")]),
            Ok(Pruned::Gone) => print([format!("{node}: the node no longer exists")]),
            Ok(Pruned::Changed(changes)) => {
                self.changed_nodes += 1;
                self.changes += changes.len();
                let mut done: Vec<_> = changes.iter().map(ToString::to_string).collect();
                if done.is_empty() {
                    done.push("removed the annotation".to_owned());
                }
                print([format!("{node}: {}{}", done.join(", "), self.dry_run)])
            }
            Err(message) => {
                self.failed += 1;
                eprintln!("{node}: failed: {message}");
                Ok(())
            }
        }
    }

    fn finish(
        self,
        unreadable: &[(Arc<str>, InvalidLedger)],
        zeros: &[(Arc<str>, String)],
    ) -> Result<(), Error> {
        let Self { dry_run, nodes, changed_nodes, changes, failed } = self;
        let lines = zeros.iter().map(|(node, resource)| {
            format!(
                "{node}: has 0 {resource}, as a device plugin leaves behind; --zeros removes it"
            )
        });
        print(lines)?;
        for (node, why) in unreadable {
            eprintln!("{node}: left alone: {why}; --repair-ledger removes it");
        }
        let changes = count(changes, "change");
        print([format!("{changes} on {changed_nodes} of {}{dry_run}", count(nodes, "node"))])?;
        if failed + unreadable.len() > 0 {
            return Err(Error::NotPruned { failed, unreadable: unreadable.len() });
        }
        Ok(())
    }
}

/// "1 node", "2 nodes".
fn count(number: usize, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}

fn print(lines: impl IntoIterator<Item = String>) -> Result<(), Error> {
    lines.into_iter().try_for_each(|line| output::print(&format!("{line}\n")))
}
