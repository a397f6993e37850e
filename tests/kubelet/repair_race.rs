//! The race between the controller's repair and a kubelet that rejects pods.
//!
//! About one second after a kubelet has reset a value to 0 it lists its pods, and rejects those whose
//! request the node does not advertise. A pod survives if the repair comes first, which a slow machine
//! may not allow. So a bare client writes to the node at each reset: where that was quick, a killed pod is a failure,
//! however long the repair took.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::objects::{DONGLE, quantity};
use harness::{Cluster, wait_until};
use serde_json::Value;

use crate::bare_client::timed_writes;
use crate::pod_fate::Fate;

/// A repair within this time after the reset precedes the kubelet's list of pods on any machine.
const FAST_REPAIR: Duration = Duration::from_millis(500);
/// Where a bare client has written to the node within this time after the reset, the machine allows a fast repair.
const QUICK_WRITE: Duration = Duration::from_millis(200);

/// Measures the repairs of a test with its own watch, and counts its pods.
pub struct RepairRace {
    resets: Arc<Mutex<BTreeMap<String, Reset>>>,
    rounds: Vec<Round>,
}

/// A reset of a node that no pod has been counted for yet.
#[derive(Clone, Copy, Debug)]
struct Reset {
    seen: Instant,
    /// How long after that the value was repaired.
    repair: Option<Duration>,
    /// How long after that a bare client had written.
    write: Option<Duration>,
}

/// A pod across one reset.
#[derive(Clone, Copy, PartialEq)]
struct Round {
    fate: Fate,
    repair: Duration,
    write: Duration,
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fate, repair, write } = self;
        write!(f, "{fate:?} {repair:.0?} ({write:.0?})")
    }
}

impl RepairRace {
    /// Starts to measure how long each node of the cluster has 0 dongles.
    pub fn start(cluster: &Cluster) -> Self {
        let resets = Arc::new(Mutex::new(BTreeMap::new()));
        let measured = Arc::clone(&resets);
        let events = cluster.control_plane.watch("/api/v1/nodes?watch=1").unwrap();
        let write = timed_writes(cluster);
        // The watch ends with the control plane.
        thread::spawn(move || {
            for event in events {
                observe(&event["object"], &measured, &write);
            }
        });
        Self { resets, rounds: Vec::new() }
    }

    /// Counts the pod of a node after a reset, once that is repaired. Returns whether it is decided who killed it.
    pub fn record(&mut self, node: &str, fate: Fate) -> bool {
        let what = format!("{node} to be reset and repaired, and a bare client to write to it");
        let measured = wait_until(&what, || {
            let mut resets = self.resets.lock().unwrap();
            let reset = resets.get(node).copied();
            let round = reset.and_then(|reset| Some(Round { fate, repair: reset.repair?, write: reset.write? }));
            if round.is_some() {
                resets.remove(node);
            }
            Ok(round)
        });
        let round = measured.unwrap_or_else(|error| panic!("{error:#}: {:?}", self.resets));
        self.rounds.push(round);
        round.is_decided()
    }

    /// Prints the result.
    ///
    /// # Panics
    /// Panics if the controller is too slow, or no pod was counted.
    pub fn finish(self, logs: impl FnOnce() -> String) {
        let rounds = &self.rounds;
        let survived = rounds.iter().filter(|round| round.fate == Fate::Survived).count();
        println!("{survived} of {} pods survived; each repair, and a bare client's write: {rounds:?}", rounds.len());
        match judge(rounds) {
            Ok(0) => {}
            Ok(undecided) => println!("{undecided} killed pods do not count: a bare client's write was slow as well"),
            Err(error) => panic!("{error}: {rounds:?}\n{}", logs()),
        }
    }
}

/// Measures what an event of a node shows.
fn observe(
    node: &Value,
    resets: &Arc<Mutex<BTreeMap<String, Reset>>>,
    write: &impl Fn(&str, Box<dyn FnOnce(Duration) + Send>),
) {
    let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut all = resets.lock().unwrap();
    match (quantity(node, "capacity", DONGLE), all.get_mut(&name)) {
        (Some("0"), None) => {
            all.insert(name.clone(), Reset { seen: Instant::now(), repair: None, write: None });
            let measured = Arc::clone(resets);
            let node = name.clone();
            let done = move |time| {
                if let Some(reset) = measured.lock().unwrap().get_mut(&node) {
                    reset.write = Some(time);
                }
            };
            write(&name, Box::new(done));
        }
        (None | Some("0"), _) | (_, None) => {}
        (Some(_), Some(reset)) => {
            reset.repair.get_or_insert_with(|| reset.seen.elapsed());
        }
    }
}

impl Round {
    /// Returns whether it is known if the controller or the machine decided the pod's fate.
    fn is_decided(&self) -> bool {
        self.fate == Fate::Survived || self.repair < FAST_REPAIR || self.is_quick()
    }

    /// Returns whether the machine was quick.
    fn is_quick(&self) -> bool {
        self.write < QUICK_WRITE
    }
}

/// Returns the number of pods that do not count.
///
/// # Errors
/// Returns an error if a pod that counts was killed, most repairs were slow although the machine was not, or no pod counts.
fn judge(rounds: &[Round]) -> Result<usize, String> {
    let count = |test: fn(&Round) -> bool| rounds.iter().filter(|round| test(round)).count();
    let decided = count(Round::is_decided);
    if decided == 0 {
        return Err(format!("not one of {} pods counts: this machine is too slow for this test", rounds.len()));
    }
    let killed = count(|round| round.is_decided() && round.fate == Fate::Killed);
    if killed > 0 {
        return Err(format!("{killed} pods were killed, although the machine was quick"));
    }
    let quick = count(Round::is_quick);
    let slow = count(|round| round.is_quick() && round.repair >= FAST_REPAIR);
    if slow * 2 > quick {
        return Err(format!("{slow} of {quick} repairs took {FAST_REPAIR:?} or more, although the machine was quick"));
    }
    Ok(rounds.len() - decided)
}

#[test]
fn killed_pod_counts_unless_the_machine_is_slow() {
    let round = |fate, repair, write| {
        let [repair, write] = [repair, write].map(Duration::from_millis);
        Round { fate, repair, write }
    };
    let survived = round(Fate::Survived, 20, 10);
    assert_eq!(judge(&[survived; 3]), Ok(0));
    // The controller is slow, and the machine is not.
    let killed = judge(&[survived, round(Fate::Killed, 2000, 10)]);
    assert!(killed.unwrap_err().starts_with("1 pods were killed"));
    // The repair was fast, and did not help.
    let in_vain = judge(&[survived, round(Fate::Killed, 499, 900)]);
    assert!(in_vain.unwrap_err().starts_with("1 pods were killed"));
    // Everything was slow.
    let undecided = round(Fate::Killed, 2000, 900);
    assert_eq!(judge(&[survived, undecided]), Ok(1));
    assert!(judge(&[undecided; 12]).unwrap_err().starts_with("not one of 12 pods counts"));
    assert!(judge(&[]).unwrap_err().starts_with("not one of 0 pods counts"));
    // The pods were lucky.
    let lucky = round(Fate::Survived, 700, 10);
    assert!(judge(&[survived, lucky, lucky]).unwrap_err().starts_with("2 of 3 repairs took"));
    assert_eq!(judge(&[survived, round(Fate::Survived, 700, 300)]), Ok(0));
}
