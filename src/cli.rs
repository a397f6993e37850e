//! The command line: arguments, and one module a subcommand.

mod args;
mod completions;
mod crd;
mod diff;
mod error;
mod output;
mod plan;
mod prune;
mod run;
mod settings;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Builder;

pub use error::Error;

/// Advertises extended resources on Kubernetes nodes, as NodeExtendedResource objects declare.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Whether to use colours; auto: never if TERM is dumb or NO_COLOR is set, else always if
    /// CLICOLOR_FORCE is set, else on a terminal.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: clap::ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller until SIGTERM or SIGINT.
    Run(run::Args),
    /// Withdraw everything that the annotations on nodes list, with no controller at work.
    Prune(prune::Args),
    /// Print the CustomResourceDefinition, or the JSON Schema of its objects.
    Crd(crd::Args),
    /// Check manifests without a cluster, as the API server would.
    Validate(validate::Args),
    Plan(plan::Args),
    /// Print a script by which a shell completes the command line.
    Completions(completions::Args),
}

impl Cli {
    /// Reads the arguments of the process; prints help, or what is wrong with them, and exits.
    #[must_use]
    pub fn from_process() -> Self {
        // What is printed of arguments has colours too, before it is known what these demand.
        output::set_colour(clap::ColorChoice::Auto);
        Self::parse()
    }

    /// The runtime that the subcommand needs.
    #[must_use]
    pub fn runtime(&self) -> Builder {
        match self.command {
            // Leases are renewed on a thread of their own: whoever reads the output may take their time.
            Command::Prune(_) => {
                let mut runtime = Builder::new_multi_thread();
                runtime.worker_threads(1);
                runtime
            }
            _ => Builder::new_current_thread(),
        }
    }

    /// Does what the arguments say, and gives what to exit with.
    ///
    /// # Errors
    /// What ended the subcommand.
    pub async fn run(self) -> Result<ExitCode, Error> {
        output::set_colour(self.color);
        match self.command {
            Command::Run(args) => run::run(args).await?,
            Command::Prune(args) => prune::run(args).await?,
            Command::Crd(args) => crd::run(&args)?,
            Command::Completions(args) => completions::run(&args, Self::command())?,
            Command::Validate(args) => return validate::run(&args),
            Command::Plan(args) => return Ok(plan::run(args).await),
        }
        Ok(ExitCode::SUCCESS)
    }
}
