//! Patches that do not go through.

use super::*;

#[test]
fn failed_patch_is_sent_again_with_backoff_for_any_response() {
    type Response = fn() -> Reply;
    let replies: [(&str, Response); 6] = [
        ("500", || failed(500)),
        ("403, a right", || Reply::Forbidden("no right".to_owned())),
        ("403, a policy", || Reply::Rejected("a policy".to_owned())),
        ("404", || Reply::NotFound),
        ("422", || Reply::Rejected("invalid".to_owned())),
        ("no answer", || Reply::from(RequestError::Transport("no answer".to_owned()))),
    ];
    for (what, reply) in replies {
        patches_back_off(what, reply, false);
        patches_back_off(what, reply, true);
    }
}

fn patches_back_off(what: &str, reply: fn() -> Reply, is_repair: bool) {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    if is_repair {
        world.set_dongles("node-0", 0);
    } else {
        world.set_rule("dongle", json!({"quantity": 8}));
    }
    let mut patches = 0;
    for _ in 0..600 {
        world.run();
        while !world.open.is_empty() {
            let (slot, node, _) = world.only_patch();
            patches += 1;
            world.reply(slot, &node, reply());
        }
        world.advance(Duration::from_secs(1));
    }
    assert!((5..=30).contains(&patches), "{what}: {patches} patches in ten minutes");
    world.run_until_idle();
    for _ in 0..5 {
        world.advance(Duration::from_secs(60));
        world.run_until_idle();
    }
    assert_eq!(world.dongles("node-0"), if is_repair { 4 } else { 8 }, "{what}");
}

/// What is planned while the rules are listed, repairs alone, says nothing about what has failed.
#[test]
fn list_of_the_rules_ends_no_backoff() {
    type Response = fn() -> Reply;
    let replies: [(Response, bool); 2] =
        [(|| Reply::Rejected("a policy".to_owned()), false), (|| Reply::Forbidden("no right".to_owned()), true)];
    for (reply, is_forbidden) in replies {
        let mut world = World::leading(1, &[("dongle", 4)]);
        for name in ["key", "card"] {
            world.set_rule(name, json!({"resourceName": format!("example.com/{name}")}));
        }
        world.run_until_idle();
        let rules = world.rules.clone();
        world.rules.retain(|name, _| name == "dongle");
        world.list_rules();
        world.run_until_idle();
        world.advance(Duration::from_secs(299));
        world.run();
        assert!(world.metric("rules_missing 2"));
        world.set_rule("dongle", json!({"quantity": 8}));
        world.run();
        let (slot, node, _) = world.only_patch();
        // The list that ends the hold begins, by which the rules are back, and the response comes.
        world.holds_lists = true;
        world.rules = rules.into_iter().chain([("dongle".to_owned(), world.rules["dongle"].clone())]).collect();
        world.advance(Duration::from_secs(1));
        world.run();
        world.reply(slot, &node, reply());
        let is_reported = |world: &World| world.readiness().patches.is_some();
        assert_eq!(is_reported(&world), is_forbidden);
        // The node is planned in the meantime.
        world.relabel("node-0", json!({"zone": "b"}));
        world.run();
        assert!(!world.reconciler.knows_all(), "the rules are listed");
        assert_eq!(is_reported(&world), is_forbidden);
        assert_eq!(world.answer_all(|_, _, _| panic!("it is too early")), 0);
        assert!(world.reconciler.knows_all());
        world.pass(600);
        assert_eq!(world.dongles("node-0"), 8);
    }
}

