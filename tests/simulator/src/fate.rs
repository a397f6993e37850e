//! What becomes of a request between a client and the API server.

use std::time::Duration;

use crate::failure::Failure;
use crate::http::Call;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It is done and answered at once; a watch goes on until its time is over.
    Answered,
    /// It is done at once, and answered after so long.
    Slow(Duration),
    /// It arrives after so long, whether somebody still waits or not, and is answered then.
    Late(Duration),
    /// It is not done, and answered with this error.
    Failed(Failure),
    /// It is done, and answered with this error: what is behind the server has not responded in time.
    DoneAndFailed(Failure),
    /// There is no connection: it is not done.
    Refused,
    /// It is not done, and never answered.
    Lost,
    /// It is done, and never answered.
    Unanswered,
    /// It is done, and the connection breaks before the answer.
    Reset,
    /// It is done, and the connection breaks in the middle of the answer.
    Cut,
    /// It is done, and the answer stops in the middle, for ever.
    Stalled,
    /// It is a watch, with such a flaw; anything else is answered.
    Flawed(Flaw),
}

impl Fate {
    /// Every name.
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

    /// In a word or two.
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

    /// What a log adds to a request.
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

/// What is wrong with a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// So much later than it happens everything shows.
    pub lag: Duration,
    /// After how long it ends.
    pub lasts: Duration,
    /// How it ends.
    pub end: WatchEnd,
}

/// How a watch ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// As at its time.
    Closed,
    /// The connection breaks in the middle of a line.
    Cut,
    /// It shows nothing more, for ever.
    Silent,
    /// The server no longer has what happened since, and reports that in the stream.
    Expired,
    /// A line cannot be read.
    Garbage,
}

/// Decides what becomes of each request.
pub trait Fates: Send {
    /// Decides about one request of this client, so long after the beginning.
    fn fate(&mut self, client: &str, call: &Call, time: Duration) -> Fate;
}

impl<F: FnMut(&str, &Call, Duration) -> Fate + Send> Fates for F {
    fn fate(&mut self, client: &str, call: &Call, time: Duration) -> Fate {
        self(client, call, time)
    }
}
