//! `completions`: prints a script by which a shell completes the command line.

use super::error::Error;
use super::output::print;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: source <(node-resource-advertiser completions bash)")]
pub(super) struct Args {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: &Args, mut command: clap::Command) -> Result<(), Error> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print(&String::from_utf8_lossy(&script))
}
