//! A cluster, up to three replicas of the controller, and who starts, kills and stops them.

use std::task::Poll;

use simulator::{ApiServer, Call, Chaos, Connection, Failure, Fate, Fates, Network};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::monitor::Monitor;
use super::*;
use crate::cluster::client;
use crate::cluster::clock::simulated::{self, SimulatedClock};

/// The policy that confines the account of the controller: it rejects the dry runs that would be processed.
struct Policy<F> {
    is_confined: bool,
    others: F,
}

impl<F: Fates> Fates for Policy<F> {
    fn fate(&mut self, client: &str, call: &Call, time: Duration) -> Fate {
        let fate = self.others.fate(client, call, time);
        let is_processed = matches!(fate, Fate::Answered | Fate::Slow(_));
        if !(self.is_confined && is_processed && call.is_dry_run()) {
            return fate;
        }
        let message = "ValidatingAdmissionPolicy 'node-resource-advertiser' with binding 'node-resource-advertiser' \
                       denied request: node-resource-advertiser may not change metadata.labels";
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Invalid", "code": 422});
        Fate::Failed(Failure { code: 422, status, retry_after: None })
    }
}

/// A run of the program.
pub(super) struct Replica {
    pub(super) task: JoinHandle<()>,
    pub(super) identity: String,
    /// Until then it does nothing, as a process that is not scheduled.
    frozen: watch::Sender<Instant>,
}

pub(super) struct World {
    pub(super) network: Network,
    pub(super) rng: fastrand::Rng,
    pub(super) monitor: Monitor,
    /// By its number; `None` while it does not run.
    pub(super) replicas: Vec<Option<Replica>>,
    /// How many have been started.
    started: usize,
    pub(super) options: Options,
    is_confined: bool,
    _clock: SimulatedClock,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let start = "2026-02-01T00:00:00Z".parse().unwrap();
        let mut rng = fastrand::Rng::with_seed(seed);
        let one_in = [2, 4, 12, 1000][rng.usize(..4)];
        let is_confined = rng.bool();
        let network =
            Network::new(ApiServer::default(), start, Policy { is_confined, others: Chaos::new(seed, one_in) });
        let options = Options {
            concurrency: [1, 4, 16][rng.usize(..3)],
            rollouts: RolloutLimits {
                patches_per_second: [None, Some(1), Some(50)][rng.usize(..3)],
                max_failed_nodes: [usize::MAX, 2, 1][rng.usize(..3)],
            },
            request_timeout: Duration::from_secs([5, 15][rng.usize(..2)]),
            mass_withdrawal_delay: Duration::from_secs([0, 30, 300][rng.usize(..3)]),
            confinement_test: rng.bool(),
            protection: crate::reconciler::ExpectedPolicy::Auto,
            node_condition: rng.bool(),
            max_rules_memory: 64 << 20,
            seed,
        };
        let monitor = Monitor::new(&network, options.node_condition);
        let clock = simulated::start(start);
        network.note(format!("one in {one_in} requests goes wrong, {options:?}"));
        let mut world =
            Self { network, rng, monitor, replicas: Vec::new(), started: 0, options, is_confined, _clock: clock };
        world.populate();
        let replicas = world.rng.usize(1..=3);
        world.replicas.resize_with(replicas, || None);
        (0..replicas).for_each(|number| world.start(number));
        world
    }

    /// A while in which all kinds of things happen.
    pub(super) async fn live(&mut self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(self.rng.u64(60..300));
        let busy = self.rng.u64(200..6000);
        let mut tick = Instant::now();
        while Instant::now() < end {
            sleep(Duration::from_millis(self.rng.u64(1..busy))).await;
            if tick <= Instant::now() {
                tick += Duration::from_secs(10);
                self.tick_kubelets();
            }
            self.happen();
            self.monitor.check()?;
        }
        Ok(())
    }

    pub(super) fn start(&mut self, number: usize) {
        self.started += 1;
        let identity = format!("replica-{number}.{}", self.started);
        self.network.note(format!("{identity} starts"));
        let connection: Connection = self.network.connection(&identity);
        let (readiness, _) = watch::channel(Readiness::default());
        let (heartbeat, _) = watch::channel(Instant::now());
        let diagnostics = Diagnostics { readiness, heartbeat, metrics: Arc::default() };
        let candidate = Candidate::for_test(&identity);
        let options = Options { seed: self.rng.u64(..), ..self.options.clone() };
        let program = run(client::over(connection), candidate, options, diagnostics, std::future::pending());
        let (frozen, until) = watch::channel(Instant::now());
        let task = tokio::spawn(freezable(async { program.await.unwrap() }, until));
        self.replicas[number] = Some(Replica { task, identity, frozen });
    }

    /// Ends a replica where it stands.
    pub(super) fn kill(&mut self, number: usize) {
        if let Some(Replica { task, identity, .. }) = self.replicas[number].take() {
            self.network.note(format!("{identity} is killed"));
            self.network.count("a replica is killed");
            task.abort();
        }
    }

    pub(super) fn freeze(&mut self, number: usize, time: Duration) {
        if let Some(Replica { identity, frozen, .. }) = &self.replicas[number] {
            self.network.note(format!("{identity} is frozen for {time:?}"));
            self.network.count("a replica is frozen");
            frozen.send_replace(Instant::now() + time);
        }
    }

    /// Nothing goes wrong any more, and every replica runs.
    pub(super) fn heal(&mut self) {
        self.network.note("nothing happens any more, and nothing goes wrong");
        let others = |_: &str, _: &Call, _| Fate::Answered;
        self.network.set_fates(Policy { is_confined: self.is_confined, others });
        for number in 0..self.replicas.len() {
            self.freeze(number, Duration::ZERO);
            if self.replicas[number].is_none() {
                self.start(number);
            }
        }
    }
}

/// Does nothing until the time that `frozen` has.
async fn freezable(program: impl Future<Output = ()>, frozen: watch::Receiver<Instant>) {
    let mut program = pin!(program);
    let mut thaw = pin!(sleep(Duration::ZERO));
    std::future::poll_fn(|context| {
        let until = *frozen.borrow();
        if Instant::now() < until {
            thaw.as_mut().reset(until);
            let _ = thaw.as_mut().poll(context);
            return Poll::Pending;
        }
        program.as_mut().poll(context)
    })
    .await;
}
