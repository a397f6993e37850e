//! Requests over plain HTTP on persistent connections, and watches.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Sends requests, one at a time.
pub(crate) struct Client {
    runtime: Runtime,
    http: Http<HttpConnector, Full<Bytes>>,
}

/// A request: a body requires a content type.
pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) body: Option<(&'static str, Value)>,
    /// The sender: the administrator, or the administrator impersonating a user.
    pub(crate) user: Option<&'static str>,
    /// The media type of the response.
    pub(crate) accept: Option<&'static str>,
}

impl Message {
    pub(crate) fn new(method: Method, url: String, body: Option<(&'static str, Value)>) -> Self {
        Self { method, url, body, user: None, accept: None }
    }
}

/// The events of a watch.
pub(crate) struct Stream {
    /// Received events that have not been consumed.
    pub(crate) events: VecDeque<Value>,
    lines: UnboundedReceiver<Value>,
    task: JoinHandle<Result<()>>,
}

impl Client {
    pub(crate) fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Self { runtime, http: Http::builder(TokioExecutor::new()).build(connector) })
    }

    /// Sends a request; returns the code and the body of the response.
    pub(crate) fn send(&self, message: Message) -> Result<(u16, Value)> {
        let (code, body) = self.send_for_bytes(message)?;
        Ok((code, serde_json::from_slice(&body)?))
    }

    /// The same, with the body as it is.
    pub(crate) fn send_for_bytes(&self, message: Message) -> Result<(u16, Bytes)> {
        let what = format!("{} {}", message.method, message.url);
        let exchange = async {
            let response = self.open(message).await?;
            let code = response.status().as_u16();
            Ok::<_, anyhow::Error>((code, response.into_body().collect().await?.to_bytes()))
        };
        let exchange = async { timeout(harness::DEADLINE, exchange).await };
        self.runtime.block_on(exchange).context("no response in time").flatten().context(what)
    }

    /// Opens a watch; returns the code and the body of the response if it is not a stream.
    pub(crate) fn watch(&self, url: String) -> Result<Result<Stream, (u16, Value)>> {
        let response = async {
            let message = Message::new(Method::GET, url, None);
            let response = timeout(harness::DEADLINE, self.open(message)).await??;
            let code = response.status().as_u16();
            if code == 200 {
                return Ok::<_, anyhow::Error>(Ok(response));
            }
            let body = response.into_body().collect().await?.to_bytes();
            Ok(Err((code, serde_json::from_slice(&body)?)))
        };
        Ok(match self.runtime.block_on(response)? {
            Ok(response) => Ok(self.read_lines(response)),
            Err(failure) => Err(failure),
        })
    }

    async fn open(&self, message: Message) -> Result<Response<Incoming>> {
        let mut request = Request::builder().method(message.method).uri(message.url);
        if let Some(user) = message.user {
            request = request.header("Impersonate-User", user);
        }
        if let Some(media_type) = message.accept {
            request = request.header("Accept", media_type);
        }
        let mut bytes = Bytes::new();
        if let Some((content_type, body)) = message.body {
            request = request.header("Content-Type", content_type);
            bytes = serde_json::to_vec(&body)?.into();
        }
        Ok(self.http.request(request.body(Full::new(bytes))?).await?)
    }

    fn read_lines(&self, response: Response<Incoming>) -> Stream {
        let (sender, lines) = unbounded_channel();
        let task = self.runtime.spawn(async move {
            let (mut body, mut bytes) = (response.into_body(), Vec::new());
            while let Some(frame) = body.frame().await {
                bytes.extend(frame?.into_data().unwrap_or_default());
                while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                    sender.send(serde_json::from_slice(&bytes[..end])?)?;
                    bytes.drain(..=end);
                }
            }
            Ok(())
        });
        Stream { events: VecDeque::new(), lines, task }
    }

    /// Waits for the next event of a watch and keeps it among its events; returns `false` if none arrives in time.
    pub(crate) fn next(&self, stream: &mut Stream, wait: Duration) -> bool {
        let next = async { timeout(wait, stream.lines.recv()).await };
        let event = self.runtime.block_on(next).ok().flatten();
        let came = event.is_some();
        stream.events.extend(event);
        came
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}
