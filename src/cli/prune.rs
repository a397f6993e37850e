//! `prune`: withdraws values that ledgers record, and removes zeros that none records.

pub(super) mod choice;
mod confirm;
mod grouped;
pub(super) mod lease_guard;
pub(super) mod nodes;
pub(super) mod unrecorded;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgGroup;
use futures::{Stream, StreamExt as _, stream};
use indicatif::ProgressBar;
use kube::Client;

use super::args::{ClusterArgs, request_timeout};
use super::error::Error;
use super::message::print_message;
use super::output::{self, progress_style};
use super::printer::{Line, Printer};
use super::stop;
use crate::cluster::config::Timeout;
use crate::controller::prune::{NodeOutcome, NodePrune, NodeResult, Permission, PruneEnd, Scope, prune};
use crate::election::AtEnd;
use crate::inspect::diff::label_filter::{InvalidLabelFilter, LabelFilter};
use crate::inspect::hint;
use crate::model::resource_name::ResourceName;
use crate::planner::withdraw::{Recorded, Withdrawal};
use crate::planner::{Action, Leaving};
use choice::NodeChoice;
use grouped::{NodeLine, grouped};
use lease_guard::{EndedLease, IfControllerActive, LeaseEnd, LeaseGuard, LeaseSelector};
use nodes::{PrunePlan, Target, plan_prune};

/// Why nodes are left that were to change.
const STOPPED: &str = "stopped by a signal";

/// Withdraw what the controller has advertised: everything, or a part
///
/// prune withdraws values that the annotations on nodes record, of all rules (--all) or some (--rule), and removes
/// what no annotation records (--zeros, --repair-ledger, --resource). While a controller is active, which would write the values
/// again, it stops with an error: stop the controller first, or use --take-over or --force. --zeros alone and
/// --resource do not need that. On Ctrl-C it finishes the patches in flight, and reports how many nodes are left;
/// a second Ctrl-C ends it at once.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["all", "rule", "zeros", "repair_ledger", "resource"])))]
pub(super) struct Args {
    /// Withdraw everything that the annotations record; asks for confirmation
    #[arg(long, conflicts_with = "rule")]
    all: bool,
    /// Node to prune; can be repeated [default: all nodes]
    #[arg(long, value_name = "NAME", conflicts_with = "selector")]
    node: Vec<String>,
    /// Label selector of the nodes to prune, as in kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<LabelFilter>,
    /// Rule whose values to withdraw, whether or not it still exists; can be repeated
    #[arg(long, value_name = "NAME")]
    rule: Vec<String>,
    /// Show what would change, without writing anything: client (also without a value), or none
    #[arg(
        long, value_name = "MODE", value_parser = dry_run_mode, action = clap::ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_value = "none", hide_default_value = true, default_missing_value = "client"
    )]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Remove zeros that device plugins left behind: extended resources whose capacity and allocatable are both 0 and
    /// that no annotation records
    #[arg(long)]
    zeros: bool,
    /// Remove the values of one resource that other programs or people left behind: no annotation records them, no rule
    /// declares them, no pod on the node requests them, and no client has changed them for two hours; asks for confirmation
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "rule", "zeros", "repair_ledger", "force", "in_use", "take_over"])]
    resource: Option<ResourceName>,
    /// On nodes whose annotation cannot be read, remove the annotation and the values that managedFields attribute to
    /// the controller
    #[arg(long, conflicts_with = "rule")]
    repair_ledger: bool,
    /// Run even if a controller is active, which restores whatever its rules declare
    #[arg(long)]
    force: bool,
    /// Withdraw values with deletionPolicy: WhenUnused also where pods request them; --force does so too
    #[arg(long)]
    in_use: bool,
    /// Take the Lease from an active controller for ten minutes, so that it stops writing; use before uninstalling
    #[arg(long, conflicts_with = "force")]
    take_over: bool,
    /// Namespace of the controllers' Lease [default: all namespaces]
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// Name of the controllers' Lease [default: every Lease that a controller has labeled
    /// noderesource.dev/leader-election]
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAME")]
    leader_elect_resource_name: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How long to wait for a credential plugin, and for each response of the API server, at least 1s; 0 for no limit
    #[arg(long, value_name = "DURATION", help_heading = "Cluster", default_value = "60s", value_parser = request_timeout)]
    request_timeout: Duration,
}

