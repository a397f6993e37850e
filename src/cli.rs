//! The command line: arguments, and one module a subcommand.

mod completions;
mod crd;
mod plan;
mod prune;
mod run;
mod settings;
mod validate;

use std::io::{ErrorKind, IsTerminal, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use indicatif::ProgressStyle;

use crate::error::Error;
pub use settings::InvalidSettings;

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

/// Where the Lease of the controllers is.
#[derive(Debug, clap::Args)]
struct LeaseArgs {
    /// The namespace of the Lease that says which controller leads [default: the pod's, or the
    /// kubeconfig's]
    #[arg(long, env = "NRA_LEASE_NAMESPACE")]
    lease_namespace: Option<String>,
    /// The Lease's name.
    #[arg(long, env = "NRA_LEASE_NAME", default_value = "node-resource-advertiser")]
    lease_name: String,
}

impl LeaseArgs {
    fn namespace(&self, client: &kube::Client) -> String {
        let default = || client.default_namespace().to_owned();
        self.lease_namespace.clone().unwrap_or_else(default)
    }
}

impl Cli {
    /// Does what the arguments say, and gives what to exit with.
    ///
    /// # Errors
    /// What ended the subcommand.
    pub async fn run(self) -> Result<ExitCode, Error> {
        match self.command {
            Command::Run(args) => run::run(args).await?,
            Command::Prune(args) => prune::run(args).await?,
            Command::Crd(args) => crd::run(&args)?,
            Command::Completions(args) => completions::run(&args)?,
            Command::Validate(args) => return validate::run(&args),
            Command::Plan(args) => return Ok(plan::run(args).await),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what was asked for. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> Result<(), Error> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Whether to use colours on a stream.
fn has_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// A style of progress that is known to be valid; where it is not, the default does.
fn progress_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
