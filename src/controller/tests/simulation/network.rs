//! Requests on their way: what is lost, late or rejected, and what the responses are to the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;
use simulator::{Failure, Key, Kind, ListOptions, PatchBody, Selector, Subresource, Writer};

use super::checks::Sent;
use super::process::LEASE;
use super::world::{Due, Millis, World};
use crate::cluster::lease::Written;
use crate::cluster::node_client::{PodsByNode, Reply};
use crate::cluster::requests::RequestError;
use crate::controller::effect::{Completion, Effect, PodScope, Request, RequestId};
use crate::controller::executor::status_patch;
use crate::model::api::FIELD_MANAGER;
use crate::model::pod::{Pod, Requests};

/// How much longer than one request a list may take, as the executor has it.
const MAX_LIST_TIME: Duration = Duration::from_secs(45);
const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A request that has been sent.
pub(super) struct InFlight {
    pub(super) process: usize,
    pub(super) call: Call,
    pub(super) sent: Sent,
    fate: Fate,
    response: Option<Result<Value, Failure>>,
    /// Whether the process has learnt what came of it.
    is_ended: bool,
}

/// What is asked for.
pub(super) enum Call {
    Effect(Effect),
    /// The node, after a patch that has failed since the node was not as it was seen.
    ReadNode { id: RequestId, node: Arc<str>, error: RequestError },
    /// The Lease, after a write that makes a conflict.
    ReadLease { started: tokio::time::Instant },
    /// What is under way no longer.
    Nothing,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    /// It is rejected with this code, and not served.
    Rejected(u16),
    /// It never arrives, and nobody says so.
    Lost,
    /// It never arrives: the connection breaks.
    Refused,
    /// It is served, and the response is lost.
    Unanswered,
    /// It is served, and the response is an error of something in between.
    Broken,
    /// It is served long after the process has given it up, or has died.
    Late,
}

impl World {
    pub(super) fn send(&mut self, process: usize, request: Request) {
        let Request { effect, deadline } = request;
        let is_list = matches!(effect, Effect::ListPods { .. });
        let deadline = if is_list { deadline + MAX_LIST_TIME } else { deadline };
        let line = describe(&effect);
        let name = Arc::clone(&self.processes[process].name);
        self.checks.requests += u64::from(!matches!(effect, Effect::WriteLease(_)));
        self.checks.lists += u64::from(is_list);
        self.check_right(process, &effect);
        let sent = self.sent(process);
        let fate = self.call(process, Call::Effect(effect), sent, deadline);
        self.tell(|| format!("{name} {line}{}", fate.describe()));
    }

    fn call(
        &mut self,
        process: usize,
        call: Call,
        sent: Sent,
        deadline: tokio::time::Instant,
    ) -> Fate {
        let faults = self.faults;
        let fate = if self.choices.percent(faults) { self.fate() } else { Fate::Served };
        self.count(fate.name());
        self.requests += 1;
        let number = self.requests;
        let expiry = self.moment(deadline, self.processes[process].stood).max(self.now + 1);
        self.at(expiry, Due::Expire(number));
        let delay = if faults > 0 { self.choices.one_of(&[1, 1, 1, 5, 50, 700]) } else { 1 };
        match fate {
            Fate::Lost => {}
            Fate::Refused => self.after(delay, Due::Answer(number)),
            Fate::Late => {
                let late = self.choices.one_of(&[1000, 1, 5000, 20_000, 60_000]);
                self.at(expiry + late, Due::Arrive(number));
            }
            _ => self.after(delay, Due::Arrive(number)),
        }
        let request =
            InFlight { process, call, sent, fate, response: None, is_ended: false };
        self.in_flight.insert(number, request);
        fate
    }

    fn fate(&mut self) -> Fate {
        match self.choices.below(12) {
            0 => Fate::Served,
            1 => Fate::Rejected(409),
            2 => Fate::Rejected(422),
            3 => Fate::Rejected(403),
            4 => Fate::Rejected(429),
            5 => Fate::Rejected(500),
            6 => Fate::Lost,
            7 => Fate::Refused,
            8 | 9 => Fate::Unanswered,
            10 => Fate::Broken,
            _ => Fate::Late,
        }
    }

