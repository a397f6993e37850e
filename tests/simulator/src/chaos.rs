//! Random fates, from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;

use crate::failure::Failure;
use crate::fate::{Fate, Fates, Flaw, WatchEnd};
use crate::http::{Call, Verb, not_served, plain_text};
use crate::kind::Kind;

/// Maximum delay of a request.
const MAX_LATENESS: Duration = Duration::from_secs(90);

/// One in this number of requests fails. Each client has its own random numbers, so that clients do not influence
/// one another.
#[derive(Clone, Debug)]
pub struct Chaos {
    seed: u64,
    one_in: u32,
    dice: BTreeMap<String, Rng>,
}

impl Chaos {
    /// One in this number of requests fails; watches, which are few, fail four times as often.
    #[must_use]
    pub fn new(seed: u64, one_in: u32) -> Self {
        Self { seed, one_in, dice: BTreeMap::new() }
    }
}

impl Fates for Chaos {
    fn fate(&mut self, client: &str, call: &Call, _: Duration) -> Fate {
        let Self { seed, one_in, dice } = self;
        let name = client.bytes().fold(*seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let rng = dice.entry(client.to_owned()).or_insert_with(|| Rng::with_seed(name));
        let one_in = if call.verb == Verb::Watch { one_in.div_ceil(4) } else { *one_in };
        if rng.u32(..one_in) > 0 {
            // Normal network latency.
            return Fate::Slow(Duration::from_millis(rng.u64(..8)));
        }
        if call.verb == Verb::Watch && rng.u32(..4) > 0 {
            return Fate::Flawed(flaw(rng));
        }
        match rng.u32(..12) {
            0 => Fate::Slow(lateness(rng)),
            1 | 2 => Fate::Late(lateness(rng)),
            3 | 4 => Fate::Failed(failure(rng, call)),
            5 => Fate::DoneAndFailed(server_failure(rng)),
            6 => Fate::Refused,
            7 => Fate::Lost,
            8 => Fate::Unanswered,
            9 => Fate::Reset,
            10 => Fate::Cut,
            _ => Fate::Stalled,
        }
    }
}

/// Usually short, occasionally longer than any client waits.
fn lateness(rng: &mut Rng) -> Duration {
    let limit = [500, 5_000, 20_000, MAX_LATENESS.as_millis() as u64][rng.usize(..4)];
    Duration::from_millis(rng.u64(1..limit))
}

fn flaw(rng: &mut Rng) -> Flaw {
    let ends = [WatchEnd::Closed, WatchEnd::Cut, WatchEnd::Silent, WatchEnd::Expired, WatchEnd::Garbage];
    let lag = if rng.bool() { lateness(rng) } else { Duration::ZERO };
    Flaw { lag, lasts: Duration::from_millis(rng.u64(..60_000)), end: ends[rng.usize(..ends.len())] }
}

fn failure(rng: &mut Rng, call: &Call) -> Failure {
    let by_admission = |code: u16| {
        let message = "admission webhook \"policy.example.com\" denied the request: not now";
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "code": code,
        });
        Failure { code, status, retry_after: None }
    };
    match (call.verb, rng.u32(..6)) {
        (Verb::List | Verb::Watch, 0) if call.kind != Kind::Node && call.kind != Kind::Pod => not_served(),
        (Verb::List | Verb::Watch, 1) => {
            Failure::forbidden("simulated", "list", call.kind.plural(), call.kind, &call.key)
        }
        (Verb::List, 2) => Failure::expired("The provided continue parameter is too old."),
        (Verb::Replace | Verb::Patch | Verb::Create, 0) => by_admission(403),
        (Verb::Replace | Verb::Patch, 1) => Failure::conflict(call.kind, &call.key, "the object has been modified"),
        (Verb::Patch, 2) if call.kind == Kind::Node => {
            let right = "nodes/status";
            Failure::forbidden("simulated", "patch", right, call.kind, &call.key)
        }
        (_, 0..=3) => Failure::too_many_requests(rng.u32(1..8)),
        _ => server_failure(rng),
    }
}

fn server_failure(rng: &mut Rng) -> Failure {
    match rng.u32(..3) {
        0 => Failure::internal("etcdserver: request timed out"),
        1 => plain_text(503, "upstream connect error or disconnect/reset before headers"),
        _ => plain_text(504, ""),
    }
}
