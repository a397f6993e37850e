//! `plan`: shows what the controller would do.

mod render;

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use super::args::ReadArgs;
use super::end::{Failure, Verdict};
use super::error::Error;
use super::message::print_message;
use super::output::{has_colour, print, progress_style};
use super::rule_files;
use crate::inspect::diff::files::{self, PodFiles};
use crate::inspect::diff::filter::Filter;
use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::diff::rules::{ClusterRules, Rules};
use crate::inspect::diff::{Detail, Keep, Preview, Report, cluster};
use crate::manifest::{Exclude, Glob, Inputs};
use crate::model::count::plural;
use crate::model::node::{ApiNode, FactNames, Interner, Node};
use crate::planner::input::PodUsage;
use crate::planner::rules::Rule;
use render::{Format, TableLimits};

/// Show what the controller would change on which node, without changing anything
///
/// Without --nodes, plan reads the cluster. Rules in files are added to the rules of the cluster, or replace the
/// rule of the same name, as if they had been applied. Without -f, plan shows what the controller is about to do for
/// the cluster's own rules.
///
/// With --nodes, plan reads only files and needs no cluster: nodes as `kubectl get nodes -o json
/// --show-managed-fields` prints them, in any number. Whether a value can be lowered depends on what pods request: use --pods; without it, plan reports such a
/// value as one that may be held.
///
/// Only the controller knows which values another field manager keeps changing back. For a cluster, plan takes them
/// from the status of the rules, which names up to ten nodes per rule; for files, they are unknown.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// YAML or JSON files with rules, folders with such files, or - for standard input
    ///
    /// Objects of other kinds and unreadable files that mention no rule are skipped. A rule that is not in the cluster yet counts as the youngest.
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    rules: Vec<PathBuf>,
    /// Read subfolders of the folders in -f too
    #[arg(short = 'R', long, requires = "rules")]
    recursive: bool,
    /// Files and folders to skip in -f: a name or, if it contains a slash, a path; can be repeated
    ///
    /// `*` and `?` do not match a slash; `**` does.
    #[arg(long, value_name = "GLOB", requires = "rules")]
    exclude: Vec<Glob>,
    /// JSON or YAML files with nodes, or - for standard input, instead of the cluster
    ///
    /// Use JSON for many nodes: a YAML file can have at most 16 MiB.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "rules")]
    nodes: Vec<PathBuf>,
    /// JSON or YAML files with all pods (kubectl get pods -A -o json), for --nodes
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "nodes")]
    pods: Vec<PathBuf>,
    /// Treat rules of the cluster that are not in the files as deleted, as kubectl diff --prune does
    #[arg(long, requires = "rules", conflicts_with = "nodes")]
    prune: bool,
    /// Node to plan; can be repeated
    #[arg(long = "node", value_name = "NAME")]
    node_names: Vec<String>,
    /// Label selector of the nodes to plan, as in kubectl: k=v, k!=v, k in (a,b), k notin (a,b), k and !k,
    /// separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: LabelFilter,
    /// Rule to show; can be repeated
    ///
    /// Other rules still count: where another rule decides instead, plan shows that.
    #[arg(long = "rule", value_name = "NAME")]
    rule_names: Vec<String>,
    /// Exit with 3 if anything does not become as declared
    ///
    /// That is what `!` marks, what pods hold above its declaration, and rules that are invalid. A rule that selects no
    /// node is a note.
    #[arg(long)]
    strict: bool,
    /// Show unchanged resources too
    #[arg(long)]
    all: bool,
    /// Output format
    ///
    /// In a table, BEFORE and AFTER are capacity/allocatable where the two differ.
    ///
    /// json and yaml are an object with apiVersion, kind, summary, totals, notes and nodes.
    ///
    /// patch is one line of JSON per node, {"node": ..., "patch": ...}, with the JSON Patch of the node's status. It
    /// uses the API server's dialect of RFC 6902, in which `test` with null means that the key is absent; libraries
    /// for RFC 6902 fail such a test.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    cluster: ReadArgs,
}

const AFTER_HELP: &str = "\
Exits with 0 if there are no changes, 1 if something changes or may change, and 2 on an error, like kubectl diff.
With --strict, exits with 3 if anything does not become as declared, whether or not something changes.
The last line of the table agrees: \"No changes\", \"Up to 2 to change\" where it depends on pods that are
not known, or \"Plan: ...\".