    /// A request comes to the API server.
    pub(super) fn arrive(&mut self, number: u64) {
        let Some(mut request) = self.in_flight.remove(&number) else { return };
        let name = Arc::clone(&self.processes[request.process].name);
        let response = match request.fate {
            Fate::Rejected(code) => Err(self.rejection(code, &request.call)),
            _ => self.serve(request.process, &request.call, &request.sent),
        };
        if request.fate == Fate::Late {
            self.tell(|| format!("a request of {name} arrives late: {}", outcome(&response)));
        }
        match request.fate {
            Fate::Unanswered | Fate::Late => {
                if let Call::Effect(Effect::PatchNode { node, .. }) = &request.call {
                    let node = Arc::clone(node);
                    self.tell(|| format!("the patch of {node} is served: {}", outcome(&response)));
                }
                if request.is_ended {
                    return;
                }
            }
            Fate::Broken => {
                request.response = Some(Err(Failure::internal("the connection broke")));
                self.after(1, Due::Answer(number));
            }
            _ => {
                request.response = Some(response);
                let delay =
                    if self.faults > 0 { self.choices.one_of(&[1, 1, 1, 5, 50, 700]) } else { 1 };
                self.after(delay, Due::Answer(number));
            }
        }
        self.in_flight.insert(number, request);
    }

    /// The response comes to the process.
    pub(super) fn answer(&mut self, number: u64) {
        let Some(request) = self.in_flight.remove(&number) else { return };
        if request.is_ended {
            return;
        }
        let result = match request.response {
            Some(Ok(body)) => Ok(body),
            Some(Err(failure)) => Err(error(&failure)),
            None => Err(RequestError::Transport("the connection was refused".to_owned())),
        };
        let name = Arc::clone(&self.processes[request.process].name);
        if !matches!(request.call, Call::Effect(Effect::WriteLease(_)))
            && let Err(error) = &result
        {
            self.tell(|| format!("{name} gets an error: {error}"));
        }
        self.conclude(request.process, request.call, result, request.sent);
    }

    /// A request counts as unanswered.
    pub(super) fn expire(&mut self, number: u64) {
        let Some(request) = self.in_flight.get_mut(&number) else { return };
        if std::mem::replace(&mut request.is_ended, true) {
            return;
        }
        let process = request.process;
        let is_to_land = request.fate == Fate::Late;
        let Some(request) = self.in_flight.remove(&number) else { return };
        let InFlight { call, sent, .. } = request;
        if is_to_land {
            let copy = match &call {
                Call::Effect(effect) => copy(effect),
                _ => Call::Nothing,
            };
            let (fate, response, is_ended) = (Fate::Late, None, true);
            let sent = sent.clone();
            let late = InFlight { process, call: copy, sent, fate, response, is_ended };
            self.in_flight.insert(number, late);
        }
        let name = Arc::clone(&self.processes[process].name);
        self.tell(|| format!("{name} waits for a response no longer"));
        let result = Err(RequestError::Transport("no answer within 15s".to_owned()));
        self.conclude(process, call, result, sent);
    }

