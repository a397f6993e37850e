//! What the API server makes of requests.

use std::sync::Arc;

use serde_json::{Value, json};
use simulator::{Failure, Key, Kind, PatchBody, Subresource, Writer, plain_text};

use super::checks::Sent;
use super::network::Call;
use super::process::LEASE;
use super::world::World;
use crate::model::api::FIELD_MANAGER;
use crate::reconciler::effect::Effect;
use crate::reconciler::status::status_patch;

/// A rejection with this code and reason.
pub(super) fn of_code(code: u16, reason: &str, message: &str) -> Failure {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    Failure { code, status, retry_after: None }
}

impl World {
    pub(super) fn rejection(&self, code: u16, call: &Call) -> Failure {
        let key = Key::named(match call {
            Call::Effect(Effect::PatchNode { node, .. }) => &**node,
            _ => "object",
        });
        // A status is rejected so for good, since its rule has not the CRD's shape: here all rules have.
        let is_status = matches!(call, Call::Effect(Effect::PatchStatus { .. }));
        match code {
            422 if is_status => Failure::internal("etcdserver: request timed out"),
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
            // Of something between the process and the API server.
            404 => plain_text(404, "404 page not found\n"),
            503 => plain_text(503, "upstream connect error or disconnect/reset before headers"),
            401 => of_code(401, "Unauthorized", "Unauthorized"),
            410 => Failure::expired("The provided continue parameter is too old."),
            413 => of_code(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
            504 => of_code(504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
            _ => Failure::internal("etcdserver: request timed out"),
        }
    }

    /// Does what a request asks for.
    pub(super) fn serve(&mut self, process: usize, call: &Call, sent: &Sent) -> Result<Value, Failure> {
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
            Effect::WriteLease(write) => {
                let object = serde_json::to_value(&*write.lease).unwrap();
                if write.lease.metadata.resource_version.is_some() {
                    self.server.replace(Kind::Lease, Subresource::None, object, &writer)
                } else {
                    self.server.create(Kind::Lease, object, &writer)
                }
                .map(of)
            }
            Effect::ReleaseLease(_) => {
                let lease = self.server.get(Kind::Lease, &Key::namespaced(LEASE.0, LEASE.1));
                let mut lease = lease.map(of).unwrap_or_default();
                if lease["spec"]["holderIdentity"] == *self.processes[process].name {
                    lease["spec"]["holderIdentity"] = Value::Null;
                    self.count("lease released");
                    let _ = self.server.replace(Kind::Lease, Subresource::None, lease, &writer);
                }
                Ok(Value::Null)
            }
            Effect::PatchNode { node, patch, .. } => self.serve_patch(process, node, patch, sent),
            Effect::PatchStatus { slot, rule, .. } if self.crd_missing => {
                Err(Failure::not_found(Kind::Rule, &Key::named(&**rule)))
            }
            Effect::PatchStatus { rule, uid, status, .. } => {
                let patch = status_patch(uid.as_deref(), status).unwrap();
                let body = PatchBody::Json(serde_json::to_value(patch).unwrap());
                let key = Key::named(&**rule);
                let patched = self.server.patch(Kind::Rule, Subresource::Status, &key, &body, &writer);
                if patched.is_ok() {
                    self.check_status(process, (rule, uid.as_deref()), status, sent);
                }
                patched.map(of)
            }
            Effect::TestConfinement { node, .. } => self.serve_test(node),
            Effect::CreateEvent { event, .. } => {
                let created = self.server.create(Kind::Event, serde_json::to_value(event).unwrap(), &writer);
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
            self.note_repeated(node, &before, after, patch);
            self.check_node_write(process, &before, after, sent);
        }
        after.map(|object| (*object).clone())
    }

    /// Whether admission rejects a patch of this node, or of a resource that it writes.
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
