//! Field managers that undo what the controller writes.

use super::*;

/// How many patches a node gets in `seconds` while something undoes each.
fn patches(world: &mut World, seconds: u64, undo: impl Fn(&mut World)) -> usize {
    patches_with(world, seconds, |reply| reply, undo)
}

/// The same, with these responses to patches that are applied.
fn patches_with(world: &mut World, seconds: u64, response: fn(Reply) -> Reply, undo: impl Fn(&mut World)) -> usize {
    let mut patches = 0;
    for _ in 0..seconds {
        world.run();
        // Whoever never backs off patches forever.
        while !world.open.is_empty() && patches < 100 {
            match world.open.remove(0) {
                list @ Open::Rules(_) => world.answer(list),
                Open::Patch { slot, node, patch, .. } => {
                    patches += 1;
                    let reply = world.apply(&node, &patch);
                    world.reply(slot, &node, response(reply));
                    undo(world);
                    world.run();
                }
            }
        }
        world.advance(Duration::from_secs(1));
    }
    patches
}

#[test]
fn repeated_reverts_are_a_contest() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 2);
    let patches = patches(&mut world, 600, |world| world.set_dongles("node-0", 2));
    assert!((6..=12).contains(&patches), "{patches} patches in ten minutes");
    assert_eq!(world.ready("dongle"), "False Contested");
    assert!(world.events.contains(&"Contested".to_owned()));
}

/// I10: a repair whose response is lost has happened.
#[test]
fn repairs_whose_responses_are_lost_count() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 2);
    let patches = patches_with(&mut world, 600, |_| failed(504), |world| world.set_dongles("node-0", 2));
    assert!((6..=12).contains(&patches), "{patches} patches in ten minutes");
    assert!(world.metric(&format!("repairs_total {patches}")), "{patches}");
    assert_eq!(world.ready("dongle"), "False Contested");
    assert_eq!(world.events.iter().filter(|reason| *reason == "Contested").count(), 2, "on the node, and on the rule");
}

/// Something that takes the annotation away is a contest too.
#[test]
fn lost_annotation_is_a_contest_under_overwrite() {
    for response in [|reply| reply, |_| failed(504)] {
        let mut world = World::leading(1, &[]);
        world.run_until_idle();
        world.set_rule("dongle", json!({"conflictPolicy": "Overwrite"}));
        world.run_until_idle();
        let strip = |world: &mut World| {
            let node = world.nodes.get_mut("node-0").unwrap();
            node["metadata"]["annotations"] = json!({"a": "b"});
            world.set_dongles("node-0", 0);
        };
        strip(&mut world);
        let count = patches_with(&mut world, 600, response, strip);
        assert!((5..=12).contains(&count), "{count} patches in ten minutes");
        assert_eq!(world.ready("dongle"), "False Contested");
    }
}

/// A policy may write a number of its own with every write to a node.
#[test]
fn own_write_that_admission_changes_is_a_contest_with_admission() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.admission = |node| node["status"]["capacity"]["example.com/dongle"] = json!("2");
    world.set_dongles("node-0", 2);
    let patches = patches(&mut world, 600, |_| {});
    assert!((6..=12).contains(&patches), "{patches} patches in ten minutes");
    assert_eq!(world.ready("dongle"), "False Contested");
    // I10: it has repaired nothing.
    assert!(!world.events.contains(&"Repaired".to_owned()) && world.metric("repairs_total 0"), "{:?}", world.events);
    let (_, status) = world.statuses.last().unwrap();
    let expected = "an admission policy or webhook keeps changing what the controller writes";
    let advice = "exempt the controller from that policy or webhook, or exclude the node from the rule";
    let contested = status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "Contested").unwrap();
    assert_eq!(contested["message"], format!("{expected} on node-0; {advice}"));
    assert_eq!(status["problems"][0]["message"], format!("{expected}; {advice}"));
    // What admission puts back is not reported as withdrawn.
    world.events.clear();
    world.delete_rule("dongle");
    world.run_until_idle();
    assert_eq!(world.ledger("node-0"), None);
    world.advance(Duration::from_secs(2));
    // The value is another one than the ledger's, so it stays.
    assert_eq!(world.events, ["Released"]);
}

