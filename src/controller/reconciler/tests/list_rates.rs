//! How fast the pods of a rollout are listed.

use super::lists_ahead::{leading, with_cache};
use super::*;
use crate::controller::RolloutLimits;

fn limits(rate: u32) -> RolloutLimits {
    RolloutLimits { patches_per_second: Some(rate), max_listed: 400, ..RolloutLimits::NONE }
}

fn paced(nodes: usize, rate: u32) -> World {
    with_cache(nodes, limits(rate))
}

impl World {
    /// Lets seconds pass while lists take 100 ms, and patches no time.
    fn pass_with_slow_lists(&mut self, seconds: usize) {
        for _ in 0..seconds * 10 {
            let lists = std::mem::take(&mut self.open);
            lists.into_iter().for_each(|list| self.answer(list));
            for _ in 0..20 {
                self.answer_patches();
                self.advance(Duration::from_millis(5));
            }
        }
    }
}

/// An API server may wait for 100 ms before it lists pods from its cache.
#[test]
fn latency_of_lists_does_not_limit_the_rate_of_a_rollout() {
    for rate in [10, 50, 150] {
        let mut world = paced(1200, rate);
        world.set_rule("dongle", json!({}));
        world.pass_with_slow_lists(5);
        // Those of one second may come at once, and then as many each second.
        let (patched, rate) = (world.having(4), rate as usize);
        assert!((rate * 5..=rate * 6).contains(&patched), "{patched} in five seconds with {rate} per second");
    }
}

/// Lists that come faster than the patches that need them slow down repairs.
#[test]
fn lists_ahead_are_little_faster_than_the_rollout() {
    for (rate, per_second) in [(10, 12), (50, 60)] {
        let mut world = paced(1200, rate);
        world.set_rule("dongle", json!({}));
        world.run();
        let mut lists = 0;
        for _ in 0..500 {
            lists += world.follow().len();
            world.advance(Duration::from_millis(10));
        }
        // Those of one second may come at once.
        assert!((per_second * 5..=per_second * 6).contains(&lists), "{lists} lists in five seconds at {rate}");
    }
}

/// Nothing else wakes the controller where no list leads to a patch.
#[test]
fn lists_ahead_go_on_where_pods_hold_all_nodes() {
    let mut world = paced(900, 10);
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.pass(100);
    assert_eq!(world.having(4), 900);
    world.pods = world.nodes.keys().map(|name| (name.clone(), 4)).collect();
    world.set_rule("dongle", json!({"quantity": 2}));
    let (start, mut listed) = (world.now.instant, BTreeSet::new());
    loop {
        listed.extend(world.follow().iter().map(|scope| format!("{scope:?}")));
        let wake = world.run().expect("held nodes are listed again");
        if wake.duration_since(start) > Duration::from_secs(10) {
            break;
        }
        world.set_time(wake);
    }
    assert!((120..=132).contains(&listed.len()), "{} in ten seconds at 12 per second", listed.len());
}

/// It needs one list before each patch, and one after it.
#[test]
fn latency_of_lists_does_not_limit_the_rate_of_a_lowering() {
    for rate in [10, 50] {
        let count = (rate as usize * 32).max(900);
        let mut world = paced(count, rate);
        world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
        world.pass(count as u64 / u64::from(rate) + 10);
        assert_eq!(world.having(4), count);
        world.set_rule("dongle", json!({"quantity": 2}));
        let (mut before, rate) = (0, rate as usize);
        for second in 0..30 {
            world.pass_with_slow_lists(1);
            let patched = world.having(2);
            // Those of one second may come at once, and lists must come before the first.
            assert!((patched - before).abs_diff(rate) <= rate / 10 || second < 2, "{} at {rate}", patched - before);
            let unlisted = world.reconciler.schedule.queue.len(Stage::ListPods);
            assert!(unlisted <= rate * 2, "{unlisted} wait for the list after their lowering");
            before = patched;
        }
        assert!((rate * 29..=rate * 31).contains(&before), "{before} in 30 seconds with {rate} per second");
    }
}

/// Each list of the pods on one node would read those of all nodes from etcd, also after a lowering.
#[test]
fn lowered_nodes_share_a_list_where_the_api_server_may_have_no_cache() {
    for rate in [5, 50] {
        let mut world = leading("v1.30.14", 300, limits(rate));
        world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
        world.pass(300 / u64::from(rate) + 10);
        assert_eq!(world.having(4), 300);
        world.set_rule("dongle", json!({"quantity": 2}));
        let (mut lists, seconds) = (Vec::new(), 300 / rate as usize + 10);
        for _ in 0..seconds * 10 {
            lists.extend(world.follow());
            world.advance(Duration::from_millis(100));
        }
        assert_eq!(world.having(2), 300);
        let shared = lists.iter().filter(|scope| **scope == PodScope::Cluster).count();
        assert!(lists.len() - shared <= 8, "{} lists of single nodes at {rate}", lists.len() - shared);
        // One every five seconds after the patches, and one every thirty before them.
        assert!(shared <= seconds / 5 + seconds / 30 + 2, "{shared} lists of all pods at {rate} in {seconds} s");
    }
}
