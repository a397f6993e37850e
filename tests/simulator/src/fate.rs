//! The fate of a request between a client and the API server.

use std::time::Duration;

use crate::failure::Failure;
use crate::http::Call;

/// The fate of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// The server processes it and responds at once; a watch lasts for its whole time.
    Answered,
    /// The server processes it at once; the response is delayed.
    Slow(Duration),
    /// It arrives late, even if the client no longer waits, and the server then responds.
    Late(Duration),
    /// The server does not process it, and responds with this error.
    Failed(Failure),
    /// The server processes it, and responds with this error: its backend has not responded in time.
    DoneAndFailed(Failure),
    /// The connection is refused, so the server does not process it.
    Refused,
    /// It is lost: not processed, and without a response.
    Lost,
    /// The server processes it; the response is lost.
    Unanswered,
    /// The server processes it; the connection breaks before the response.
    Reset,
    /// The server processes it; the connection breaks in the middle of the response.
    Cut,
    /// The server processes it; the response stops in the middle, forever.
    Stalled,
    /// A watch has this flaw; other requests get a response.
    Flawed(Flaw),
}

impl Fate {
    /// All names.
    pub const NAMES: [&str; 12] = [
        "answered",
        "slow",
        "late",
        "failed",
        "done and failed",
        "refused",
        "lost",
        "unanswered",
        "reset",
        "cut",
        "stalled",
        "flawed",
    ];

    /// Returns a short name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Slow(_) => "slow",
            Self::Late(_) => "late",
            Self::Failed(_) => "failed",
            Self::DoneAndFailed(_) => "done and failed",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Unanswered => "unanswered",
            Self::Reset => "reset",
            Self::Cut => "cut",
            Self::Stalled => "stalled",
            Self::Flawed(_) => "flawed",
        }
    }

    /// Returns the suffix of the request's log line.
    pub(crate) fn remark(&self) -> String {
        match self {
            Self::Answered => String::new(),
            Self::Slow(time) => format!(" (the answer takes {time:?})"),
            Self::Late(time) => format!(" arrives {time:?} later"),
            Self::Failed(failure) => format!(" is answered {}", failure.code),
            Self::DoneAndFailed(failure) => format!(" (the answer is {})", failure.code),
            Self::Refused => " finds no connection".to_owned(),
            Self::Lost => " is lost".to_owned(),
            Self::Unanswered => " (the answer is lost)".to_owned(),
            Self::Reset => " (the connection breaks before the answer)".to_owned(),
            Self::Cut => " (the connection breaks in the middle of the answer)".to_owned(),
            Self::Stalled => " (the answer stops in its middle)".to_owned(),
            Self::Flawed(Flaw { lag, lasts, end }) => {
                format!(" (it lags by {lag:?}, and after {lasts:?} it is {end:?})")
            }
        }
    }
}

/// A flaw of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The delay of every event.
    pub lag: Duration,
    /// The time after which the watch ends.
    pub lasts: Duration,
    /// How the watch ends.
    pub end: WatchEnd,
}

/// How a watch ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Normally, as at the end of its time.
    Closed,
    /// The connection breaks in the middle of a line.
    Cut,
    /// The watch shows nothing more, forever.
    Silent,
    /// The server has compacted the events since, and reports that in the stream.
    Expired,
    /// A line cannot be read.
    Garbage,
}

/// Decides the fate of each request.
pub trait Fates: Send {
    /// Decides the fate of one request of this client, at this time after the start.
    fn fate(&mut self, client: &str, call: &Call, time: Duration) -> Fate;
}

impl<F: FnMut(&str, &Call, Duration) -> Fate + Send> Fates for F {
    fn fate(&mut self, client: &str, call: &Call, time: Duration) -> Fate {
        self(client, call, time)
    }
}
