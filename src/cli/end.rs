//! How a command ends: with a verdict or a failure. The exit codes are here.

use std::error::Error;
use std::process::ExitCode;

use super::message::print_message;

/// What a command found, once it has done its work. The numbers are the exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing that a script has to know.
    Fine = 0,
    /// What the command looks for: changes, problems, differences, pods that wait.
    Found = 1,
    /// Something could not be read, which has been reported.
    Unread = 2,
    /// Not everything is known, or becomes as declared.
    Incomplete = 3,
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    /// Adds a line that says what to do.
    pub(super) fn with_hint(self, hint: &str) -> Self {
        Self(format!("{}\n{hint}", self.0))
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Prints a failure, and returns the exit code, which is `code_of_failure` if there is one.
pub(super) fn exit(result: Result<Verdict, Failure>, code_of_failure: u8) -> ExitCode {
    match result {
        Ok(verdict) => ExitCode::from(verdict as u8),
        Err(Failure(message)) => {
            print_message(format_args!("error: {message}"));
            ExitCode::from(code_of_failure)
        }
    }
}
