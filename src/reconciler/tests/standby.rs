//! What a process does that does not lead (I6).

use super::world::DONGLE;
use super::*;
use crate::model::ledger;

const LEADER_TIME: Duration = Duration::from_millis(100);

/// A process that does not lead, and that watches nodes which another one has advertised on.
fn standby(nodes: usize) -> World {
    let mut leader = World::leading(nodes, &[("dongle", 4)]);
    leader.run_until_idle();
    let mut standby = World::new(16);
    standby.renews = false;
    (standby.nodes, standby.rules) = (leader.nodes, leader.rules);
    standby.version = leader.version;
    standby.start();
    standby
}

#[test]
fn reset_that_the_leader_leaves_is_repaired_by_a_standby() {
    let mut world = standby(2);
    world.reset("node-0");
    world.advance(LEADER_TIME - Duration::from_millis(1));
    assert!(world.open.is_empty(), "the leader has {LEADER_TIME:?}");
    world.advance(Duration::from_millis(1));
    assert_eq!(world.patched(), ["node-0"]);
    world.run_until_idle();
    assert_eq!((world.dongles("node-0"), world.dongles("node-1")), (4, 4));
    assert!(world.metric("repairs_total 1") && world.events.is_empty(), "{:?}", world.events);
    world.pass(60);
    assert!(world.statuses.is_empty());
    // Nor are Events kept for later.
    world.renews = true;
    world.pass(20);
    assert!(!world.events.contains(&"Repaired".to_owned()), "{:?}", world.events);
}

