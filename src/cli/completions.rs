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

pub(super) fn run(args: &Args, command: clap::Command) -> Result<(), Error> {
    let mut command = visible(&command);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, &*name, &mut script);
    let script = String::from_utf8_lossy(&script);
    print(&match args.shell {
        Shell::Bash => with_reachable_cases(&script, &name),
        _ => script.into_owned(),
    })
}

/// Returns the command without those that are hidden from people, which clap_complete offers.
fn visible(command: &clap::Command) -> clap::Command {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    clap::Command::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments())
        .subcommands(subcommands)
}

/// Repairs the script of a program with a dash in its name: clap_complete 4.6 compares the command with cases that spell the
/// name in another way, so that nothing after the command is completed.
fn with_reachable_cases(script: &str, name: &str) -> String {
    script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"))
}
