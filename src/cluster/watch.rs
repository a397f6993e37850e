//! Watches: kube's, with a backoff that a failing list cannot reset.

use std::fmt::Debug;
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::client::Body;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::transport::is_watch;
use crate::election::backoff::Backoff;
use crate::response::error::{STABLE, is_expired, is_silent, is_unreachable};

/// The longest accepted pause that a server requests.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// A list or a watch that has no error for this long is considered working: longer than the longest pause.
const CALM: Duration = Duration::from_secs(3 * 60);

/// The kind of a failure. Each kind has its own pauses, so that the pauses of an outage do not delay a watch while the
/// API server restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// No server listens, so an attempt costs the API server nothing.
    Unreachable,
    /// A watch, which resumes where it broke and costs little.
    Watch,
    /// A watch is rejected.
    Rejected,
    /// The resource version has expired: a list must follow.
    Expired,
    /// A list, which is expensive.
    List,
}

impl Failure {
    fn of(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)
                if is_unreachable(cause) =>
            {
                Self::Unreachable
            }
            watcher::Error::InitialListFailed(_) => Self::List,
            watcher::Error::WatchStartFailed(kube::Error::Api(status))
                if matches!(status.code, 400..500) && !matches!(status.code, 401 | 408 | 429) =>
            {
                Self::Rejected
            }
            error if is_expired(error) => Self::Expired,
            watcher::Error::WatchStartFailed(_)
            | watcher::Error::WatchFailed(_)
            | watcher::Error::WatchError(_)
            | watcher::Error::NoResourceVersion => Self::Watch,
        }
    }

    /// Returns the longest pause, if the server requests none. During a pause, a kubelet's reset goes unnoticed, and a
    /// pod lives for about a second after a reset.
    fn max_pause(self) -> Duration {
        match self {
            Self::Unreachable => Duration::from_secs(1),
            Self::Watch => Duration::from_secs(5),
            Self::Rejected | Self::Expired | Self::List => Duration::MAX,
        }
    }
}

/// Watches objects forever. After each error it pauses, at first for a tenth of a second and then longer each time
/// until the watch works again; `seed` spreads the pauses of several processes. A watch that was silent resumes from its
/// version; if it then is silent again, lists show what it should have shown.
///
/// kube's own backoff resets at any event, and each list begins with an event: while a list fails, kube would request
/// page 1 about every second.
pub(crate) fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    seed: u64,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api.clone(), config.clone()).boxed();
    let watch = Watch { api, config, events, pauses: Pauses::new(seed), pause: Duration::ZERO, was_silent: false };
    stream::unfold(watch, Watch::next)
}

struct Watch<K: Resource> {
    api: Api<K>,
    config: watcher::Config,
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    pauses: Pauses,
    /// The pause before the next event, after an error.
    pause: Duration,
    /// Whether it has shown no change since it was silent.
    was_silent: bool,
}

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(mut self) -> Option<(watcher::Result<Event<K>>, Self)> {
        if !self.pause.is_zero() {
            sleep(self.pause).await;
            self.pauses.resumed = Instant::now();
        }
        let event = self.events.next().await?;
        self.pause = Duration::ZERO;
        match &event {
            Ok(Event::Apply(_) | Event::Delete(_)) => self.was_silent = false,
            Ok(_) => {}
            Err(error) => {
                self.pause = self.pauses.next(error);
                if is_silent(error) && std::mem::replace(&mut self.was_silent, true) {
                    self.events = watcher(self.api.clone(), self.config.clone()).boxed();
                }
            }
        }
        Some((event, self))
    }
}

/// What a watch shows besides its events, which kube's watcher keeps to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The API server has accepted it.
    Accepted,
    /// It has shown something, perhaps a bookmark, for the first time since.
    Heard,
}

/// Returns a client for one watch, and what reports its signs.
pub(crate) fn reporting(client: &Client) -> (Client, UnboundedReceiver<Sign>) {
    let (report, signs) = unbounded();
    let client = through(client, move |body, is_watching| {
        let report = report.clone();
        // Nobody listens anymore where the process ends.
        let report = move |sign| _ = report.unbounded_send(sign);
        if is_watching {
            report(Sign::Accepted);
        }
        let mut is_first = is_watching;
        body.map_frame(move |frame| {
            if std::mem::take(&mut is_first) {
                report(Sign::Heard);
            }
            frame
        })
    });
    (client, signs)
}

/// Returns a client for one watch, and when the API server sent anything in it last, even a bookmark, which kube's
/// watcher keeps to itself. A watch that is open has not sent anything yet.
pub(crate) fn heard(client: &Client) -> (Client, tokio::sync::watch::Receiver<Instant>) {
    let (report, heard) = tokio::sync::watch::channel(Instant::now());
    let client = through(client, move |body, is_watching| {
        let report = report.clone();
        body.map_frame(move |frame| {
            if is_watching {
                report.send_replace(Instant::now());
            }
            frame
        })
    });
    (client, heard)
}

/// Returns a client that passes each response through a function, with whether it is a watch that the API server accepts.
fn through<B, F>(client: &Client, through: F) -> Client
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    F: Fn(Body, bool) -> B + Clone + Send + 'static,
{
    let (namespace, client) = (client.default_namespace().to_owned(), client.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, through) = (client.clone(), through.clone());
        async move {
            let is_watch = is_watch(request.uri());
            let response = client.send(request).await?;
            let is_watching = is_watch && response.status().is_success();
            Ok::<_, kube::Error>(response.map(|body| through(body, is_watching)))
        }
    });
    Client::new(service, namespace)
}

/// The pauses of a watch after failures.
struct Pauses {
    seed: u64,
    backoff: Backoff,
    failure: Option<Failure>,
    /// The time of the last failure.
    failed: Option<Instant>,
    /// The end of the last pause.
    resumed: Instant,
}

impl Pauses {
    fn new(seed: u64) -> Self {
        let backoff = Backoff::of_a_watch(seed);
        Self { seed, backoff, failure: None, failed: None, resumed: Instant::now() }
    }

    fn next(&mut self, error: &watcher::Error) -> Duration {
        let (now, failure) = (Instant::now(), Failure::of(error));
        let is_list = matches!(error, watcher::Error::InitialListFailed(_));
        let has_worked = !is_list && now - self.resumed > STABLE;
        // A watch with few events may still have worked.
        let was_calm = self.failed.is_some_and(|failed| now - failed > CALM);
        if self.failure != Some(failure) || has_worked || was_calm {
            self.backoff = Backoff::of_a_watch(self.seed);
        }
        (self.failure, self.failed) = (Some(failure), Some(now));
        self.backoff.next(None).min(failure.max_pause()).max(retry_after(error).unwrap_or_default())
    }
}

/// Returns the pause that the API server requests.
fn retry_after(error: &watcher::Error) -> Option<Duration> {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        _ => return None,
    };
    let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    // Under priority and fairness the pause, one second, is in a header that kube drops.
    let seconds = if status.code == 429 { asked.max(1) } else { asked };
    Some(Duration::from_secs(seconds.into()).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests;
