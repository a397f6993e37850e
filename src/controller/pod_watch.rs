//! The watch of pods, which is on while the reconciler wants it.

use std::future::pending;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use crate::cluster::bounded_pages;
use crate::cluster::node_client::{BOUND, BOUND_PAGE_SIZE};
use crate::cluster::protobuf::{self, Objects};
use crate::cluster::watch::{Sign, heard, reporting, watch};
use crate::reconciler::effect::Observation;
use crate::reconciler::usage::PodObject;
use crate::response::error::is_silent;

/// A watch that is open for this long without an error shows what is: the API server sends first what was missed. Otherwise
/// the next bookmark would show it, after a minute or more.
const CAUGHT_UP: Duration = Duration::from_secs(5);

/// The largest page of the list, in bytes. Pods of 6 KB fit in the number that a page has, and one may have 1.5 MB: smaller
/// pages cost the API server more, which copies what is left for each.
const MAX_PAGE: usize = 16 * 1024 * 1024;

pub(super) struct PodWatch {
    pods: Api<PodObject>,
    seed: u64,
    heard: Receiver<Instant>,
    signs: UnboundedReceiver<Sign>,
    /// When a watch that is open has caught up.
    caught_up: Option<Instant>,
    /// Whether the watch was silent, so that one that is open shows nothing yet.
    is_doubtful: bool,
    events: Option<BoxStream<'static, watcher::Result<Event<PodObject>>>>,
}

impl PodWatch {
    pub(super) fn new(client: &Client, seed: u64) -> Self {
        let (client, signs) = reporting(client);
        let (client, heard) = heard(&client);
        let client = bounded_pages::client_of(&client, BOUND_PAGE_SIZE, MAX_PAGE);
        let pods = Api::all(protobuf::client(&client, Objects::Pods));
        Self { pods, seed, heard, signs, caught_up: None, is_doubtful: false, events: None }
    }

    /// Begins the watch with a list, or ends it.
    pub(super) fn turn(&mut self, is_on: bool) {
        if !is_on {
            (self.events, self.caught_up) = (None, None);
        } else if self.events.is_none() {
            let bound = watcher::Config::default().fields(BOUND).page_size(BOUND_PAGE_SIZE);
            self.events = Some(watch(self.pods.clone(), bound, self.seed).boxed());
        }
    }

