//! What responses are to a process: by the conversions that the executor uses.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use kube::core::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;
use simulator::Failure;

use super::checks::Sent;
use super::network::Call;
use super::world::World;
use crate::election::Written;
use crate::reconciler::effect::{Completion, Effect, WrittenStatus};
use crate::reconciler::rules::ObservedStatus;
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;

impl World {
    /// Hands the process what the executor would.
    pub(super) fn conclude(&mut self, process: usize, call: Call, result: Result<Value, RequestError>, sent: Sent) {
        let completion = match call {
            Call::Nothing => return,
            Call::ReadNode { slot, node, error } => {
                self.patch_failed(process, &node);
                let read = result.map(|body| Box::new(object(&body))).map_err(Reply::from);
                Completion::NodePatched { slot, node, reply: Reply::stale(&error, read) }
            }
            Call::ReadLease { started } => {
                let found = result.ok().filter(|body| !body.is_null());
                let found = found.map(|body| Box::new(object(&body)));
                Completion::LeaseWritten { started, written: Written::Conflict, found }
            }
            Call::Effect(effect) => match effect {
                Effect::PatchNode { slot, node, .. } => match result {
                    Err(error) if error.is_stale() => {
                        let deadline = self.clock(process).instant + Duration::from_secs(15);
                        let call = Call::ReadNode { slot, node, error };
                        self.call(process, call, sent, deadline);
                        return;
                    }
                    Ok(body) => {
                        self.confirm_events(process, &body);
                        let reply = Reply::Patched(Box::new(object(&body)));
                        Completion::NodePatched { slot, node, reply }
                    }
                    Err(error) => {
                        self.patch_failed(process, &node);
                        Completion::NodePatched { slot, node, reply: error.into() }
                    }
                },
                Effect::WriteLease(_) => {
                    let started = sent.instant;
                    let written = match result {
                        Ok(body) => {
                            self.lease_is_renewed(process, &sent);
                            Written::Done(Box::new(object(&body)))
                        }
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
                Effect::PatchStatus { slot, rule, uid, status } => {
                    let written = |body: Value| {
                        let version = body["metadata"]["resourceVersion"].as_str();
                        let status = ObservedStatus::new(&status);
                        WrittenStatus { status, version: version.and_then(|version| version.parse().ok()) }
                    };
                    Completion::StatusPatched { slot, rule, uid, result: result.map(written) }
                }
                Effect::CreateEvent { slot, event } => {
                    Completion::EventCreated { slot, event, result: result.map(|_| ()) }
                }
                Effect::TestConfinement { number, .. } => {
                    Completion::ConfinementTested { number, reply: result.map(|_| ()) }
                }
            },
        };
        self.complete(process, completion);
    }
}

pub(super) fn object<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// An error as the client reads it from the response.
pub(super) fn error(failure: &Failure) -> RequestError {
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
