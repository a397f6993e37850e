//! Lists of pods before the patches of a rollout, where the API server lists the pods of one node from its cache.

use super::*;
use crate::controller::RolloutLimits;

pub(super) const KEY: &str = "example.com/key";
pub(super) const LIMITS: RolloutLimits = RolloutLimits { max_listed: 8, ..RolloutLimits::NONE };

/// A leader without rules, of an API server that is at least as new as this kubelet.
pub(super) fn leading(kubelet: &str, nodes: usize, limits: RolloutLimits) -> World {
    // Four lists are allowed in any case: the same with and without a rate, except in tests of the rate.
    let mut world = World::with_limits(if limits.patches_per_second.is_some() { 16 } else { 4 }, limits);
    for number in 0..nodes {
        let name = format!("node-{number:02}");
        world.set_node(&name, json!({}));
        world.edit_node(&name, |node| node["status"]["nodeInfo"] = json!({"kubeletVersion": kubelet}));
    }
    world.start();
    world.run_until_idle();
    world
}

pub(super) fn with_cache(nodes: usize, limits: RolloutLimits) -> World {
    leading("v1.31.0", nodes, limits)
}

impl World {
    /// How many nodes have work that takes memory.
    pub(super) fn working(&self) -> usize {
        self.reconciler.nodes.iter().filter(|(_, state)| state.work().is_some()).count()
    }

    pub(super) fn backlog(&self) -> usize {
        self.reconciler.schedule.queue.len(Stage::ListBacklog)
    }

    /// Answers lists, and applies patches, in their order, until none is open. Returns the lists.
    pub(super) fn follow(&mut self) -> Vec<PodScope> {
        let mut lists = Vec::new();
        loop {
            self.run();
            if self.open.is_empty() {
                return lists;
            }
            let open = self.open.remove(0);
            if let Open::Pods { scope, .. } = &open {
                lists.push(scope.clone());
            }
            self.answer(open);
        }
    }

    /// Applies patches until none is open, and leaves lists open. Returns how many.
    pub(super) fn answer_patches(&mut self) -> usize {
        let mut patches = 0;
        loop {
            self.run();
            let place = self.open.iter().position(|open| matches!(open, Open::Patch { .. }));
            let Some(place) = place else { return patches };
            let open = self.open.remove(place);
            patches += 1;
            self.answer(open);
        }
    }

    /// The number of nodes whose ledger lists this resource.
    pub(super) fn listing(&self, resource: &str) -> usize {
        let ledgers = self.nodes.keys().filter_map(|name| self.ledger(name));
        ledgers.filter(|ledger| ledger.contains(resource)).count()
    }
}

/// Thousands of lists that wait for their patches would take as much memory as the nodes, and become too old.
#[test]
fn rollout_lists_the_pods_of_few_nodes_at_a_time() {
    let mut world = with_cache(60, LIMITS);
    world.set_rule("dongle", json!({}));
    world.run();
    assert_eq!((world.open.len(), world.working(), world.backlog()), (4, 4, 52));
    let (mut most, mut lists, mut seen) = (0, 0, BTreeSet::new());
    while !world.open.is_empty() {
        most = most.max(world.working());
        let open = world.open.remove(0);
        if let Open::Pods { scope, .. } = &open {
            lists += 1;
            seen.insert(format!("{scope:?}"));
        }
        world.answer(open);
        world.run();
    }
    assert!(most <= 8 + 4, "{most}, with four in flight");
    assert_eq!((world.having(4), lists, seen.len()), (60, 60, 60), "one list for each node");
}

#[test]
fn rollout_over_most_nodes_of_a_small_cluster_costs_one_list_of_all_pods() {
    let mut world = with_cache(10, RolloutLimits::NONE);
    world.set_rule("dongle", json!({}));
    assert_eq!(world.follow(), [PodScope::Cluster]);
    assert_eq!(world.having(4), 10);
}

/// Each list of the pods on one node would read those of all nodes from etcd.
#[test]
fn nodes_share_a_list_where_the_api_server_may_have_no_cache() {
    for kubelet in ["v1.30.14", "fake", "v2.40.0", "v1.", ""] {
        let mut world = leading(kubelet, 60, LIMITS);
        world.set_rule("dongle", json!({}));
        assert_eq!(world.follow(), [PodScope::Cluster], "{kubelet}");
        assert_eq!(world.having(4), 60);
    }
}

