//! Pages of lists that fit into a bounded part of memory, however large the objects are.
//!
//! ```text
//! kube's list and watch ── limit=50 ──▶ this module ── limit=50, too long: limit=25, … ──▶ API server
//! ```
//!
//! An object has up to 1.5 MB, and the API server bounds a page by its number of objects only.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use prost::bytes::BytesMut;
use tower::BoxError;

use super::protobuf::{ConvertedBody, unchanged, unwrapped};
use super::transport::is_watch;

/// The largest page of rules, in bytes, unless it has one object only.
const MAX_PAGE: usize = 4 * 1024 * 1024;

/// A page that is smaller than this part of the largest is followed by one of twice as many objects.
const SMALL: usize = 4;

/// The number of objects of a page.
pub(crate) const PAGE_SIZE: u32 = 50;

/// Returns a client whose pages of lists are bounded. A page that is too long is requested again, with half as many
/// objects: a list is complete in any case, because each page names the next.
#[must_use]
pub(crate) fn client(client: &Client) -> Client {
    client_of(client, PAGE_SIZE, MAX_PAGE)
}

/// Does the same with pages that begin with so many objects, and have at most so many bytes.
#[must_use]
pub(crate) fn client_of(client: &Client, page_size: u32, max_page: usize) -> Client {
    let namespace = client.default_namespace().to_owned();
    let reader = Reader { client: client.clone(), page_size: Arc::new(AtomicU32::new(page_size)), max_page };
    Client::new(tower::service_fn(move |request| reader.clone().send(request)), namespace)
}

#[derive(Clone)]
struct Reader {
    client: Client,
    page_size: Arc<AtomicU32>,
    max_page: usize,
}

impl Reader {
    async fn send(self, request: Request<Body>) -> Result<Response<ConvertedBody>, BoxError> {
        let limit = if is_watch(request.uri()) { None } else { limit(request.uri()) };
        let Some(limit) = limit else { return Ok(self.client.send(request).await?.map(unchanged)) };
        let (head, _) = request.into_parts();
        loop {
            let page_size = self.page_size.load(Ordering::Relaxed).clamp(1, limit);
            let mut head = head.clone();
            head.uri = with_limit(&head.uri, page_size)?;
            let response = self.client.send(Request::from_parts(head, Body::empty())).await?;
            let (head, body) = response.into_parts();
            let most = if page_size > 1 { self.max_page } else { usize::MAX };
            if let Some(page) = read(body, most).await? {
                if page.len() < self.max_page / SMALL && page_size < limit {
                    self.page_size.store(page_size * 2, Ordering::Relaxed);
                }
                return Ok(Response::from_parts(head, Full::new(page).map_err(|never| match never {}).boxed_unsync()));
            }
            self.page_size.store(page_size / 2, Ordering::Relaxed);
        }
    }
}

/// Reads a body; returns `None` if it is longer than `most`.
async fn read(mut body: Body, most: usize) -> Result<Option<Bytes>, BoxError> {
    let mut page = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(unwrapped)?.into_data() {
            if page.len() + data.len() > most {
                return Ok(None);
            }
            page.extend_from_slice(&data);
        }
    }
    Ok(Some(page.freeze()))
}

/// Returns the number of objects that a request asks for at most.
fn limit(uri: &Uri) -> Option<u32> {
    let mut parameters = uri.query()?.split('&');
    parameters.find_map(|parameter| parameter.strip_prefix("limit=")?.parse().ok())
}

fn with_limit(uri: &Uri, limit: u32) -> Result<Uri, http::Error> {
    let parameters = uri.query().unwrap_or_default().split('&');
    let parameters = parameters.filter(|parameter| !parameter.is_empty() && !parameter.starts_with("limit="));
    let query: Vec<_> = parameters.map(str::to_owned).chain([format!("limit={limit}")]).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.join("&")).parse()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::ListParams;
    use serde_json::json;

    use super::*;
    use crate::cluster::paging::{self, Page};

    /// An API server with this many objects of this size, and the limits that it is asked for.
    fn server(objects: usize, size: usize) -> (Client, Arc<Mutex<Vec<u32>>>) {
        let limits = Arc::<Mutex<Vec<u32>>>::default();
        let seen = Arc::clone(&limits);
        let service = tower::service_fn(move |request: Request<Body>| {
            let limit = limit(request.uri()).unwrap();
            Mutex::lock(&seen).unwrap().push(limit);
            let mut parameters = request.uri().query().unwrap().split('&');
            let start = parameters.find_map(|parameter| parameter.strip_prefix("continue=")?.parse().ok());
            let (start, note) = (start.unwrap_or(0), "x".repeat(size));
            let end = objects.min(start + limit as usize);
            let items: Vec<_> = (start..end)
                .map(|number| json!({"metadata": {"name": number.to_string(), "annotations": {"note": note}}}))
                .collect();
            let token = if end < objects { end.to_string() } else { String::new() };
            let list = json!({"metadata": {"continue": token}, "items": items}).to_string();
            async { Ok::<_, BoxError>(Response::new(Body::from(list.into_bytes()))) }
        });
        (Client::new(service, "default"), limits)
    }

    async fn names(client: &Client, limit: u32) -> Vec<String> {
        let api = Api::<ConfigMap>::all(super::client(client));
        let (mut names, mut page) = (Vec::new(), ListParams::default().limit(limit));
        loop {
            let list = api.list(&page).await.unwrap();
            names.extend(list.items.into_iter().filter_map(|object| object.metadata.name));
            page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                return names;
            }
        }
    }

    #[tokio::test]
    async fn large_objects_come_in_small_pages_and_none_is_lost() {
        let (client, limits) = server(60, 500_000);
        let expected: Vec<_> = (0..60).map(|number| number.to_string()).collect();
        assert_eq!(names(&client, 50).await, expected);
        let limits = limits.lock().unwrap();
        assert_eq!(limits[..4], [50, 25, 12, 6]);
        assert!(limits[4..].iter().all(|limit| *limit <= 6), "{limits:?}");
    }

    #[tokio::test]
    async fn object_that_is_larger_than_a_page_comes_alone() {
        let (client, limits) = server(2, MAX_PAGE);
        assert_eq!(names(&client, 2).await, ["0", "1"]);
        assert_eq!(*limits.lock().unwrap(), [2, 1, 1]);
    }

    #[tokio::test]
    async fn small_objects_come_in_pages_of_the_requested_size() {
        let (client, limits) = server(120, 10);
        assert_eq!(names(&client, 50).await.len(), 120);
        assert_eq!(*limits.lock().unwrap(), [50, 50, 50]);
        let mut listed = 0;
        let api = Api::<ConfigMap>::all(super::client(&client));
        let count = |page| match page {
            Page::Restarted => listed = 0,
            Page::Items(items) => listed += items.len(),
        };
        paging::list(&api, count).await.unwrap();
        assert_eq!(listed, 120);
    }
}