#[test]
fn value_that_admission_puts_back_is_not_reported_as_withdrawn() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.admission = |node| node["status"]["capacity"]["example.com/dongle"] = json!("4");
    world.delete_rule("dongle");
    world.run_until_idle();
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ledger("node-0"), None);
    assert_eq!(world.events, ["PatchFailed"]);
}

/// An edit of the rule does not wait for the end of a pause.
#[test]
fn edited_rule_is_written_during_a_contest() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 2);
    patches(&mut world, 30, |world| world.set_dongles("node-0", 2));
    world.set_rule("dongle", json!({"quantity": 16}));
    world.run();
    assert_eq!(world.patched(), ["node-0"]);
}

impl World {
    /// The value of a node as declared again, after another field manager has raised it for a minute.
    fn after_a_contest() -> Self {
        let mut world = Self::leading(1, &[("dongle", 4)]);
        for second in 0..120 {
            world.run_until_idle();
            if second < 60 && world.dongles("node-0") == 4 {
                world.set_dongles("node-0", 9);
            }
            world.advance(Duration::from_secs(1));
        }
        assert_eq!((world.dongles("node-0"), &*world.ready("dongle")), (4, "False Contested"));
        world
    }
}

/// A pod is bound and starts while a value goes down, and then the annotation is removed again: the value goes up after the
/// pause.
#[test]
fn lowering_in_a_contest_of_the_annotation_is_undone_for_a_pod() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    let strip = |world: &mut World| {
        world.nodes.get_mut("node-0").unwrap()["metadata"]["annotations"] = json!({"a": "b"});
        world.set_dongles("node-0", u64::try_from(world.dongles("node-0")).unwrap());
    };
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite"}));
    world.run_until_idle();
    for _ in 0..10 {
        if world.events.contains(&"Contested".to_owned()) {
            break;
        }
        strip(&mut world);
        world.pass(2);
    }
    assert!(world.ledger("node-0").is_some() && world.events.contains(&"Contested".to_owned()), "{:?}", world.events);
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite", "quantity": 2}));
    world.run();
    let (slot, node, patch) = world.only_patch();
    world.bind(&node, 3);
    let reply = world.apply(&node, &patch);
    world.reply(slot, &node, reply);
    assert_eq!(world.dongles(&node), 2);
    strip(&mut world);
    world.pass(120);
    assert_eq!(world.dongles(&node), 3);
}

/// A contest is remembered for ten minutes.
#[test]
fn end_of_a_contest_costs_no_request() {
    let mut world = World::after_a_contest();
    for _ in 0..600 {
        world.advance(Duration::from_secs(1));
        world.run();
        assert!(world.open.is_empty(), "{:?}", world.open);
    }
    assert_eq!(world.ready("dongle"), "True Advertised");
}

/// A contest is remembered for ten minutes. A value that was lowered in it, and is gone, needs no pods.
#[test]
fn withdrawn_value_of_a_contest_costs_no_request() {
    let mut world = World::after_a_contest();
    world.delete_rule("dongle");
    world.run_until_idle();
    assert_eq!(world.ledger("node-0"), None);
    world.advance(Duration::from_secs(5));
    world.run_until_idle();
    world.relabel("node-0", json!({"zone": "b"}));
    world.run();
    assert!(world.open.is_empty(), "{:?}", world.open);
}

/// A new leader does not begin with five more repairs.
#[test]
fn new_leader_takes_up_the_contest_that_statuses_report() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 2);
    patches(&mut world, 60, |world| world.set_dongles("node-0", 2));
    assert_eq!(world.ready("dongle"), "False Contested");
    world.renews_no_more();
    world.renews = true;
    world.advance(Duration::from_secs(20));
    assert!(world.reconciler.leads(world.now.instant));
    let patches = patches(&mut world, 25, |world| world.set_dongles("node-0", 2));
    assert!(patches <= 1, "{patches} patches in the first seconds");
}

/// What was repaired once is forgotten when it no longer counts.
#[test]
fn history_of_repairs_is_dropped() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.run_until_idle();
    assert!(world.reconciler.nodes().get("node-0").unwrap().work().is_some());
    world.advance(Duration::from_secs(601));
    assert!(world.reconciler.nodes().get("node-0").unwrap().work().is_none());
}
