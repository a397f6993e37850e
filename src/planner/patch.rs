//! The one JSON Patch (RFC 6902) that a plan comes to.
//!
//! It starts with `test` operations: the node is the one that was seen, and its ledger has not
//! changed. Where a value is put into a vacant place, adopted or removed, a `test` requires that the place
//! is as it was seen. If one does not hold, the API server answers 422 and changes nothing.

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation,
    jsonptr::{PointerBuf, Token},
};
use serde_json::{Value, json};

use super::resolve::{Mutation, same};
use crate::model::ledger::{self, InvalidLedger, Ledger};
use crate::model::node::{Node, ResourceList};
use crate::model::quantity::Quantity;

/// The patch for `/api/v1/nodes/<name>/status`.
///
/// # Errors
/// Where the ledger would become too long to be read again.
pub(super) fn patch(
    node: &Node,
    ledger: &Ledger,
    mutations: &[Mutation],
) -> Result<Patch, InvalidLedger> {
    let mut operations = vec![test(["metadata", "uid"], json!(node.uid))];
    let mut after = ledger.clone();
    let mut maps = [
        Map::new("capacity", node.capacity.as_ref()),
        Map::new("allocatable", node.allocatable.as_ref()),
    ];
    for write in mutations {
        match write {
            Mutation::Set { resource, entry, vacant } => {
                for map in &mut maps {
                    map.set(resource, &entry.quantity, *vacant);
                }
                after.insert(resource, entry.clone());
            }
            Mutation::Adopt { resource, entry } => {
                for map in &mut maps {
                    map.test(resource);
                }
                after.insert(resource, entry.clone());
            }
            Mutation::Release { resource } => after.remove(resource),
            Mutation::Remove { resource } => {
                for map in &mut maps {
                    map.remove(resource);
                }
                after.remove(resource);
            }
            Mutation::RemoveZero { resource } => {
                for map in &mut maps {
                    map.remove(resource);
                }
            }
        }
    }
    let written = after.to_annotation();
    let length = written.as_ref().map_or(0, String::len);
    if length > ledger::MAX_BYTES {
        return Err(InvalidLedger::TooLong(length));
    }
    write_ledger(&mut operations, node, written.as_deref());
    for map in maps {
        operations.extend(map.into_operations());
    }
    Ok(Patch(operations))
}

fn write_ledger(operations: &mut Vec<PatchOperation>, node: &Node, written: Option<&str>) {
    let annotation = ["metadata", "annotations", ledger::ANNOTATION];
    if node.has_annotations {
        operations.push(test(annotation, json!(node.ledger)));
    } else {
        // `add` fails where the parent is absent, and would wipe what another writer just put there.
        operations.push(test(["metadata", "annotations"], Value::Null));
        operations.push(add(["metadata", "annotations"], json!({})));
    }
    if written != node.ledger.as_deref() {
        match written {
            Some(text) => operations.push(add(annotation, json!(text))),
            None => operations.push(remove(annotation)),
        }
    }
}

/// `status.capacity` or `status.allocatable`, and what is to be done to it.
struct Map<'a> {
    name: &'static str,
    seen: Option<&'a ResourceList>,
    tests: Vec<PatchOperation>,
    changes: Vec<PatchOperation>,
}

impl<'a> Map<'a> {
    fn new(name: &'static str, seen: Option<&'a ResourceList>) -> Self {
        Self { name, seen, tests: Vec::new(), changes: Vec::new() }
    }

    fn set(&mut self, resource: &str, quantity: &str, vacant: bool) {
        let seen = self.seen.and_then(|map| map.get(resource));
        let path = ["status", self.name, resource];
        if vacant {
            self.test(resource);
        }
        let parsed = quantity.parse::<Quantity>();
        if !seen.is_some_and(|seen| parsed.is_ok_and(|quantity| same(seen, &quantity))) {
            self.changes.push(add(path, json!(quantity)));
        }
    }

    /// Has the patch require that nobody has changed the value meanwhile.
    fn test(&mut self, resource: &str) {
        // A map that is absent is tested as a whole.
        if let Some(seen) = self.seen {
            let path = ["status", self.name, resource];
            self.tests.push(test(path, json!(seen.get(resource))));
        }
    }

    /// Removes the value that was seen. Where there was none the patch requires that there is none: a
    /// value that nobody lists would be left behind otherwise.
    fn remove(&mut self, resource: &str) {
        self.test(resource);
        if self.seen.is_some_and(|map| map.get(resource).is_some()) {
            self.changes.push(remove(["status", self.name, resource]));
        }
    }

    fn into_operations(mut self) -> impl Iterator<Item = PatchOperation> {
        if self.seen.is_none() && !self.changes.is_empty() {
            let path = ["status", self.name];
            self.tests.push(test(path, Value::Null));
            self.tests.push(add(path, json!({})));
        }
        self.tests.into_iter().chain(self.changes)
    }
}

/// A JSON pointer, with `~` and `/` in its tokens escaped.
fn pointer<const N: usize>(tokens: [&str; N]) -> PointerBuf {
    PointerBuf::from_tokens(tokens.map(Token::new))
}

/// `value` null asserts that the key is absent.
fn test<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    let path = pointer(path);
    PatchOperation::Test(TestOperation { path, value })
}

fn add<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    let path = pointer(path);
    PatchOperation::Add(AddOperation { path, value })
}

fn remove<const N: usize>(path: [&str; N]) -> PatchOperation {
    let path = pointer(path);
    PatchOperation::Remove(RemoveOperation { path })
}
