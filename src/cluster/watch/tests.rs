//! The pauses of watches, by what a server responds, on a paused clock.

use std::io::{self, ErrorKind};
use std::mem;
use std::sync::{Arc, Mutex};

use axum::body::Body as ResponseBody;
use http::Response;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::cluster::client;

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

fn bookmark() -> (u16, Value) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"resourceVersion": "2"}});
    (200, json!({"type": "BOOKMARK", "object": object}))
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
        uri if uri.contains("watch=true") => bookmark(),
        _ => page(""),
    });
    let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
    let watches = times(&requests, Kind::Watch);
    let longest = watches.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest <= Some(Duration::from_millis(60_200)), "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn watch_reports_when_it_is_accepted_and_when_it_shows_something() {
    let start = Instant::now();
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let is_watch = request.uri().to_string().contains("watch=true");
        let (code, body) = match is_watch {
            true if start.elapsed() < TEN_MINUTES => status(403, 0),
            true => bookmark(),
            false => page(""),
        };
        let body = ResponseBody::from(format!("{body}\n"));
        Response::builder().status(code).body(body).map_err(tower::BoxError::from)
    });
    let (client, signs) = reporting(&Client::new(service, "default"));
    let events = watch(Api::<Node>::all(client), watcher::Config::default(), 7);
    let events = events.for_each(|_| async {});
    let mut signs = signs.map(|sign| (sign, Instant::now())).boxed();
    let mut seen = Vec::new();
    let both = async {
        while seen.len() < 2 {
            seen.extend(signs.next().await);
        }
    };
    tokio::select! {
        () = events => {}
        () = both => {}
    }
    let [(Sign::Accepted, accepted), (Sign::Heard, heard)] = seen[..] else { panic!("{seen:?}") };
    assert!(accepted >= start + TEN_MINUTES && heard >= accepted, "{seen:?}");
}

/// The connection stands, but something in between holds all events back: the API server would have ended the
/// watch by then. At first it resumes from its version, as after a dead connection.
#[tokio::test(start_paused = true)]
async fn watch_that_stays_silent_is_started_again_and_then_with_lists() {
    let (watches, lists) = requests_of_quiet_watch(None).await;
    let pauses: Vec<_> = watches.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(pauses.len() > 5 && pauses.iter().all(|pause| (90..100).contains(pause)), "{pauses:?}");
    assert_eq!(lists, watches.len() - 1, "of all but the second");
}

/// Nothing happens, and the API server sends bookmarks.
#[tokio::test(start_paused = true)]
async fn quiet_watch_with_bookmarks_is_not_started_again() {
    let (watches, lists) = requests_of_quiet_watch(Some(Duration::from_secs(75))).await;
    assert_eq!((watches.len(), lists), (1, 1), "{watches:?}");
}

/// When the watches begin whose bodies have nothing but bookmarks for twenty minutes, and the number of lists.
async fn requests_of_quiet_watch(bookmarks: Option<Duration>) -> (Vec<Instant>, usize) {
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let kind = if is_watch { Kind::Watch } else { Kind::FirstPage };
        seen.lock().unwrap().push((Instant::now(), kind));
        let body = match (is_watch, bookmarks) {
            (false, _) => ResponseBody::from(page("").1.to_string()),
            (true, None) => ResponseBody::from_stream(stream::pending::<io::Result<Vec<u8>>>()),
            (true, Some(interval)) => ResponseBody::from_stream(stream::repeat(()).then(move |()| async move {
                sleep(interval).await;
                Ok::<_, io::Error>(format!("{}\n", bookmark().1).into_bytes())
            })),
        };
        async { Ok::<_, tower::BoxError>(Response::new(body)) }
    });
    let nodes = Api::<Node>::all(client::over(service));
    let events = watch(nodes, watcher::Config::default(), 7);
    let _ = timeout(2 * TEN_MINUTES, events.for_each(|_| async {})).await;
    (times(&requests, Kind::Watch), times(&requests, Kind::FirstPage).len())
}

/// Each list costs an API server of many nodes much, however it ends.
#[tokio::test(start_paused = true)]
async fn list_that_is_reset_is_requested_ever_more_rarely() {
    let requests = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&requests);
    let service = tower::service_fn(move |_: Request<Body>| {
        *counted.lock().unwrap() += 1;
        let body = stream::iter([Ok(b"{\"metadata\": {".to_vec()), Err(io::Error::from(ErrorKind::ConnectionReset))]);
        async { Ok::<_, tower::BoxError>(Response::new(ResponseBody::from_stream(body))) }
    });
    let nodes = Api::<Node>::all(Client::new(service, "default"));
    let events = watch(nodes, watcher::Config::default(), 7);
    let _ = timeout(TEN_MINUTES, events.for_each(|_| async {})).await;
    let lists = *requests.lock().unwrap();
    assert!((8..=25).contains(&lists), "{lists} lists in ten minutes");
}

/// kube's watcher keeps bookmarks to itself.
#[tokio::test(start_paused = true)]
async fn bookmark_is_heard_and_the_response_to_a_list_is_not() {
    let begun = Instant::now();
    let service = tower::service_fn(|request: Request<Body>| async move {
        let body = if request.uri().to_string().contains("watch=true") {
            let metadata = json!({"resourceVersion": "8", "creationTimestamp": null});
            let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
            let bookmark = format!("{}\n", json!({"type": "BOOKMARK", "object": object}));
            let frames = stream::iter([Ok::<_, io::Error>(bookmark.into_bytes())]);
            let last = stream::pending();
            ResponseBody::from_stream(
                frames
                    .then(|frame| async {
                        sleep(Duration::from_secs(60)).await;
                        frame
                    })
                    .chain(last),
            )
        } else {
            ResponseBody::from(page("").1.to_string())
        };
        Ok::<_, tower::BoxError>(Response::new(body))
    });
    let (client, mut heard) = heard(&Client::new(service, "default"));
    let mut events = Box::pin(watch(Api::<Node>::all(client), watcher::Config::default(), 7));
    let listed = timeout(Duration::from_secs(59), async { while events.next().await.is_some() {} });
    assert!(listed.await.is_err() && !heard.has_changed().unwrap(), "the watch ends, or the list is heard");
    let silent = timeout(Duration::from_secs(2), events.next()).await;
    assert!(silent.is_err(), "{silent:?}");
    let at = *heard.borrow_and_update();
    assert_eq!((at - begun).as_secs(), 60);
}
