//! A sequence of operations on an empty server, and the first operation to which the two servers respond differently.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::{Cluster, ControlPlane, wait_until};
use hyper::Method;
use serde_json::{Value, json};
use simulator::Kind;

use crate::client::{Client, Message};
use crate::exchange::collection;
use crate::generator::{Generator, NAMESPACES};
use crate::model::Model;
use crate::operation::Operation;
use crate::real::{KINDS, Real, observe, observer};

/// Number of operations per episode.
pub(crate) const LENGTH: usize = 80;
/// The watches that operations open.
pub(crate) const SLOTS: Range<usize> = 0..4;
/// Maximum number of attempts to shorten a sequence.
const MAX_TRIALS: usize = 200;

/// Maximum printed length of an operation, and of an equal result.
const LONGEST_OPERATION: usize = 4_000;
const LONGEST_RESULT: usize = 160;

/// A real server and its client.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) control_plane: ControlPlane,
    /// Whether compacted versions are unavailable at once.
    pub(crate) compacts: bool,
}

/// The result of an episode.
#[derive(Default)]
pub(crate) struct Trace {
    steps: Vec<Step>,
    /// Whether the last step is a difference.
    pub(crate) differs: bool,
}

struct Step {
    operation: Operation,
    real: Value,
    model: Value,
}

/// The number of operations of each name, and how many succeeded.
pub(crate) type Counts = BTreeMap<String, (usize, usize)>;

impl World {
    pub(crate) fn start(compacts: bool) -> Result<Self> {
        let builder = ControlPlane::builder();
        let builder = if compacts { builder.without_watch_cache() } else { builder };
        let control_plane = Cluster::start_with(builder).control_plane;
        let client = Client::new()?;
        for namespace in NAMESPACES.into_iter().filter(|namespace| *namespace != "default") {
            let url = format!("{}/api/v1/namespaces", control_plane.url());
            let namespace = json!({"metadata": {"name": namespace}});
            let body = Some(("application/json", namespace));
            let (code, response) = client.send(Message::new(Method::POST, url, body))?;
            ensure!(code == 201, "{response}");
        }
        for kind in KINDS {
            let url = control_plane.url() + &collection(kind, None) + "?watch=true&resourceVersion=1";
            // Its cache fills after the CRD is established.
            let what = format!("watches of {}", kind.plural());
            wait_until(&what, || Ok(client.watch(url.clone())?.ok()))?;
        }
        Ok(Self { client, control_plane, compacts })
    }

    /// Runs a random episode.
    pub(crate) fn run_random(&self, seed: u64) -> Result<Trace> {
        let mut generator = Generator::new(seed, self.compacts);
        let mut left = LENGTH;
        self.run(harness::DEADLINE, |model| {
            left = left.checked_sub(1)?;
            Some(generator.next(model))
        })
    }

    /// Runs these operations.
    pub(crate) fn perform(&self, operations: &[Operation]) -> Result<Trace> {
        let mut operations = operations.iter().cloned();
        self.run(harness::DEADLINE, |_| operations.next())
    }

    fn replay(&self, operations: &[Operation]) -> Result<Trace> {
        let mut operations = operations.iter().cloned();
        self.run(Duration::from_secs(1), |_| operations.next())
    }

    /// Runs operations until none is left, or the results differ.
    fn run(&self, wait: Duration, mut next: impl FnMut(&Model) -> Option<Operation>) -> Result<Trace> {
        let mut real = Real::new(&self.client, &self.control_plane, wait)?;
        let (mut model, mut trace) = (Model::new(!self.compacts), Trace::default());
        for kind in KINDS {
            model.perform(&observe(kind));
        }
        let mut last = SLOTS.chain(KINDS.map(observer)).map(|slot| Operation::ReadWatch { slot });
        // Only watches that have shown an event. etcd synchronizes the others ten times a second, and cancels those
        // that a compaction overtakes.
        let mut shown = BTreeSet::new();
        while let Some(operation) = next(&model).or_else(|| last.next()) {
            match &operation {
                Operation::Watch { slot, .. } => drop(shown.remove(slot)),
                Operation::Compact { .. } => {
                    for slot in SLOTS.chain(KINDS.map(observer)) {
                        let read = Operation::ReadWatch { slot };
                        trace.step(read, (&mut real, &mut model), &mut shown)?;
                        if trace.differs {
                            break;
                        }
                        trace.steps.pop();
                        if SLOTS.contains(&slot) && !shown.contains(&slot) {
                            real.close(slot);
                            model.close(slot);
                        }
                    }
                }
                _ => {}
            }
            if !trace.differs {
                trace.step(operation, (&mut real, &mut model), &mut shown)?;
            }
            if trace.differs {
                break;
            }
        }
        drop(real);
        let present = model.keys();
        self.delete_all(|kind| trace.differs || present.iter().any(|(of, _)| *of == kind))?;
        Ok(trace)
    }

