//! Watches of optional kinds, which a cluster may not have and the controller can do without.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::watch::watch;
use crate::response::error::{is_refused, list_code};

/// The pause if a cluster does not serve a kind, or grants no permission to list or watch it.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// What is kept of a watch between two events.
struct Kept<K> {
    /// `None` if it begins with a list.
    events: Option<BoxStream<'static, watcher::Result<Event<K>>>>,
    /// Since when it has been refused, while lists are not.
    refused: Option<Instant>,
    /// The pause before the next event.
    pause: Duration,
}

/// Watches objects forever, like [`watch`]. If the cluster does not serve the kind, or grants no permission to list it, it is
/// tried again every five minutes. While it may be listed and not watched, it is listed about as often.
pub(crate) fn watch_optional<K>(
    api: Api<K>,
    config: watcher::Config,
    seed: u64,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let begins = Kept { events: None, refused: None, pause: Duration::ZERO };
    stream::unfold(begins, move |Kept { events, refused, pause }| {
        let (api, config) = (api.clone(), config.clone());
        async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let mut events = events.unwrap_or_else(|| watch(api, config, seed).boxed());
            let event = events.next().await?;
            let next = match &event {
                Ok(_) => Kept { events: Some(events), refused: None, pause: Duration::ZERO },
                Err(error) if matches!(list_code(error), Some(403 | 404)) => {
                    Kept { events: None, refused: None, pause: PAUSE }
                }
                Err(error) => {
                    let refused = is_refused(error).then(|| refused.unwrap_or_else(Instant::now));
                    // An API server that has just started may not know the permissions yet.
                    match refused {
                        Some(since) if since.elapsed() >= PAUSE => {
                            Kept { events: None, refused: None, pause: Duration::ZERO }
                        }
                        _ => Kept { events: Some(events), refused, pause: Duration::ZERO },
                    }
                }
            };
            Some((event, next))
        }
    })
}
