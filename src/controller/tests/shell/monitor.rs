//! What holds at every write of a replica (I1 to I6), judged by the requests that the API server received.
//!
//! What a replica has seen is not known here, so that whatever it may have seen counts in its favour.

use std::collections::{BTreeMap, BTreeSet};

use simulator::invariants::{NodeWrite, Right};
use simulator::pods::Usage;
use simulator::{ApiServer, Fate, Key, Kind, Network, Selector, Watch, WatchEvent, Write};

use super::*;

/// How old what a replica knows of pods is at most: a watch that shows nothing for longer is not relied on.
const MAX_USAGE_AGE: Duration = Duration::from_secs(90);

/// Looks at writes.
#[derive(Clone)]
pub(super) struct Monitor(Arc<Mutex<State>>);

struct State {
    /// Whether the replicas keep the condition of nodes.
    keeps_condition: bool,
    violation: Option<String>,
    watches: [Watch; 3],
    /// The rules after each change of one.
    rules: Vec<Vec<Arc<Value>>>,
    /// Every version of every node.
    nodes: Vec<Arc<Value>>,
    /// Who has held the Lease, the last one last.
    terms: Vec<Term>,
    /// The pods, and what they requested on each node since when.
    pods: BTreeMap<Key, Arc<Value>>,
    usages: BTreeMap<String, Vec<(Instant, Usage)>>,
    /// Who has listed pods, so as to watch them.
    watching: BTreeSet<String>,
}

/// How long one replica holds the Lease.
struct Term {
    holder: String,
    since: Instant,
    /// When rules were listed in it first, and their state by then.
    rules_listed: Option<(Instant, usize)>,
}

impl Monitor {
    pub(super) fn new(network: &Network, keeps_condition: bool) -> Self {
        let watch = |kind| network.read(|api| api.watch(kind, Selector::default(), 0));
        let state = State {
            keeps_condition,
            violation: None,
            watches: [watch(Kind::Rule), watch(Kind::Node), watch(Kind::Pod)],
            rules: vec![Vec::new()],
            nodes: Vec::new(),
            terms: Vec::new(),
            pods: BTreeMap::new(),
            usages: BTreeMap::new(),
            watching: BTreeSet::new(),
        };
        let monitor = Self(Arc::new(Mutex::new(state)));
        let [writes, lists] = [Arc::clone(&monitor.0), Arc::clone(&monitor.0)];
        network.on_list(move |list| lists.lock().unwrap().listed(list));
        network.on_write(move |write| {
            let mut state = writes.lock().unwrap();
            state.follow(write.api);
            state.follow_lease(write);
            if write.call.kind == Kind::Node
                && let Err(violation) = state.check(write)
            {
                let violation = format!("{} {}: {violation}", write.client, write.call);
                state.violation.get_or_insert(violation);
            }
        });
        monitor
    }

    /// Takes in what has been written, before somebody compacts the history.
    pub(super) fn follow(&self, network: &Network) {
        network.read(|api| self.0.lock().unwrap().follow(api));
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap().violation.clone().map_or(Ok(()), Err)
    }
}

