//! `autoscaler`: what an autoscaler must know of the nodes that it has not created yet.
//!
//! ```text
//! rules of files ─┬▶ overlays: one NodeOverlay per rule, for Karpenter
//!                 └▶ group: the planner's result for a node with these labels ─▶ tags, annotations, a fragment
//! ```
//!
//! What an autoscaler has no way to express is reported, and never left out without a word.

mod declared;
mod error;
mod label_keys;
pub(super) mod overlay;
pub(super) mod overlays;
mod render;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use super::message::print_message;
use super::output::print;
use super::rule_files;
use crate::planner::rules::RuleSet;
use error::AutoscalerError;
use overlays::Overlays;
use render::Format;

/// Print what an autoscaler must know of nodes that do not exist yet
///
/// An autoscaler that has no node of a group to look at does not know the resources that the controller will advertise
/// on it. This command reads only files, and prints them in the form that the autoscaler reads.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// YAML or JSON files with rules, folders with such files, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., required = true)]
    rules: Vec<PathBuf>,
    /// Read subfolders of the folders in -f too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The autoscaler
    #[arg(long = "for", value_name = "AUTOSCALER", value_enum)]
    target: Target,
    /// Output format
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// Karpenter: one NodeOverlay for each rule
    Karpenter,
}

const AFTER_HELP: &str = "\
Exits with 0 if everything is expressed, 1 if something cannot be expressed, which is reported on standard error, and 2
on an error.

Examples:
  # Apply the NodeOverlays of all rules
  node-resource-advertiser autoscaler -f rules/ --for karpenter | kubectl apply -f -";

/// Runs the command. 1 means that something cannot be expressed, so every error is a 2.
pub(super) async fn run(args: Args) -> ExitCode {
    match answer(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print_message(format_args!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Prints what was asked for, and returns whether everything is expressed.
async fn answer(args: &Args) -> Result<bool, AutoscalerError> {
    let rules = rule_files::read(&args.rules, args.recursive)?;
    let rules = RuleSet::new(rules.into_iter().map(Arc::new), []);
    match args.target {
        Target::Karpenter => {
            let format = args.output.unwrap_or(Format::Yaml);
            let Overlays { overlays, unexpressed, notes } = Overlays::new(&rules);
            print(&render::objects(&overlays, format)?)?;
            notes.iter().for_each(|note| print_message(format_args!("note: {note}")));
            unexpressed.values().for_each(|why| print_message(format_args!("error: {why}")));
            Ok(unexpressed.is_empty())
        }
    }
}