const AFTER_HELP: &str = "\
Exits with 0 if everything is withdrawn, and 1 on an error, if a node failed, or if another client held the Lease meanwhile.
With --resource, values that pods request, or that a client has changed within two hours, stay and make it exit with 1;
those of device plugins, rules and other programs stay as well, and do not.

Examples:
  # Show what would be withdrawn
  node-resource-advertiser prune --all --dry-run

  # Withdraw everything before you uninstall a running controller
  node-resource-advertiser prune --all --take-over

  # Withdraw what one rule declared on one node
  node-resource-advertiser prune --rule dongle --node node-1

  # Remove the zeros that a device plugin left on one node, and nothing else
  node-resource-advertiser prune --zeros --node node-1

  # See who left values of a resource, and what would be removed
  node-resource-advertiser prune --resource example.com/slots --dry-run";

/// Parses a selector. An empty one, as of an unset variable, would prune every node.
fn selector(text: &str) -> Result<LabelFilter, String> {
    let filter: LabelFilter = text.parse().map_err(|error: InvalidLabelFilter| error.to_string())?;
    match filter.is_empty() {
        true => Err("it is empty: give labels, or leave out --selector to prune all nodes".to_owned()),
        false => Ok(filter),
    }
}

/// Parses the value of `--dry-run`, as kubectl has it.
fn dry_run_mode(text: &str) -> Result<bool, &'static str> {
    match text {
        "none" => Ok(false),
        "client" => Ok(true),
        "server" => Err("prune plans on its own and sends nothing then: write --dry-run=client"),
        _ => Err("write --dry-run=client, or --dry-run=none"),
    }
}

impl Args {
    /// Returns what to do about controllers. A dry run writes nothing, and no controller writes a 0 again.
    fn if_active(&self) -> IfControllerActive {
        let Self { all, rule, repair_ledger, dry_run, force, take_over, .. } = self;
        let is_about_zeros = !all && rule.is_empty() && !repair_ledger;
        match take_over {
            _ if *force || *dry_run => IfControllerActive::Ignore,
            true => IfControllerActive::TakeOver,
            false if is_about_zeros => IfControllerActive::Ignore,
            false => IfControllerActive::Refuse,
        }
    }

    fn target(self) -> Target {
        let recorded = match self.all {
            true => Recorded::All,
            false if self.rule.is_empty() => Recorded::None,
            false => Recorded::OfRules(self.rule.into_iter().collect()),
        };
        let withdrawal = Withdrawal { recorded, in_use: self.in_use || self.force, zeros: self.zeros };
        let scope = Scope { withdrawal, repair_ledgers: self.repair_ledger };
        let choice = NodeChoice { names: self.node, labels: self.selector.unwrap_or_default() };
        Target { choice, scope }
    }
}

