//! Prints while requests are in flight.

use std::sync::mpsc;

use indicatif::ProgressBar;
use tokio::task::{JoinHandle, spawn_blocking};

use super::error::Error;
use super::message::print_message;
use super::output;

/// Prints on a thread of its own, in order. Where nobody reads, as behind a pager, a write blocks: no request, whose
/// response would be lost, waits for that.
pub(super) struct Printer {
    lines: mpsc::Sender<Line>,
    printed: JoinHandle<Result<(), Error>>,
}

/// What is printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// For standard output.
    Output(String),
    /// For standard error.
    Message(String),
    /// One step of the progress bar.
    Step,
}

impl Printer {
    /// Starts the thread, which also draws this progress bar.
    pub(super) fn start(progress: ProgressBar) -> Self {
        let (lines, received) = mpsc::channel();
        let printed = spawn_blocking(move || {
            let mut output = Ok(());
            for line in received {
                match line {
                    Line::Step => progress.inc(1),
                    Line::Output(text) if output.is_ok() => output = progress.suspend(|| output::print(&text)),
                    // The first failure is the last attempt.
                    Line::Output(_) => {}
                    Line::Message(text) => progress.suspend(|| print_message(text)),
                }
            }
            progress.finish_and_clear();
            output
        });
        Self { lines, printed }
    }

    /// Prints nothing, and ends with this error.
    #[cfg(test)]
    pub(super) fn failing(error: Error) -> Self {
        Self { lines: mpsc::channel().0, printed: tokio::spawn(std::future::ready(Err(error))) }
    }

    pub(super) fn print(&self, line: Line) {
        // The thread runs until this value is dropped, unless it panics, which `end` reports.
        let _ = self.lines.send(line);
    }

    /// Waits until everything is printed. Returns the first error of standard output, after which it got nothing more.
    pub(super) async fn end(self) -> Result<(), Error> {
        drop(self.lines);
        self.printed.await.unwrap_or_else(|error| Err(Error::Output(error.into())))
    }
}
