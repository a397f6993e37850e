//! The JSON Patch (RFC 6902) of a plan.
//!
//! The patch starts with `test` operations: the node is the observed one, and its ledger is unchanged. If a value is
//! added, adopted or removed, a `test` also requires that the observed values are unchanged. If a test fails, the API
//! server responds with 422 and changes nothing.

use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation,
    jsonptr::{PointerBuf, Token},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::change::{Change, Condition, Edit, LedgerEdit, ResourceEdit, ValueEdit};
use super::observed::same;
use crate::model::ledger::{self, InvalidLedger, Ledger};
use crate::model::node::{CONDITION_TYPE, First, Node, ResourceList};
use crate::model::quantity::Quantity;

/// Returns the JSON Patch for `/api/v1/nodes/<name>/status` with these changes: all or some of the changes planned for
/// this state of the node. Each change keeps values and ledger consistent, so that changes can be sent one by one, each
/// planned after the previous one.
///
/// # Errors
/// If the node's ledger cannot be read, or would become too long to be read again.
pub fn patch(node: &Node, changes: &[Change]) -> Result<Patch, InvalidLedger> {
    let discards = changes.iter().any(Change::discards_ledger);
    // A ledger that cannot be read stays as it is, and does not keep the condition from being written.
    let keeps = !changes.is_empty() && changes.iter().all(Change::is_of_condition);
    let before = if discards || keeps { None } else { Some(Ledger::parse(node.ledger.as_deref())?) };
    let mut after = before.clone().unwrap_or_default();
    let mut maps = [Map::new("capacity", node.capacity.as_ref()), Map::new("allocatable", node.allocatable.as_ref())];
    let mut of_condition = Vec::new();
    for change in changes {
        let resource = change.name();
        let ResourceEdit { ledger, value, guarded } = match &change.edit {
            Edit::Resource(edit) => edit,
            Edit::SetCondition(condition, time) => {
                of_condition.extend(set_condition(node, condition, *time));
                continue;
            }
            Edit::RemoveCondition => {
                of_condition.extend(remove_condition(node));
                continue;
            }
        };
        match ledger {
            LedgerEdit::Keep | LedgerEdit::Discard => {}
            LedgerEdit::Record(entry) => after.insert(resource, entry.clone()),
            LedgerEdit::Forget => after.remove(resource),
        }
        for map in &mut maps {
            if *guarded {
                map.test(resource);
            }
            match value {
                ValueEdit::Keep => {}
                ValueEdit::Write(quantity) => map.write(resource, quantity),
                ValueEdit::Remove => map.remove(resource),
            }
        }
    }
    let mut operations = vec![test(["metadata", "uid"], json!(node.uid))];
    // An annotation with the same entries stays, in any spelling.
    let is_edited = !keeps && before.is_none_or(|before| before != after);
    write_ledger(&mut operations, node, is_edited.then_some(&after))?;
    for map in maps {
        operations.extend(map.into_operations());
    }
    operations.extend(of_condition);
    Ok(Patch(operations))
}

fn write_ledger(
    operations: &mut Vec<PatchOperation>,
    node: &Node,
    edited: Option<&Ledger>,
) -> Result<(), InvalidLedger> {
    let annotation = ["metadata", "annotations", ledger::ANNOTATION];
    let written = edited.and_then(Ledger::to_annotation);
    if let Some(text) = &written
        && text.len() > ledger::MAX_BYTES
    {
        return Err(InvalidLedger::TooLong(text.len()));
    }
    if node.has_annotations {
        operations.push(test(annotation, json!(node.ledger)));
    } else {
        operations.push(test(["metadata", "annotations"], Value::Null));
    }
    match written {
        Some(text) => {
            // `add` fails if the parent is absent, and would replace an existing parent.
            if !node.has_annotations {
                operations.push(add(["metadata", "annotations"], json!({})));
            }
            operations.push(add(annotation, json!(text)));
        }
        None if edited.is_some() && node.ledger.is_some() => operations.push(remove(annotation)),
        None => {}
    }
    Ok(())
}

/// `status.capacity` or `status.allocatable`, with the operations on it.
struct Map<'a> {
    name: &'static str,
    seen: Option<&'a ResourceList>,
    /// Whether the patch requires that the whole map is absent.
    is_absent: bool,
    tests: Vec<PatchOperation>,
    changes: Vec<PatchOperation>,
}

