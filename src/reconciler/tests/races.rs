//! Events that come while something else is under way.

use super::*;

/// Two resources that are lost in turn do not send each other's repairs without a pause.
#[test]
fn repairs_that_fail_in_turn_back_off() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.answer_all(|_, _, _| failed(500));
    let zeros = json!({"example.com/dongle": "0", "example.com/key": "0"});
    world.set_node("node-0", json!({"capacity": zeros, "allocatable": zeros}));
    let mut patches = 0;
    for _ in 0..60 {
        patches += world.answer_all(|_, _, _| failed(500));
        world.advance(Duration::from_secs(1));
    }
    assert!((2..20).contains(&patches), "{patches} patches in a minute");
}

/// A value that is lost while pods are listed is repaired at once.
#[test]
fn repair_does_not_wait_for_a_list_of_pods() {
    let mut world = World::leading(1, &[]);
    world.set_dongles("node-0", 4);
    world.edit_node("node-0", |node| {
        let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
        node["metadata"]["annotations"][crate::model::ledger::ANNOTATION] = json!(ledger);
    });
    world.hears_pods = false;
    world.watch_pods = 503;
    world.set_rule("dongle", json!({"quantity": 2}));
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 4);
    world.set_dongles("node-0", 0);
    world.run();
    assert_eq!(world.patched(), ["node-0"]);
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 4);
}

/// I5: a raise that fails after a lowering is not forgotten.
#[test]
fn raise_after_a_lowering_is_sent_until_it_goes_through() {
    let (mut world, (slot, node, patch)) = World::lowering_while_a_pod_is_bound();
    let reply = world.apply(&node, &patch);
    world.reply(slot, &node, reply);
    world.advance(Duration::from_secs(2));
    let failures = world.answer_all(|_, _, _| failed(500));
    assert!(failures > 0, "the raise has failed");
    world.pass(10);
    assert_eq!(world.dongles("node-0"), 3);
}

/// Where the new quantity is rejected, the old one is repaired.
#[test]
fn rejected_edit_does_not_keep_the_listed_value_from_being_repaired() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 8}));
    let rejects_8 = |world: &mut World, node: &str, patch: &json_patch::Patch| {
        let is_8 = serde_json::to_string(patch).unwrap().contains("\"8\"");
        if is_8 { Reply::Rejected("a policy".to_owned()) } else { world.apply(node, patch) }
    };
    for _ in 0..30 {
        world.answer_all(rejects_8);
        world.advance(Duration::from_secs(1));
    }
    world.set_dongles("node-0", 0);
    world.answer_all(rejects_8);
    assert_eq!(world.dongles("node-0"), 4);
}

/// A held rule that is back and selects fewer nodes is withdrawn from the others.
#[test]
fn held_rule_that_comes_back_for_fewer_nodes_leaves_the_others() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.run_until_idle();
    world.rules.clear();
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.observe(Observation::Rule(Ok(Event::InitDone)));
    world.run_until_idle();
    assert_eq!(world.dongles("node-1"), 4, "held");
    world.set_rule("dongle", json!({"allNodes": null, "nodeNames": ["node-0"]}));
    world.run_until_idle();
    assert_eq!((world.dongles("node-0"), world.dongles("node-1")), (4, -1));
}

/// Events that the API server does not take are sent again with pauses, and slow no patch.
#[test]
fn events_that_fail_back_off_and_slow_no_patch() {
    let mut world = World::leading(40, &[("dongle", 4)]);
    world.run_until_idle();
    world.write_event = 429;
    for number in 0..40 {
        world.set_dongles(&format!("node-{number}"), 0);
    }
    world.run_until_idle();
    assert!(world.events.len() < 30, "{} Events at once", world.events.len());
    world.set_rule("key", json!({"resourceName": "example.com/key", "shrinkPolicy": "Immediate"}));
    world.run();
    assert_eq!(world.patched().len(), 16, "all slots are used");
}

/// A leader that leads again reports what it knows, also where nothing has changed.
#[test]
fn leader_that_leads_again_reports_its_states() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.pass(2);
    assert!(world.metric("nodes{state=\"advertised\"} 2"));
    world.renews_no_more();
    world.advance(Duration::from_secs(1));
    assert!(world.metric("nodes{state=\"advertised\"} 0"));
    world.renews = true;
    world.pass(30);
    assert!(world.metric("nodes{state=\"advertised\"} 2"));
}

/// The watch of a rule that cannot be decoded does not have its status written again and again.
#[test]
fn status_of_a_malformed_rule_is_written_once() {
    let mut world = World::leading(1, &[]);
    world.set_rule("dongle", json!({"quantity": {"of": "another version"}}));
    for _ in 0..20 {
        world.pass(1);
        // The watch shows the status that has been written; what cannot be decoded has none here.
        let version = world.version + 1;
        world.version = version;
        let mut rule = world.rules["dongle"].clone();
        rule["metadata"]["resourceVersion"] = json!(version.to_string());
        world.observe(Observation::Rule(Ok(Event::Apply(object(rule)))));
    }
    assert_eq!(world.statuses.len(), 1);
}

