//! `plan`: what the controller would do.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::ProgressBar;

use super::diff::files::{self, PodFiles};
use super::diff::rules::Rules;
use super::diff::{Detail, Format, Preview, Report, cluster};
use super::error::Error;
use super::output::{has_colour, print, progress_style};
use crate::cluster::client;
use crate::manifest::{self, Exclude, Inputs, Limits};
use crate::model::node::{ApiNode, Interner, Node};
use crate::planner::input::PodUsage;
use crate::planner::rules::Rule;
use crate::validate::{Format as ReportFormat, Severity, Validator};

/// Show what the controller would change on which node, and change nothing.
///
/// Exits with 0 where nothing is to be changed, 1 where something is or may be, and 2 on an error, as
/// kubectl diff does.
///
/// Without --nodes it is about the cluster: rules of files are added to those of the cluster, or replace
/// the one of their name, as if they had been applied. Without -f it is what the controller is about to
/// do by the cluster's own rules. It takes the right to list nodes, nodeextendedresources and pods.
///
/// With --nodes no cluster is needed, and the files are all there is: nodes as `kubectl get nodes -o
/// json` prints them, of any number. Whether a value is lowered depends on what pods request: --pods
/// tells, and without it such a value counts as one that may be held.
///
/// Which values another writer keeps changing back is known to the controller alone: of the cluster, it
/// is taken from the status of the rules, which names ten nodes each; of files it is not known.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// YAML or JSON files with rules, folders with such files, or - for standard input. Other kinds are
    /// skipped. A rule that is not in the cluster yet counts as younger than all that are.
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    rules: Vec<PathBuf>,
    /// Also read folders within the folders of -f.
    #[arg(short = 'R', long, requires = "rules")]
    recursive: bool,
    /// JSON or YAML files with nodes, or - for standard input, in place of the cluster. Use JSON for
    /// many: YAML may have 16 MiB a file.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "rules")]
    nodes: Vec<PathBuf>,
    /// JSON or YAML files with all pods (kubectl get pods -A -o json), for --nodes.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "nodes")]
    pods: Vec<PathBuf>,
    /// Count rules of the cluster that are not in the files as deleted, as kubectl diff --prune does.
    #[arg(long, requires = "rules", conflicts_with = "nodes")]
    prune: bool,
    /// Also show what stays as it is.
    #[arg(long)]
    all: bool,
    /// How it is told: a line for each resource on a node; the same for programs; or the JSON Patch
    /// (RFC 6902) for the status of each node, one line of JSON a node. In the table BEFORE and AFTER are
    /// capacity/allocatable where the two differ.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
    Patch,
}

/// 1 means that there are changes, so that every error is a 2.
pub(super) async fn run(args: Args) -> ExitCode {
    match told(&args).await {
        Ok(true) => ExitCode::from(1),
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints the plan, and gives whether there is something to do.
async fn told(args: &Args) -> Result<bool, Error> {
    let inputs = [&args.rules, &args.nodes, &args.pods];
    if inputs.into_iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Error::StdinTwice);
    }
    let rules = if args.rules.is_empty() { Vec::new() } else { read_rules(args)? };
    let progress = ProgressBar::new_spinner().with_message("nodes planned");
    progress.set_style(progress_style("{spinner} {pos} {msg}"));
    let planned = if args.nodes.is_empty() {
        from_cluster(args, rules, &progress).await
    } else {
        from_files(args, rules, &progress)
    };
    progress.finish_and_clear();
    let report = planned?;
    print(&report.render(args.output.format()).map_err(Error::Render)?)?;
    Ok(report.has_changes())
}

/// Checked as `validate` does it, and what is wrong is told as it tells it.
fn read_rules(args: &Args) -> Result<Vec<Rule>, Error> {
    let mut validator = Validator::new().map_err(Error::Validation)?;
    let paths = args.rules.clone();
    let inputs = Inputs { paths, recursive: args.recursive, exclude: Exclude::default() };
    let files =
        manifest::read(&inputs, &Limits::default(), &mut |document| validator.take(document));
    for note in files.notes() {
        eprintln!("note: {note}");
    }
    let (rules, report) = validator.into_rules(files);
    if !report.diagnostics.is_empty() {
        let colour = has_colour(&std::io::stderr());
        eprint!("{}", report.render(ReportFormat::Text { colour }));
    }
    if report.count(Severity::Unreadable) + report.count(Severity::Error) > 0 {
        return Err(Error::InvalidRules);
    }
    if rules.is_empty() {
        return Err(Error::NoRules);
    }
    Ok(rules)
}

fn from_files(args: &Args, rules: Vec<Rule>, progress: &ProgressBar) -> Result<Report, Error> {
    let mut pods = PodFiles::default();
    args.pods.iter().try_for_each(|path| pods.read(path))?;
    let mut preview = Preview::new(Rules::from_files(rules), args.detail());
    let mut interner = Interner::default();
    let read = |path: &PathBuf| {
        files::read(Path::new(path), &mut |node: ApiNode| {
            let node = Node::new(node, &mut interner);
            let pod_usage = match args.pods.is_empty() {
                true => PodUsage::NotFetched,
                false => PodUsage::Known(pods.requests(&node.name)),
            };
            let plan = preview.plan(&node, pod_usage);
            progress.inc(1);
            preview.add(&node, plan).map_err(|error| error.to_string())
        })
    };
    args.nodes.iter().try_for_each(read)?;
    Ok(preview.finish())
}

async fn from_cluster(
    args: &Args,
    rules: Vec<Rule>,
    progress: &ProgressBar,
) -> Result<Report, Error> {
    let client = client::connect().await?;
    let present = match cluster::rules(&client).await? {
        Some(present) => present,
        // What is to be installed is planned before.
        None if !rules.is_empty() => Vec::new(),
        None => return Err(Error::NoCrd),
    };
    let rules = Rules::from_cluster(present, rules, args.prune);
    let mut preview = Preview::new(rules, args.detail());
    cluster::nodes(&client, &mut preview, |nodes| progress.set_position(nodes as u64)).await?;
    Ok(preview.finish())
}

impl Args {
    fn detail(&self) -> Detail {
        Detail { all: self.all, patches: self.output == Output::Patch }
    }
}

impl Output {
    fn format(self) -> Format {
        match self {
            Self::Table => Format::Table { colour: has_colour(&std::io::stdout()) },
            Self::Json => Format::Json,
            Self::Yaml => Format::Yaml,
            Self::Patch => Format::Patch,
        }
    }
}
