//! Nodes, rules and planning inputs, generated from bytes.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Result, Unstructured};
use node_resource_advertiser::model::ledger::{ANNOTATION, MAX_BYTES};
use serde_json::{Map, Value, json};

pub const NAMES: [&str; 4] = ["example.com/a", "example.com/b.1-c", "example/B_-.c", "x/y"];
/// Keys that no patch may change: native resources, and names that no resource can have.
const OTHERS: [&str; 6] = ["cpu", "hugepages-2Mi", "", "BAD name!", "a/b/c", "x.kubernetes.io/y"];
pub const MAPS: [&str; 2] = ["capacity", "allocatable"];
const VALUES: [&str; 22] = [
    "0",
    "-0",
    "0Ki",
    "1",
    "2",
    "4",
    "5",
    "1k",
    "1000",
    "1e3",
    "4.0",
    "4000m",
    "0.5",
    "0.1n",
    "-1",
    "",
    "garbage",
    "4 ",
    "8Ei",
    "9223372036854775",
    "9223372036854776",
    "1e2147483647",
];
const QUANTITIES: [&str; 8] = ["1", "2", "4", "5", "1k", "1Ki", "4000m", "9223372036854775"];
/// What rules read quantities from.
const SLOTS: &str = "slots";
const RULES: [&str; 6] = ["r0", "r1", "r2", "r3", "gone", "frozen"];
const TIMES: [&str; 3] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "yesterday"];
const MANAGERS: [&str; 4] = ["kubelet", "kubectl-patch", "node-resource-advertiser", ""];

/// A node and the input of its plan.
#[derive(Debug)]
pub struct Case {
    pub node: Value,
    pub rules: Vec<Value>,
    pub frozen: Option<i32>,
    pub circumstances: Circumstances,
}

/// The input that is not on the node.
#[derive(Arbitrary, Debug)]
pub struct Circumstances {
    pub contested: [Option<bool>; NAMES.len()],
    /// What pods request, in thousandths.
    pub pods: Pods,
    pub new_values: u8,
    pub released: [bool; NAMES.len()],
    pub moved: [bool; NAMES.len()],
    /// The changes that are sent first.
    pub first: u8,
}

#[derive(Arbitrary, Debug)]
pub enum Pods {
    NotFetched,
    Unavailable,
    Known([u16; NAMES.len()]),
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let rules = (0..bytes.int_in_range(0..=4)?).map(|number| rule(bytes, number)).collect::<Result<_>>()?;
        let node = node(bytes)?;
        Ok(Self { node, rules, frozen: bytes.arbitrary()?, circumstances: bytes.arbitrary()? })
    }
}

fn one_of<'t>(bytes: &mut Unstructured<'_>, texts: &[&'t str]) -> Result<&'t str> {
    bytes.choose(texts).copied()
}

fn rule(bytes: &mut Unstructured<'_>, number: u8) -> Result<Value> {
    let mut spec = json!({
        "resourceName": one_of(bytes, &NAMES)?,
        "priority": bytes.int_in_range(0..=2)?,
        "deletionPolicy": one_of(bytes, &["Withdraw", "WhenUnused", "Retain"])?,
        "conflictPolicy": one_of(bytes, &["Keep", "Overwrite"])?,
        "shrinkPolicy": one_of(bytes, &["WhenFree", "Immediate"])?,
    });
    match bytes.int_in_range(0..=6)? {
        6 => spec["quantityFrom"] = by_table(bytes)?,
        0 => spec["quantityFrom"] = derived(bytes, "nodeLabel", json!({"key": SLOTS}))?,
        1 => spec["quantityFrom"] = derived(bytes, "nodeAnnotation", json!({"key": SLOTS}))?,
        2 => spec["quantityFrom"] = derived(bytes, "resource", json!({"name": "hugepages-2Mi", "divisor": "500m"}))?,
        _ => spec["quantity"] = json!(one_of(bytes, &QUANTITIES)?),
    }
    let (field, nodes) = match bytes.int_in_range(0..=7)? {
        0 => ("nodeNames", json!(["node-2"])),
        1 => ("nodeNames", json!(["node-1"])),
        2 => ("nodeSelector", json!({"matchLabels": {"zone": "a"}})),
        3 => ("nodeSelector", json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]})),
        _ => ("allNodes", json!(true)),
    };
    spec[field] = nodes;
    Ok(json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": format!("r{number}"), "creationTimestamp": one_of(bytes, &TIMES[..2])?},
        "spec": spec,
    }))
}

/// Returns a `quantityFrom` with this source.
fn derived(bytes: &mut Unstructured<'_>, source: &str, of: Value) -> Result<Value> {
    let from = json!({source: of, "max": one_of(bytes, &QUANTITIES)?});
    with_default(bytes, from)
}

/// Returns a `quantityFrom` with a table, some of whose values are quantities too.
fn by_table(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut values = Map::new();
    for _ in 0..bytes.int_in_range(1..=4)? {
        values.insert(
            one_of(bytes, &["", "1", "4", "4.0", "1000", "garbage"])?.to_owned(),
            json!(one_of(bytes, &QUANTITIES)?),
        );
    }
    with_default(bytes, json!({"nodeLabel": {"key": SLOTS, "values": values}}))
}