    /// Hands the process what the executor would.
    fn conclude(
        &mut self,
        process: usize,
        call: Call,
        result: Result<Value, RequestError>,
        sent: Sent,
    ) {
        let completion = match call {
            Call::Nothing => return,
            Call::ReadNode { id, node, error } => {
                let read = result.map(|body| Box::new(object(&body))).map_err(Reply::from);
                Completion::NodePatched { id, node, reply: Reply::stale(&error, read) }
            }
            Call::ReadLease { started } => {
                let found = result.ok().filter(|body| !body.is_null());
                let found = found.map(|body| Box::new(object(&body)));
                Completion::LeaseWritten { started, written: Written::Conflict, found }
            }
            Call::Effect(effect) => match effect {
                Effect::PatchNode { id, node, .. } => match result {
                    Err(error) if error.is_stale() => {
                        let deadline = self.clock(process).instant + Duration::from_secs(15);
                        let call = Call::ReadNode { id, node, error };
                        self.call(process, call, sent, deadline);
                        return;
                    }
                    Ok(body) => {
                        let reply = Reply::Patched(Box::new(object(&body)));
                        Completion::NodePatched { id, node, reply }
                    }
                    Err(error) => Completion::NodePatched { id, node, reply: error.into() },
                },
                Effect::WriteLease(_) => {
                    let started = sent.instant;
                    let written = match result {
                        Ok(body) => Written::Done(Box::new(object(&body))),
                        Err(RequestError::Transport(why)) => Written::Failed(why),
                        Err(RequestError::Api { status, .. }) => kube::Error::Api(status).into(),
                    };
                    if matches!(written, Written::Conflict) {
                        let deadline = self.clock(process).instant + Duration::from_secs(1);
                        self.call(process, Call::ReadLease { started }, sent, deadline);
                        return;
                    }
                    Completion::LeaseWritten { started, written, found: None }
                }
                Effect::ReleaseLease(_) => Completion::LeaseReleased,
                Effect::ListRules { id } => {
                    let reply = result.map(|body| objects(&body));
                    if reply.is_ok() {
                        self.rules_are_known(process, &sent);
                    }
                    Completion::RulesListed { id, reply }
                }
                Effect::ListPods { id, scope } => {
                    let reply = result.map(|body| pods_by_node(&body, &scope));
                    if reply.is_ok() {
                        self.pods_are_known(process, id);
                    }
                    Completion::PodsListed { id, scope, reply }
                }
                Effect::PatchStatus { rule, uid, status } => {
                    Completion::StatusPatched { rule, uid, result: result.map(|_| *status) }
                }
                Effect::CreateEvent(event) => {
                    Completion::EventCreated { event, result: result.map(|_| ()) }
                }
            },
        };
        self.complete(process, completion);
    }

    fn rejection(&self, code: u16, call: &Call) -> Failure {
        let key = Key::named(match call {
            Call::Effect(Effect::PatchNode { node, .. }) => &**node,
            _ => "object",
        });
        match code {
            409 => Failure::conflict(Kind::Node, &key, "the object has been modified"),
            422 => {
                let why = ("FieldValueInvalid", "status".to_owned(), "must not be so".to_owned());
                Failure::invalid(Kind::Node, &key, &[why])
            }
            403 => {
                let (user, resource) = ("system:serviceaccount:system:advertiser", "nodes/status");
                Failure::forbidden(user, "patch", resource, Kind::Node, &key)
            }
            429 => Failure::too_many_requests(3),
            _ => Failure::internal("etcdserver: request timed out"),
        }
    }

