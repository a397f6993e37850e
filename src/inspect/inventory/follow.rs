//! An inventory that follows a cluster: four watches, each of which may be refused on its own.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, PollNext, SelectAll};
use kube::api::{ApiResource, GroupVersionKind};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::device_classes::DeviceClass;
use super::error::ReadError;
use super::lists::Lists;
use super::pods::{PodEntry, Pods};
use super::{Inventory, NodeEntry};
use crate::cluster::node_client::{POD_PAGE_SIZE, UNFINISHED};
use crate::cluster::optional_watch::watch_optional;
use crate::cluster::paging::PAGE_SIZE;
use crate::cluster::watch::{Sign, reporting};
use crate::inspect::diff::cluster;
use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::diff::order::NodeName;
use crate::inspect::diff::rules::ClusterRule;
use crate::inspect::lists::Refusal;
use crate::model::api::NodeExtendedResource;
use crate::model::compute::Compute;
use crate::model::node::object::NodeObject;
use crate::model::node::{FactNames, Interner};
use crate::model::pod::object::PodObject;
use crate::response::error::{describe, describe_watch, is_silent, list_code};

/// How long a burst of changes is collected after its first.
const BURST: Duration = Duration::from_millis(50);

/// Follows a cluster.
pub(crate) struct Follower {
    changes: SelectAll<BoxStream<'static, Change>>,
    labels: LabelFilter,
    nodes: Kind<NodeName, Arc<NodeEntry>>,
    pods: Kind<(Box<str>, Box<str>), Unfinished>,
    classes: Kind<String, DeviceClass>,
    rules: Kind<String, ClusterRule>,
    interner: Interner,
    reader: Pods,
}

/// What is kept of an unfinished pod.
struct Unfinished {
    /// The pod, if it requests extended resources.
    counted: Option<Arc<PodEntry>>,
    /// What it requests of the cpu and memory of its node.
    compute: Option<(NodeName, Compute)>,
}

type Watched<K> = watcher::Result<Event<K>>;

enum Change {
    Node(Seen<NodeObject>),
    Pod(Seen<PodObject>),
    Class(Seen<DeviceClass>),
    Rule(Seen<DeserializeGuard<NodeExtendedResource>>),
}

/// What a watch shows.
enum Seen<K> {
    Event(Watched<K>),
    /// Anything at all, perhaps a bookmark.
    Sign,
}

impl Follower {
    /// Lists everything, and watches it from there. Nodes are those with these labels.
    ///
    /// # Errors
    /// If a list fails other than for a missing permission.
    pub(crate) async fn start(client: &Client, labels: LabelFilter) -> Result<Self, ReadError> {
        let seed = u64::from(std::process::id());
        let pages = |size: u32| watcher::Config::default().page_size(size);
        let unfinished = pages(POD_PAGE_SIZE).fields(UNFINISHED);
        let kind = GroupVersionKind::gvk("resource.k8s.io", "v1", "DeviceClass");
        let kind = ApiResource::from_gvk_with_plural(&kind, "deviceclasses");
        let classes = |client| Api::all_with(client, &kind);
        let changes = futures::stream::select_all([
            seen(client, Api::all, pages(PAGE_SIZE), seed).map(Change::Node).boxed(),
            seen(client, Api::all, unfinished, seed).map(Change::Pod).boxed(),
            seen(client, classes, pages(PAGE_SIZE), seed).map(Change::Class).boxed(),
            seen(client, Api::all, pages(PAGE_SIZE), seed).map(Change::Rule).boxed(),
        ]);
        let mut this = Self {
            changes,
            labels,
            nodes: Kind::new("nodes"),
            pods: Kind::new("pods"),
            classes: Kind::new("deviceclasses"),
            rules: Kind::new("nodeextendedresources"),
            interner: Interner::keeping(FactNames::All),
            reader: Pods::default(),
        };
        while !this.is_read() {
            this.next().await?;
        }
        Ok(this)
    }

