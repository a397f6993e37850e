//! Requests on their way: what is lost, late or rejected.

use serde_json::Value;
use simulator::Failure;
use std::sync::Arc;
use tokio::time::Instant;

use super::checks::Sent;
use super::responses::error;
use super::story::{describe, outcome};
use super::world::{Due, Millis, World};
use crate::reconciler::effect::{Effect, Request};
use crate::reconciler::limiter::Slot;
use crate::response::request_error::RequestError;

/// How long a request waits before an overloaded API server processes it, in milliseconds.
const QUEUE_TIME: Millis = 2000;

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
    ReadNode {
        slot: Slot,
        node: Arc<str>,
        error: RequestError,
    },
    /// The Lease, after a write that makes a conflict.
    ReadLease {
        started: Instant,
    },
    /// What is under way no longer.
    Nothing,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Served,
    /// It is rejected with this code, and not served.
    Rejected(u16),
    /// It never arrives, and its sender learns nothing.
    Lost,
    /// It never arrives: the connection breaks.
    Refused,
    /// It is served, and the response is lost.
    Unanswered,
    /// It is served, and the response is an error of something in between.
    Broken,
    /// It is served long after the process has given it up, or has died.
    Late,
    /// It waits in a queue of the API server. If the process gives it up meanwhile, it is not processed.
    Queued,
}

impl World {
    pub(super) fn send(&mut self, process: usize, request: Request) {
        let Request { effect, deadline } = request;
        let line = describe(&effect);
        let name = Arc::clone(&self.processes[process].name);
        match effect {
            Effect::WriteLease(_) => {}
            Effect::TestConfinement { .. } => self.checks.tests += 1,
            _ => self.checks.requests += 1,
        }
        self.check_right(process, &effect);
        match &effect {
            Effect::TestConfinement { .. } => self.check_test(process),
            Effect::CreateEvent { event, .. } => self.event_is_sent(process, event),
            _ => {}
        }
        let sent = self.sent(process, &effect);
        let patch = match &effect {
            Effect::PatchNode { node, patch, .. } => Some((Arc::clone(node), patch.clone())),
            _ => None,
        };
        let fate = self.call(process, Call::Effect(effect), sent, deadline);
        let may_be_lost = matches!(fate, Fate::Lost | Fate::Late | Fate::Refused | Fate::Rejected(500..));
        if let Some((node, patch)) = patch.filter(|_| may_be_lost) {
            self.note_lost(&node, &patch);
        }
        self.record(|| format!("{name} {line}{}", fate.describe()));
    }

    pub(super) fn call(&mut self, process: usize, call: Call, sent: Sent, deadline: Instant) -> Fate {
        let faults = self.faults;
        let fate = if self.choices.percent(faults) { self.fate() } else { Fate::Served };
        let is_queued = self.now < self.queued_until && fate == Fate::Served;
        let fate = if is_queued { Fate::Queued } else { fate };
        self.count(fate.name());
        self.requests += 1;
        let number = self.requests;
        let expiry = self.moment(deadline, self.processes[process].stood).max(self.now + 1);
        self.at(expiry, Due::Expire(number));
        let delay = self.latency();
        match fate {
            Fate::Lost => {}
            Fate::Refused => self.after(delay, Due::Answer(number)),
            Fate::Queued => self.after(QUEUE_TIME + delay, Due::Arrive(number)),
            Fate::Late => {
                let late = self.choices.one_of(&[1000, 1, 5000, 20_000, 60_000]);
                self.at(expiry + late, Due::Arrive(number));
            }
            _ => self.after(delay, Due::Arrive(number)),
        }
        let request = InFlight { process, call, sent, fate, response: None, is_ended: false };
        self.in_flight.insert(number, request);
        fate
    }

    /// Notes a patch that has not come into force, which its process cannot know.
    fn note_lost_call(&mut self, call: &Call) {
        if let Call::Effect(Effect::PatchNode { node, patch, .. }) = call {
            self.note_lost(node, patch);
        }
    }