pub(super) async fn run(args: Args) -> Result<(), Error> {
    let is_dry_run = args.dry_run;
    let has_to_ask = (args.all || args.resource.is_some()) && !args.yes && !is_dry_run;
    if has_to_ask && !confirm::can_ask() {
        return Err(Error::CannotAsk);
    }
    let client = args.cluster.connect_and_print(Timeout::EachRequest(args.request_timeout)).await?.client;
    if let Some(resource) = args.resource {
        let choice = NodeChoice { names: args.node, labels: args.selector.unwrap_or_default() };
        let scope = unrecorded::Scope { resource, choice, dry_run: is_dry_run, asks: has_to_ask };
        return unrecorded::run(&client, &scope).await;
    }
    let kubectl = format!("kubectl{}", args.cluster.kubectl_flags());
    let if_active = args.if_active();
    let choice = LeaseSelector {
        namespace: args.leader_elect_resource_namespace.clone(),
        name: args.leader_elect_resource_name.clone(),
    };
    let target = args.target();
    // Nobody waits for an answer while a Lease is held.
    if has_to_ask
        && !confirm::ask(&confirm::question(&plan_prune(&client, &target, |_| ()).await?)).map_err(Error::Ask)?
    {
        return Err(Error::NotConfirmed);
    }

    if is_dry_run {
        return dry_run(&client, &target).await;
    }
    let lease_guard = LeaseGuard::new(&client, &choice, if_active, print_message).await?;
    // No early return in between: every Lease that is held is released or left to expire.
    let (PruneEnd { at_end, alone }, outcome) = work(&client, &target, &lease_guard).await;
    let ended = lease_guard.end(at_end).await;

    let mut errors = report_leases(&ended, alone, &kubectl);
    match outcome {
        Ok((report, plan)) => errors.extend(report.finish(&plan).await),
        Err(error) => errors.push(error),
    }
    fail_with(errors)
}

/// Plans, and reports what would change.
async fn dry_run(client: &Client, target: &Target) -> Result<(), Error> {
    let plan = read(client, target).await?;
    output::print(&announcement(&plan.planned))?;
    let mut report = Report::new(&plan, " (dry run)");
    report.add_planned(&plan.planned);
    fail_with(report.finish(&plan).await)
}

/// Prints all errors but the last, which it returns.
fn fail_with(mut errors: Vec<Error>) -> Result<(), Error> {
    let last = errors.pop();
    for error in errors {
        print_message(format_args!("error: {error}"));
    }
    last.map_or(Ok(()), Err)
}

/// Plans and prunes. Returns what to do with the Leases, and what to report.
async fn work(
    client: &Client,
    target: &Target,
    lease_guard: &LeaseGuard,
) -> (PruneEnd, Result<(Report, PrunePlan), Error>) {
    let unchanged = PruneEnd { at_end: AtEnd::Release, alone: Ok(()) };
    let stop = match stop::requested_or_exit() {
        Ok(stop) => stop,
        Err(error) => return (unchanged, Err(Error::Signal(error))),
    };
    let planned = tokio::select! {
        biased;
        () = stop.clone() => Err(Error::StoppedBefore),
        planned = plan_and_announce(client, target, lease_guard) => planned,
    };
    let mut plan = match planned {
        Ok(plan) => plan,
        Err(error) => return (unchanged, Err(error)),
    };
    let mut report = Report::new(&plan, "");
    let permissions = until_stopped(lease_guard.permissions(), stop);
    let planned = std::mem::take(&mut plan.planned);
    let mut ended =
        prune(client.clone(), target.scope.clone(), planned, permissions, |result| report.add(&result)).await;
    // Nobody else has written.
    if ended.alone.as_ref().is_err_and(|why| why == STOPPED) {
        ended.alone = Ok(());
    }
    (ended, Ok((report, plan)))
}

/// Plans once nobody else writes. If what is about to be removed cannot be announced, it is not removed.
async fn plan_and_announce(client: &Client, target: &Target, lease_guard: &LeaseGuard) -> Result<PrunePlan, Error> {
    lease_guard.wait_for_previous_holders(print_message).await;
    let plan = read(client, target).await?;
    let printer = Printer::start(ProgressBar::hidden());
    printer.print(Line::Output(announcement(&plan.planned)));
    printer.end().await?;
    Ok(plan)
}

/// Reads the nodes and plans them.
async fn read(client: &Client, target: &Target) -> Result<PrunePlan, Error> {
    let reading = ProgressBar::new_spinner().with_message("nodes read");
    reading.set_style(progress_style("{spinner} {pos} {msg}"));
    let plan = plan_prune(client, target, |nodes| reading.set_position(nodes as u64)).await;
    reading.finish_and_clear();
    let plan = plan?;
    for rule in &plan.unlisted_rules {
        print_message(describe_unlisted(rule, target, plan.unreadable.len()));
    }
    Ok(plan)
}

