//! Writes of statuses that fail.

use super::*;

/// Statuses are written few at a time, and again after a conflict.
#[test]
fn status_that_is_rejected_is_written_again_with_backoff() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    for code in [409, 404, 500, 429] {
        world.write_status = code;
        let before = world.statuses.len();
        world.set_rule("dongle", json!({"quantity": 4 + u64::from(code)}));
        world.run_until_idle();
        world.advance(Duration::from_secs(300));
        let tries = world.statuses.len() - before;
        assert!((4..20).contains(&tries), "{code}: {tries} writes in five minutes");
        world.write_status = 200;
        world.advance(Duration::from_secs(130));
        world.run_until_idle();
        assert_eq!(world.ready("dongle"), "True Advertised");
    }
}

#[test]
fn side_writes_are_limited() {
    let rules: Vec<_> = (0..50).map(|number| format!("rule-{number}")).collect();
    let rules: Vec<_> = rules.iter().map(|rule| (rule.as_str(), 4)).collect();
    let mut world = World::leading(1, &rules);
    world.run_until_idle();
    world.now.instant += Duration::from_millis(60);
    let step = world.reconciler.next(world.now);
    let statuses = step.requests.iter().filter(|request| matches!(request.effect, Effect::PatchStatus { .. }));
    assert_eq!(statuses.count(), 4);
}

/// The watch shows later that the rule is gone, or that another one has its name.
#[test]
fn status_of_a_rule_that_is_gone_is_not_written_again() {
    for is_recreated in [false, true] {
        let mut world = World::leading(1, &[("dongle", 4)]);
        world.pass(2);
        world.watching = false;
        world.delete_rule("dongle");
        if is_recreated {
            world.set_rule("dongle", json!({"quantity": 5}));
        }
        world.watching = true;
        let before = world.statuses.len();
        world.set_node("node-1", json!({}));
        world.pass(600);
        assert_eq!(world.statuses.len() - before, 1, "recreated: {is_recreated}");
        assert!(world.metric(r#"status_writes_total{result="gone"} 1"#));
        world.set_rule("dongle", json!({"quantity": 6}));
        world.pass(2);
        assert_eq!(world.ready("dongle"), "True Advertised");
        assert!(world.rules["dongle"]["status"].is_object());
    }
}

/// What is exported is the state of the rule, and not what its object says for as long as nobody can write it.
#[test]
fn rule_whose_status_cannot_be_written_counts_as_what_it_is() {
    for (code, result) in [(403, "forbidden"), (422, "rejected"), (500, "failed")] {
        let mut world = World::leading(1, &[("dongle", 4)]);
        world.pass(2);
        assert!(world.metric(r#"rules{state="ready"} 1"#));
        let written = r#"status_writes_total{result="written"} "#;
        let written = format!("{written}{}", world.statuses.len());
        assert!(world.metric(&written), "{written}");
        world.write_status = code;
        let selector = json!({"matchLabels": {"zone": "b"}});
        world.set_rule("dongle", json!({"allNodes": null, "nodeSelector": selector, "quantity": "many"}));
        world.pass(60);
        for line in [r#"rules{state="ready"} 0"#, r#"rules{state="stalled"} 1"#, &written] {
            assert!(world.metric(line), "{code}: {line}");
        }
        assert!(!world.metric(&format!(r#"status_writes_total{{result="{result}"}} 0"#)), "{code}");
        world.set_rule("dongle", json!({"allNodes": null, "nodeSelector": selector}));
        world.pass(60);
        assert!(world.metric("rules_without_nodes 1") && world.metric(r#"rules{state="stalled"} 0"#), "{code}");
        world.write_status = 200;
        world.set_rule("dongle", json!({}));
        world.pass(400);
        assert!(world.metric("rules_without_nodes 0") && world.metric(r#"rules{state="ready"} 1"#), "{code}");
    }
}
