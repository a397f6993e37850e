//! Watches of optional kinds, which a cluster may not have and the controller can do without.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::watch::watch;
use crate::response::error::list_code;

/// The pause if a cluster does not serve a kind, or grants no permission to list it.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// Watches objects forever, like [`watch`]. If the cluster does not serve the kind, or grants no permission to list it,
/// the watch is retried every five minutes.
pub(crate) fn watch_optional<K>(
    api: Api<K>,
    config: watcher::Config,
    seed: u64,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = Box::pin(watch(api, config, seed));
    let state = (events, Duration::ZERO);
    stream::unfold(state, |(mut events, pause)| async move {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let event = events.next().await?;
        let is_refused = matches!(&event, Err(error) if matches!(list_code(error), Some(403 | 404)));
        let pause = if is_refused { PAUSE } else { Duration::ZERO };
        Some((event, (events, pause)))
    })
}
