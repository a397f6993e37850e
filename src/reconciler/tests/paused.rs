//! A rule that is paused, edited, and resumed.

use super::*;

fn wait(world: &mut World) {
    world.run_until_idle();
    world.advance(Duration::from_secs(2));
}

#[test]
fn paused_rule_is_only_repaired() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    wait(&mut world);
    world.set_rule("dongle", json!({"paused": true}));
    wait(&mut world);
    assert_eq!(world.ready("dongle"), "True Paused");
    world.set_rule("dongle", json!({"paused": true, "quantity": 9}));
    wait(&mut world);
    assert_eq!(world.ready("dongle"), "False Paused");
    world.reset("node-0");
    world.set_node("node-new", json!({}));
    wait(&mut world);
    assert_eq!([world.dongles("node-0"), world.dongles("node-1"), world.dongles("node-new")], [4, 4, -1]);
    let (_, status) = world.statuses.last().unwrap();
    assert_eq!(status["total"], "8");
    let problem = |place: usize| &status["problems"][place];
    assert_eq!(problem(0)["message"], "stays at 4 while the rule is paused");
    assert_eq!(problem(2)["message"], "not advertised while the rule is paused");
    world.set_rule("dongle", json!({"quantity": 9}));
    wait(&mut world);
    assert_eq!([world.dongles("node-0"), world.dongles("node-new")], [9, 9]);
    assert_eq!(world.ready("dongle"), "True Advertised");
}

/// The resumed rule does not select them anymore, and neither did the paused one.
#[test]
fn resumed_rule_is_withdrawn_where_it_was_edited_away() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    wait(&mut world);
    let named = |paused: bool| json!({"paused": paused, "allNodes": null, "nodeNames": ["node-0"]});
    world.set_rule("dongle", json!({"paused": true}));
    wait(&mut world);
    world.set_rule("dongle", named(true));
    wait(&mut world);
    assert_eq!(world.dongles("node-1"), 4);
    world.set_rule("dongle", named(false));
    wait(&mut world);
    assert_eq!([world.dongles("node-0"), world.dongles("node-1")], [4, -1]);
}

#[test]
fn deleted_rule_is_withdrawn_although_it_was_paused() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    wait(&mut world);
    world.set_rule("dongle", json!({"paused": true}));
    wait(&mut world);
    world.delete_rule("dongle");
    wait(&mut world);
    assert_eq!((world.dongles("node-0"), world.ledger("node-0")), (-1, None));
}