#[test]
fn reset_that_the_leader_repairs_in_time_costs_a_standby_nothing() {
    let mut world = standby(1);
    world.reset("node-0");
    world.advance(LEADER_TIME / 2);
    world.set_dongles("node-0", 4);
    world.advance(Duration::from_secs(1));
    assert!(world.open.is_empty(), "{:?}", world.open);
    // The next reset has its own time.
    world.reset("node-0");
    world.advance(LEADER_TIME / 2);
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// Of the leader and two standbys, all but the first find that there is nothing left to do.
#[test]
fn repair_that_another_has_made_is_no_failure() {
    let mut world = standby(1);
    world.reset("node-0");
    world.advance(LEADER_TIME);
    let (slot, node, patch) = world.only_patch();
    world.watching = false;
    world.set_dongles("node-0", 4);
    world.watching = true;
    let reply = world.apply(&node, &patch);
    assert!(matches!(reply, Reply::Stale { .. }), "{reply:?}");
    world.reply(slot, &node, reply);
    world.pass(60);
    assert!(world.open.is_empty() && world.metric("repairs_total 0"), "{:?}", world.open);
}

/// It is sent while the value is listed, and lands when that has been withdrawn.
#[test]
fn reset_repair_that_lands_after_a_withdrawal_changes_nothing() {
    let mut world = standby(1);
    world.reset("node-0");
    world.advance(LEADER_TIME);
    let (_, node, patch) = world.only_patch();
    let annotations = &mut world.nodes.get_mut("node-0").unwrap()["metadata"]["annotations"];
    annotations.as_object_mut().unwrap().remove(ledger::ANNOTATION);
    assert!(matches!(world.apply(&node, &patch), Reply::Stale { .. }));
}

/// It is rejected, sent once more, and lands when another client has written another value.
#[test]
fn reset_repair_after_a_rejection_overwrites_nothing_that_it_has_not_seen() {
    let mut world = standby(1);
    world.reset("node-0");
    world.advance(LEADER_TIME);
    let (slot, node, _) = world.only_patch();
    world.reply(slot, &node, Reply::Rejected("a policy".to_owned()));
    world.advance(Duration::from_secs(5));
    let (_, node, patch) = world.only_patch();
    world.watching = false;
    world.set_dongles("node-0", 6);
    assert!(matches!(world.apply(&node, &patch), Reply::Stale { .. }), "{patch}");
    assert_eq!(world.dongles("node-0"), 6);
}

#[test]
fn standby_leaves_what_no_kubelet_has_reset() {
    let mut world = standby(1);
    // An administrator's 0, and no value at all.
    world.set_dongles("node-0", 0);
    world.advance(Duration::from_secs(10));
    world.set_node("node-0", json!({}));
    world.advance(Duration::from_secs(10));
    // What a device plugin reports: the scheduler sees 0, and the kubelet knows better.
    world.reset("node-0");
    world.edit_node("node-0", |node| node["status"]["capacity"][DONGLE] = json!("4"));
    world.advance(Duration::from_secs(10));
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// Whoever resets it again and again knows why, or is the leader's to judge.
#[test]
fn standby_repairs_twice_in_ten_minutes() {
    let mut world = standby(1);
    let mut repairs = 0;
    for _ in 0..5 {
        world.reset("node-0");
        world.pass(1);
        repairs += usize::from(world.dongles("node-0") == 4);
    }
    assert_eq!(repairs, 2);
    // Nor is it forgotten.
    world.pass(600);
    assert_eq!(world.dongles("node-0"), 4);
}

/// Whether a response arrives does not change how often.
#[test]
fn repairs_of_a_standby_whose_responses_are_lost_count() {
    let mut world = standby(1);
    let mut repairs = 0;
    for _ in 0..5 {
        world.reset("node-0");
        world.advance(LEADER_TIME);
        repairs += world.answer_all(|world, node, patch| {
            world.apply(node, patch);
            failed(504)
        });
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(repairs, 2);
}

/// A whole fleet may restart at once.
#[test]
fn standby_forgets_repairs_that_count_no_more() {
    for is_lost in [false, true] {
        let mut world = standby(1);
        world.reset("node-0");
        world.advance(LEADER_TIME);
        world.answer_all(|world, node, patch| {
            let reply = world.apply(node, patch);
            if is_lost { failed(504) } else { reply }
        });
        let is_remembered = |world: &World| world.reconciler.nodes().get("node-0").unwrap().work().is_some();
        world.advance(Duration::from_secs(590));
        assert!(is_remembered(&world), "lost: {is_lost}");
        world.advance(Duration::from_secs(10));
        assert!(!is_remembered(&world), "nothing else happens to the node; lost: {is_lost}");
    }
}

#[test]
fn failed_repair_of_a_standby_backs_off() {
    let mut world = standby(1);
    world.reset("node-0");
    let mut patches = 0;
    for _ in 0..60 {
        patches += world.answer_all(|_, _, _| failed(500));
        world.advance(Duration::from_secs(1));
    }
    assert!((3..=8).contains(&patches), "{patches} in a minute");
}

/// What a leader has planned, and not sent, it does not send as a standby.
#[test]
fn planned_patches_are_dropped_with_leadership() {
    let mut world = World::leading(100, &[("dongle", 4)]);
    let list = world.open.remove(0);
    world.answer(list);
    assert_eq!(world.patched().len(), 16, "the others are planned");
    world.renews_no_more();
    let sent = world.answer_all(|world, node, patch| world.apply(node, patch));
    world.pass(60);
    assert_eq!((sent, world.open.len()), (16, 0));
    // Nor is that a failure when it leads again.
    world.renews = true;
    world.pass(30);
    assert!((0..100).all(|node| world.dongles(&format!("node-{node}")) == 4));
}

/// The leader's first plan comes while a standby's patch is in flight.
#[test]
fn leadership_that_begins_during_a_repair_goes_on_from_there() {
    let mut world = standby(1);
    world.reset("node-0");
    world.advance(LEADER_TIME);
    assert_eq!(world.patched(), ["node-0"]);
    world.renews = true;
    world.advance(Duration::from_secs(2));
    assert!(world.reconciler.leads(world.now.instant));
    world.pass(2);
    assert_eq!((world.dongles("node-0"), world.ready("dongle").as_str()), (4, "True Advertised"));
    assert!(world.events.contains(&"Repaired".to_owned()), "{:?}", world.events);
}

/// Somebody else has restored the value, and the response to this process's patch was lost.
#[test]
fn repair_of_a_standby_that_may_not_have_been_is_not_reported_later() {
    let mut world = standby(1);
    world.reset("node-0");
    world.advance(LEADER_TIME);
    let (slot, node, _) = world.only_patch();
    world.reply(slot, &node, failed(504));
    world.set_dongles("node-0", 4);
    world.pass(600);
    world.renews = true;
    world.pass(30);
    assert!(world.reconciler.leads(world.now.instant));
    assert!(!world.events.contains(&"Repaired".to_owned()), "{:?}", world.events);
}

/// What it knew of the rules as a leader is old.
#[test]
fn former_leader_holds_no_rules() {
    let mut world = World::leading(3, &[("dongle", 4)]);
    world.run_until_idle();
    world.renews_no_more();
    world.watching = false;
    world.delete_rule("dongle");
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.observe(Observation::Rule(Ok(Event::InitDone)));
    world.pass(10);
    assert!(world.metric("rules_missing 0"));
}

#[test]
fn outage_counts_as_one_restart_of_a_watch() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let restarts = |world: &World| {
        let restarts = &world.metrics().watch_restarts;
        restarts.get_or_create(&[("resource", "nodes")]).get()
    };
    for outage in 1..=3 {
        for _ in 0..100 {
            world.observe(Observation::Node(Err(watcher::Error::NoResourceVersion)));
        }
        assert_eq!(restarts(&world), outage);
        world.set_dongles("node-0", 4);
    }
}