    fn delete_all(&self, is_there: impl Fn(Kind) -> bool) -> Result<()> {
        for kind in KINDS.into_iter().filter(|kind| is_there(*kind)) {
            let namespaces = if kind.is_namespaced() { &NAMESPACES[..] } else { &[""] };
            for namespace in namespaces {
                let url = self.control_plane.url() + &collection(kind, Some(namespace));
                let url = format!("{url}?gracePeriodSeconds=0");
                self.client.send(Message::new(Method::DELETE, url, None))?;
            }
        }
        Ok(())
    }

    /// Removes operations that the difference does not need.
    pub(crate) fn shrink(&self, trace: Trace) -> Result<Trace> {
        let mut best = trace;
        let mut trials = 0;
        let mut chunk = best.steps.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < best.steps.len() && trials < MAX_TRIALS {
                let mut fewer = best.operations();
                fewer.drain(at..(at + chunk).min(fewer.len()));
                trials += 1;
                match self.replay(&fewer)? {
                    trial if trial.differs && trial.steps.len() < best.steps.len() => best = trial,
                    _ => at += chunk,
                }
            }
            chunk /= 2;
        }
        self.shrink_patches(best)
    }

    /// Removes operations of the JSON Patches.
    fn shrink_patches(&self, mut best: Trace) -> Result<Trace> {
        let mut trials = 0;
        for step in 0..best.steps.len() {
            let length =
                |trace: &Trace| trace.steps.get(step).map_or(0, |step| step.operation.patch().map_or(0, Vec::len));
            let mut chunk = length(&best).div_ceil(2);
            while chunk > 0 {
                let mut at = 0;
                while at < length(&best) && length(&best) > chunk && trials < MAX_TRIALS {
                    let mut fewer = best.operations();
                    if let Some(patch) = fewer[step].patch_mut() {
                        patch.drain(at..(at + chunk).min(patch.len()));
                    }
                    trials += 1;
                    match self.replay(&fewer)? {
                        trial if trial.differs && trial.steps.len() <= best.steps.len() => {
                            best = trial;
                        }
                        _ => at += chunk,
                    }
                }
                chunk /= 2;
            }
        }
        Ok(best)
    }
}

impl Trace {
    /// Performs an operation on both servers.
    fn step(
        &mut self,
        operation: Operation,
        (real, model): (&mut Real<'_>, &mut Model),
        shown: &mut BTreeSet<usize>,
    ) -> Result<()> {
        let of_model = model.perform(&operation);
        let events = of_model.as_array().map_or(0, Vec::len);
        if let Operation::ReadWatch { slot } = operation
            && events > 0
        {
            shown.insert(slot);
        }
        let of_real = real.perform(&operation, events)?;
        if matches!(operation, Operation::NextPage) && of_real.is_null() && of_model.is_null() {
            // There is no next page.
            return Ok(());
        }
        self.differs |= of_real != of_model;
        self.steps.push(Step { operation, real: of_real, model: of_model });
        Ok(())
    }

    /// Returns what a watch has shown.
    pub(crate) fn shown(&self, slot: usize) -> Vec<Value> {
        let reads = self
            .steps
            .iter()
            .filter(|step| matches!(step.operation, Operation::ReadWatch { slot: read } if read == slot));
        reads.flat_map(|step| step.real.as_array().cloned().unwrap_or_default()).collect()
    }

    fn operations(&self) -> Vec<Operation> {
        self.steps.iter().map(|step| step.operation.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn count(&self, counts: &mut Counts) {
        for Step { operation, real, .. } in &self.steps {
            let (all, succeeded) = counts.entry(operation.name()).or_default();
            *all += 1;
            *succeeded += usize::from(real["code"].as_u64().is_none_or(|code| code < 400));
        }
    }

    /// Formats the operations as a numbered list, each with the servers' responses.
    pub(crate) fn report(&self) -> String {
        let mut text = String::new();
        for (number, Step { operation, real, model }) in (1..).zip(&self.steps) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number}. {}", shortened(&operation.to_string(), LONGEST_OPERATION));
            if real == model {
                let _ = writeln!(text, "     both: {}", shortened(&real.to_string(), LONGEST_RESULT));
            } else {
                let _ = writeln!(text, "     real:  {real}\n     model: {model}");
                for line in differences("", real, model) {
                    let _ = writeln!(text, "     ! {line}");
                }
            }
        }
        text
    }
}

fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the paths at which two values differ.
fn differences(path: &str, real: &Value, model: &Value) -> Vec<String> {
    match (real, model) {
        (Value::Object(left), Value::Object(right)) => {
            let names: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
            let names = names.into_iter().filter(|name| left.get(*name) != right.get(*name));
            let absent = Value::String("(absent)".to_owned());
            let of = |side: &serde_json::Map<String, Value>, name| side.get(name).unwrap_or(&absent).clone();
            names.flat_map(|name| differences(&format!("{path}.{name}"), &of(left, name), &of(right, name))).collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate().filter(|(_, (left, right))| left != right);
            pairs.flat_map(|(at, (left, right))| differences(&format!("{path}[{at}]"), left, right)).collect()
        }
        _ => vec![format!("{path}: real {real}, model {model}")],
    }
}
