//! Watches: kube's, with a backoff that a failing list cannot reset.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::backoff::Backoff;
use super::error::{is_expired, is_unreachable};

/// The longest accepted pause that a server requests.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// A list or a watch that has no error for this long is considered working: longer than the longest pause.
const CALM: Duration = Duration::from_secs(3 * 60);
/// A watch that breaks after this time is considered to have worked: a proxy may end each watch after a minute.
pub(super) const STABLE: Duration = Duration::from_secs(5);

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
/// until the watch works again; `seed` spreads the pauses of several processes.
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
    let events = Box::pin(watcher(api, config));
    let state = (events, Pauses::new(seed), Duration::ZERO);
    stream::unfold(state, |(mut events, mut pauses, pause)| async move {
        if !pause.is_zero() {
            sleep(pause).await;
            pauses.resumed = Instant::now();
        }
        let event = events.next().await?;
        let pause = event.as_ref().err().map(|error| pauses.next(error)).unwrap_or_default();
        Some((event, (events, pauses, pause)))
    })
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
mod tests {
    use std::io::{self, ErrorKind};
    use std::mem;
    use std::sync::{Arc, Mutex};

    use axum::body::Body as ResponseBody;
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Node;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::timeout;

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    /// What the server does with a request for this URI, of which it had so many of the kind before.
    type Server = fn(&str, usize) -> (u16, Value);

    /// The time and kind of each request.
    type Requests = Arc<Mutex<Vec<(Instant, Kind)>>>;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Kind {
        FirstPage,
        NextPage,
        Watch,
    }

