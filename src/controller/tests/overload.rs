//! What the controller asks of an API server that is overloaded, and that all is as declared soon after.
//!
//! `cargo test --lib overload:: -- --show-output` shows how many requests there were.

use std::collections::BTreeMap;

use simulator::{Failure, Flaw, Key, ListOptions, PatchBody, Subresource, WatchEnd};

use super::*;

const NODES: usize = 200;
/// How long an overload lasts.
const OVERLOAD: Duration = Duration::from_secs(60);
/// One that answers at once would hide that requests are limited by their number in flight.
const LATENCY: Duration = Duration::from_millis(5);

/// How soon after it everything is as declared: no pause before a retry is longer.
const MAX_SETTLING: Duration = Duration::from_secs(60);
const LABEL: &str = "example.com/has-dongle";

/// Requests by verb and kind.
type Counts = BTreeMap<String, usize>;

struct Cluster {
    network: Network,
    counts: Arc<Mutex<Counts>>,
    _stop: oneshot::Sender<()>,
}

impl Cluster {
    /// Returns one where every node has the value of a rule, and watches have this fate.
    async fn advertised(of_watches: Fate) -> Self {
        let fates = move |_: &str, call: &Call, _| match call.verb {
            Verb::Watch => of_watches.clone(),
            _ => Fate::Answered,
        };
        let network = Network::new(ApiServer::default(), Timestamp::UNIX_EPOCH, fates);
        let admin = Writer::new("kubectl");
        for number in 0..NODES {
            let node = json!({"metadata": {"name": format!("node-{number}"), "labels": {LABEL: "true"}}});
            network.act(|api| api.create(Kind::Node, node, &admin)).unwrap();
        }
        let selector = json!({"matchLabels": {LABEL: "true"}});
        let spec = json!({"resourceName": "example.com/dongle", "quantity": 4, "nodeSelector": selector});
        let rule = json!({"metadata": {"name": "dongle"}, "spec": spec});
        network.act(|api| api.create(Kind::Rule, rule, &admin)).unwrap();
        let (_, stop) = start(&network);
        let cluster = Self { network, counts: Arc::default(), _stop: stop };
        cluster.wait_advertised("4", NODES).await;
        cluster
    }

    /// Lets requests have these fates from now on, and counts them.
    fn set_fates(&self, fate: impl Fn(&Call) -> Fate + Send + 'static) {
        let counts = Arc::clone(&self.counts);
        self.network.set_fates(move |_: &str, call: &Call, _| {
            let name = format!("{:?} {}", call.verb, call.kind.plural()).to_lowercase();
            *counts.lock().unwrap().entry(name).or_default() += 1;
            fate(call)
        });
    }

    fn take_counts(&self) -> Counts {
        std::mem::take(&mut self.counts.lock().unwrap())
    }

    fn merge(&self, kind: Kind, part: Subresource, name: &str, patch: Value) {
        let (key, patch, writer) = (Key::named(name), PatchBody::Merge(patch), Writer::new("kubectl"));
        self.network.act(|api| api.patch(kind, part, &key, &patch, &writer)).unwrap();
    }