    /// How long a request, or its response, is under way, in milliseconds.
    fn latency(&mut self) -> u64 {
        if self.faults == 0 {
            return 1;
        }
        self.choices.one_of(&[1, 1, 1, 5, 50, 700, 1, 1, 5, 50, 700, 4_000])
    }

    fn fate(&mut self) -> Fate {
        match self.choices.below(12) {
            0 => Fate::Served,
            1 => Fate::Rejected(409),
            2 => Fate::Rejected(422),
            3 => Fate::Rejected(403),
            4 => Fate::Rejected(429),
            5 => Fate::Rejected(self.choices.one_of(&[500, 401, 404, 410, 413, 503, 504])),
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
            self.record(|| format!("a request of {name} arrives late: {}", outcome(&response)));
        }
        if matches!(request.fate, Fate::Unanswered | Fate::Broken) && response.is_err() {
            self.note_lost_call(&request.call);
        }
        match request.fate {
            Fate::Unanswered | Fate::Late => {
                if let Call::Effect(Effect::PatchNode { node, .. }) = &request.call {
                    let node = Arc::clone(node);
                    self.record(|| format!("the patch of {node} is served: {}", outcome(&response)));
                }
                if request.is_ended || self.processes[request.process].is_dead {
                    return;
                }
                request.fate = Fate::Unanswered;
            }
            Fate::Broken => {
                request.response = Some(Err(Failure::internal("the connection broke")));
                self.after(1, Due::Answer(number));
            }
            _ => {
                request.response = Some(response);
                let delay = self.latency();
                self.after(delay, Due::Answer(number));
            }
        }
        self.in_flight.insert(number, request);
    }

    /// Whether a request, but for a renewal or a dry run, is still to be served or waited for.
    pub(super) fn is_any_under_way(&self) -> bool {
        self.in_flight.values().any(|request| {
            let is_regular =
                matches!(request.call, Call::Effect(Effect::WriteLease(_) | Effect::TestConfinement { .. }));
            let is_waited_for = !request.is_ended && !self.processes[request.process].is_dead;
            request.fate == Fate::Late || is_waited_for && !is_regular
        })
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
            self.record(|| format!("{name} gets an error: {error}"));
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
        let InFlight { call, sent, fate, response, .. } = request;
        // The process learns neither that it was not processed nor that it was rejected.
        if fate == Fate::Queued && !matches!(response, Some(Ok(_))) {
            self.note_lost_call(&call);
        }
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
        self.record(|| format!("{name} waits for a response no longer"));
        let result = Err(RequestError::Transport("no answer within 15s".to_owned()));
        self.conclude(process, call, result, sent);
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
            Self::Rejected(401) => "fault: 401",
            Self::Rejected(404) => "fault: 404",
            Self::Rejected(410) => "fault: 410",
            Self::Rejected(413) => "fault: 413",
            Self::Rejected(503) => "fault: 503",
            Self::Rejected(504) => "fault: 504",
            Self::Rejected(_) => "fault: 500",
            Self::Lost => "fault: lost on the way",
            Self::Refused => "fault: connection refused",
            Self::Unanswered => "fault: answer lost",
            Self::Broken => "fault: applied, answered 500",
            Self::Late => "fault: lands late",
            Self::Queued => "fault: queued",
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
        Effect::WriteLease(write) => Effect::WriteLease(write.clone()),
        Effect::PatchNode { slot, node, patch } => {
            Effect::PatchNode { slot: slot.clone(), node: Arc::clone(node), patch: patch.clone() }
        }
        Effect::PatchStatus { slot, rule, uid, status } => {
            let (slot, rule) = (slot.clone(), Arc::clone(rule));
            Effect::PatchStatus { slot, rule, uid: uid.clone(), status: status.clone() }
        }
        Effect::CreateEvent { slot, event } => Effect::CreateEvent { slot: slot.clone(), event: event.clone() },
        Effect::ReleaseLease(_) | Effect::TestConfinement { .. } => return Call::Nothing,
    })
}
