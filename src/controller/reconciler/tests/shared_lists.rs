//! When nodes share a list of all pods: where it costs the API server less than a list for each of them.

use super::lists_ahead::{KEY, LIMITS, leading};
use super::*;
use crate::controller::RolloutLimits;

/// A leader without rules, of an API server that lists all pods from its cache too.
fn with_cache(nodes: usize, limits: RolloutLimits) -> World {
    leading("v1.34.0", nodes, limits)
}

/// The same, after a list of all pods, which are few.
fn with_few_pods(nodes: usize, limits: RolloutLimits) -> World {
    let mut world = with_cache(nodes, limits);
    world.pods_of_others = 10;
    let selector = json!({"matchLabels": {"zone": "a"}});
    world.set_rule("key", json!({"resourceName": KEY, "nodeSelector": selector, "allNodes": null}));
    // Lists for nodes that change by themselves have no limit.
    for number in 0..nodes / 2 + 1 {
        world.relabel(&format!("node-{number:02}"), json!({"zone": "a"}));
    }
    assert_eq!(world.follow(), [PodScope::Cluster]);
    world
}

impl World {
    /// Advertises a resource with lists of pods on these nodes. Returns the lists.
    fn lists_for(&mut self, rule: &str, nodes: std::ops::Range<usize>) -> Vec<PodScope> {
        let count = nodes.len();
        for number in nodes {
            self.relabel(&format!("node-{number:02}"), json!({ "rule": rule }));
        }
        self.run_until_idle();
        let name = format!("example.com/{rule}");
        let selector = json!({"matchLabels": {"rule": rule}});
        self.set_rule(rule, json!({"resourceName": name, "nodeSelector": selector, "allNodes": null}));
        let lists = self.follow();
        let values = self.nodes.values().filter(|node| !node["status"]["capacity"][&name].is_null()).count();
        assert_eq!(values, count, "after {lists:?}");
        lists
    }
}

/// Of a node with few pods, the request costs more than the pods in the response.
#[test]
fn nodes_share_a_list_where_it_costs_less_than_single_ones() {
    for (pods, single, shared) in [
        // A list that may be empty costs less than nine others.
        (0, 8, 9),
        (60 * 5, 8, 9),
        // 600 pods cost as much as thirteen requests, each with ten pods.
        (60 * 10, 13, 14),
        // The same as is assumed before the first list of all pods.
        (60 * 35, 30, 31),
        (60 * 110, 45, 46),
    ] {
        let mut world = with_cache(60, RolloutLimits::NONE);
        world.pods_of_others = pods;
        assert_eq!(world.lists_for("first", 0..60), [PodScope::Cluster]);
        assert_eq!(world.lists_for("second", 0..single).len(), single, "of {pods} pods");
        assert_eq!(world.lists_for("third", 0..shared), [PodScope::Cluster], "of {pods} pods");
    }
}

#[test]
fn nodes_are_taken_to_have_many_pods_before_the_first_list_of_all() {
    for (nodes, lists) in [(30, 30), (31, 1)] {
        let mut world = with_cache(60, RolloutLimits::NONE);
        assert_eq!(world.lists_for("first", 0..nodes).len(), lists);
    }
}

/// What the last list of all pods showed counts until the next one.
#[test]
fn nodes_share_no_list_once_it_has_become_expensive() {
    let mut world = with_cache(60, RolloutLimits::NONE);
    assert_eq!(world.lists_for("first", 0..60), [PodScope::Cluster]);
    world.pods_of_others = 60 * 35;
    assert_eq!(world.lists_for("second", 0..9), [PodScope::Cluster]);
    assert_eq!(world.lists_for("third", 0..9).len(), 9);
}

/// A cluster grows, and its pods with it.
#[test]
fn pods_are_counted_by_the_node() {
    let mut world = with_cache(30, RolloutLimits::NONE);
    world.pods_of_others = 30 * 10;
    assert_eq!(world.lists_for("first", 0..30), [PodScope::Cluster]);
    for number in 30..60 {
        world.set_node(&format!("node-{number}"), json!({}));
    }
    world.run_until_idle();
    assert_eq!(world.lists_for("second", 0..13).len(), 13);
    assert_eq!(world.lists_for("third", 0..14), [PodScope::Cluster]);
}

/// An API server before 1.34 reads lists in pages from etcd.
#[test]
fn nodes_share_no_list_from_etcd_for_a_few_of_them() {
    let mut world = leading("v1.33.9", 60, RolloutLimits::NONE);
    assert_eq!(world.lists_for("first", 0..60), [PodScope::Cluster]);
    assert_eq!(world.lists_for("second", 0..30).len(), 30);
    assert_eq!(world.lists_for("third", 0..31), [PodScope::Cluster]);
}

