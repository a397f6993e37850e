//! The race between the controller's repair and a kubelet that rejects pods.
//!
//! About one second after a kubelet has reset a value to 0 it lists its pods, and rejects those whose
//! request the node does not advertise. A pod survives if the repair comes first, which a slow machine
//! may not allow. So a killed pod is a failure only if this run repaired every value fast enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::Cluster;
use harness::objects::{DONGLE, quantity};

use crate::pod_fate::Fate;

/// A repair within this time after the reset precedes the kubelet's list of pods on any machine.
const FAST_REPAIR: Duration = Duration::from_millis(500);

/// Measures the repairs of a test with its own watch, and counts its pods.
pub struct RepairRace {
    latencies: Arc<Mutex<Vec<Duration>>>,
    survived: usize,
    killed: usize,
}

impl RepairRace {
    /// Starts to measure how long each node of the cluster has 0 dongles.
    pub fn start(cluster: &Cluster) -> Self {
        let latencies = Arc::new(Mutex::new(Vec::new()));
        let measured = Arc::clone(&latencies);
        let events = cluster.control_plane.watch("/api/v1/nodes?watch=1").unwrap();
        // The watch ends with the control plane.
        thread::spawn(move || {
            let mut resets = BTreeMap::new();
            for event in events {
                let node = &event["object"];
                let name = node["metadata"]["name"].to_string();
                if quantity(node, "capacity", DONGLE) == Some("0") {
                    resets.entry(name).or_insert_with(Instant::now);
                } else if let Some(reset) = resets.remove(&name) {
                    measured.lock().unwrap().push(reset.elapsed());
                }
            }
        });
        Self { latencies, survived: 0, killed: 0 }
    }

    /// Counts a pod.
    pub fn record(&mut self, fate: Fate) {
        match fate {
            Fate::Survived => self.survived += 1,
            Fate::Killed => self.killed += 1,
        }
    }

    /// Prints the result.
    ///
    /// # Panics
    /// Panics if a pod was killed although every repair was fast.
    pub fn finish(self, logs: impl FnOnce() -> String) {
        let latencies = self.latencies.lock().unwrap();
        let total = self.survived + self.killed;
        println!("{} of {total} pods survived; values were repaired {latencies:.1?} after their reset", self.survived);
        if self.killed == 0 {
            return;
        }
        assert!(!are_fast(&latencies), "{} pods were killed despite fast repairs\n{}", self.killed, logs());
        println!(
            "the killed pods do not count: a kubelet waits for a repair only about one second, and \
             not all of these took less than {FAST_REPAIR:?}"
        );
    }
}

fn are_fast(latencies: &[Duration]) -> bool {
    !latencies.is_empty() && latencies.iter().all(|&latency| latency < FAST_REPAIR)
}

#[test]
fn killed_pod_counts_only_after_fast_repairs() {
    let millis = |all: &[u64]| all.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
    assert!(are_fast(&millis(&[9, 120, 499])));
    assert!(!are_fast(&millis(&[9, 3200, 12])));
    assert!(!are_fast(&[]), "nothing was measured");
}