    /// Returns the cluster as it is now.
    ///
    /// # Errors
    /// If refusals leave nothing to answer with.
    pub(crate) fn inventory(&mut self) -> Result<Inventory, ReadError> {
        self.reader.forget_unused();
        let unserved = self.rules.state == State::Unserved;
        let lists = Lists {
            nodes: self.nodes.listed().map(|()| self.nodes.current.clone()),
            compute: self.pods.listed().ok().map(|()| self.compute()),
            pods: self
                .pods
                .listed()
                .map(|()| self.pods.current.values().filter_map(|pod| pod.counted.clone()).collect()),
            classes: self.classes.listed().map(|()| self.classes.current.values().cloned().collect()),
            rules: self.rules.listed().map(|()| (!unserved).then(|| self.rules.current.values().cloned().collect())),
        };
        let mut inventory = lists.inventory(!self.labels.is_empty())?;
        let [nodes, pods, classes, rules] =
            [&self.nodes.failure, &self.pods.failure, &self.classes.failure, &self.rules.failure];
        inventory.gaps.extend([nodes, pods, classes, rules].into_iter().flatten().cloned());
        Ok(inventory)
    }

    /// Returns the pods' requests for the cpu and memory of each node.
    fn compute(&self) -> HashMap<NodeName, Compute> {
        let mut sums = HashMap::<_, Compute>::new();
        for (node, compute) in self.pods.current.values().filter_map(|pod| pod.compute.as_ref()) {
            *sums.entry(node.clone()).or_default() += *compute;
        }
        sums
    }

    /// Waits for a change, and collects further changes until `until`, or for a moment.
    ///
    /// # Errors
    /// If refusals leave nothing to answer with.
    pub(crate) async fn change(&mut self, until: Instant) -> Result<(), ReadError> {
        self.next().await?;
        let until = until.max(Instant::now() + BURST);
        while let Ok(next) = timeout_at(until, self.next()).await {
            next?;
        }
        Ok(())
    }

    /// Returns whether each list has been read or refused.
    fn is_read(&self) -> bool {
        let Self { nodes, pods, classes, rules, .. } = self;
        ![&nodes.state, &pods.state, &classes.state, &rules.state].contains(&&State::Unread)
    }

    async fn next(&mut self) -> Result<(), ReadError> {
        match self.changes.next().await {
            Some(Change::Node(event)) => self.nodes.apply(event, |object| {
                let is_selected = self.labels.matches(object.node.labels());
                let name = NodeName(object.name_any().into());
                (name, is_selected.then(|| Arc::new(NodeEntry::new(object, &mut self.interner))))
            }),
            Some(Change::Pod(event)) => self.pods.apply(event, |object| {
                let entry = self.reader.entry(object);
                let id = (entry.namespace.clone(), entry.name.clone());
                if entry.is_finished() {
                    return (id, None);
                }
                let compute = entry.node.clone().map(|node| (node, entry.compute));
                let counted = entry.counts().then(|| Arc::new(entry));
                (id, Some(Unfinished { counted, compute }))
            }),
            Some(Change::Class(event)) => self.classes.apply(event, |class| (class.name_any(), Some(class))),
            Some(Change::Rule(event)) => self.rules.apply(event, |rule| {
                // As in the controller.
                let is_alive = rule.meta().deletion_timestamp.is_none();
                (rule.name_any(), is_alive.then(|| cluster::present(rule)))
            }),
            // Watches do not end.
            None => std::future::pending().await,
        }
    }
}

/// Watches objects, where `all` returns the API for a client.
fn seen<K>(
    client: &Client,
    all: impl FnOnce(Client) -> Api<K>,
    config: watcher::Config,
    seed: u64,
) -> BoxStream<'static, Seen<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (client, signs) = reporting(client);
    let signs = signs.filter(|sign| std::future::ready(*sign == Sign::Heard)).map(|_| Seen::Sign);
    let events = watch_optional(all(client), config, seed).map(Seen::Event);
    // A sign comes before the event that it is of, which may be an error.
    futures::stream::select_with_strategy(signs, events, |_: &mut ()| PollNext::Left).boxed()
}

