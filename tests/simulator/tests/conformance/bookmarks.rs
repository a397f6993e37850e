//! Bookmarks, which a server sends every minute and two seconds before a watch ends.

use anyhow::{Context as _, Result, bail, ensure};
use harness::DEADLINE;
use hyper::Method;
use serde_json::{Value, json};
use simulator::{ApiServer, Key, Kind, Selector, WatchEvent, Writer};

use crate::client::Message;
use crate::episode::World;
use crate::exchange::collection;
use crate::pods::BOUND;
use crate::real::KINDS;

/// Compares the last bookmarks of watches that end soon, whose version is not older than that of the previous write.
/// Others may write after it, such as the API server to its Lease. Compares only the bookmark's kind and version: its
/// other fields are empty, and differ by kind.
pub(crate) fn compare(world: &World) -> Result<()> {
    for seconds in [3, 12, 48] {
        if compare_within(world, seconds)? {
            return Ok(());
        }
    }
    bail!("the write comes after the last bookmark, however long the watch is")
}

/// Does so with watches that end after so many seconds. Returns whether the write comes before the last bookmark, as it
/// does unless the machine is slow.
fn compare_within(world: &World, seconds: u32) -> Result<bool> {
    let bound = BOUND.replace('=', "%3D").replace(',', "%2C").replace('!', "%21");
    let watched = KINDS.map(|kind| (kind, "")).into_iter().chain([(Kind::Pod, &*bound)]);
    let watches: Vec<_> = watched
        .map(|(kind, fields)| {
            let url = world.control_plane.url() + &collection(kind, None);
            let url =
                format!("{url}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&fieldSelector={fields}");
            world.client.watch(url).map(|watch| (kind, watch))
        })
        .collect();
    let (node, name) = (json!({"metadata": {"name": "bookmark"}}), "bookmark");
    let url = world.control_plane.url() + &collection(Kind::Node, None);
    let body = Some(("application/json", node.clone()));
    let (_, created) = world.client.send(Message::new(Method::POST, url.clone(), body))?;
    let written = version(&created)?;
    let deleted = Message::new(Method::DELETE, format!("{url}/{name}"), None);
    let mut is_in_time = true;
    for watch in watches {
        let (kind, stream) = watch?;
        let mut stream = stream.ok().context("a watch")?;
        while world.client.next(&mut stream, DEADLINE) {}
        let last = stream.events.iter().rfind(|event| event["type"] == "BOOKMARK");
        let last = last.with_context(|| format!("no bookmark of {}", kind.plural()))?;
        let mut of_model = bookmark(kind, &node)?;
        of_model["object"]["metadata"]["resourceVersion"] = last["object"]["metadata"]["resourceVersion"].clone();
        let kept = json!({"type": last["type"], "object": {
            "kind": last["object"]["kind"], "apiVersion": last["object"]["apiVersion"],
            "metadata": {"resourceVersion": last["object"]["metadata"]["resourceVersion"]},
        }});
        ensure!(kept == of_model, "the last bookmark of {}: {kept}, model {of_model}", kind.plural());
        is_in_time &= kind != Kind::Node || version(&last["object"])? >= written;
    }
    world.client.send(deleted)?;
    Ok(is_in_time)
}

fn version(object: &Value) -> Result<u64> {
    let version = object["metadata"]["resourceVersion"].as_str().context("a version")?;
    Ok(version.parse()?)
}

/// Returns the model's events: the write, and then a bookmark of its version.
fn bookmark(kind: Kind, node: &Value) -> Result<Value> {
    let mut server = ApiServer::default();
    let mut watch = server.watch(kind, Selector::default(), 0);
    let created = server.create(Kind::Node, node.clone(), &Writer::new("kubectl"));
    ensure!(created.is_ok_and(|node| Key::of(&node) == Key::named("bookmark")), "a node");
    ensure!((kind == Kind::Node) == server.bookmark(&mut watch).is_none(), "a bookmark before the write");
    while server.next_event(&mut watch).is_some() {}
    let bookmark = server.bookmark(&mut watch).context("a bookmark of the model")?;
    ensure!(bookmark == WatchEvent::Bookmark(server.version()), "a bookmark of the last write");
    Ok(bookmark.to_json(kind))
}