Examples:
  # Show what applying the files changes in the cluster
  node-resource-advertiser plan -f rules/

  # Plan one pool, with one line per node
  node-resource-advertiser plan -f rules/ -l pool=build -o wide

  # Plan without a cluster
  node-resource-advertiser plan -f rules/ --nodes nodes.json --pods pods.json

  # Send the patch of one node, as the controller would
  patch=$(node-resource-advertiser plan -f rules/ --node node-1 -o patch | jq -c .patch)
  kubectl patch node node-1 --subresource=status --type=json -p \"$patch\"";

/// The limits of a table: the job summary on GitHub is limited to 1 MiB.
const TABLE: TableLimits = TableLimits { lines: 250, notes: 10 };

/// The limits of a table with one line per node; the notes are the same.
const WIDE: TableLimits = TableLimits { lines: usize::MAX, ..TABLE };

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// One line per resource on a node; more than 10 nodes with the same line are grouped
    Table,
    /// Like table, with one line per node
    Wide,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
    /// The JSON Patch of each node, one per line
    Patch,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> Result<Verdict, Failure> {
    let report = print_plan(&args).await.map_err(|error| match error.is_no_connection() {
        true => Failure::from(error).with_hint("To plan without a cluster, use -f and --nodes."),
        false => error.into(),
    })?;
    if args.strict && report.shortfalls > 0 {
        let values = plural(report.shortfalls, "finding", "findings");
        print_message(format_args!("error: not everything becomes as declared: {values}, and --strict is given"));
        return Ok(Verdict::Incomplete);
    }
    Ok(if report.has_changes() { Verdict::Found } else { Verdict::Fine })
}

/// Prints the plan, and returns it.
async fn print_plan(args: &Args) -> Result<Report, Error> {
    if args.output == Output::Patch && !args.rule_names.is_empty() {
        return Err(Error::PatchOfRule);
    }
    let inputs = [&args.rules, &args.nodes, &args.pods];
    if inputs.into_iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Error::StdinTwice);
    }
    let rules = match args.rules.as_slice() {
        [] => Vec::new(),
        paths => rule_files::read(&Inputs {
            paths: paths.to_vec(),
            recursive: args.recursive,
            exclude: Exclude::from(args.exclude.clone()),
        })?,
    };
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
    Ok(report)
}

fn from_files(args: &Args, rules: Vec<Rule>, progress: &ProgressBar) -> Result<Report, Error> {
    let mut pods = PodFiles::default();
    args.pods.iter().try_for_each(|path| pods.read(path))?;
    let mut preview = Preview::new(Rules::from_files(rules), args.filter(), args.detail());
    let mut interner = Interner::keeping(FactNames::All);
    let read = |path: &PathBuf| {
        files::read(Path::new(path), &mut |node: ApiNode| {
            if !preview.admits(&node) {
                return Ok(());
            }
            let node = Node::new(node, &mut interner);
            let on_node = (!args.pods.is_empty()).then(|| pods.on(&node.name));
            let pod_usage = match &on_node {
                None => PodUsage::NotFetched,
                Some(on_node) => PodUsage::Known(on_node.requests.clone()),
            };
            let plan = preview.plan(&node, pod_usage);
            progress.inc(1);
            preview.add(&node, plan, on_node.as_ref()).map_err(|error| error.to_string())
        })
    };
    args.nodes.iter().try_for_each(read)?;
    Ok(preview.finish()?)
}

async fn from_cluster(args: &Args, rules: Vec<Rule>, progress: &ProgressBar) -> Result<Report, Error> {
    let client = args.cluster.connect_and_print().await?.client;
    let present = match cluster::rules(&client).await? {
        Some(present) => present,
        // A plan may precede the installation.
        None if !rules.is_empty() => ClusterRules::default(),
        None => return Err(Error::NoCrd),
    };
    let rules = Rules::from_cluster(present, rules, args.prune);
    let mut preview = Preview::new(rules, args.filter(), args.detail());
    cluster::nodes(&client, &mut preview, |nodes| progress.set_position(nodes as u64)).await?;
    Ok(preview.finish()?)
}

impl Args {
    fn detail(&self) -> Detail {
        let keep = match self.output {
            Output::Table => Keep::Groups,
            Output::Wide => Keep::Rows,
            Output::Json | Output::Yaml => Keep::Nodes,
            Output::Patch => Keep::Patches,
        };
        Detail { all: self.all, keep }
    }

    fn filter(&self) -> Filter {
        Filter::new(&self.node_names, self.selector.clone(), &self.rule_names)
    }
}

impl Output {
    fn format(self) -> Format {
        let table = |limits| Format::Table { colour: has_colour(&std::io::stdout()), limits };
        match self {
            Self::Table => table(TABLE),
            Self::Wide => table(WIDE),
            Self::Json => Format::Json,
            Self::Yaml => Format::Yaml,
            Self::Patch => Format::Patch,
        }
    }
}
