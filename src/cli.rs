//! The command line: arguments, and one module a subcommand.

mod crd;
mod run;

use clap::{Parser, Subcommand};

use crate::error::Error;

/// Advertises extended resources on Kubernetes nodes, as NodeExtendedResource objects declare.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controller until SIGTERM or SIGINT.
    Run(run::Args),
    /// Print the CustomResourceDefinition as YAML.
    Crd,
}

impl Cli {
    /// Does what the arguments say.
    ///
    /// # Errors
    /// What ended the subcommand.
    pub async fn run(self) -> Result<(), Error> {
        match self.command {
            Command::Run(args) => run::run(args).await,
            Command::Crd => crd::run(),
        }
    }
}
