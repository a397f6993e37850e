//! The command line: arguments, and one module per subcommand.

mod adopt;
mod age;
mod answers;
mod args;
mod autoscaler;
mod complete;
mod completions;
mod crd;
mod doctor;
mod duration;
mod end;
mod error;
mod guard;
mod health;
mod help;
mod log;
mod man;
mod memory_limit;
mod message;
mod output;
mod permissions;
mod plan;
mod plugin;
mod printer;
mod prune;
mod rule_files;
mod run;
mod settings;
mod stop;
mod table;
mod validate;
mod wrap;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Builder;

pub use answers::why_filters;
use end::{Failure, Verdict};
pub use message::print_message;

/// Advertise extended resources on Kubernetes nodes, as NodeExtendedResource objects declare
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colors
    ///
    /// With auto, colors are off if TERM is dumb or NO_COLOR is set, on if CLICOLOR_FORCE is set, and otherwise on
    /// in a terminal.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: clap::ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Prune(prune::Args),
    Crd(crd::Args),
    Validate(validate::Args),
    Plan(plan::Args),
    Autoscaler(autoscaler::Args),
    Guard(guard::Args),
    Top(answers::TopArgs),
    Node(answers::NodeArgs),
    Resource(answers::ResourceArgs),
    Pod(answers::PodArgs),
    Why(answers::WhyArgs),
    History(answers::HistoryArgs),
    Doctor(doctor::Args),
    Adopt(adopt::Args),
    Completions(completions::Args),
    // kubectl runs it under another name.
    #[command(hide = true)]
    Complete(complete::Args),
    // For `helm test`.
    #[command(hide = true)]
    Health(health::Args),
    // For packages: a release has the pages.
    #[command(hide = true)]
    Man(man::Args),
}

impl Cli {
    /// Parses the arguments of the process. Prints help, or the error in the arguments, and exits.
    #[must_use]
    pub fn from_process() -> Self {
        // Help and errors about arguments have colors too, before --color is parsed.
        output::set_colour(clap::ColorChoice::Auto);
        plugin::parse(std::env::args_os().collect()).unwrap_or_else(|error| help::exit(&error))
    }

    /// Returns the runtime that the subcommand needs.
    #[must_use]
    pub fn runtime(&self) -> Builder {
        match self.command {
            // Leases are renewed on their own thread, so that a message that nobody reads does not delay them.
            Command::Prune(_) => {
                let mut runtime = Builder::new_multi_thread();
                runtime.worker_threads(1);
                runtime
            }
            _ => Builder::new_current_thread(),
        }
    }

    /// Runs the subcommand, and returns its exit code.
    pub async fn run(self) -> ExitCode {
        output::set_colour(self.color);
        wrap::fit_terminal();
        let code_of_failure = self.command.code_of_failure();
        end::exit(self.command.run().await, code_of_failure)
    }
}

impl Command {
    /// Returns the exit code of a failure. It is 2 where 1 means that something was found.
    fn code_of_failure(&self) -> u8 {
        match self {
            Self::Plan(_) | Self::Autoscaler(_) | Self::Guard(_) | Self::Why(_) | Self::Doctor(_) => 2,
            _ => 1,
        }
    }

    async fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Validate(args) => return validate::run(&args),
            Self::Plan(args) => return plan::run(args).await,
            Self::Adopt(args) => return adopt::run(args).await,
            Self::Guard(args) => return guard::run(&args),
            Self::Autoscaler(args) => return autoscaler::run(args).await,
            Self::Why(args) => return answers::why(args).await,
            Self::Doctor(args) => return doctor::run(args).await,
            Self::Run(args) => run::run(args).await?,
            Self::Prune(args) => prune::run(args).await?,
            Self::Crd(args) => crd::run(&args)?,
            Self::Top(args) => answers::top(args).await?,
            Self::Node(args) => answers::node(args).await?,
            Self::Resource(args) => answers::resource(args).await?,
            Self::Pod(args) => answers::pod(args).await?,
            Self::History(args) => answers::history(args).await?,
            Self::Completions(args) => completions::run(&args, Cli::command())?,
            Self::Complete(args) => complete::run(args, Cli::command()).await?,
            Self::Health(args) => output::print(&health::run(args).await?)?,
            Self::Man(args) => man::run(&args, permissions::described(Cli::command()))?,
        }
        Ok(Verdict::Fine)
    }
}