#[test]
fn patch_that_is_undone_on_its_way_is_a_failure() {
    let with_value = || World::leading(1, &[("dongle", 4)]);
    for (what, mut world, quantity) in [
        ("raised", with_value(), 8),
        ("lowered, once pods are known", with_value(), 2),
        ("new, once pods are known", World::leading(1, &[]), 4),
    ] {
        world.run_until_idle();
        world.set_rule("dongle", json!({"quantity": quantity}));
        let (mut patches, mut lists) = (0, 0);
        for _ in 0..600 {
            world.run();
            while !world.open.is_empty() {
                match world.open.remove(0) {
                    Open::Patch { slot, node, .. } => {
                        patches += 1;
                        let mut same = world.nodes[&node].clone();
                        same["metadata"]["resourceVersion"] = json!((9000 + patches).to_string());
                        world.reply(slot, &node, Reply::Patched(Box::new(object(same))));
                    }
                    list => {
                        lists += 1;
                        world.answer(list);
                    }
                }
            }
            world.advance(Duration::from_secs(1));
        }
        assert!((5..=30).contains(&patches), "{what}: {patches} patches in ten minutes");
        assert!(lists <= 60, "{what}: {lists} lists in ten minutes");
        assert_eq!(world.ready("dongle"), "False PatchFailed", "{what}");
    }
}

/// I10: what is undone on its way has not happened.
#[test]
fn change_that_is_undone_on_its_way_is_not_reported() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    world.set_dongles("node-0", 9);
    world.set_rule("dongle", json!({"conflictPolicy": "Overwrite", "shrinkPolicy": "Immediate"}));
    let mut patches = 0;
    for _ in 0..60 {
        patches += world.answer_all(|world, node, _| {
            let version = world.next_version();
            let node = world.nodes.get_mut(node).unwrap();
            node["metadata"]["resourceVersion"] = json!(version);
            Reply::Patched(Box::new(object(node.clone())))
        });
        world.advance(Duration::from_secs(1));
    }
    assert!(patches > 1 && !world.events.contains(&"TakenOver".to_owned()), "{patches}: {:?}", world.events);
}

/// Another field manager that is quicker than the response is repaired at once.
#[test]
fn foreign_write_before_the_response_is_repaired() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_dongles("node-0", 0);
    world.run();
    let (slot, node, patch) = world.only_patch();
    let reply = world.apply(&node, &patch);
    world.set_dongles("node-0", 0);
    world.reply(slot, &node, reply);
    assert_eq!(world.patched(), ["node-0"]);
}

/// I9: a resource that admission rejects does not hold up the others on its node.
#[test]
fn rejected_resource_does_not_hold_up_the_others() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    for number in 0..4 {
        let resource = format!("example.com/r{number}");
        world.set_rule(&format!("r{number}"), json!({"resourceName": resource}));
    }
    let rejected = "example.com~1r2";
    for _ in 0..120 {
        world.answer_all(|world, node, patch| {
            let is_rejected = serde_json::to_string(patch).unwrap().contains(rejected);
            if is_rejected { Reply::Rejected("a policy".to_owned()) } else { world.apply(node, patch) }
        });
        world.advance(Duration::from_secs(1));
    }
    let ledger = world.ledger("node-0").unwrap();
    assert!(["r0", "r1", "r3"].iter().all(|rule| ledger.contains(rule)), "{ledger}");
    assert!(!ledger.contains("r2"));
    assert_eq!(world.ready("r0"), "True Advertised");
    assert_eq!(world.ready("r2"), "False PatchFailed");
}

#[test]
fn rejected_resource_among_many_is_found_in_few_patches() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    world.watching = false;
    for number in 0..256 {
        let resource = format!("example.com/r{number:03}");
        world.set_rule(&format!("r{number:03}"), json!({"resourceName": resource}));
    }
    world.list_all();
    let mut patches = 0;
    let mut answer = |world: &mut World| {
        world.answer_all(|world, node, patch| {
            patches += 1;
            let is_rejected = serde_json::to_string(patch).unwrap().contains("example.com~1r100");
            if is_rejected { Reply::Rejected("a policy".to_owned()) } else { world.apply(node, patch) }
        });
        world.ledger("node-0").map_or(0, |ledger| ledger.matches("quantity").count())
    };
    let mut rounds = 0;
    while answer(&mut world) < 255 {
        world.advance(Duration::from_secs(1));
        rounds += 1;
        assert!(rounds < 60, "{rounds} rounds");
    }
    assert!(patches < 40, "{patches} patches");
    world.advance(Duration::from_secs(2));
    assert_eq!([world.ready("r099"), world.ready("r100")], ["True Advertised", "False PatchFailed"]);
}