    /// Does what a request asks for.
    fn serve(&mut self, process: usize, call: &Call, sent: &Sent) -> Result<Value, Failure> {
        let writer = Writer::new(FIELD_MANAGER);
        let of = |object: Arc<Value>| (*object).clone();
        let effect = match call {
            Call::Nothing => return Ok(Value::Null),
            Call::ReadNode { node, .. } => {
                return self.server.get(Kind::Node, &Key::named(&**node)).map(of);
            }
            Call::ReadLease { .. } => {
                let lease = self.server.get(Kind::Lease, &Key::namespaced(LEASE.0, LEASE.1));
                return Ok(lease.map(of).unwrap_or_default());
            }
            Call::Effect(effect) => effect,
        };
        let served = match effect {
            Effect::WriteLease(lease) => {
                let object = serde_json::to_value(&**lease).unwrap();
                if lease.metadata.resource_version.is_some() {
                    self.server.replace(Kind::Lease, Subresource::None, object, &writer)
                } else {
                    self.server.create(Kind::Lease, object, &writer)
                }
                .map(of)
            }
            Effect::ReleaseLease(_) => Ok(Value::Null),
            Effect::ListRules { .. } if self.crd_missing => {
                Err(Failure::not_found(Kind::Rule, &Key::named("")))
            }
            Effect::ListRules { .. } => {
                let list = self.server.list(Kind::Rule, &ListOptions::default());
                list.map(|list| list.items.iter().map(|item| (**item).clone()).collect())
            }
            Effect::PatchNode { node, patch, .. } => self.serve_patch(process, node, patch, sent),
            Effect::ListPods { id, scope } => {
                let fields = match scope {
                    PodScope::Node(node) => format!("spec.nodeName={node},{UNFINISHED}"),
                    PodScope::Cluster => format!("spec.nodeName!=,{UNFINISHED}"),
                };
                let selector = Selector::parse(&fields, "").unwrap();
                let list =
                    self.server.list(Kind::Pod, &ListOptions { selector, ..ListOptions::default() });
                let pods = list.map(|list| list.items.iter().map(|item| (**item).clone()).collect());
                self.pods_are_listed(process, *id, scope);
                pods
            }
            Effect::PatchStatus { rule, .. } if self.crd_missing => {
                Err(Failure::not_found(Kind::Rule, &Key::named(&**rule)))
            }
            Effect::PatchStatus { rule, uid, status } => {
                let body = PatchBody::Merge(status_patch(uid.as_deref(), status));
                let key = Key::named(&**rule);
                let patched =
                    self.server.patch(Kind::Rule, Subresource::Status, &key, &body, &writer);
                if patched.is_ok() {
                    self.check_status(process, rule, status, sent);
                }
                patched.map(of)
            }
            Effect::CreateEvent(event) => {
                let created =
                    self.server.create(Kind::Event, serde_json::to_value(event).unwrap(), &writer);
                if created.is_ok() {
                    self.check_event(event);
                }
                created.map(of)
            }
        };
        self.written();
        served
    }

    fn serve_patch(
        &mut self,
        process: usize,
        node: &Arc<str>,
        patch: &json_patch::Patch,
        sent: &Sent,
    ) -> Result<Value, Failure> {
        let key = Key::named(&**node);
        if self.is_rejected(node, patch) {
            self.count("patch rejected by admission");
            let why = ("FieldValueInvalid", "status".to_owned(), "a policy".to_owned());
            return Err(Failure::invalid(Kind::Node, &key, &[why]));
        }
        let before = self.server.get(Kind::Node, &key);
        let body = PatchBody::Json(serde_json::to_value(patch).unwrap());
        let writer = Writer::new(FIELD_MANAGER);
        let after = self.server.patch(Kind::Node, Subresource::Status, &key, &body, &writer);
        let result = if after.is_ok() { "patch applied" } else { "patch stale" };
        self.count(result);
        if let (Ok(before), Ok(after)) = (before, &after) {
            self.check_node_write(process, &before, after, sent);
        }
        after.map(|object| (*object).clone())
    }
}

/// Whether admission rejects a patch of this node, or of a resource that it writes.
impl World {
    fn is_rejected(&self, node: &str, patch: &json_patch::Patch) -> bool {
        let written = |what: &str| {
            let end = format!("/{}", what.replace('/', "~1"));
            patch.0.iter().any(|operation| {
                let is_test = matches!(operation, json_patch::PatchOperation::Test(_));
                !is_test && operation.path().as_str().ends_with(&end)
            })
        };
        self.rejected.iter().any(|what| what == node || written(what))
    }
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Self::Served => "request served",
            Self::Rejected(409) => "fault: 409",
            Self::Rejected(422) => "fault: 422",
            Self::Rejected(403) => "fault: 403",
            Self::Rejected(429) => "fault: 429",
            Self::Rejected(_) => "fault: 500",
            Self::Lost => "fault: lost on the way",
            Self::Refused => "fault: connection refused",
            Self::Unanswered => "fault: answer lost",
            Self::Broken => "fault: applied, answered 500",
            Self::Late => "fault: lands late",
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Served => String::new(),
            fate => format!(" ({})", fate.name()),
        }
    }
}