/// I9
#[test]
fn lists_that_are_never_answered_delay_no_rollout_that_needs_none() {
    let mut world = with_cache(60, LIMITS);
    world.set_rule(
        "key",
        json!({"resourceName": KEY, "nodeSelector": {"matchLabels": {"zone": "a"}},
        "allNodes": null, "shrinkPolicy": "Immediate"}),
    );
    world.run_until_idle();
    for number in 20..60 {
        world.relabel(&format!("node-{number:02}"), json!({"zone": "a"}));
    }
    world.run_until_idle();
    world.set_rule(
        "dongle",
        json!({"nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
        "allNodes": null}),
    );
    world.run();
    assert_eq!(world.backlog(), 12);
    world.set_rule(
        "key",
        json!({"resourceName": KEY, "nodeSelector": {"matchLabels": {"zone": "a"}},
        "allNodes": null, "shrinkPolicy": "Immediate", "quantity": 7}),
    );
    let patches = world.answer_patches();
    assert_eq!((patches, world.open.len()), (40, 4), "the lists are still open");
    world.run_until_idle();
    assert_eq!(world.having(4), 20);
}

/// Neither of two rollouts keeps the other waiting until its end, though one of them lists pods.
#[test]
fn rollouts_that_list_pods_and_that_do_not_go_on_side_by_side() {
    for max_listed in [8, 32] {
        let mut world =
            with_cache(60, RolloutLimits { patches_per_second: Some(2), max_listed, ..RolloutLimits::NONE });
        for number in 0..30 {
            world.relabel(&format!("node-{number:02}"), json!({"zone": "a"}));
        }
        world.run_until_idle();
        world.set_rule(
            "key",
            json!({"resourceName": KEY, "shrinkPolicy": "Immediate", "allNodes": null,
            "nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}}),
        );
        world.set_rule("dongle", json!({"nodeSelector": {"matchLabels": {"zone": "a"}}, "allNodes": null}));
        world.pass(14);
        let keys = world.listing(KEY);
        assert!(world.having(4) >= 10 && keys >= 10, "{} dongles, {keys} keys", world.having(4));
        world.pass(20);
        assert_eq!(world.having(4), 30);
    }
}

/// I5: a pod that was bound while the value was lowered does not wait for those that are still to be lowered, however slow
/// lists are.
#[test]
fn list_after_a_lowering_comes_before_those_of_nodes_still_to_be_lowered() {
    let mut world = with_cache(60, LIMITS);
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.run_until_idle();
    assert_eq!(world.having(4), 60);
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run();
    let (node, since) = ("node-00", world.now.instant);
    world.pods.insert(node.to_owned(), 0);
    while world.dongles(node) != 3 {
        let is_patch = |open: &Open| matches!(open, Open::Patch { .. });
        let place = world.open.iter().position(is_patch).unwrap_or_else(|| {
            world.advance(Duration::from_millis(500));
            0
        });
        let open = world.open.remove(place);
        world.answer(open);
        if world.dongles(node) == 2 {
            world.pods.insert(node.to_owned(), 3);
        }
        world.run();
    }
    assert!(world.having(4) > 30, "{} are still to be lowered", world.having(4));
    assert!(world.now.instant.duration_since(since) < Duration::from_secs(12));
    world.run_until_idle();
    world.pass(10);
    assert_eq!((world.having(2), world.having(3)), (59, 1));
}

/// Where few patches fit into the time that a list is valid, few nodes are listed ahead.
#[test]
fn lists_of_a_slow_rollout_are_not_in_vain() {
    let limits = RolloutLimits { patches_per_second: Some(1), max_listed: 64, ..RolloutLimits::NONE };
    let mut world = with_cache(300, limits);
    world.set_rule("dongle", json!({}));
    let mut lists = 0;
    for _ in 0..400 {
        while let Some(open) = world.open.pop() {
            lists += usize::from(matches!(open, Open::Pods { .. }));
            world.answer(open);
            world.run();
        }
        world.advance(Duration::from_secs(1));
        world.run();
    }
    assert_eq!(world.having(4), 300);
    assert!(lists <= 380, "{lists} lists for 300 nodes");
}