    /// A watch of nodes on this server, and the requests that it sends.
    fn watch_of(server: Server) -> (impl Stream<Item = watcher::Result<Event<Node>>>, Requests) {
        let requests = Requests::default();
        let seen = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().to_string();
            let kind = match &uri {
                uri if uri.contains("watch=true") => Kind::Watch,
                uri if uri.contains("continue=") => Kind::NextPage,
                _ => Kind::FirstPage,
            };
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|(_, seen)| *seen == kind).count();
            seen.push((Instant::now(), kind));
            let (code, body) = server(&uri, before);
            async move {
                // The events of a watch take half a minute to come; then it breaks.
                let body = format!("{body}\n").into_bytes();
                let body = if kind == Kind::Watch && code == 200 {
                    let broken = std::io::Error::other("connection reset");
                    let frames = stream::iter([Ok(body), Err(broken)]);
                    let frames = frames.then(|frame| async {
                        sleep(Duration::from_secs(30)).await;
                        frame
                    });
                    ResponseBody::from_stream(frames)
                } else {
                    ResponseBody::from(body)
                };
                Response::builder().status(code).body(body).map_err(tower::BoxError::from)
            }
        });
        let nodes = Api::all(Client::new(service, "default"));
        (watch(nodes, watcher::Config::default(), 7), requests)
    }

    fn status(code: u16, retry_after: u32) -> (u16, Value) {
        let details = json!({"retryAfterSeconds": retry_after});
        (code, json!({"kind": "Status", "code": code, "message": "no", "details": details}))
    }

    fn page(continued: &str) -> (u16, Value) {
        let metadata = json!({"resourceVersion": "1", "continue": continued});
        (200, json!({"metadata": metadata, "items": [{"metadata": {"name": "a"}}]}))
    }

    fn modified() -> (u16, Value) {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "resourceVersion": "2"}});
        (200, json!({"type": "MODIFIED", "object": object}))
    }

    fn times(requests: &Requests, kind: Kind) -> Vec<Instant> {
        let requests = requests.lock().unwrap();
        requests.iter().filter(|(_, seen)| *seen == kind).map(|(time, _)| *time).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn list_that_fails_at_its_second_page_is_requested_ever_more_rarely() {
        let (events, requests) = watch_of(|uri, _| match uri {
            uri if uri.contains("continue=") => status(500, 0),
            _ => page("2"),
        });
        let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
        let lists = times(&requests, Kind::FirstPage);
        assert!((8..=25).contains(&lists.len()), "{} lists in ten minutes", lists.len());
        let pauses: Vec<_> = lists.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses[0] <= Duration::from_millis(200), "{pauses:?}");
        assert!(pauses[10..].iter().all(|pause| *pause >= Duration::from_secs(60)), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_worked_for_a_while_is_started_again_quickly() {
        let (events, requests) = watch_of(|uri, before| match uri {
            uri if uri.contains("watch=true") => modified(),
            _ if before < 8 => status(500, 0),
            _ => page(""),
        });
        let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
        let watches = times(&requests, Kind::Watch);
        assert!(watches.len() > 5, "{watches:?}");
        // Half a minute until the event, half a minute until it breaks.
        let longest = watches.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(Duration::from_secs(61)), "{longest:?}");
        assert_eq!(times(&requests, Kind::FirstPage).len(), 9, "the list is not repeated");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_never_starts_is_requested_ever_more_rarely() {
        let (events, requests) = watch_of(|uri, _| match uri {
            uri if uri.contains("watch=true") => status(403, 0),
            _ => page(""),
        });
        let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
        let watches = times(&requests, Kind::Watch);
        assert!((8..=25).contains(&watches.len()), "{watches:?}");
        assert_eq!(times(&requests, Kind::FirstPage).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_that_the_server_asks_for_is_honoured_within_bounds() {
        let (events, requests) = watch_of(|_, before| match before {
            0 => status(429, 20),
            1 => status(429, u32::MAX),
            _ => page(""),
        });
        let _ = timeout(TEN_MINUTES, events.take(6).for_each(|_| async {})).await;
        let lists = times(&requests, Kind::FirstPage);
        let pauses: Vec<_> = lists.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
        assert_eq!(pauses, [20, 300]);
    }

    /// An API server that restarts, and is away for half a minute.
    #[tokio::test(start_paused = true)]
    async fn watch_of_a_server_that_is_back_is_started_within_a_second() {
        let start = Instant::now();
        let expired = Arc::new(Mutex::new(false));
        let service = tower::service_fn(move |request: Request<Body>| {
            let expired = Arc::clone(&expired);
            async move {
                let away = start.elapsed() > Duration::from_secs(10);
                if away && start.elapsed() < Duration::from_secs(40) {
                    return Err(tower::BoxError::from(io::Error::from(ErrorKind::ConnectionRefused)));
                }
                if !request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    return Ok(Response::new(ResponseBody::from(page("").1.to_string())));
                }
                // Its cache is new, and not filled at first.
                if away && !mem::replace(&mut *expired.lock().unwrap(), true) {
                    let gone = json!({"type": "ERROR", "object": status(410, 0).1});
                    return Ok(Response::new(ResponseBody::from(format!("{gone}\n"))));
                }
                let until = if away { 600 } else { 10 };
                let broken = stream::once(async move {
                    tokio::time::sleep_until(start + Duration::from_secs(until)).await;
                    Err::<Vec<u8>, _>(io::Error::from(ErrorKind::ConnectionReset))
                });
                let event = stream::iter([Ok(format!("{}\n", modified().1).into_bytes())]);
                Ok(Response::new(ResponseBody::from_stream(event.chain(broken))))
            }
        });
        let nodes = Api::<Node>::all(Client::new(service, "default"));
        let mut events = Box::pin(watch(nodes, watcher::Config::default(), 7));
        let mut seen = Vec::new();
        while seen.len() < 2 {
            if let Some(Ok(Event::Apply(_))) = events.next().await {
                seen.push(start.elapsed());
            }
        }
        assert!(seen[1] <= Duration::from_secs(41), "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_a_proxy_ends_every_minute_is_started_again_at_once() {
        let (events, requests) = watch_of(|uri, _| match uri {
            // Nothing happens on the nodes.
            uri if uri.contains("watch=true") => (
                200,
                json!({"type": "BOOKMARK", "object": {
                "apiVersion": "v1", "kind": "Node", "metadata": {"resourceVersion": "2"}}}),
            ),
            _ => page(""),
        });
        let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
        let watches = times(&requests, Kind::Watch);
        let longest = watches.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(Duration::from_millis(60_200)), "{watches:?}");
    }

    /// The connection stands, but something in between holds all events back: the API server would have ended the
    /// watch by then.
    #[tokio::test(start_paused = true)]
    async fn watch_that_stays_silent_is_started_again_within_five_minutes() {
        let watches = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&watches);
        let service = tower::service_fn(move |request: Request<Body>| {
            let body = if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                seen.lock().unwrap().push(Instant::now());
                ResponseBody::from_stream(stream::pending::<io::Result<Vec<u8>>>())
            } else {
                ResponseBody::from(page("").1.to_string())
            };
            async { Ok::<_, tower::BoxError>(Response::new(body)) }
        });
        let nodes = Api::<Node>::all(Client::new(service, "default"));
        let events = watch(nodes, watcher::Config::default(), 7);
        let _ = timeout(2 * TEN_MINUTES, events.for_each(|_| async {})).await;
        let watches = watches.lock().unwrap();
        let longest = watches.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest.is_some_and(|longest| longest <= TEN_MINUTES / 2), "{watches:?}");
    }

    /// Each list costs an API server of many nodes much, however it ends.
    #[tokio::test(start_paused = true)]
    async fn list_that_is_reset_is_requested_ever_more_rarely() {
        let requests = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&requests);
        let service = tower::service_fn(move |_: Request<Body>| {
            *counted.lock().unwrap() += 1;
            let body =
                stream::iter([Ok(b"{\"metadata\": {".to_vec()), Err(io::Error::from(ErrorKind::ConnectionReset))]);
            async { Ok::<_, tower::BoxError>(Response::new(ResponseBody::from_stream(body))) }
        });
        let nodes = Api::<Node>::all(Client::new(service, "default"));
        let events = watch(nodes, watcher::Config::default(), 7);
        let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
        let lists = *requests.lock().unwrap();
        assert!((8..=25).contains(&lists), "{lists} lists in ten minutes");
    }
}
