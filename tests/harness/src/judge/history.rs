//! What the audit log says about nodes, and what a process may have known when it patched one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use simulator::invariants::{NodeWrite, Right};
use simulator::pods::{self, Usage};

use super::story;
use super::{Era, RULES};
use crate::audit::{self, Entry};

/// What a watch of pods may not have shown yet when a patch is sent: it may be silent for 90 seconds, and the patch may be
/// under way for 30.
const MAX_LAG: SignedDuration = SignedDuration::from_secs(90 + 30);

/// How the program patches nodes.
const FIELD_MANAGER: &str = "fieldManager=node-resource-advertiser";

/// Everything since a test began to use a control plane.
#[derive(Debug, Default)]
pub(super) struct History {
    era: usize,
    /// The versions of all nodes, in order of `at`.
    versions: Vec<Version>,
    rules: Vec<RuleChange>,
    terms: Vec<Term>,
    lists: Vec<List>,
    pods: Vec<Pod>,
}

/// A version of a node.
#[derive(Debug)]
pub(super) struct Version {
    /// The era, and the resource version in it.
    at: (usize, u64),
    pub(super) node: Arc<Value>,
    pub(super) writer: Writer,
}

/// Who wrote a version, and when.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) client: String,
    pub(super) is_program: bool,
    pub(super) begin: Timestamp,
    pub(super) end: Timestamp,
}

/// How the rules have changed between these times.
#[derive(Debug)]
struct RuleChange {
    begin: Timestamp,
    end: Timestamp,
    change: Changed,
}

#[derive(Debug)]
enum Changed {
    /// These are all rules from then on.
    All(Vec<Arc<Value>>),
    Written(Arc<Value>),
    Deleted(String),
}

/// How long one process holds a Lease.
#[derive(Debug)]
struct Term {
    lease: String,
    holder: String,
    client: String,
    begin: Timestamp,
    end: Option<Timestamp>,
}

/// A list of rules or pods.
#[derive(Debug)]
struct List {
    client: String,
    begin: Timestamp,
    /// The path and the query, decoded as far as field selectors need it.
    uri: String,
}

/// A pod's time on a node.
#[derive(Debug)]
struct Pod {
    key: (String, String),
    node: Option<String>,
    /// When it was certainly bound.
    since: Timestamp,
    /// When it has perhaps ended.
    until: Option<Timestamp>,
    /// When it certainly had started.
    started: Option<Timestamp>,
    object: Value,
}

/// What a process may do at a moment, and which rules it may know.
pub(super) struct Knowledge {
    pub(super) right: Right,
    pub(super) rules: Vec<Vec<Arc<Value>>>,
}

/// Which of the amounts that a process may have read.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Least,
    Most,
}

/// The rules that can decide what a write to a node may do: of the resources that it has, or named in its ledger.
struct Concern {
    text: String,
}

impl Concern {
    fn of(versions: [&Value; 2]) -> Self {
        let texts = versions.map(|node| {
            let annotations = node["metadata"]["annotations"].to_string();
            format!("{annotations} {} {}", node["status"]["capacity"], node["status"]["allocatable"])
        });
        Self { text: texts.concat() }
    }

    fn has(&self, rule: &Value) -> bool {
        let is_named = |text: &Value| text.as_str().is_some_and(|text| self.text.contains(text));
        is_named(&rule["spec"]["resourceName"]) || is_named(&rule["metadata"]["name"])
    }
}

fn name(rule: &Value) -> String {
    rule["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Returns entries in the order in which they took effect. A request that is answered later than the next one may have
/// been stored before it: the version of what was stored decides, where there is one.
fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(Entry::end);
    let mut newest = 0;
    let mut versioned: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let version = if entry.is_write() { entry.version() } else { None };
            newest = version.unwrap_or_default().max(newest);
            (version.unwrap_or(newest), entry)
        })
        .collect();
    versioned.sort_by_key(|(version, _)| *version);
    versioned.into_iter().map(|(_, entry)| entry).collect()
}

