//! The body of a watch's response: one line per event, as it happens.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use futures::{Stream, stream};
use hyper::body::{Bytes, Frame};
use tokio::time::{Instant, sleep, timeout_at};
use tower::BoxError;

use crate::failure::Failure;
use crate::fate::{Flaw, WatchEnd};
use crate::http::WatchCall;
use crate::protobuf;
use crate::service::Network;
use crate::watch::WatchEvent;

/// The interval of bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long before its timeout a watch gets one more (`nextBookmarkTime` in `k8s.io/apiserver`).
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

type Line = Result<Frame<Bytes>, BoxError>;

pub(crate) struct WatchStream {
    network: Network,
    call: WatchCall,
    initial: VecDeque<WatchEvent>,
    lag: Duration,
    timeout: Instant,
    end: (Instant, WatchEnd),
    bookmark: Instant,
    /// The remaining lines, once the end has come.
    ending: Option<VecDeque<Line>>,
}

fn next_bookmark(now: Instant, timeout: Instant) -> Instant {
    let last = timeout.checked_sub(LAST_BOOKMARK).filter(|last| now < *last);
    last.map_or(now + BOOKMARK_INTERVAL, |last| last.min(now + BOOKMARK_INTERVAL))
}

impl WatchStream {
    pub(crate) fn new(network: Network, mut call: WatchCall, flaw: Option<Flaw>) -> Self {
        let now = Instant::now();
        let timeout = now + call.lasts;
        let mut end = (timeout, WatchEnd::Closed);
        if let Some(flaw) = flaw.filter(|flaw| flaw.lasts < call.lasts) {
            end = (now + flaw.lasts, flaw.end);
        }
        Self {
            network,
            initial: std::mem::take(&mut call.initial).into(),
            call,
            lag: flaw.map(|flaw| flaw.lag).unwrap_or_default(),
            timeout,
            end,
            bookmark: next_bookmark(now, timeout),
            ending: None,
        }
    }

    pub(crate) fn frames(self) -> impl Stream<Item = Line> + Send {
        stream::unfold(self, |mut events| async move {
            let line = events.next().await?;
            Some((line, events))
        })
    }

    async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(ending) = &mut self.ending {
                return ending.pop_front();
            }
            let now = Instant::now();
            if self.end.0 <= now {
                if self.end.1 == WatchEnd::Silent {
                    pending::<()>().await;
                }
                self.ending = Some(self.last_lines().into());
                continue;
            }
            // What is written from here on is awaited below.
            let written = self.network.written();
            let written = written.notified();
            if let Some(event) = self.show() {
                if matches!(event, WatchEvent::Error(_)) {
                    self.ending = Some(VecDeque::new());
                }
                return Some(self.line(&event));
            }
            if self.bookmark <= now {
                self.bookmark = next_bookmark(now, self.timeout);
                let bookmark = self.network.read(|api| api.bookmark(&mut self.call.watch));
                if let Some(bookmark) = bookmark.filter(|_| self.call.bookmarks) {
                    return Some(self.line(&bookmark));
                }
            }
            let end = self.end.0;
            let changed = async {
                written.await;
                sleep(self.lag).await;
            };
            let _ = timeout_at(end.min(self.bookmark), changed).await;
        }
    }

    fn show(&mut self) -> Option<WatchEvent> {
        let Self { initial, network, call, .. } = self;
        initial.pop_front().or_else(|| network.read(|api| api.next_event(&mut call.watch)))
    }

    fn last_lines(&self) -> Vec<Line> {
        let data = |text: &'static str| Ok(Frame::data(Bytes::from(text)));
        match self.end.1 {
            WatchEnd::Closed | WatchEnd::Silent => Vec::new(),
            WatchEnd::Cut => {
                let broken = io::Error::from(io::ErrorKind::ConnectionReset);
                // Of an event of 64 bytes, the first field and a part of the second.
                let part = if self.call.is_protobuf {
                    "\0\0\0\x40\x0a\x08MODIFIED\x12\x34"
                } else {
                    "{\"type\":\"MODIFIED\",\"obj"
                };
                vec![data(part), Err(broken.into())]
            }
            WatchEnd::Expired => {
                let gone = "The resourceVersion for the provided watch is too old.";
                vec![self.line(&WatchEvent::Error(Failure::expired(gone)))]
            }
            WatchEnd::Garbage if self.call.is_protobuf => vec![data("\0\0\0\x04oops")],
            WatchEnd::Garbage => vec![data("{\"type\": oops\n")],
        }
    }

    fn line(&self, event: &WatchEvent) -> Line {
        let event = event.to_json(self.call.kind);
        let encoded = protobuf::event(&event).filter(|_| self.call.is_protobuf);
        Ok(Frame::data(encoded.map_or_else(|| Bytes::from(format!("{event}\n")), Bytes::from)))
    }
}