/// The objects of one kind.
struct Kind<K, V> {
    plural: &'static str,
    current: BTreeMap<K, V>,
    /// Objects of a list that has not ended.
    listing: BTreeMap<K, V>,
    state: State,
    /// Why the objects may be out of date.
    failure: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Unread,
    Listed,
    Refused(Refusal),
    /// The cluster does not serve the kind.
    Unserved,
}

impl<K: Ord, V> Kind<K, V> {
    fn new(plural: &'static str) -> Self {
        Self { plural, current: BTreeMap::new(), listing: BTreeMap::new(), state: State::Unread, failure: None }
    }

    /// Returns whether the list is known.
    fn listed(&self) -> Result<(), Refusal> {
        match &self.state {
            State::Refused(refusal) => Err(refusal.clone()),
            State::Unread | State::Listed | State::Unserved => Ok(()),
        }
    }

    /// Handles an event. `entry` returns the key of an object, and what to keep of it if it counts.
    ///
    /// # Errors
    /// If the first list fails.
    fn apply<O>(&mut self, seen: Seen<O>, mut entry: impl FnMut(O) -> (K, Option<V>)) -> Result<(), ReadError> {
        let event = match seen {
            Seen::Event(event) => event,
            Seen::Sign => {
                self.failure = None;
                return Ok(());
            }
        };
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(object)) => {
                if let (key, Some(value)) = entry(object) {
                    self.listing.insert(key, value);
                }
            }
            Ok(Event::InitDone) => {
                self.current = std::mem::take(&mut self.listing);
                (self.state, self.failure) = (State::Listed, None);
            }
            Ok(Event::Apply(object)) => {
                self.failure = None;
                match entry(object) {
                    (key, Some(value)) => drop(self.current.insert(key, value)),
                    (key, None) => drop(self.current.remove(&key)),
                }
            }
            Ok(Event::Delete(object)) => {
                self.failure = None;
                self.current.remove(&entry(object).0);
            }
            // It resumes where it was.
            Err(error) if is_silent(&error) => {}
            Err(error) => return self.fail(&error),
        }
        Ok(())
    }

    fn fail(&mut self, error: &watcher::Error) -> Result<(), ReadError> {
        let why = match error {
            watcher::Error::InitialListFailed(cause) => describe(cause),
            _ => String::new(),
        };
        match (list_code(error), &self.state) {
            (Some(403), _) => {
                self.current.clear();
                (self.state, self.failure) = (State::Refused(Refusal(why)), None);
            }
            (Some(404), _) => {
                self.current.clear();
                (self.state, self.failure) = (State::Unserved, None);
            }
            (_, State::Unread) => return Err(ReadError::List { kind: self.plural, why }),
            _ => {
                let why = describe_watch(error, "; the cluster no longer serves them");
                self.failure = Some(format!("{} may be out of date: they {why}", self.plural));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::inspect::inventory::read;

    /// Pods that request no extended resources use a node too.
    #[tokio::test]
    async fn cpu_and_memory_are_counted_as_in_one_list() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let uri = request.uri().to_string();
            if uri.contains("watch=") {
                std::future::pending::<()>().await;
            }
            let pod = |name: &str, node: &str, phase: &str| {
                let requests = json!({"cpu": "500m", "memory": "1Gi"});
                json!({
                    "metadata": {"name": name, "namespace": "default"}, "status": {"phase": phase},
                    "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
                })
            };
            let pods = json!([
                pod("a", "node-1", "Running"),
                pod("b", "node-1", "Pending"),
                pod("c", "node-2", "Running"),
                pod("d", "node-2", "Succeeded"),
                pod("e", "", "Pending"),
            ]);
            let items = if uri.contains("/pods") { pods } else { json!([]) };
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
            Ok::<_, tower::BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let client = Client::new(service, "default");
        let listed = read::inventory(&client, &LabelFilter::default()).await.unwrap().compute.unwrap();
        let mut follower = Follower::start(&client, LabelFilter::default()).await.unwrap();
        let followed = follower.inventory().unwrap().compute.unwrap();
        assert_eq!(followed, listed);
        assert_eq!(followed.len(), 2);
    }

    fn list_error(code: u16) -> watcher::Error {
        let status = Status::failure("no", "No").with_code(code);
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    fn kind(events: Vec<Watched<u8>>) -> (Kind<u8, u8>, Result<(), ReadError>) {
        let mut kind = Kind::new("things");
        // Odd objects do not count; 11 replaces 1.
        let result = events
            .into_iter()
            .map(Seen::Event)
            .try_for_each(|event| kind.apply(event, |object| (object % 10, (object < 100).then_some(object))));
        (kind, result)
    }

    #[test]
    fn kind_is_what_the_last_whole_list_and_the_changes_since_say() {
        let list = [Ok(Event::Init), Ok(Event::InitApply(1)), Ok(Event::InitApply(2)), Ok(Event::InitApply(103))];
        let mut events: Vec<Watched<u8>> = list.into_iter().collect();
        assert_eq!(kind(vec![Ok(Event::Init), Ok(Event::InitApply(1))]).0.state, State::Unread);
        events.extend([Ok(Event::InitDone), Ok(Event::Apply(11)), Ok(Event::Apply(102)), Ok(Event::Apply(4))]);
        events.extend([Ok(Event::Delete(4))]);
        let (kind, result) = kind(events);
        assert!(result.is_ok() && kind.state == State::Listed);
        assert_eq!(kind.current, [(1, 11)].into(), "2 stopped to count, and 3 never did");
    }

    #[test]
    fn kind_keeps_what_it_has_while_its_watch_fails() {
        let listed = || vec![Ok(Event::Init), Ok(Event::InitApply(1)), Ok(Event::InitDone)];
        let mut events = listed();
        events.extend([Err(list_error(500)), Ok(Event::Init), Ok(Event::InitApply(2))]);
        let (failing, _) = kind(events);
        assert_eq!(failing.current, [(1, 1)].into());
        assert!(failing.failure.as_ref().is_some_and(|why| why.starts_with("things may be out of date: they cannot")));
        let mut events = listed();
        events.extend([Err(list_error(500)), Ok(Event::Init), Ok(Event::InitDone)]);
        let (recovered, _) = kind(events);
        assert!(recovered.failure.is_none() && recovered.current.is_empty());
    }

    /// It resumes where it was, and nothing may have changed since.
    #[test]
    fn watch_that_shows_anything_is_up_to_date() {
        let reset = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let reset = watcher::Error::WatchFailed(kube::Error::ReadEvents(reset()));
        let (mut kind, _) = kind(vec![Ok(Event::Init), Ok(Event::InitApply(1)), Ok(Event::InitDone), Err(reset)]);
        assert!(kind.failure.is_some());
        kind.apply(Seen::Sign, |object: u8| (object, Some(object))).unwrap();
        assert!(kind.failure.is_none() && kind.current == [(1, 1)].into());
    }

    #[test]
    fn kind_that_is_refused_or_not_served_is_no_error() {
        assert!(matches!(kind(vec![Err(list_error(500))]).1, Err(ReadError::List { kind: "things", .. })));
        let (refused, result) = kind(vec![Err(list_error(403))]);
        assert!(result.is_ok() && refused.listed().is_err());
        let (unserved, result) = kind(vec![Err(list_error(404))]);
        assert!(result.is_ok() && unserved.listed().is_ok() && unserved.state == State::Unserved);
        let (granted, _) = kind(vec![Err(list_error(403)), Ok(Event::Init), Ok(Event::InitDone)]);
        assert!(granted.listed().is_ok(), "the permission was granted since");
    }
}