    /// Returns what the watch shows next. What was heard before an error comes before the error.
    pub(super) async fn next(&mut self) -> Observation {
        let Self { heard, signs, caught_up, is_doubtful, events, .. } = self;
        let Some(events) = events else { return pending().await };
        loop {
            let until = caught_up.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                Ok(()) = heard.changed() => {
                    *is_doubtful = false;
                    return Observation::PodsHeard(*heard.borrow_and_update());
                }
                // A watch begins only after the error of the one before was seen.
                Some(sign) = signs.next() => {
                    if sign == Sign::Accepted && !*is_doubtful {
                        *caught_up = Some(Instant::now() + CAUGHT_UP);
                    }
                }
                Some(event) = events.next() => {
                    match &event {
                        Ok(Event::InitDone) => *is_doubtful = false,
                        Ok(_) => {}
                        Err(error) => {
                            *caught_up = None;
                            *is_doubtful |= is_silent(error);
                        }
                    }
                    return Observation::Pods(event);
                }
                () = sleep_until(until), if caught_up.is_some() => {
                    *caught_up = None;
                    return Observation::PodsHeard(Instant::now());
                }
                else => return pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use axum::body::Body as ResponseBody;
    use futures::{FutureExt as _, stream};
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use kube::client::Body;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::cluster::client;

    type Frames = BoxStream<'static, io::Result<Frame<Bytes>>>;

    /// An API server without pods. Each watch shows nothing, and breaks after the next of these times; it is rejected if that
    /// is none.
    fn breaking(watches: &'static [Duration]) -> Client {
        let number = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut response = Response::builder().header("content-type", "application/json");
            let frames: Frames = if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                let number = number.fetch_add(1, Ordering::Relaxed);
                if watches[number].is_zero() {
                    response = response.status(500);
                }
                stream::once(sleep(watches[number]).map(|()| Err(io::Error::other("broken")))).boxed()
            } else {
                let list =
                    r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}"#;
                stream::iter([Ok(Frame::data(Bytes::from(list)))]).boxed()
            };
            async move { response.body(StreamBody::new(frames)) }
        });
        Client::new(service, "default")
    }

    /// Whoever may create pods must not end the process by large ones.
    #[tokio::test(start_paused = true)]
    async fn large_pods_come_in_pages_that_fit_into_memory() {
        const PODS: usize = 48;
        let limits = Arc::<Mutex<Vec<usize>>>::default();
        let (seen, note) = (Arc::clone(&limits), "x".repeat(512 * 1024));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = |key: &str| query.split('&').find_map(|it| it.strip_prefix(key)?.parse::<usize>().ok());
            let mut list = String::new();
            if let Some(limit) = number("limit=").filter(|_| !query.contains("watch=")) {
                Mutex::lock(&seen).unwrap().push(limit);
                let start = number("continue=").unwrap_or(0);
                let end = PODS.min(start + limit);
                let pods = (start..end)
                    .map(|uid| format!(r#"{{"metadata": {{"uid": "{uid}", "annotations": {{"note": "{note}"}}}}}}"#));
                let pods = pods.collect::<Vec<_>>().join(",");
                let token = if end < PODS { end.to_string() } else { String::new() };
                list = format!(
                    r#"{{"kind": "PodList", "apiVersion": "v1", "items": [{pods}],
                    "metadata": {{"resourceVersion": "7", "continue": "{token}"}}}}"#
                );
            }
            let response = Response::builder().header("content-type", "application/json");
            async move { response.body(Body::from(list.into_bytes())) }
        });
        let mut pods = PodWatch::new(&Client::new(service, "default"), 7);
        pods.turn(true);
        let mut listed = 0;
        loop {
            match timeout(HOUR, pods.next()).await.unwrap() {
                Observation::Pods(Ok(Event::InitApply(_))) => listed += 1,
                Observation::Pods(Ok(Event::InitDone)) => break,
                Observation::Pods(Err(error)) => panic!("{error}"),
                _ => {}
            }
        }
        let limits = limits.lock().unwrap();
        assert_eq!((listed, limits[0]), (PODS, BOUND_PAGE_SIZE as usize));
        assert!(limits.iter().skip(8).all(|limit| *limit <= 32) && limits.len() > 8, "{limits:?}");
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// Returns what becomes of each watch: it fails, or it is heard of after so many seconds.
    async fn fates(watches: &'static [Duration]) -> Vec<String> {
        fates_of(&breaking(watches)).await
    }

    async fn fates_of(client: &Client) -> Vec<String> {
        let mut pods = PodWatch::new(client, 7);
        pods.turn(true);
        let (mut failed, mut fates) = (Instant::now(), Vec::new());
        while fates.len() < 9
            && let Ok(observation) = timeout(Duration::from_secs(200), pods.next()).await
        {
            match observation {
                Observation::Pods(Err(_)) => {
                    fates.push("failed".to_owned());
                    failed = Instant::now();
                }
                Observation::PodsHeard(at) => {
                    fates.push(format!("heard after {}", at.duration_since(failed).as_secs()))
                }
                _ => {}
            }
        }
        fates
    }

    /// Otherwise a minute or more would pass until the next bookmark, in which no new rule is rolled out.
    #[tokio::test(start_paused = true)]
    async fn watch_that_is_open_again_has_caught_up_soon() {
        const WATCHES: &[Duration] = &[Duration::from_secs(100), HOUR];
        assert_eq!(fates(WATCHES).await, ["heard after 5", "failed", "heard after 5"]);
    }

    /// A proxy holds everything back, so that the pods would be those of a list from long ago.
    #[tokio::test(start_paused = true)]
    async fn watch_that_was_silent_has_caught_up_only_by_a_list() {
        let service = tower::service_fn(|request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let body = match is_watch {
                true => ResponseBody::from_stream(stream::pending::<io::Result<Vec<u8>>>()),
                false => ResponseBody::from(r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#),
            };
            let response = Response::builder().header("content-type", "application/json").body(body);
            async { response.map_err(tower::BoxError::from) }
        });
        let fates = fates_of(&client::over(service)).await;
        assert_eq!(fates[..5], ["heard after 5", "failed", "failed", "heard after 5", "failed"]);
        assert_eq!(fates[5..7], ["heard after 5", "failed"], "each list shows what is");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_breaks_at_once_has_not_caught_up() {
        const SHORT: Duration = Duration::from_secs(4);
        assert_eq!(fates(&[SHORT, SHORT, SHORT, HOUR]).await, ["failed", "failed", "failed", "heard after 5"]);
        const NONE: Duration = Duration::ZERO;
        let fates = fates(&[SHORT, NONE, NONE, NONE, NONE, NONE, HOUR]).await;
        assert!(fates.len() == 7 && fates[..6].iter().all(|fate| fate == "failed"), "{fates:?}");
    }
}
