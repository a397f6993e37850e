//! Random worlds: `prune` beside controllers, as its guard has them, while any request may be lost, late or cut. What it
//! reports is what has happened, and it ends.
//!
//! `SHELL_SEED`, `SHELL_SEEDS` and `SHELL_LINES` are those of the random worlds of the controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use simulator::invariants::conditions;
use simulator::{
    ApiServer, Call, Chaos, Fate, Fates, Key, Kind, ListOptions, Network, Outcome, PatchBody, Seeds, Subresource, Verb,
    Write, Writer,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::cluster::client;
use crate::cluster::clock::simulated;
use crate::controller::{self, Diagnostics};
use crate::election::Candidate;
use crate::model::ledger::ANNOTATION;
use crate::model::node::CONDITION_TYPE;
use crate::reconciler::readiness::Readiness;
use crate::reconciler::{Options, RolloutLimits};

const DEFAULT_SEEDS: u64 = 100;
const RESOURCES: [&str; 2] = ["example.com/dongle", "example.com/key"];
const MAPS: [&str; 2] = ["capacity", "allocatable"];
/// However much goes wrong, it has ended by then.
const MAX_TIME: Duration = Duration::from_secs(60 * 60);

/// Longer than it goes on trying.
const OUTAGE: Duration = Duration::from_secs(150);

struct World {
    network: Network,
    rng: fastrand::Rng,
    writes: Arc<Mutex<Writes>>,
    controllers: Vec<JoinHandle<()>>,
}

/// What becomes of requests: in an outage every patch of `prune` arrives when nobody waits for it any more.
struct Fortune {
    all: Chaos,
    is_outage: bool,
}

impl Fates for Fortune {
    fn fate(&mut self, client: &str, call: &Call, time: Duration) -> Fate {
        if self.is_outage && call.verb == Verb::Patch && client == "prune" {
            return Fate::Late(OUTAGE);
        }
        self.all.fate(client, call, time)
    }
}

/// What has been written to nodes.
#[derive(Default)]
struct Writes {
    /// By `prune`: the node and the resource that its annotation lists no more.
    pruned: BTreeMap<(String, String), usize>,
    /// The nodes that a controller has written something new to since `prune` may write.
    by_controllers: Vec<(String, bool)>,
    /// How many by `prune`.
    count: usize,
}

impl Writes {
    fn add(&mut self, write: &Write<'_>) {
        if write.call.kind != Kind::Node {
            return;
        }
        let name = write.call.key.name.clone();
        let after = write.api.get(Kind::Node, &write.call.key).unwrap();
        let nodes = [&**write.before.as_ref().unwrap(), &*after];
        let [before, after] = nodes.map(ledger);
        if write.client == "prune" {
            self.count += 1;
            if let [[_, ..], []] = nodes.map(conditions).each_ref().map(Vec::as_slice) {
                *self.pruned.entry((name.clone(), format!("condition/{CONDITION_TYPE}"))).or_default() += 1;
            }
            for resource in before.keys().filter(|resource| !after.contains_key(*resource)) {
                *self.pruned.entry((name.clone(), resource.clone())).or_default() += 1;
            }
        } else if before != after {
            self.by_controllers.push((name, matches!(write.fate, Fate::Late(_))));
        }
    }
}

fn ledger(node: &Value) -> serde_json::Map<String, Value> {
    let text = node["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or("{}");
    serde_json::from_str(text).unwrap()
}

impl World {
    fn new(seed: u64, start: Timestamp) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let one_in = [2, 3, 8, 1000][rng.usize(..4)];
        let fates = Fortune { all: Chaos::new(seed, one_in), is_outage: rng.u32(..4) == 0 };
        let outage = if fates.is_outage { "prune has an outage" } else { "no more" };
        let network = Network::new(ApiServer::default(), start, fates);
        network.note(format!("one in {one_in} requests goes wrong, and {outage}"));
        let writes = Arc::<Mutex<Writes>>::default();
        let seen = Arc::clone(&writes);
        network.on_write(move |write| seen.lock().unwrap().add(write));
        Self { network, rng, writes, controllers: Vec::new() }
    }

    /// Nodes that a controller has advertised resources on.
    async fn begin(&mut self) {
        let kubectl = Writer::new("kubectl");
        for number in 0..self.rng.usize(1..=4) {
            let amounts = json!({"cpu": "4"});
            let node = json!({
                "metadata": {"name": format!("node-{number}")},
                "spec": {}, "status": {"capacity": amounts, "allocatable": amounts},
            });
            self.network.act(|api| api.create(Kind::Node, node, &kubectl)).unwrap();
        }
        for resource in RESOURCES {
            let name = resource.replace("example.com/", "");
            let spec = json!({
                "resourceName": resource, "quantity": self.rng.u64(1..9), "allNodes": true,
                "conflictPolicy": "Overwrite",
            });
            let rule = json!({"metadata": {"name": name}, "spec": spec});
            self.network.act(|api| api.create(Kind::Rule, rule, &kubectl)).unwrap();
        }
        (0..self.rng.usize(1..=2)).for_each(|number| self.start_controller(number));
        sleep(Duration::from_secs(30)).await;
        for number in 0..self.controllers.len() {
            if self.rng.bool() {
                self.network.note(format!("controller-{number} is killed"));
                self.controllers[number].abort();
            }
        }
        sleep(Duration::from_secs(self.rng.u64(..40))).await;
    }

    fn start_controller(&mut self, number: usize) {
        let identity = format!("controller-{number}");
        let (readiness, _) = watch::channel(Readiness::default());
        let (heartbeat, _) = watch::channel(Instant::now());
        let diagnostics = Diagnostics { readiness, heartbeat, metrics: Arc::default() };
        let candidate = Candidate { name: "node-resource-advertiser".to_owned(), ..Candidate::for_test(&identity) };
        let options = Options {
            concurrency: 4,
            rollouts: RolloutLimits::NONE,
            request_timeout: Duration::from_secs(15),
            mass_withdrawal_delay: Duration::ZERO,
            confinement_test: self.rng.bool(),
            protection: crate::reconciler::ExpectedPolicy::Auto,
            node_condition: self.rng.bool(),
            max_rules_memory: 64 << 20,
            seed: self.rng.u64(..),
        };
        let client = client::over(self.network.connection(identity));
        let never = std::future::pending();
        let program = controller::run(client, candidate, options, diagnostics, never);
        self.controllers.push(tokio::spawn(async { program.await.unwrap() }));
    }

    /// Runs `prune`, and compares what it reports with what has happened.
    async fn prune(&mut self) -> Result<(), String> {
        let choices = [IfControllerActive::Refuse, IfControllerActive::Ignore, IfControllerActive::TakeOver];
        let if_active = choices[self.rng.usize(..3)];
        self.network.note(format!("prune with {if_active:?}"));
        let client = client::over(self.network.connection("prune"));
        let choice = LeaseSelector { namespace: None, name: None };
        let guard = LeaseGuard::new(&client, &choice, if_active, |_| ()).await;
        let guard = match guard {
            Ok(guard) => guard,
            Err(error) => {
                self.network.note(format!("prune: {error}"));
                self.network.count("prune is refused");
                let count = self.writes.lock().unwrap().count;
                return if count == 0 { Ok(()) } else { Err(format!("{count} writes")) };
            }
        };
        guard.wait_for_previous_holders(|_| ()).await;
        self.network.note("prune begins");
        self.writes.lock().unwrap().by_controllers.clear();
        let scope = Scope::everything();
        let target = Target { scope: scope.clone(), ..Target::default() };
        let plan = plan_prune(&client, &target, |_| ()).await;
        let mut results = Vec::new();
        let ended = match plan {
            Ok(plan) => {
                let permissions = guard.permissions();
                let done = |result: NodeResult| {
                    let checked = self.check(&result, if_active);
                    results.push((result, checked));
                };
                prune(client.clone(), scope, plan.planned, permissions, done).await
            }
            Err(error) => {
                self.network.note(format!("prune: {error}"));
                self.network.count("prune cannot plan");
                PruneEnd { at_end: AtEnd::Release, alone: Ok(()) }
            }
        };
        for (result, checked) in results {
            self.network.note(format!("prune: {result:?}"));
            self.network.count(match result.outcome {
                NodeOutcome::Pruned => "a node is pruned",
                NodeOutcome::Gone => "a node is gone",
                NodeOutcome::Failed(_) => "a node has failed",
            });
            checked?;
        }
        let by_controllers = std::mem::take(&mut self.writes.lock().unwrap().by_controllers);
        let alone = ended.alone.is_ok();
        self.network.note(format!("prune has ended: {ended:?}"));
        if if_active != IfControllerActive::Ignore
            && alone
            && let Some((node, _)) = by_controllers.iter().find(|(_, is_late)| !is_late)
        {
            return Err(format!("a controller has written to {node} while prune was alone"));
        }
        let (count, releases) = (self.writes.lock().unwrap().count, ended.at_end == AtEnd::Release);
        let leases = guard.end(ended.at_end).await;
        self.check_leases(&leases)?;
        for lease in &leases {
            self.network.note(format!("prune: {lease:?}"));
        }
        let is_bad = |end: &LeaseEnd| matches!(end, LeaseEnd::Lost | LeaseEnd::NotKept(_));
        let is_well = alone && !leases.iter().any(|lease| is_bad(&lease.end));
        let errors = report_leases(&leases, ended.alone, "kubectl");
        if errors.is_empty() != is_well {
            return Err(format!("{errors:?} for {leases:?}"));
        }
        // What lands late.
        sleep(OUTAGE + Duration::from_secs(1)).await;
        let late = self.writes.lock().unwrap().count - count;
        if releases && late > 0 && if_active != IfControllerActive::Ignore {
            return Err(format!("{late} writes after all of them were answered"));
        }
        Ok(())
    }

    /// A node has come to its end.
    fn check(&self, result: &NodeResult, if_active: IfControllerActive) -> Result<(), String> {
        let NodeResult { node, changes, outcome } = result;
        let mut writes = self.writes.lock().unwrap();
        for change in changes {
            let key = (node.to_string(), change.name().to_owned());
            match writes.pruned.get_mut(&key).filter(|times| **times > 0) {
                Some(times) => *times -= 1,
                None => return Err(format!("{node}: {change} has not happened")),
            }
        }
        if *outcome != NodeOutcome::Pruned || if_active == IfControllerActive::Ignore {
            return Ok(());
        }
        let object = self.network.read(|api| api.get(Kind::Node, &Key::named(&**node)));
        let object = object.map_err(|_| format!("{node} is gone"))?;
        let left = ledger(&object);
        let is_written = writes.by_controllers.iter().any(|(name, _)| *name == **node);
        if !left.is_empty() && !is_written {
            return Err(format!("{node} is reported as pruned, and lists {left:?}"));
        }
        let unreported = writes.pruned.iter().find(|((name, _), times)| *name == **node && **times > 0);
        if let Some(((_, resource), _)) = unreported.filter(|_| !is_written) {
            return Err(format!("{node}: nothing is reported of {resource}"));
        }
        Ok(())
    }

    fn check_leases(&self, leases: &[EndedLease]) -> Result<(), String> {
        for EndedLease { lease, end } in leases {
            let key = Key::namespaced(&lease.namespace, &lease.name);
            let object = self.network.read(|api| api.get(Kind::Lease, &key)).unwrap();
            let holder = object["spec"]["holderIdentity"].as_str().unwrap_or_default();
            let is_true = match end {
                LeaseEnd::Released => !holder.starts_with("prune_"),
                LeaseEnd::Kept(_) => holder.ends_with("_ended"),
                LeaseEnd::NotKept(_) | LeaseEnd::Expires(_) | LeaseEnd::Lost => true,
            };
            self.network.count(format!("a lease is {}", format!("{end:?}").split('(').next().unwrap_or_default()));
            if !is_true {
                return Err(format!("{lease} is {end:?}, and {holder:?} holds it"));
            }
        }
        Ok(())
    }

    /// Kubelets and people write to nodes.
    async fn disturb(network: Network, mut rng: fastrand::Rng) {
        loop {
            sleep(Duration::from_millis(rng.u64(1..5000))).await;
            let options = ListOptions::default();
            let nodes = network.read(|api| api.list(Kind::Node, &options)).unwrap().items;
            let node = &nodes[rng.usize(..nodes.len())];
            let resource = RESOURCES[rng.usize(..2)];
            let value = [json!("0"), json!("7"), Value::Null][rng.usize(..3)].clone();
            let mut amounts = json!({});
            for map in MAPS.into_iter().filter(|_| rng.u32(..4) > 0) {
                amounts[map] = json!({ resource: value });
            }
            let (key, writer) = (Key::of(node), Writer::new(["kubelet", "kubectl"][rng.usize(..2)]));
            let patch = PatchBody::Merge(json!({"status": amounts}));
            let patched = network.act(|api| api.patch(Kind::Node, Subresource::Status, &key, &patch, &writer));
            patched.unwrap();
            network.note(format!("{} changes {key}: {amounts}", writer.manager));
            network.count(format!("{} changes a node", writer.manager));
        }
    }
}

fn simulate(seed: u64) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = "2026-02-01T00:00:00Z".parse().unwrap();
        let _clock = simulated::start(start);
        let mut world = World::new(seed, start);
        world.begin().await;
        let network = world.network.clone();
        tokio::spawn(World::disturb(network.clone(), fastrand::Rng::with_seed(seed + 1)));
        let pruned = timeout(MAX_TIME, world.prune()).await;
        let pruned = pruned.unwrap_or_else(|_| Err(format!("it has not ended after {MAX_TIME:?}")));
        Outcome::new(&network, pruned.err())
    })
}

#[test]
fn prune_in_random_worlds_reports_what_has_happened() {
    let tally = Seeds::from_env(DEFAULT_SEEDS).run(simulate).unwrap_or_else(|story| panic!("{story}"));
    if std::env::var_os("SHELL_SEED").is_none() {
        for what in ["a node is pruned", "a node has failed", "a lease is Kept", "a lease is Released"] {
            assert!(tally.contains_key(what), "never: {what}: {tally:?}");
        }
    }
}
