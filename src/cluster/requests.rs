//! Requests to the API server, each with a timeout.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::response::error::describe;
use crate::response::request_error::RequestError;

/// Sends requests.
#[derive(Clone)]
pub(crate) struct Requests {
    client: Client,
    timeout: Duration,
}

/// A page of a list.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    metadata: ListMeta,
    pub(crate) items: Vec<T>,
}

impl<T> Page<T> {
    /// Returns the continue token for the next page; `None` after the last.
    pub(crate) fn next(self) -> Option<String> {
        self.metadata.continue_.filter(|token| !token.is_empty())
    }
}

/// A request, as kube builds it.
pub(crate) type Built = Result<Request<Vec<u8>>, kube::core::request::Error>;

impl Requests {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    /// Sends a request, and decodes the object in the response.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: Built) -> Result<T, RequestError> {
        Ok(self.send_with_headers(request).await?.0)
    }

    /// Sends a request, and decodes the object in the response, which is returned with the response's headers.
    pub(crate) async fn send_with_headers<T: DeserializeOwned>(
        &self,
        request: Built,
    ) -> Result<(T, HeaderMap), RequestError> {
        self.send_in(request, &mut Vec::new()).await
    }

    /// Does the same with a buffer for the body. Pages of a list share one: they are large, and memory in which large
    /// and small pieces alternate takes an allocator long to search.
    pub(crate) async fn send_in<T: DeserializeOwned>(
        &self,
        request: Built,
        buffer: &mut Vec<u8>,
    ) -> Result<(T, HeaderMap), RequestError> {
        buffer.clear();
        let request = request.map_err(|error| RequestError::Transport(error.to_string()))?;
        let exchange = async {
            let response = self.client.send(request.map(Body::from)).await;
            let (head, mut body) = response.map_err(|error| describe(&error))?.into_parts();
            // Frames are freed one by one, so that the connection can reuse its buffer for the next.
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame.map_err(|error| describe(&error))?.into_data() {
                    buffer.extend_from_slice(&data);
                }
            }
            Ok::<_, String>(head)
        };
        let head = tokio::time::timeout(self.timeout, exchange)
            .await
            .map_err(|_| RequestError::Transport(format!("no response within {:?}", self.timeout)))?
            .map_err(RequestError::Transport)?;
        if head.status.is_success() {
            let unreadable =
                |error: &dyn fmt::Display| RequestError::Transport(format!("unreadable response: {error}"));
            // Checking all text at once takes fewer instructions than each string on its own.
            let text = std::str::from_utf8(buffer).map_err(|error| unreadable(&error))?;
            let object = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
            return Ok((object, head.headers));
        }
        Err(RequestError::from_response(head.status, &head.headers, buffer))
    }
}