impl History {
    /// Begins an era, whose versions follow those before.
    pub(super) fn begin(&mut self, era: &Era) {
        self.era += 1;
        for node in &era.nodes {
            // The log may have the request that wrote it, which then counts.
            let (begin, end) = (Timestamp::MAX, Timestamp::MAX);
            let writer = Writer { client: "somebody".to_owned(), is_program: false, begin, end };
            self.add_version(node, writer);
        }
        if let Some(rules) = &era.rules {
            let rules = rules.iter().cloned().map(Arc::new).collect();
            self.rules.push(RuleChange { begin: era.since, end: era.since, change: Changed::All(rules) });
        }
        for pod in &mut self.pods {
            pod.until.get_or_insert(era.since);
        }
    }

    /// Reads lines of the audit log.
    pub(super) fn read(&mut self, lines: &str) {
        let mut entries: Vec<_> = lines.lines().filter_map(Entry::parse).collect();
        entries.retain(|entry| entry.is_success() && !entry.is_dry_run());
        for entry in &in_order(entries) {
            match (entry.text("/verb"), entry.resource().as_str()) {
                ("list", "nodeextendedresources" | "pods") if entry.is_program() => self.listed(entry),
                ("get" | "list" | "watch", _) => {}
                (_, "nodes" | "nodes/status") => self.node_written(entry),
                (verb, "nodeextendedresources") => self.rule_written(verb, entry),
                ("delete", "customresourcedefinitions") => self.rules_changed(entry, Changed::All(Vec::new())),
                (_, "leases") => self.lease_written(entry),
                (verb, "pods" | "pods/binding" | "pods/status") => self.pod_written(verb, entry),
                _ => {}
            }
        }
        // Requests that change nothing have the version of an earlier one.
        self.versions.sort_by_key(|version| (version.at, version.writer.end));
        self.versions.dedup_by(|other, first| {
            let is_same = other.at == first.at;
            if is_same && first.writer.is_program && other.writer.begin < first.writer.end {
                // Either may have written it. It counts in the program's favor.
                std::mem::swap(&mut first.writer, &mut other.writer);
            }
            is_same
        });
    }

    /// A deletion that waits for finalizers writes the node, too.
    fn node_written(&mut self, entry: &Entry) {
        if entry.response()["kind"] == "Node" {
            // Tests write other things with the program's client.
            let is_program = entry.is_program() && entry.text("/requestURI").contains(FIELD_MANAGER);
            let client = entry.client();
            let writer = Writer { client, is_program, begin: entry.begin(), end: entry.end() };
            self.add_version(entry.response(), writer);
        }
    }

    fn add_version(&mut self, node: &Value, writer: Writer) {
        let at = (self.era, audit::version_of(node).unwrap_or_default());
        self.versions.push(Version { at, node: Arc::new(node.clone()), writer });
    }

    fn rule_written(&mut self, verb: &str, entry: &Entry) {
        let change = match (verb, entry.text("/objectRef/name")) {
            ("deletecollection", _) => Changed::All(Vec::new()),
            ("delete", name) => Changed::Deleted(name.to_owned()),
            _ => Changed::Written(Arc::new(entry.response().clone())),
        };
        self.rules_changed(entry, change);
    }

    fn rules_changed(&mut self, entry: &Entry, change: Changed) {
        self.rules.push(RuleChange { begin: entry.begin(), end: entry.end(), change });
    }

    fn lease_written(&mut self, entry: &Entry) {
        let name = |pointer| entry.text(pointer);
        let lease = match name("/objectRef/name") {
            "" => entry.response()["metadata"]["name"].as_str().unwrap_or_default(),
            name => name,
        };
        let lease = format!("{}/{lease}", name("/objectRef/namespace"));
        let holder = match name("/verb") {
            "delete" | "deletecollection" => "",
            _ => entry.response()["spec"]["holderIdentity"].as_str().unwrap_or_default(),
        };
        let current = self.terms.iter_mut().rfind(|term| term.lease == lease && term.end.is_none());
        if current.as_ref().is_some_and(|term| term.holder == holder) {
            return;
        }
        if let Some(term) = current {
            term.end = Some(entry.end());
        }
        if entry.is_program() && !holder.is_empty() {
            let (holder, client) = (holder.to_owned(), entry.client());
            self.terms.push(Term { lease, holder, client, begin: entry.begin(), end: None });
        }
    }

