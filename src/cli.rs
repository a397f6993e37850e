//! The command line: arguments, and one module per subcommand.

mod adopt;
mod age;
mod answers;
mod args;
mod autoscaler;
mod complete;
mod completions;
mod crd;
mod diff;
mod doctor;
mod duration;
mod error;
mod guard;
mod health;
mod help;
mod hint;
mod inventory;
mod log;
mod man;
mod memory_limit;
mod message;
mod output;
mod plan;
mod plugin;
mod printer;
mod prune;
mod rule_files;
mod run;
mod settings;
mod stop;
mod table;
mod timeline;
mod validate;
mod wrap;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Builder;

pub use answers::why_filters;
pub use error::Error;
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
    ///
    /// # Errors
    /// The error that ended the subcommand.
    pub async fn run(self) -> Result<ExitCode, Error> {
        output::set_colour(self.color);
        match self.command {
            Command::Run(args) => run::run(args).await?,
            Command::Prune(args) => prune::run(args).await?,
            Command::Crd(args) => crd::run(&args)?,
            Command::Complete(args) => complete::run(args, Self::command()).await?,
            Command::Completions(args) => completions::run(&args, Self::command())?,
            Command::Man(args) => man::run(&args, Self::command())?,
            Command::Health(args) => output::print(&health::run(args).await?)?,
            Command::Validate(args) => return validate::run(&args),
            Command::Plan(args) => return Ok(plan::run(args).await),
            Command::Autoscaler(args) => return Ok(autoscaler::run(args).await),
            Command::Guard(args) => return Ok(guard::run(&args)),
            Command::Top(args) => return Ok(answers::top(args).await),
            Command::Node(args) => return Ok(answers::node(args).await),
            Command::Resource(args) => return Ok(answers::resource(args).await),
            Command::Pod(args) => return Ok(answers::pod(args).await),
            Command::Why(args) => return Ok(answers::why(args).await),
            Command::History(args) => return Ok(answers::history(args).await),
            Command::Doctor(args) => return Ok(doctor::run(args).await),
            Command::Adopt(args) => return Ok(adopt::run(args).await),
        }
        Ok(ExitCode::SUCCESS)
    }
}