/// I9: one author, whose 500 values are all rejected, and another one, whose value is named after them.
#[test]
fn rejected_values_of_one_domain_do_not_delay_another_domain() {
    let mut world = World::leading(1, &[]);
    world.run_until_idle();
    world.watching = false;
    for number in 0..500 {
        let resource = format!("a.example.com/r{number:03}");
        world.set_rule(&format!("r{number:03}"), json!({"resourceName": resource}));
    }
    world.set_rule("other", json!({"resourceName": "b.example.com/seat"}));
    world.list_all();
    let (mut patches, mut found) = (0, None);
    world.answer_all(|world, node, patch| {
        patches += 1;
        let text = serde_json::to_string(patch).unwrap();
        if text.contains("a.example.com~1") {
            return Reply::Rejected("a policy".to_owned());
        }
        found.get_or_insert(patches);
        world.apply(node, patch)
    });
    assert_eq!(found, Some(10), "after nine with ever fewer of the others");
    assert!(world.ledger("node-0").unwrap().contains("b.example.com/seat"));
}

/// The next edit of what was rejected, and what somebody else has written since, waits for nothing.
#[test]
fn rejection_is_forgotten_once_the_resource_is_as_declared() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    world.set_dongles("node-0", 0);
    for _ in 0..100 {
        world.answer_all(|_, _, _| Reply::Rejected("a policy".to_owned()));
        world.advance(Duration::from_secs(1));
    }
    world.set_dongles("node-0", 4);
    world.answer_all(|_, _, _| Reply::Rejected("a policy".to_owned()));
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("dongle"), "True Advertised");
    world.set_rule("dongle", json!({"quantity": 8}));
    world.answer_all(|world, node, patch| {
        let is_key = serde_json::to_string(patch).unwrap().contains("~1key\"");
        if is_key { Reply::Rejected("a policy".to_owned()) } else { world.apply(node, patch) }
    });
    assert_eq!(world.dongles("node-0"), 8);
    assert_eq!(world.ready("key"), "False PatchFailed");
}

/// A value that is lost while a node waits after a failure is repaired at once.
#[test]
fn new_repair_does_not_wait_for_the_end_of_a_pause() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("key", json!({"resourceName": "example.com/key"}));
    for _ in 0..6 {
        world.answer_all(|_, _, _| failed(500));
        world.advance(Duration::from_secs(10));
    }
    world.answer_all(|_, _, _| failed(500));
    world.set_dongles("node-0", 0);
    world.run();
    let (slot, node, patch) = world.only_patch();
    let reply = world.apply(&node, &patch);
    world.reply(slot, &node, reply);
    assert_eq!(world.dongles("node-0"), 4);
}