    /// For the time of the overload, sets a value to 0 every second, as a kubelet that restarts.
    async fn restart_kubelets(&self) {
        let zero = json!({"example.com/dongle": "0"});
        for number in 0..OVERLOAD.as_secs() as usize {
            let status = json!({"status": {"capacity": zero, "allocatable": zero}});
            self.merge(Kind::Node, Subresource::Status, &format!("node-{number}"), status);
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Lets requests have these fates while the rule is edited and kubelets restart. Returns the requests, and how long it
    /// takes afterwards until all is as declared.
    async fn overload(&self, fate: impl Fn(&Call) -> Fate + Send + 'static) -> (Counts, Duration) {
        self.set_fates(fate);
        self.merge(Kind::Rule, Subresource::None, "dongle", json!({"spec": {"quantity": 5}}));
        self.restart_kubelets().await;
        let counts = self.take_counts();
        self.set_fates(|_| Fate::Slow(LATENCY));
        (counts, self.wait_advertised("5", NODES).await)
    }

    /// Returns how long it takes until this number of nodes has this value, and the status reports it.
    async fn wait_advertised(&self, quantity: &str, nodes: usize) -> Duration {
        let start = Instant::now();
        while let Err(why) = self.network.read(|api| is_advertised(api, quantity, nodes)) {
            assert!(start.elapsed() < Duration::from_secs(600), "{why}");
            sleep(Duration::from_millis(100)).await;
        }
        start.elapsed()
    }
}

fn is_advertised(api: &ApiServer, quantity: &str, nodes: usize) -> Result<(), String> {
    let all = api.list(Kind::Node, &ListOptions::default()).unwrap().items;
    let has_it = |node: &&Arc<Value>| node["status"]["capacity"]["example.com/dongle"] == quantity;
    let count = all.iter().filter(has_it).count();
    let rule = api.get(Kind::Rule, &Key::named("dongle")).unwrap();
    let conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    let is_current = ready.any(|ready| ready["observedGeneration"] == rule["metadata"]["generation"]);
    let summary = &rule["status"]["nodes"]["summary"];
    if count == nodes && is_current && *summary == format!("{nodes}/{nodes}").as_str() {
        Ok(())
    } else {
        Err(format!("{count} nodes have {quantity}, and the status says {summary}"))
    }
}

#[tokio::test(start_paused = true)]
async fn requests_during_an_overload_are_few_and_all_is_as_declared_after_it() {
    let expires = Flaw { lag: Duration::ZERO, lasts: Duration::from_secs(1), end: WatchEnd::Expired };
    let ten_seconds = Duration::from_secs(10);
    let server_error = Failure { code: 500, retry_after: None, ..Failure::too_many_requests(0) };
    for (name, fate, of_watches, max_patches, max_others) in [
        // One patch for each node, and one more for each that lost its value.
        ("none", Fate::Slow(LATENCY), Fate::Answered, NODES + 60, 60),
        ("429 with Retry-After: 10", Fate::Failed(Failure::too_many_requests(10)), Fate::Answered, 60, 90),
        ("500", Fate::Failed(server_error), Fate::Answered, 600, 90),
        ("responses take 10 s", Fate::Slow(ten_seconds), Fate::Answered, 60, 60),
        ("requests take 10 s", Fate::Late(ten_seconds), Fate::Answered, 60, 60),
        ("watches expire every second", Fate::Slow(LATENCY), Fate::Flawed(expires), NODES + 60, 600),
    ] {
        let cluster = Cluster::advertised(of_watches.clone()).await;
        let fate = move |call: &Call| if call.verb == Verb::Watch { of_watches.clone() } else { fate.clone() };
        let (counts, settling) = cluster.overload(fate).await;
        let patches = counts.get("patch nodes").copied().unwrap_or_default();
        let others = counts.values().sum::<usize>() - patches;
        println!("{name}: {counts:?}, as declared {settling:?} later");
        assert!((1..=max_patches).contains(&patches) && others <= max_others, "{name}: {counts:?}");
        assert!(settling <= MAX_SETTLING, "{name}: {settling:?}");
    }
}

/// Ten thousand times a second, a node gets a label that the rule selects, or loses it.
#[tokio::test(start_paused = true)]
async fn labels_that_change_without_end_cost_at_most_the_patches_that_fit_in_flight() {
    let cluster = Cluster::advertised(Fate::Answered).await;
    cluster.set_fates(|_| Fate::Slow(LATENCY));
    let seconds = 1;
    for step in 0..seconds * 1000 {
        for change in 0..10 {
            let number = step * 10 + change;
            let label = if (number / NODES).is_multiple_of(2) { Value::Null } else { json!("true") };
            let patch = json!({"metadata": {"labels": {LABEL: label}}});
            cluster.merge(Kind::Node, Subresource::None, &format!("node-{}", number % NODES), patch);
        }
        sleep(Duration::from_millis(1)).await;
    }
    let counts = cluster.take_counts();
    let settling = cluster.wait_advertised("4", NODES).await;
    println!("{} label changes: {counts:?}, as declared {settling:?} later", seconds * 10_000);
    // Four are in flight at the same time.
    let in_flight = 4 * seconds * 1000 / LATENCY.as_millis() as usize;
    assert!((1..=in_flight).contains(&counts["patch nodes"]), "{counts:?}");
    assert!(settling <= MAX_SETTLING, "{settling:?}");
}