/// An effect that is served after its sender has given it up.
fn copy(effect: &Effect) -> Call {
    Call::Effect(match effect {
        Effect::WriteLease(lease) => Effect::WriteLease(lease.clone()),
        Effect::PatchNode { id, node, patch } => {
            Effect::PatchNode { id: *id, node: Arc::clone(node), patch: patch.clone() }
        }
        Effect::PatchStatus { rule, uid, status } => Effect::PatchStatus {
            rule: Arc::clone(rule),
            uid: uid.clone(),
            status: status.clone(),
        },
        Effect::CreateEvent(event) => Effect::CreateEvent(event.clone()),
        Effect::ReleaseLease(_) | Effect::ListRules { .. } | Effect::ListPods { .. } => {
            return Call::Nothing;
        }
    })
}

fn object<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn objects<T: DeserializeOwned>(list: &Value) -> Vec<T> {
    list.as_array().into_iter().flatten().map(object).collect()
}

fn pods_by_node(list: &Value, scope: &PodScope) -> PodsByNode {
    let pods: Vec<Pod> = objects(list);
    let mut nodes: HashMap<Arc<str>, Requests> = HashMap::new();
    if let PodScope::Node(node) = scope {
        nodes.insert(Arc::clone(node), Requests::default());
    }
    for pod in &pods {
        if let Some(node) = pod.node() {
            nodes.entry(node.into()).or_default().add_pod(pod);
        }
    }
    nodes
}

/// An error as the client reads it from the response.
fn error(failure: &Failure) -> RequestError {
    let mut headers = HeaderMap::new();
    if let Some(seconds) = failure.retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    let body = serde_json::to_vec(&failure.status).unwrap();
    RequestError::from_response(StatusCode::from_u16(failure.code).unwrap(), &headers, &body)
}

pub(super) fn status_of(failure: &Failure) -> Box<Status> {
    Box::new(object(&failure.status))
}

fn outcome(response: &Result<Value, Failure>) -> String {
    match response {
        Ok(_) => "done".to_owned(),
        Err(failure) => format!("{}: {}", failure.code, failure.message()),
    }
}

fn describe(effect: &Effect) -> String {
    let holder = |lease: &Lease| {
        lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default()
    };
    match effect {
        Effect::WriteLease(lease) => format!("writes the Lease as {}", holder(lease)),
        Effect::ReleaseLease(_) => "releases the Lease".to_owned(),
        Effect::ListRules { .. } => "lists the rules".to_owned(),
        Effect::PatchNode { node, patch, .. } => {
            format!("sends a patch of {node}: {}", show_patch(patch))
        }
        Effect::ListPods { scope: PodScope::Node(node), .. } => format!("lists the pods of {node}"),
        Effect::ListPods { .. } => "lists all pods".to_owned(),
        Effect::PatchStatus { rule, status, .. } => {
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            let ready = ready.map(|ready| format!("{} {}: {}", ready.status, ready.reason, ready.message));
            format!("writes the status of {rule}: Ready={}", ready.unwrap_or_default())
        }
        Effect::CreateEvent(event) => {
            format!("reports {}: {}", event.reason.as_deref().unwrap_or_default(), event.note.as_deref().unwrap_or_default())
        }
    }
}

/// A patch without its tests, for a story.
fn show_patch(patch: &json_patch::Patch) -> String {
    let operations = patch.0.iter().filter_map(|operation| {
        let path = operation.path().as_str();
        let path = path.trim_start_matches("/status/").replace("example.com~1", "");
        match operation {
            json_patch::PatchOperation::Add(add) => Some(format!("{path} = {}", add.value)),
            json_patch::PatchOperation::Remove(_) => Some(format!("without {path}")),
            _ => None,
        }
    });
    operations.collect::<Vec<_>>().join(", ")
}

/// How long a process pauses at most.
pub(super) const LONG: Millis = 40_000;
