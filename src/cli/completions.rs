//! `completions`: prints a shell completion script.

use super::error::Error;
use super::output::print;
use clap_complete::Shell;

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Shell to complete in
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  # Complete in the current bash
  source <(node-resource-advertiser completions bash)

  # Complete in every zsh
  node-resource-advertiser completions zsh > \"${fpath[1]}/_node-resource-advertiser\"";

pub(super) fn run(args: &Args, mut command: clap::Command) -> Result<(), Error> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
