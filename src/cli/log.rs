//! The log of the controller, on standard error.
//!
//! A thread of its own writes the lines: where nobody reads the pipe, a write blocks, and repairs must not wait for that.
//! Then lines are lost, and counted.

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use super::output::has_colour;
use super::settings::LogFormat;

/// The maximum number of lines that wait: a few megabytes.
const MAX_LINES: usize = 10_000;

/// The log, which writes its last lines when it is dropped, also by a panic.
pub(super) struct Log {
    /// Counts the lost lines.
    pub(super) lost: ErrorCounter,
    _writes_the_rest: WorkerGuard,
}

pub(super) fn start(filter: EnvFilter, format: LogFormat) -> Log {
    let colour = has_colour(&std::io::stderr());
    let lines = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MAX_LINES);
    let (writer, guard) = lines.thread_name("log").finish(std::io::stderr());
    let lost = writer.error_counter();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(writer);
    // A line that cannot be written is lost. Reporting that on standard error would panic.
    let log = log.log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_target(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Log { lost, _writes_the_rest: guard }
}