impl State {
    fn follow(&mut self, api: &ApiServer) {
        let [rules, nodes, pods] = &mut self.watches;
        while let Some(event) = api.next_event(rules) {
            let mut now = self.rules.last().cloned().unwrap_or_default();
            let (object, exists) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                other => panic!("{other:?}"),
            };
            now.retain(|rule| Key::of(rule) != Key::of(&object));
            now.extend(exists.then_some(object));
            self.rules.push(now);
        }
        while let Some(event) = api.next_event(nodes) {
            match event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => self.nodes.push(node),
                WatchEvent::Deleted(_) => {}
                other => panic!("{other:?}"),
            }
        }
        while let Some(event) = api.next_event(pods) {
            let pod = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    self.pods.insert(Key::of(&pod), Arc::clone(&pod));
                    pod
                }
                WatchEvent::Deleted(pod) => {
                    self.pods.remove(&Key::of(&pod));
                    pod
                }
                other => panic!("{other:?}"),
            };
            let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
            let here = self.pods.values().filter(|pod| pod["spec"]["nodeName"] == *node);
            let usage = here.map(|pod| &**pod).collect();
            self.usages.entry(node.to_owned()).or_default().push((Instant::now(), usage));
        }
    }

    fn follow_lease(&mut self, write: &Write<'_>) {
        let lease = write.api.get(Kind::Lease, &Key::namespaced("system", "lease")).ok();
        let holder = lease.as_ref().and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        let holder = holder.unwrap_or_default();
        if self.terms.last().is_none_or(|term| term.holder != holder) {
            let (holder, since) = (holder.to_owned(), Instant::now());
            self.terms.push(Term { holder, since, rules_listed: None });
        }
    }

    /// A list has been served.
    fn listed(&mut self, list: &Write<'_>) {
        self.follow(list.api);
        let (now, states) = (Instant::now(), self.rules.len());
        if list.call.kind == Kind::Rule
            && let Some(term) = self.terms.last_mut().filter(|term| term.holder == list.client)
        {
            term.rules_listed.get_or_insert((now, states - 1));
        }
        if list.call.kind == Kind::Pod {
            self.watching.insert(list.client.to_owned());
        }
    }

    /// What a client may think is requested on a node, if it watches pods: of each resource the least, or the most, of
    /// what its watch may have reached.
    fn usage(&self, write: &Write<'_>, node: &str, sent: Instant, extreme: fn(i128, i128) -> i128) -> Option<Usage> {
        if !self.watching.contains(write.client) {
            return None;
        }
        let usages = self.usages.get(node).map(Vec::as_slice).unwrap_or_default();
        let usages = usages.iter().filter(|(at, _)| *at <= sent);
        let (old, recent): (Vec<_>, Vec<_>) = usages.partition(|(at, _)| sent.duration_since(*at) > MAX_USAGE_AGE);
        // Before the first of them, none.
        let before = old.last().map(|(_, usage)| usage.clone()).unwrap_or_default();
        let recent = recent.into_iter().map(|(_, usage)| usage.clone());
        Some(recent.fold(before, |one, other| one.merged(&other, extreme)))
    }

    fn check(&self, write: &Write<'_>) -> Result<(), String> {
        let after = write.api.get(Kind::Node, &write.call.key).map_err(|_| "the node is deleted")?;
        let before = write.before.as_ref().ok_or("the node is created")?;
        let sent = match write.fate {
            Fate::Late(time) => Instant::now() - *time,
            _ => Instant::now(),
        };
        let term = self.terms.iter().rfind(|term| term.since <= sent);
        let term = term.filter(|term| term.holder == write.client);
        let listed = term.and_then(|term| term.rules_listed).filter(|(at, _)| *at <= sent);
        let right = match (term, listed) {
            (None, _) => Right::Resets,
            (Some(_), None) => Right::Repairs,
            (Some(_), Some(_)) => Right::All,
        };
        let uid = &before["metadata"]["uid"];
        let versions = self.nodes.iter().filter(|node| node["metadata"]["uid"] == *uid);
        let history: Vec<_> = versions.cloned().collect();
        let mut labels: Vec<_> = history.iter().map(|node| node["metadata"]["labels"].clone()).collect();
        labels.dedup();
        let node = before["metadata"]["name"].as_str().unwrap_or_default();
        NodeWrite {
            before,
            after: &after,
            right,
            known: &self.rules[listed.map_or(0, |(_, state)| state)..],
            labels: &labels,
            was_seen: false,
            history: &history,
            keeps_condition: self.keeps_condition,
            pods: self.usage(write, node, sent, i128::min).as_ref(),
            most_pods: self.usage(write, node, sent, i128::max).as_ref(),
        }
        .check()
    }
}