/// Revokes the permission once a stop is requested: what is in flight is finished, and nothing more is sent.
fn until_stopped(
    permissions: impl Stream<Item = Permission>,
    stop: impl Future<Output = ()>,
) -> impl Stream<Item = Permission> {
    let stopped = stream::once(stop).map(|()| Permission::Revoked(STOPPED.to_owned()));
    stream::select(permissions, stopped)
}

/// Reports that no ledger lists a rule, and which nodes were searched.
fn describe_unlisted(rule: &str, target: &Target, unreadable: usize) -> String {
    let searched = match &target.choice.names[..] {
        [] if !target.choice.labels.is_empty() => "none of the selected nodes lists it".to_owned(),
        [] => "no node lists it".to_owned(),
        nodes => format!("none of the searched nodes ({}) lists it", nodes.join(", ")),
    };
    let but = match unreadable {
        0 => "; nothing to withdraw".to_owned(),
        1 => ", except possibly 1 node whose annotation cannot be read".to_owned(),
        nodes => format!(", except possibly {nodes} nodes whose annotations cannot be read"),
    };
    format!("rule {rule}: {searched}{but}")
}

/// Reports which Leases stay and how to release them; returns the errors.
fn report_leases(ended: &[EndedLease], alone: Result<(), String>, kubectl: &str) -> Vec<Error> {
    let is_alone = alone.is_ok();
    let mut errors: Vec<_> = alone.err().map(Error::NotAlone).into_iter().collect();
    for EndedLease { lease, end } in ended {
        match end {
            LeaseEnd::Released => {}
            LeaseEnd::Kept(until) => print_message(format_args!(
                "the lease {lease} is kept until {until:.0}, so that no controller writes; to allow \
                 writes earlier, run: {kubectl} --namespace {} delete lease {}",
                lease.namespace, lease.name
            )),
            LeaseEnd::NotKept(why) => {
                errors.push(Error::LeaseNotKept { lease: lease.clone(), why: why.clone() });
            }
            LeaseEnd::Expires(why) => {
                print_message(format_args!("cannot release the lease {lease}: {why}; it expires within a minute"));
            }
            LeaseEnd::Lost if is_alone => errors.push(Error::NotAlone(format!(
                "the lease {lease} was taken or released by another client: a controller may have \
                 written values; run prune again"
            ))),
            LeaseEnd::Lost => {}
        }
    }
    errors
}

/// Returns what no rule declares, and is about to be removed.
fn announcement(planned: &[NodePrune]) -> String {
    let mut lines = Vec::new();
    for planned in planned {
        let node = &planned.node().name;
        let text = planned.unreadable_ledger().map(|text| format!("unreadable annotation: {text}"));
        let zeros = planned.changes().iter().filter(|change| change.action == Action::RemoveZero);
        let zeros = zeros.map(|change| format!("has 0 {}", change.name()));
        lines.extend(text.into_iter().chain(zeros).map(|text| NodeLine::new(node, text)));
    }
    grouped(lines).into_iter().map(|line| line + "\n").collect()
}

/// The output: one line per node, and a total.
struct Report {
    printer: Printer,
    /// The mark of each line in a dry run.
    dry_run: &'static str,
    nodes: usize,
    changed_nodes: usize,
    changes: usize,
    failed: usize,
    /// The nodes that were left because of a signal.
    stopped: usize,
}

impl Report {
    fn new(plan: &PrunePlan, dry_run: &'static str) -> Self {
        let working = ProgressBar::new(plan.planned.len() as u64).with_message("nodes");
        working.set_style(progress_style("{bar:30} {pos}/{len} {msg}"));
        working.enable_steady_tick(Duration::from_millis(200));
        let printer = Printer::start(working);
        Self { printer, dry_run, nodes: plan.nodes, changed_nodes: 0, changes: 0, failed: 0, stopped: 0 }
    }

