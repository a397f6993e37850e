//! The commands that answer questions about a cluster: `top`, `node`, `resource`, `pod`, `why` and `history`.

pub(super) mod answer;
mod history;
mod namespaces;
mod node;
mod pod;
mod resource;
mod screen;
mod top;
mod view;
mod why;

use std::process::ExitCode;

use answer::AnswerError;
pub(super) use history::Args as HistoryArgs;
pub(super) use node::Args as NodeArgs;
pub(super) use pod::Args as PodArgs;
pub(super) use resource::Args as ResourceArgs;
pub(super) use top::Args as TopArgs;
pub(super) use why::Args as WhyArgs;
pub use why::why_filters;

use super::message::print_message;

/// Returns the exit code of a command that fails with 1.
fn exit_code(result: Result<(), AnswerError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_message(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs `top`.
pub(super) async fn top(args: TopArgs) -> ExitCode {
    exit_code(top::run(args).await)
}

/// Runs `node`.
pub(super) async fn node(args: NodeArgs) -> ExitCode {
    exit_code(node::run(args).await)
}

/// Runs `resource`.
pub(super) async fn resource(args: ResourceArgs) -> ExitCode {
    exit_code(resource::run(args).await)
}

/// Runs `pod`.
pub(super) async fn pod(args: PodArgs) -> ExitCode {
    exit_code(pod::run(args).await)
}

/// Runs `why`.
pub(super) async fn why(args: WhyArgs) -> ExitCode {
    why::run(args).await
}

/// Runs `history`.
pub(super) async fn history(args: HistoryArgs) -> ExitCode {
    exit_code(history::run(args).await)
}