impl<'a> Map<'a> {
    fn new(name: &'static str, seen: Option<&'a ResourceList>) -> Self {
        Self { name, seen, is_absent: false, tests: Vec::new(), changes: Vec::new() }
    }

    /// Writes a value even if it equals the observed number, in the observed spelling: another client may have changed
    /// it since, and the ledger covers both maps.
    fn write(&mut self, resource: &str, quantity: &str) {
        let parsed = quantity.parse::<Quantity>();
        let is_same = |seen: &&str| parsed.as_ref().is_ok_and(|quantity| same(seen, *quantity));
        let seen = self.seen.and_then(|map| map.get(resource)).filter(is_same);
        self.changes.push(add(["status", self.name, resource], json!(seen.unwrap_or(quantity))));
    }

    /// Adds a test that the value is unchanged or still absent: otherwise a value without a ledger entry could be left
    /// behind.
    fn test(&mut self, resource: &str) {
        match self.seen {
            Some(seen) => {
                let path = ["status", self.name, resource];
                self.tests.push(test(path, json!(seen.get(resource))));
            }
            // A test of a key fails if its parent is absent.
            None => self.is_absent = true,
        }
    }

    fn remove(&mut self, resource: &str) {
        if self.seen.is_some_and(|map| map.get(resource).is_some()) {
            self.changes.push(remove(["status", self.name, resource]));
        }
    }

    fn into_operations(mut self) -> impl Iterator<Item = PatchOperation> {
        let path = ["status", self.name];
        let creates = self.seen.is_none() && !self.changes.is_empty();
        if self.is_absent || creates {
            self.tests.push(test(path, Value::Null));
        }
        if creates {
            self.tests.push(add(path, json!({})));
        }
        self.tests.into_iter().chain(self.changes)
    }
}

/// Returns the operations that set the condition. It becomes the first: many read the last as `Ready`. Since the patch
/// requires that the first condition is the observed one, no condition can be there twice, even if two patches are
/// applied.
fn set_condition(node: &Node, condition: &Condition, time: Timestamp) -> Vec<PatchOperation> {
    let Some(seen) = node.conditions() else { return Vec::new() };
    let (status, time) = (condition.status(), time.to_string());
    let Some(own) = &seen.own else {
        let object = json!({
            "type": CONDITION_TYPE,
            "status": status,
            "reason": condition.reason.as_str(),
            "message": condition.message,
            "lastHeartbeatTime": time,
            "lastTransitionTime": time,
        });
        let list = ["status", "conditions"];
        return match &seen.first {
            First::Absent => vec![test(list, Value::Null), add(list, json!([object]))],
            First::Nothing => vec![test(list, json!([])), add(list, json!([object]))],
            First::Type(kind) => {
                vec![
                    test(["status", "conditions", "0", "type"], json!(kind)),
                    add(["status", "conditions", "0"], object),
                ]
            }
        };
    };
    let place = own.place.to_string();
    let at = |field| ["status", "conditions", &place, field];
    let mut operations = vec![test(at("type"), json!(CONDITION_TYPE)), test(at("status"), json!(own.status))];
    let fields = [
        ("status", status),
        ("reason", condition.reason.as_str()),
        ("message", &condition.message),
        ("lastHeartbeatTime", &time),
    ];
    operations.extend(fields.map(|(field, text)| add(at(field), json!(text))));
    if *own.status != *status {
        operations.push(add(at("lastTransitionTime"), json!(time)));
    }
    operations
}

/// Returns the operations that remove the condition.
fn remove_condition(node: &Node) -> Vec<PatchOperation> {
    let Some(own) = node.conditions().and_then(|seen| seen.own.as_ref()) else { return Vec::new() };
    let place = own.place.to_string();
    let path = ["status", "conditions", &place];
    vec![test(["status", "conditions", &place, "type"], json!(CONDITION_TYPE)), remove(path)]
}

/// Returns a JSON pointer, with `~` and `/` in its tokens escaped.
fn pointer<const N: usize>(tokens: [&str; N]) -> PointerBuf {
    PointerBuf::from_tokens(tokens.map(Token::new))
}

/// A `value` of null requires that the key is absent.
pub(crate) fn test<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    let path = pointer(path);
    PatchOperation::Test(TestOperation { path, value })
}

fn add<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    let path = pointer(path);
    PatchOperation::Add(AddOperation { path, value })
}

pub(crate) fn remove<const N: usize>(path: [&str; N]) -> PatchOperation {
    let path = pointer(path);
    PatchOperation::Remove(RemoveOperation { path })
}