    fn add(&mut self, result: &NodeResult) {
        let NodeResult { node, changes, outcome } = result;
        self.printer.print(Line::Step);
        if !changes.is_empty() {
            self.changed_nodes += 1;
            self.changes += changes.len();
            let done: Vec<_> = changes.iter().map(ToString::to_string).collect();
            self.print(format_args!("{node}: {}", done.join(", ")));
        }
        match outcome {
            NodeOutcome::Pruned if changes.is_empty() => {
                self.print(format_args!("{node}: nothing left to withdraw"));
            }
            NodeOutcome::Pruned => {}
            NodeOutcome::Gone => self.print(format_args!("{node}: the node no longer exists")),
            NodeOutcome::Failed(message) if message == STOPPED => self.stopped += 1,
            NodeOutcome::Failed(message) => {
                self.failed += 1;
                self.printer.print(Line::Message(format!("{node}: failed: {message}")));
            }
        }
    }

    /// Reports what a dry run finds, many nodes with the same changes in one line.
    fn add_planned(&mut self, planned: &[NodePrune]) {
        self.changed_nodes += planned.len();
        self.changes += planned.iter().map(|planned| planned.changes().len()).sum::<usize>();
        let lines = planned.iter().map(|planned| {
            let done: Vec<_> = planned.changes().iter().map(ToString::to_string).collect();
            NodeLine::new(&planned.node().name, format!("{}{}", done.join(", "), self.dry_run))
        });
        grouped(lines.collect()).iter().for_each(|line| self.print(format_args!("{line}")));
    }

    /// Prints the total, and returns the errors once everything is printed.
    async fn finish(self, plan: &PrunePlan) -> Vec<Error> {
        let zeros = plan
            .zeros
            .iter()
            .map(|(node, resource)| NodeLine::new(node, format!("has 0 {resource}, probably left by a device plugin")));
        grouped(zeros.collect()).iter().for_each(|line| self.print(format_args!("{line}")));
        let mut with_zeros: Vec<_> = plan.zeros.iter().map(|(node, _)| Arc::clone(node)).collect();
        with_zeros.dedup();
        if !with_zeros.is_empty() {
            let remove = hint::remove_zeros(&plan.choice.flags(&with_zeros));
            let message = format!("to see how to remove such zeros and nothing else, run: {remove}");
            self.printer.print(Line::Message(message));
        }
        for (node, why) in &plan.unreadable {
            let repair = hint::repair_ledger(node);
            let message = format!("{node}: skipped: {why}; to remove the annotation, begin with: {repair}");
            self.printer.print(Line::Message(message));
        }
        for (node, Leaving { resource, rule, at, pods_error }) in &plan.in_use {
            let at = at.map(|at| format!("={at}")).unwrap_or_default();
            let why = pods_error.as_deref().unwrap_or("pods request it");
            let message = format!("{node}: kept {resource}{at}: {why} (rule {rule}, deletionPolicy: WhenUnused)");
            self.printer.print(Line::Message(message));
        }
        let (changes, nodes) = (count(self.changes, "change"), count(self.nodes, "node"));
        self.print(format_args!("{changes} on {} of {nodes}{}", self.changed_nodes, self.dry_run));
        let errors = self.errors(plan);
        self.printer.end().await.err().into_iter().chain(errors).collect()
    }

    /// Returns what has not been done.
    fn errors(&self, plan: &PrunePlan) -> Vec<Error> {
        let (failed, unreadable, left) = (self.failed, plan.unreadable.len(), self.stopped);
        let mut errors = Vec::new();
        if failed + unreadable > 0 {
            errors.push(Error::NotPruned { failed, unreadable });
        }
        if !plan.in_use.is_empty() {
            errors.push(Error::InUse { values: plan.in_use.len() });
        }
        if left > 0 {
            errors.push(Error::Stopped { left });
        }
        errors
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        self.printer.print(Line::Output(format!("{line}\n")));
    }
}

/// "1 node", "2 nodes".
fn count(number: usize, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}

#[cfg(test)]
mod tests;