/// It may have become too large.
#[test]
fn nodes_have_lists_of_their_own_after_a_list_of_all_pods_has_failed() {
    let mut world = with_few_pods(60, RolloutLimits { max_listed: 20, ..RolloutLimits::NONE });
    world.set_rule("dongle", json!({}));
    world.run();
    let Some(Open::Pods { id, scope: PodScope::Cluster }) = world.open.pop() else { panic!("{:?}", world.open) };
    let reply = Err(error(504));
    world.reconciler.complete(Completion::PodsListed { id, scope: PodScope::Cluster, reply }, world.now);
    let mut lists = Vec::new();
    for _ in 0..120 {
        world.advance(Duration::from_millis(500));
        lists.extend(world.follow());
    }
    assert_eq!((world.having(4), lists.len()), (60, 60), "{lists:?}");
}

/// I5: neither that list itself, nor others before patches that wait for it; whether lists after a lowering are shared or not.
#[test]
fn list_after_a_lowering_does_not_wait_for_a_list_of_all_pods_before_patches() {
    for max_listed in [20, 50] {
        let mut world = with_few_pods(90, RolloutLimits { max_listed, ..RolloutLimits::NONE });
        world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
        world.run_until_idle();
        world.set_rule("dongle", json!({"quantity": 2}));
        world.run();
        let first = world.open.remove(0);
        world.answer(first);
        assert_eq!(world.answer_patches(), max_listed);
        assert!(matches!(world.open[..], [Open::Pods { scope: PodScope::Cluster, .. }]), "{:?}", world.open);
        // Other nodes are due to be listed before their patches, too.
        world.set_rule("third", json!({"resourceName": "example.com/third"}));
        let mut lists = Vec::new();
        for _ in 0..60 {
            world.advance(Duration::from_millis(100));
            world.answer_patches();
            let is_ahead = |open: &Open| matches!(open, Open::Pods { id, .. } if id.kind == Kind::PodListAhead);
            while let Some(place) = world.open.iter().position(|open| !is_ahead(open)) {
                let list = world.open.remove(place);
                lists.extend(if let Open::Pods { scope, .. } = &list { Some(scope.clone()) } else { None });
                world.answer(list);
            }
        }
        let waiting = world.reconciler.schedule.queue.len(Stage::ListAhead);
        assert_eq!((world.reconciler.lowered_nodes(), world.open.len()), (0, 1), "{waiting} {:?}", world.open);
        assert!(waiting > 8, "{waiting}");
        assert_eq!(lists.contains(&PodScope::Cluster), max_listed > 45, "{lists:?}");
    }
}

/// Otherwise a list would be sent for the few that are planned at a time.
#[test]
fn nodes_that_may_be_ahead_are_all_planned_before_they_share_a_list() {
    let limits = RolloutLimits { max_listed: 600, ..LIMITS };
    let mut world = with_few_pods(1500, limits);
    let ahead = |world: &World| world.reconciler.schedule.pod_batch(Kind::PodListAhead).map_or(0, <[_]>::len);
    world.set_rule("dongle", json!({}));
    let mut batches = Vec::new();
    world.run();
    while !world.open.is_empty() {
        let open = world.open.remove(0);
        if let Open::Pods { scope: PodScope::Cluster, .. } = &open {
            batches.push(ahead(&world));
        }
        world.answer(open);
    }
    assert_eq!(world.having(4), 1500);
    assert_eq!(batches.iter().sum::<usize>(), 1500, "{batches:?}");
    assert!(batches.iter().rev().skip(1).all(|nodes| *nodes >= 300), "{batches:?}");
}

/// The list for the next nodes is sent when half of those ahead are still to be patched, and may take as long as their patches.
#[test]
fn rollout_keeps_its_rate_where_nodes_share_lists() {
    let limits = RolloutLimits { patches_per_second: Some(50), max_listed: 400, ..RolloutLimits::NONE };
    let mut world = with_few_pods(1200, limits);
    world.set_rule("dongle", json!({}));
    assert_eq!(world.follow(), [PodScope::Cluster]);
    let mut shared = Vec::new();
    for tenth in 0..180 {
        world.answer_patches();
        shared.extend(std::mem::take(&mut world.open).into_iter().map(|list| (tenth + 30, list)));
        while shared.first().is_some_and(|(end, _)| *end <= tenth) {
            let (_, list) = shared.remove(0);
            assert!(matches!(list, Open::Pods { scope: PodScope::Cluster, .. }), "{list:?}");
            world.answer(list);
        }
        let (patched, due) = (world.having(4), 50 + tenth as usize * 5);
        assert!(patched + 10 >= due, "{patched} patched instead of {due}, after {tenth} tenths of a second");
        world.advance(Duration::from_millis(100));
    }
}
