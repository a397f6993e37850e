//! Random operations, about half of which succeed.

mod nodes;
mod objects;

use serde_json::json;
use simulator::{Key, Kind, Subresource};

use crate::episode::SLOTS;
use crate::model::Model;
use crate::operation::{Operation, Query};

/// The existing namespaces, to which no other client writes.
pub(crate) const NAMESPACES: [&str; 2] = ["default", "other"];
const NODES: [&str; 5] = ["node-a", "node-b", "node-c", "node-d", "node-e"];
const MANAGERS: [&str; 3] = ["node-resource-advertiser", "kubelet", "kubectl"];

/// Generates an operation.
type Make = fn(&mut Generator, &Model) -> Operation;

/// The operations and their weights.
const WEIGHTS: [(u32, Make); 29] = [
    (1, Generator::denied),
    (14, Generator::controller_patch),
    (14, Generator::status_patch),
    (5, Generator::node_patch),
    (3, Generator::node_merge_patch),
    (4, Generator::node_status_merge_patch),
    (3, Generator::replace_node),
    (3, Generator::replace_node_status),
    (7, Generator::create_node),
    (2, Generator::delete_node),
    (6, Generator::create_pod),
    (4, Generator::pod_phase),
    (3, Generator::bind_pod),
    (3, Generator::delete_pod),
    (4, Generator::create_rule),
    (3, Generator::replace_rule),
    (3, Generator::rule_merge_patch),
    (5, Generator::rule_status),
    (2, Generator::delete_rule),
    (3, Generator::create_lease),
    (6, Generator::replace_lease),
    (1, Generator::delete_lease),
    (3, Generator::create_event),
    (3, Generator::get),
    (8, Generator::list),
    (5, Generator::next_page),
    (3, Generator::watch),
    (5, Generator::read_watch),
    (1, Generator::compact),
];

/// Adds the kind to objects, as every client does.
fn with_kind(mut operation: Operation) -> Operation {
    if let Operation::Create { kind, object, .. } | Operation::Replace { kind, object, .. } = &mut operation {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
    }
    operation
}

/// Chooses operations from a seed and the state of the model.
pub(crate) struct Generator {
    rng: fastrand::Rng,
    /// Whether compacted versions are unavailable at once.
    compacts: bool,
    /// The existing objects.
    present: Vec<(Kind, Key)>,
}

impl Generator {
    pub(crate) fn new(seed: u64, compacts: bool) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), compacts, present: Vec::new() }
    }

    pub(crate) fn next(&mut self, model: &Model) -> Operation {
        self.present = model.keys();
        let total: u32 = WEIGHTS.iter().map(|(weight, _)| weight).sum();
        let mut at = self.rng.u32(..total);
        for (weight, make) in WEIGHTS {
            if at < weight {
                return with_kind(make(self, model));
            }
            at -= weight;
        }
        Operation::NextPage
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.rng.usize(..items.len())].clone()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    fn manager(&mut self) -> &'static str {
        self.pick(&MANAGERS)
    }

    /// Returns an object that usually exists.
    fn key(&mut self, kind: Kind) -> Key {
        let of_kind = self.present.iter().filter(|(of, _)| *of == kind);
        let keys: Vec<_> = of_kind.map(|(_, key)| key.clone()).collect();
        if keys.is_empty() || self.chance(15) { self.any_key(kind) } else { self.pick(&keys) }
    }

    /// Returns one of a few objects, which may exist.
    fn any_key(&mut self, kind: Kind) -> Key {
        let number = self.rng.u32(1..=3);
        let name = match kind {
            Kind::Node => self.pick(&NODES).to_owned(),
            Kind::Pod => format!("pod-{}", self.rng.u32(1..=6)),
            Kind::Rule => format!("rule-{number}"),
            Kind::Lease => format!("lease-{}", self.rng.u32(1..=2)),
            _ => format!("event-{number}"),
        };
        match kind.is_namespaced() {
            true => Key::namespaced(self.pick(&NAMESPACES), name),
            false => Key::named(name),
        }
    }

    fn kind(&mut self) -> Kind {
        self.pick(&[Kind::Node, Kind::Node, Kind::Pod, Kind::Pod, Kind::Rule, Kind::Lease, Kind::Event])
    }

    fn get(&mut self, _: &Model) -> Operation {
        let kind = self.kind();
        Operation::Get { kind, key: self.key(kind) }
    }

    fn denied(&mut self, _: &Model) -> Operation {
        let kind = self.pick(&[Kind::Node, Kind::Rule, Kind::Pod]);
        let subresource = self.pick(&[Subresource::None, Subresource::Status]);
        Operation::Denied { kind, subresource, key: self.key(kind) }
    }

    fn query(&mut self, kind: Kind) -> Query {
        let mut query = Query::default();
        // The server writes its own Events in `default`, and Leases in another namespace.
        if kind == Kind::Event {
            query.namespace = Some(NAMESPACES[1]);
        } else if kind == Kind::Lease || kind.is_namespaced() && self.chance(40) {
            query.namespace = Some(self.pick(&NAMESPACES));
        }
        if self.chance(40) {
            return query;
        }
        let name = self.key(kind).name;
        let node = self.key(Kind::Node);
        query.fields = match (kind, self.rng.u32(..6)) {
            (Kind::Pod, 0 | 1) => {
                format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed")
            }
            (Kind::Pod, 2) => "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed".to_owned(),
            (Kind::Pod, 3) => "status.phase=Running".to_owned(),
            (_, 0 | 4) => format!("metadata.name={name}"),
            (_, 5) => format!("metadata.name!={name}"),
            _ => String::new(),
        };
        if query.fields.is_empty() || self.chance(10) {
            query.labels = self.pick(&["l=1", "l!=1", "l==2", "l=1,m=1", "m!=1"]).to_owned();
        }
        query
    }

    fn list(&mut self, _: &Model) -> Operation {
        let kind = self.kind();
        let at = self.chance(30).then(|| self.rng.usize(..20));
        let query = self.query(kind);
        let limit = self.pick(&[0, 1, 1, 2, 3, 500]);
        Operation::List { kind, query, limit, at }
    }

    fn next_page(&mut self, _: &Model) -> Operation {
        Operation::NextPage
    }

    fn watch(&mut self, _: &Model) -> Operation {
        let kind = self.kind();
        let after = self.rng.usize(..20);
        Operation::Watch { slot: self.rng.usize(SLOTS), kind, query: self.query(kind), after }
    }

    fn read_watch(&mut self, _: &Model) -> Operation {
        Operation::ReadWatch { slot: self.rng.usize(SLOTS) }
    }

    fn compact(&mut self, model: &Model) -> Operation {
        match self.compacts {
            true => Operation::Compact { at: self.rng.usize(..10) },
            false => self.list(model),
        }
    }
}