/// After a restore of etcd to lower versions a list of the watch is believed.
#[test]
fn list_of_a_server_that_went_back_is_believed() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let mut rule = world.rules["dongle"].clone();
    rule["metadata"]["resourceVersion"] = json!("20");
    rule["spec"]["quantity"] = json!(6);
    let mut node = world.nodes["node-0"].clone();
    node["metadata"]["resourceVersion"] = json!("21");
    world.nodes.insert("node-0".to_owned(), node.clone());
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.observe(Observation::Rule(Ok(Event::InitApply(object(rule)))));
    world.observe(Observation::Rule(Ok(Event::InitDone)));
    world.list_nodes();
    world.run_until_idle();
    assert_eq!(world.dongles("node-0"), 6);
}

/// A patch that was applied, and whose response was lost, is reported all the same.
#[test]
fn change_whose_response_is_lost_is_reported() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.delete_rule("dongle");
    world.run();
    let (slot, node, patch) = world.only_patch();
    world.apply(&node, &patch);
    world.reply(slot, &node, failed(504));
    world.pass(5);
    assert!(world.events.contains(&"Withdrawn".to_owned()), "{:?}", world.events);
}

/// Nor is a change reported where another rule has come to declare the same value, and another process has written it.
#[test]
fn value_that_is_written_for_another_rule_is_not_reported_for_the_first() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite"}));
    world.set_dongles("node-0", 2);
    world.run();
    let (slot, node, _) = world.only_patch();
    world.reply(slot, &node, failed(504));
    world.delete_rule("dongle");
    world.set_rule("second", json!({}));
    let ledger = json!({"example.com/dongle": {"quantity": "4", "rule": "second"}}).to_string();
    world.nodes.get_mut(&node).unwrap()["metadata"]["annotations"] = json!({crate::model::ledger::ANNOTATION: ledger});
    world.set_dongles(&node, 4);
    world.pass(5);
    assert!(!world.events.contains(&"TakenOver".to_owned()), "{:?}", world.events);
}

/// Nor is a withdrawal reported where somebody has removed the entry, and the value is still there.
#[test]
fn withdrawal_of_which_only_the_entry_is_gone_is_not_reported() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.delete_rule("dongle");
    world.run();
    let (slot, node, _) = world.only_patch();
    let annotations = json!({"a": "b"});
    world.nodes.get_mut(&node).unwrap()["metadata"]["annotations"] = annotations;
    world.set_dongles(&node, 4);
    world.reply(slot, &node, failed(504));
    world.pass(5);
    assert!(!world.events.contains(&"Withdrawn".to_owned()), "{:?}", world.events);
    assert_eq!(world.dongles(&node), 4);
}

/// A change that was rejected, and then is not answered, waits for the end of the longer pause.
#[test]
fn failure_of_the_node_after_a_rejection_backs_off() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"quantity": 8}));
    world.answer_all(|_, _, _| Reply::Rejected("a policy".to_owned()));
    let mut patches = 0;
    for _ in 0..60 {
        patches += world.answer_all(|_, _, _| failed(500));
        world.advance(Duration::from_secs(1));
    }
    assert!((1..20).contains(&patches), "{patches} patches in a minute");
}

/// What was not applied is not reported when the rule is gone.
#[test]
fn change_that_was_not_applied_is_not_reported() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite"}));
    world.set_dongles("node-0", 2);
    world.answer_all(|_, _, _| failed(504));
    world.delete_rule("dongle");
    world.pass(5);
    assert!(!world.events.contains(&"TakenOver".to_owned()), "{:?}", world.events);
}

/// Nodes that have failed together go on together when the API server is back.
#[test]
fn nodes_that_failed_together_go_on_together() {
    let mut world = World::leading(100, &[]);
    world.reconciler.options.concurrency = 1;
    world.run_until_idle();
    world.set_rule("dongle", json!({}));
    for _ in 0..5 {
        world.answer_all(|_, _, _| failed(503));
        world.advance(Duration::from_secs(1));
    }
    world.pass(15);
    let missing = (0..100).filter(|number| world.dongles(&format!("node-{number}")) != 4);
    assert_eq!(missing.count(), 0);
}

/// I10: a rule that is edited, and edited back, while a patch for it is in flight, is not in force before the response.
#[test]
fn rule_with_an_older_patch_in_flight_is_not_reported_in_force() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.pass(2);
    world.set_rule("dongle", json!({"quantity": 5}));
    world.run();
    let (slot, node, patch) = world.only_patch();
    world.set_rule("dongle", json!({"quantity": 4}));
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("dongle"), "False Progressing");
    let reply = world.apply(&node, &patch);
    world.reply(slot, &node, reply);
    world.pass(5);
    assert_eq!((world.dongles("node-0"), world.ready("dongle").as_str()), (4, "True Advertised"));
}

/// I10: a value that is lost while a patch for another resource is in flight is reported before the response.
#[test]
fn value_that_is_lost_while_a_patch_is_in_flight_is_reported() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.pass(2);
    assert_eq!(world.ready("key"), "True Advertised");
    world.set_rule("dongle", json!({"quantity": 5}));
    world.run();
    let amounts = json!({"example.com/dongle": "4", "example.com/key": "0"});
    world.set_node("node-0", json!({"capacity": amounts, "allocatable": amounts}));
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("key"), "False Progressing");
}

/// A status that was sent first, and whose response was lost, lands after the next one.
#[test]
fn late_status_is_replaced() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.pass(2);
    let before = world.rules["dongle"]["status"].clone();
    world.late_status = Some(before.clone());
    world.set_rule("dongle", json!({"quantity": 6}));
    world.pass(5);
    assert_ne!(world.rules["dongle"]["status"], before);
    assert_eq!(world.rules["dongle"]["status"]["total"], "6");
}