/// Overload slows everything but repairs, and its end is noticed.
#[test]
fn overload_slows_the_rollout_and_its_end_is_noticed() {
    let mut world = World::leading(200, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    let mut asked = 0;
    for _ in 0..60 {
        asked += world.answer_all(|_, _, _| failed(503));
        world.advance(Duration::from_secs(1));
    }
    assert!(asked < 2500, "{asked} requests in a minute of outage");
    let began = world.now.instant;
    while (0..200).any(|number| world.dongles(&format!("node-{number}")) != 4) {
        world.run_until_idle();
        world.advance(Duration::from_millis(200));
        let took = world.now.instant.duration_since(began);
        assert!(took < Duration::from_secs(10), "it goes on once one patch goes through");
    }
}

/// With rights for some nodes only, a success does not retry all forbidden ones each time.
#[test]
fn success_elsewhere_probes_forbidden_nodes_now_and_then() {
    let mut world = World::leading(120, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    let mut forbidden = 0;
    for second in 0..20 {
        world.answer_all(|world, node, patch| {
            let number: usize = node[5..].parse().unwrap();
            if number >= 60 {
                return world.apply(node, patch);
            }
            forbidden += 1;
            Reply::Forbidden("no right".to_owned())
        });
        world.set_dongles(&format!("node-{}", 60 + second), 0);
        world.advance(Duration::from_secs(1));
    }
    assert!(forbidden < 600, "{forbidden} forbidden patches in 20 seconds");
    assert!(world.readiness().patches.is_some());
    for _ in 0..20 {
        world.run_until_idle();
        world.advance(Duration::from_secs(10));
    }
    assert_eq!(world.readiness().patches, None, "the right is there now");
}

/// What comes back for some nodes only is tried on each of the others once, not once for each success.
#[test]
fn recovery_tries_each_node_once() {
    let mut world = World::leading(120, &[]);
    world.run_until_idle();
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.answer_all(|_, _, _| Reply::Forbidden("no right".to_owned()));
    let (mut forbidden, mut patched) = (0, 0);
    let has_right = |node: &str| node[5..].parse::<usize>().unwrap() >= 60;
    while patched < 60 {
        world.advance(Duration::from_millis(100));
        world.answer_all(|world, node, patch| {
            let is_patched = has_right(node);
            (patched, forbidden) = (patched + usize::from(is_patched), forbidden + usize::from(!is_patched));
            if is_patched { world.apply(node, patch) } else { Reply::Forbidden("no right".to_owned()) }
        });
        assert!(forbidden < 600, "{forbidden} patches in vain for {patched} successes");
    }
    assert!(forbidden < 180, "{forbidden} patches in vain");
    assert!(world.readiness().patches.is_some());
}

/// I9: a webhook's pause is about one node; only that of the API server is about all.
#[test]
fn pause_that_a_webhook_asks_for_is_about_one_node() {
    let mut world = World::new(2);
    for number in 0..10 {
        world.set_node(&format!("node-{number}"), json!({}));
    }
    world.set_rule("dongle", json!({"shrinkPolicy": "Immediate"}));
    world.start();
    let mut deferred = Vec::new();
    for _ in 0..700 {
        let now = world.now.instant;
        world.answer_all(|world, node, patch| {
            if node != "node-0" {
                return world.apply(node, patch);
            }
            deferred.push(now);
            Reply::Deferred { message: "later".to_owned(), retry_after: Some(Duration::from_secs(300)) }
        });
        if now.duration_since(deferred[0]) == Duration::from_secs(10) {
            assert!((1..10).all(|number| world.dongles(&format!("node-{number}")) == 4));
        }
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(world.ready("dongle"), "False PatchFailed");
    let pauses: Vec<_> = deferred.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert!(!pauses.is_empty() && pauses.iter().all(|pause| *pause >= 300), "{pauses:?}");
    world.pass(400);
    assert_eq!(world.dongles("node-0"), 4);
}

#[test]
fn withdrawal_that_fails_is_reported() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.delete_rule("dongle");
    world.run();
    let (slot, node, _) = world.only_patch();
    world.reply(slot, &node, failed(500));
    assert!(world.events.contains(&"PatchFailed".to_owned()), "{:?}", world.events);
}

/// I10: where a rejected repair writes what another rule has listed, the rule that decides by now is not in force.
#[test]
fn rejected_repair_is_reported_by_the_rule_that_decides() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    world.set_rule("first", json!({"priority": 1}));
    world.set_dongles("node-0", 0);
    let reject = |_: &mut World, _: &str, _: &json_patch::Patch| Reply::Rejected("no".to_owned());
    for _ in 0..5 {
        world.answer_all(reject);
        world.advance(Duration::from_secs(2));
    }
    assert_eq!(world.ready("first"), "False PatchFailed");
}
