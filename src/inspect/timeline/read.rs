//! Reads what a timeline is built from: one node or all of them, and four lists, each of which may be refused on its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::api::core::v1::Event;
use kube::api::{GetParams, ListParams};
use kube::core::{DeserializeGuard, Request};
use kube::{Client, Resource as _, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

use super::records::{NodeRecord, Records, RuleObject};
use super::scope::Scope;
use crate::cluster::paging::EVENT_PAGE_SIZE;
use crate::cluster::requests::Requests;
use crate::cluster::stored::{Stored, remove_odd_times};
use crate::inspect::lists::{self, NODES, NOT_INSTALLED, is_not_served};
use crate::model::api::NodeExtendedResource;
use crate::model::label;
use crate::model::ledger::Ledger;
use crate::model::node::{ApiNode, Interner, Node};
use crate::model::spelling::closest;
use crate::planner::rules::Rule;
use crate::response::request_error::RequestError;

/// The namespace of Events about cluster-scoped objects.
const NAMESPACE: &str = "default";

/// Why the past cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("there is no {kind} {name}{}", .close.as_ref().map(|close| format!("; is it {close}?")).unwrap_or_default())]
    NotFound { kind: &'static str, name: String, close: Option<String> },
    #[error("you lack permission to {verb} {what}: ask for the verb {verb} on nodes. The server says: {why}")]
    Forbidden { verb: &'static str, what: String, why: String },
    #[error("cannot {what}: {why}")]
    Failed { what: String, why: String },
}

/// What was read about the past.
pub(crate) struct Material {
    pub(crate) records: Records,
    /// What could not be read; sentences without a period.
    pub(crate) gaps: Vec<String>,
}

/// Reads everything that the scope is about.
pub(crate) async fn material(client: &Client, scope: &Scope) -> Result<Material, ReadError> {
    let requests = lists::requests(client);
    // A name that does not exist is an error, whatever else cannot be read.
    let one = match &scope.node {
        Some(name) => Some(node(&requests, name).await?),
        None => None,
    };
    let of_node = scope.node.as_ref().map(|name| format!(",involvedObject.name={name}")).unwrap_or_default();
    let rules_path = NodeExtendedResource::url_path(&(), None);
    let (on_nodes, on_rules, rules, leases) = tokio::join!(
        events(&requests, format!("involvedObject.kind=Node{of_node}")),
        events(&requests, "involvedObject.kind=NodeExtendedResource".to_owned()),
        lists::all(&requests, &rules_path),
        lists::leases(&requests, None),
    );
    let mut gaps = Vec::new();
    let on_nodes = granted(on_nodes, &mut gaps)?;
    let on_rules = granted(on_rules, &mut gaps)?;
    gaps.dedup();
    let all = present(rules, &mut gaps)?;
    let leases = lists::granted_or_gap(leases, "leases", "which process leads since when is missing", &mut gaps);
    let leases = leases.map_err(|error| failed("list leases", &error))?;
    let names = Names::of(all.as_deref().unwrap_or_default());
    let rules = all.map(|rules| of_scope(scope, rules, one.as_ref().map(|record| &record.node), &on_nodes));
    let nodes = match one {
        Some(record) => vec![record],
        None => nodes(&requests, scope, rules.as_deref().unwrap_or_default(), &on_rules).await?,
    };
    let records = Records { nodes, rules, on_nodes, on_rules, leases };
    if gaps.is_empty() {
        exists(scope, &records, &names)?;
    }
    Ok(Material { records, gaps })
}

/// Returns the rules, or nothing and a gap if they cannot be read.
fn present(
    rules: Result<Vec<DeserializeGuard<NodeExtendedResource>>, RequestError>,
    gaps: &mut Vec<String>,
) -> Result<Option<Vec<RuleObject>>, ReadError> {
    match lists::granted(rules) {
        Ok(Ok(rules)) => Ok(Some(rules.into_iter().map(|object| rule(object, gaps)).collect())),
        Ok(Err(refusal)) => {
            gaps.push(refusal.gap("nodeextendedresources", "what happened to rules is missing"));
            Ok(None)
        }
        Err(error) if is_not_served(&error) => {
            gaps.push(NOT_INSTALLED.to_owned());
            Ok(Some(Vec::new()))
        }
        Err(error) => Err(failed("list rules", &error)),
    }
}

fn rule(object: DeserializeGuard<NodeExtendedResource>, gaps: &mut Vec<String>) -> RuleObject {
    let name: Arc<str> = object.name_any().into();
    match object.0 {
        Ok(object) => {
            let rule = Rule::new(&object).ok();
            let spec = match serde_json::to_value(&object.spec) {
                Ok(Value::Object(spec)) => spec,
                _ => Map::new(),
            };
            let conditions = object.status.unwrap_or_default().conditions;
            RuleObject { name, metadata: object.metadata, spec, conditions, rule }
        }
        Err(invalid) => {
            gaps.push(format!("rule {name} is invalid, and its conditions are missing: {}", invalid.error));
            RuleObject { name, metadata: invalid.metadata, ..RuleObject::default() }
        }
    }
}

/// Returns the rules that the scope is about. Of a node, these are the rules that select it, or that its ledger or an
/// Event on it names, which an edit may have excluded; and the rule of the scope, whose selector says why it does not.
fn of_scope(scope: &Scope, rules: Vec<RuleObject>, node: Option<&Node>, on_nodes: &[Event]) -> Vec<RuleObject> {
    let ledger = Ledger::parse(node.and_then(|node| node.ledger.as_deref())).unwrap_or_default();
    let recorded = ledger.entries().map(|(_, entry)| entry.rule.as_str());
    let related = on_nodes.iter().filter_map(|event| event.related.as_ref());
    let related = related.filter(|object| object.kind.as_deref() == Some(&*NodeExtendedResource::kind(&())));
    let named: BTreeSet<_> = recorded.chain(related.filter_map(|object| object.name.as_deref())).collect();
    let concerns = |object: &RuleObject| {
        let selects = |node: &Node| object.rule.as_ref().is_some_and(|rule| rule.selection.selects(node));
        let on_node = |node: &Node| scope.rule.is_some() || named.contains(&*object.name) || selects(node);
        scope.has_rule(&object.name, object.resource()) && node.is_none_or(on_node)
    };
    let mut rules: Vec<_> = rules.into_iter().filter(concerns).collect();
    rules.sort_by(|one, other| one.name.cmp(&other.name));
    rules
}

/// The names in the rules of a cluster.
struct Names {
    rules: BTreeSet<String>,
    resources: BTreeSet<String>,
}

impl Names {
    fn of(rules: &[RuleObject]) -> Self {
        Self {
            rules: rules.iter().map(|rule| rule.name.to_string()).collect(),
            resources: rules.iter().filter_map(RuleObject::resource).map(str::to_owned).collect(),
        }
    }
}

/// Fails if nothing has the name of the rule or resource.
fn exists(scope: &Scope, records: &Records, names: &Names) -> Result<(), ReadError> {
    let missing = |kind, name: &String, known: &BTreeSet<String>| {
        let close = closest(name, known.iter().map(String::as_str)).map(str::to_owned);
        Err(ReadError::NotFound { kind, name: name.clone(), close })
    };
    let rules = records.rules.as_deref().unwrap_or_default();
    let is_reported = |event: &Event| {
        let about = [Some(&event.involved_object), event.related.as_ref()];
        let mut about = about.into_iter().flatten().filter(|object| object.kind.as_deref() != Some("Node"));
        let rule = about.find_map(|object| object.name.as_deref());
        scope.has_event(event, rule, rules)
    };
    let is_on = |record: &NodeRecord| {
        let ledger = Ledger::parse(record.node.ledger.as_deref()).unwrap_or_default();
        let is_recorded = ledger.entries().any(|(resource, entry)| scope.has_rule(&entry.rule, Some(resource)));
        is_recorded || scope.rule.is_none() && scope.resource.as_ref().is_some_and(|name| has(&record.node, name))
    };
    let is_known = scope.is_whole_node()
        || !rules.is_empty()
        || records.nodes.iter().any(is_on)
        || records.on_nodes.iter().chain(&records.on_rules).any(is_reported);
    match (&scope.rule, &scope.resource) {
        (Some(rule), _) if !is_known && !names.rules.contains(rule) => missing("rule", rule, &names.rules),
        (None, Some(resource)) if !is_known && !names.resources.contains(resource) => {
            missing("resource", resource, &names.resources)
        }
        _ => Ok(()),
    }
}

fn has(node: &Node, resource: &str) -> bool {
    node.values(resource).iter().any(Option::is_some)
}

/// Returns the Events, or none and a gap if the cluster does not grant permission to list them.
fn granted(events: Result<Vec<Event>, RequestError>, gaps: &mut Vec<String>) -> Result<Vec<Event>, ReadError> {
    let kind = format!("events in the namespace {NAMESPACE}");
    let events = lists::granted_or_gap(events, &kind, "Events about the node and its rules are missing", gaps);
    events.map_err(|error| failed("list events", &error))
}

fn is_forbidden(error: &RequestError) -> bool {
    error.code() == Some(StatusCode::FORBIDDEN)
}

fn failed(what: &str, error: &RequestError) -> ReadError {
    ReadError::Failed { what: what.to_owned(), why: error.to_string() }
}

/// Reads a node.
async fn node(requests: &Requests, name: &str) -> Result<NodeRecord, ReadError> {
    // Another name would be another path.
    if label::is_dns_subdomain(name) {
        let request = Request::new(NODES).get(name, &GetParams::default());
        match requests.send::<Value>(request).await {
            Ok(object) => {
                return record(object, &mut Interner::default()).map_err(|error| ReadError::Failed {
                    what: format!("read the node {name}"),
                    why: error.to_string(),
                });
            }
            Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => {}
            Err(error) if is_forbidden(&error) => {
                let what = format!("the node {name}");
                return Err(ReadError::Forbidden { verb: "get", what, why: error.to_string() });
            }
            Err(error) => return Err(failed(&format!("get the node {name}"), &error)),
        }
    }
    // Without permission to list nodes, the error lacks only a suggestion.
    let names = node_names(requests).await.unwrap_or_default();
    let close = closest(name, names.iter().map(String::as_str)).map(str::to_owned);
    Err(ReadError::NotFound { kind: "node", name: name.to_owned(), close })
}

/// Reads a node as Kubernetes knows it, and as planning does.
fn record(mut object: Value, interner: &mut Interner) -> Result<NodeRecord, serde_json::Error> {
    remove_odd_times(&mut object);
    let node = Node::new(ApiNode::deserialize(&object)?, interner);
    Ok(NodeRecord { node, object: serde_json::from_value(object)? })
}

/// Reads the nodes that the scope is about: those that its rules select, and those whose ledgers or Events name what it is
/// about, or that have its resource.
async fn nodes(
    requests: &Requests,
    scope: &Scope,
    rules: &[RuleObject],
    on_rules: &[Event],
) -> Result<Vec<NodeRecord>, ReadError> {
    let of_scope = |event: &&Event| scope.has_event(event, event.involved_object.name.as_deref(), rules);
    let related = on_rules.iter().filter(of_scope).filter_map(|event| event.related.as_ref()?.name.as_deref());
    let related: BTreeSet<_> = related.collect();
    let mut interner = Interner::default();
    let mut unreadable = None;
    let concerns = |node: &Node| {
        let ledger = Ledger::parse(node.ledger.as_deref()).unwrap_or_default();
        let selects = |rule: &RuleObject| rule.rule.as_ref().is_some_and(|rule| rule.selection.selects(node));
        related.contains(&*node.name)
            || rules.iter().any(selects)
            || ledger.entries().any(|(resource, entry)| scope.has_rule(&entry.rule, Some(resource)))
            || scope.rule.is_none() && scope.resource.as_ref().is_some_and(|resource| has(node, resource))
    };
    let keep = |mut object: Value| {
        // The largest part of a node, of no use here.
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("images");
        }
        match record(object, &mut interner) {
            Ok(record) => Some(record).filter(|record| concerns(&record.node)),
            Err(error) => {
                unreadable.get_or_insert(error);
                None
            }
        }
    };
    let all = lists::list(requests, NODES, ListParams::default(), keep).await;
    match (all, unreadable) {
        (Err(error), _) if is_forbidden(&error) => {
            Err(ReadError::Forbidden { verb: "list", what: "nodes".to_owned(), why: error.to_string() })
        }
        (Err(error), _) => Err(failed("list nodes", &error)),
        (Ok(_), Some(error)) => Err(ReadError::Failed { what: "read the nodes".to_owned(), why: error.to_string() }),
        (Ok(nodes), None) => Ok(nodes),
    }
}

async fn node_names(requests: &Requests) -> Result<Vec<String>, RequestError> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }

    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }

    lists::list(requests, NODES, ListParams::default(), |named: Named| Some(named.metadata.name)).await
}

async fn events(requests: &Requests, selector: String) -> Result<Vec<Event>, RequestError> {
    let params = ListParams::default().fields(&selector).limit(EVENT_PAGE_SIZE);
    lists::list(requests, &Event::url_path(&(), Some(NAMESPACE)), params, |Stored(event)| Some(event)).await
}