/// Adds what to do without a quantity.
fn with_default(bytes: &mut Unstructured<'_>, mut from: Value) -> Result<Value> {
    match bytes.int_in_range(0..=3)? {
        0 => from["default"] = json!(1),
        1 => from["whenMissing"] = json!("None"),
        _ => {}
    }
    Ok(from)
}

/// Adds the fields that every node has, so that a change to them is detected.
fn node(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut metadata = json!({"name": "node-1", "uid": "u/1~", "labels": {"zone": one_of(bytes, &["a", "b"])?}});
    let mut status = json!({"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "b"}});
    if bytes.arbitrary()? {
        metadata["creationTimestamp"] = json!(one_of(bytes, &TIMES)?);
    }
    if bytes.arbitrary()? {
        metadata["labels"][SLOTS] = json!(one_of(bytes, &VALUES)?);
    }
    for map in MAPS {
        if bytes.ratio(7, 8)? {
            status[map] = resources(bytes)?;
        }
    }
    if bytes.arbitrary()?
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status["allocatable"] = capacity;
    }
    let mut annotations = Map::new();
    if bytes.arbitrary()? {
        annotations.insert("other/annotation".to_owned(), json!("kept"));
        annotations.insert(SLOTS.to_owned(), json!(one_of(bytes, &VALUES)?));
    }
    if bytes.ratio(3, 4)? {
        let ledger = ledger(bytes, &mut status)?;
        annotations.insert(ANNOTATION.to_owned(), ledger.into());
    }
    if !annotations.is_empty() || bytes.arbitrary()? {
        metadata["annotations"] = annotations.into();
    }
    metadata["managedFields"] = managed_fields(bytes)?;
    Ok(json!({"kind": "Node", "metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}, "status": status}))
}

fn resources(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut resources = Map::new();
    for name in NAMES {
        if bytes.arbitrary()? {
            let values = if bytes.arbitrary()? { &VALUES[..] } else { &QUANTITIES };
            resources.insert(name.to_owned(), json!(one_of(bytes, values)?));
        }
    }
    for _ in 0..bytes.int_in_range(0..=2)? {
        resources.insert(one_of(bytes, &OTHERS)?.to_owned(), json!(one_of(bytes, &VALUES)?));
    }
    Ok(resources.into())
}

/// Usually a ledger that agrees with the values, which are set accordingly.
fn ledger(bytes: &mut Unstructured<'_>, status: &mut Value) -> Result<String> {
    let kind: u8 = bytes.int_in_range(0..=15)?;
    if kind == 0 {
        return Ok(one_of(bytes, &["", "{}", "[]", "null", r#"{"cpu":{"quantity":"4","rule":"a"}}"#])?.to_owned());
    }
    let mut ledger = Map::new();
    for name in NAMES {
        if !bytes.arbitrary::<bool>()? {
            continue;
        }
        let quantity = one_of(bytes, &QUANTITIES)?;
        let mut entry = json!({"quantity": quantity, "rule": one_of(bytes, &RULES)?});
        if bytes.arbitrary()? {
            entry["deletionPolicy"] = json!(one_of(bytes, &["Withdraw", "Retain"])?);
        }
        if bytes.arbitrary()? {
            entry["whenUnused"] = json!(bytes.arbitrary::<bool>()?);
            entry["leaving"] = json!(bytes.arbitrary::<bool>()?);
        }
        if bytes.ratio(1, 4)? {
            entry["later"] = json!({"a": [1, null, "\u{1}"]});
        }
        ledger.insert(name.to_owned(), entry);
        for map in MAPS {
            if bytes.ratio(3, 4)? && status.get(map).is_some() {
                status[map][name] = json!(quantity);
            }
        }
    }
    let mut text = Value::from(ledger.clone()).to_string();
    // Full, or almost full.
    if kind == 1
        && let Some(entry) = ledger.values_mut().next()
    {
        let left = (MAX_BYTES - 20 - text.len()).saturating_sub(bytes.int_in_range(0..=100)?);
        entry["later"] = json!("x".repeat(left));
        text = Value::from(ledger).to_string();
    }
    Ok(text)
}

fn managed_fields(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut fields = BTreeMap::<_, Value>::new();
    let only_own = bytes.arbitrary()?;
    for map in MAPS {
        for name in NAMES {
            let manager = if only_own { MANAGERS[2] } else { one_of(bytes, &MANAGERS)? };
            let of_manager = fields.entry(manager).or_insert_with(|| json!({}));
            of_manager["f:status"][format!("f:{map}")][format!("f:{name}")] = json!({});
        }
    }
    let mut entries = Vec::new();
    for (manager, fields) in fields {
        entries.push(json!({"manager": manager, "time": one_of(bytes, &TIMES)?, "fieldsV1": fields}));
    }
    Ok(entries.into())
}
