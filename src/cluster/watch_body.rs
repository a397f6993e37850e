//! The body of a watch response, which may last, but must neither end as soon as it has begun nor fall silent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

use crate::response::error::{STABLE, Silent};

/// How long a watch may be silent. The API server sends a bookmark about every minute (`defaultBookmarkFrequency` in
/// <https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/storage/cacher/cacher.go>) if it has heard of etcd since: where
/// nothing changes, by etcd's notifications of progress, every 5 seconds as kubeadm sets it up, and every 10 minutes by
/// default.
const MAX_SILENCE: Duration = Duration::from_secs(90);

/// How long a silent watch may still show what has come meanwhile.
const GRACE: Duration = Duration::from_secs(1);

/// A watch that ended at once.
///
/// The error does not quote how the body ended: kube ignores an end of file, which it also detects in texts.
#[derive(Debug, Error)]
#[error("the API server, or a proxy in front of it, ends each watch immediately")]
struct EndedAtOnce;

/// A body that fails if it ends within [`STABLE`], or is silent for [`MAX_SILENCE`].
///
/// kube restarts an ended watch without an error or a pause: if each watch ends at once, for example behind a proxy
/// that cuts responses, kube would restart watches in a tight loop. Its own timeout of a silent watch is five minutes.
pub(super) struct WatchBody<B> {
    body: Pin<Box<B>>,
    begun: Instant,
    /// Until when the next frame must have come.
    silence: Pin<Box<Sleep>>,
    /// Whether that time is over. A process that was suspended has yet to look at what has come.
    is_silent: bool,
    has_ended: bool,
}

impl<B> WatchBody<B> {
    pub(super) fn new(body: B) -> Self {
        let silence = Box::pin(sleep(MAX_SILENCE));
        Self { body: Box::pin(body), begun: Instant::now(), silence, is_silent: false, has_ended: false }
    }
}

impl<B> HttpBody for WatchBody<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let end: Option<Result<Frame<Bytes>, BoxError>> = match self.body.as_mut().poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_silent = false;
                self.silence.as_mut().reset(Instant::now() + MAX_SILENCE);
                return Poll::Ready(Some(Ok(frame)));
            }
            Poll::Ready(end) => end.map(|end| end.map_err(Into::into)),
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(context));
                if !self.is_silent {
                    self.is_silent = true;
                    self.silence.as_mut().reset(Instant::now() + GRACE);
                    ready!(self.silence.as_mut().poll(context));
                }
                Some(Err(Silent(MAX_SILENCE).into()))
            }
        };
        self.has_ended = true;
        if self.begun.elapsed() < STABLE {
            return Poll::Ready(Some(Err(EndedAtOnce.into())));
        }
        Poll::Ready(end)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use axum::body::Body as ResponseBody;
    use futures::{FutureExt as _, StreamExt as _, stream};
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Node;
    use kube::Api;
    use kube::client::Body;
    use kube::runtime::watcher;
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::client;
    use crate::cluster::watch::watch;

    const LIST: &str = r#"{"metadata": {"resourceVersion": "1"}, "items": []}"#;

    /// The watches that are begun within ten minutes, and what is said of them, where each ends after so long.
    async fn watches(lasting: Duration, end: Option<ErrorKind>) -> (usize, Vec<String>) {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().to_string().contains("watch=true");
            let body = if is_watch {
                let before = count.fetch_add(1, Ordering::Relaxed);
                assert!(before < 1000, "the watch is begun again and again");
                let last = stream::iter(end.map(|kind| Err::<Vec<u8>, _>(Error::from(kind))));
                let pause = stream::once(async move {
                    tokio::time::sleep(lasting).await;
                    Ok(Vec::new())
                });
                ResponseBody::from_stream(pause.chain(last))
            } else {
                ResponseBody::from(LIST)
            };
            async { Ok::<_, BoxError>(Response::new(body)) }
        });
        let nodes = Api::<Node>::all(client::over(service));
        let mut errors = Vec::new();
        let events = watch(nodes, watcher::Config::default(), 7);
        let seen = events.for_each(|event| {
            errors.extend(event.err().map(|error| format!("{error:?}")));
            async {}
        });
        let _ = timeout(Duration::from_secs(600), seen).await;
        (begun.load(Ordering::Relaxed), errors)
    }

    /// A process that was suspended has not read yet what has come.
    #[tokio::test(start_paused = true)]
    async fn frame_that_comes_after_a_suspension_ends_the_silence() {
        let mut polls = 0;
        let frames = stream::poll_fn(move |context| {
            polls += 1;
            match polls {
                1 | 2 => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                _ => Poll::Ready(Some(Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"{}"))))),
            }
        });
        let mut body = WatchBody::new(http_body_util::StreamBody::new(frames));
        let begun = http_body_util::BodyExt::frame(&mut body).now_or_never();
        assert!(begun.is_none());
        tokio::time::advance(2 * MAX_SILENCE).await;
        let frame = http_body_util::BodyExt::frame(&mut body).await.unwrap();
        assert!(frame.is_ok(), "{frame:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_ends_at_once_is_begun_again_after_pauses() {
        for end in [None, Some(ErrorKind::UnexpectedEof), Some(ErrorKind::ConnectionReset)] {
            let (begun, errors) = watches(Duration::from_millis(10), end).await;
            assert!((100..=200).contains(&begun), "{end:?}: {begun} watches");
            assert!(errors[0].contains("EndedAtOnce"), "{end:?}: {}", errors[0]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_ends_after_a_while_is_begun_again_at_once() {
        for end in [None, Some(ErrorKind::UnexpectedEof)] {
            let (begun, errors) = watches(Duration::from_secs(6), end).await;
            assert_eq!(begun, 100, "{end:?}");
            assert_eq!(errors, [""; 0], "{end:?}");
        }
    }
}