    fn listed(&mut self, entry: &Entry) {
        let uri = entry.text("/requestURI").replace("%21", "!").replace("%3D", "=").replace("%2C", ",");
        self.lists.push(List { client: entry.client(), begin: entry.begin(), uri });
    }

    fn pod_written(&mut self, verb: &str, entry: &Entry) {
        let namespace = entry.text("/objectRef/namespace").to_owned();
        let name = match entry.text("/objectRef/name") {
            "" => entry.response()["metadata"]["name"].as_str().unwrap_or_default(),
            name => name,
        };
        let key = (namespace, name.to_owned());
        let is_binding = entry.resource() == "pods/binding";
        let written = entry.response();
        let is_over = matches!(written["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let current = self.pods.iter_mut().rfind(|pod| pod.key == key && pod.until.is_none());
        match (verb, current) {
            ("deletecollection", _) => {
                let pods = self.pods.iter_mut().filter(|pod| pod.key.0 == key.0);
                pods.for_each(|pod| _ = pod.until.get_or_insert(entry.begin()));
            }
            ("create", Some(pod)) if is_binding => {
                pod.node = entry.request()["target"]["name"].as_str().map(str::to_owned);
                pod.since = entry.end();
            }
            ("create", _) if !is_binding => {
                let node = written["spec"]["nodeName"].as_str().map(str::to_owned);
                let (since, object) = (entry.end(), written.clone());
                self.pods.push(Pod { key, node, since, until: None, started: None, object });
            }
            (_, Some(pod)) if is_over || verb == "delete" => pod.until = Some(entry.begin()),
            (_, Some(pod)) if pod.started.is_none() && pods::has_started(written) => {
                pod.started = Some(entry.end());
            }
            _ => {}
        }
    }

    /// Returns the story of each violation.
    pub(super) fn violations(&self) -> Vec<String> {
        let mut of_node: BTreeMap<&str, Vec<&Version>> = BTreeMap::new();
        for version in &self.versions {
            let uid = version.node["metadata"]["uid"].as_str().unwrap_or_default();
            of_node.entry(uid).or_default().push(version);
        }
        let mut violations = Vec::new();
        for versions in of_node.values() {
            let history: Vec<_> = versions.iter().map(|version| Arc::clone(&version.node)).collect();
            for (number, pair) in versions.windows(2).enumerate() {
                let [before, after] = pair else { continue };
                if after.writer.is_program && before.at.0 == after.at.0 {
                    let earlier = history.get(..=number).unwrap_or_default();
                    violations.extend(self.violation(before, after, earlier));
                }
            }
        }
        violations
    }

    fn violation(&self, before: &Version, after: &Version, history: &[Arc<Value>]) -> Option<String> {
        let knowledge = self.knowledge(&after.writer, &Concern::of([&before.node, &after.node]));
        let mut labels: Vec<_> = history.iter().map(|node| node["metadata"]["labels"].clone()).collect();
        labels.dedup();
        let name = before.node["metadata"]["name"].as_str().unwrap_or_default();
        let [least, most] = [Bound::Least, Bound::Most].map(|bound| self.usage(&after.writer, name, bound));
        let write = NodeWrite {
            before: &before.node,
            after: &after.node,
            right: knowledge.right,
            known: &knowledge.rules,
            labels: &labels,
            was_seen: false,
            history,
            keeps_condition: false,
            pods: least.as_ref(),
            most_pods: most.as_ref(),
        };
        let is_unknown = |resource: &str| {
            knowledge.rules.iter().flatten().any(|rule| {
                let from = &rule["spec"]["quantityFrom"];
                rule["spec"]["resourceName"] == resource && !from.is_null() && from["nodeLabel"].is_null()
            })
        };
        if write.changes().iter().any(|change| is_unknown(&change.resource)) {
            return None;
        }
        write.check().err().map(|violation| story::describe(&violation, before, after, &knowledge))
    }

    /// Returns what a process may do, and know of the rules that concern a node.
    fn knowledge(&self, writer: &Writer, concern: &Concern) -> Knowledge {
        let terms = self.terms.iter().filter(|term| term.client == writer.client);
        let mut terms = terms.filter(|term| term.begin <= writer.end && term.end.is_none_or(|end| end >= writer.begin));
        // A command of the administrator, such as `prune`, removes what ledgers record, whatever the rules declare. It
        // needs no Lease with `--force`.
        let is_command = writer.client == crate::credentials::ADMIN;
        let Some(term) = terms.next().filter(|_| !is_command) else {
            let right = if is_command { Right::All } else { Right::Resets };
            return Knowledge { right, rules: Vec::new() };
        };
        if term.holder.starts_with("prune_") {
            return Knowledge { right: Right::All, rules: Vec::new() };
        }
        let lists = self.lists.iter().filter(|list| list.client == writer.client && list.uri.starts_with(RULES));
        let listed = lists.filter(|list| list.begin >= term.begin && list.begin <= writer.end).map(|list| list.begin);
        let (right, since) = match listed.min() {
            Some(since) => (Right::All, since),
            None => (Right::Repairs, Timestamp::MIN),
        };
        Knowledge { right, rules: self.states_of_rules(since, writer.end, concern) }
    }

    /// Returns the rules that concern a node at each moment from the last one before `since` until `end`.
    fn states_of_rules(&self, since: Timestamp, end: Timestamp, concern: &Concern) -> Vec<Vec<Arc<Value>>> {
        let changes: Vec<_> = self.rules.iter().filter(|change| change.begin <= end).collect();
        let first = changes.iter().rposition(|change| change.end <= since);
        let mut rules = BTreeMap::new();
        let mut states = if first.is_none() { vec![Vec::new()] } else { Vec::new() };
        for (place, RuleChange { change, .. }) in changes.into_iter().enumerate() {
            let is_new = match change {
                Changed::All(all) => {
                    let concerning = all.iter().filter(|rule| concern.has(rule));
                    rules = concerning.map(|rule| (name(rule), Arc::clone(rule))).collect();
                    true
                }
                Changed::Written(rule) if concern.has(rule) => {
                    rules.insert(name(rule), Arc::clone(rule));
                    true
                }
                Changed::Written(rule) => rules.remove(&name(rule)).is_some(),
                Changed::Deleted(name) => rules.remove(name).is_some(),
            };
            if first == Some(place) || is_new && first.is_none_or(|first| first < place) {
                states.push(rules.values().cloned().collect());
            }
        }
        states
    }

    /// Returns a bound of what a process may think is requested on a node, if it has begun to watch pods.
    fn usage(&self, writer: &Writer, node: &str, bound: Bound) -> Option<Usage> {
        let is_watch = |list: &List| list.client == writer.client && list.uri.contains("/pods");
        self.lists.iter().find(|list| is_watch(list) && list.begin <= writer.end)?;
        let lag = |time: Timestamp| writer.begin.duration_since(time);
        let mut usage = Usage::default();
        for pod in self.pods.iter().filter(|pod| pod.node.as_deref() == Some(node)) {
            let is_known = match bound {
                Bound::Least => lag(pod.since) >= MAX_LAG && pod.until.is_none_or(|until| until > writer.end),
                Bound::Most => writer.end >= pod.since && pod.until.is_none_or(|until| lag(until) <= MAX_LAG),
            };
            let has_started = pod.started.is_some_and(|started| lag(started) >= MAX_LAG);
            for (resource, amount) in pods::requests(&pod.object).into_iter().filter(|_| is_known) {
                if has_started {
                    *usage.started.entry(resource.clone()).or_default() += amount;
                }
                *usage.bound.entry(resource).or_default() += amount;
            }
        }
        Some(usage)
    }
}
