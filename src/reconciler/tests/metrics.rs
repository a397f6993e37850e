//! What `/metrics` shows after a story in which most things happen. The tests of the chart's alerts and dashboard read
//! the recording, so that a renamed metric or label value makes them fail.

use std::path::Path;

use super::*;
use crate::controller::metrics::Metrics;

/// A leader that has counted each result of a patch, of a write of a status, of a start of a kubelet, of a self-test, and of
/// a watch.
fn story() -> World {
    let mut world = World::leading(6, &[("dongle", 4)]);
    world.run_until_idle();
    world.bind("node-0", 3);
    world.set_rule("dongle", json!({"quantity": 8}));
    world.run();
    let replies: [fn(&World) -> Reply; 4] = [
        |world| Reply::Stale { node: Box::new(object(world.nodes["node-0"].clone())), message: "422".to_owned() },
        |_| Reply::NotFound,
        |_| Reply::Forbidden("no right".to_owned()),
        |_| failed(500),
    ];
    for reply in replies {
        let Open::Patch { slot, node, .. } = world.open.remove(0) else { panic!("{:?}", world.open) };
        let reply = reply(&world);
        world.reply(slot, &node, reply);
    }
    world.run_until_idle();

    for (code, node) in [(422, "node-6"), (403, "node-7"), (500, "node-8"), (200, "node-9")] {
        world.write_status = code;
        world.set_node(node, json!({}));
        world.run_until_idle();
        world.advance(Duration::from_secs(60));
    }
    // Before the watch shows that it is gone.
    let rule = world.rules.remove("dongle").unwrap();
    world.set_node("node-10", json!({}));
    world.run_until_idle();
    world.advance(Duration::from_secs(60));
    world.rules.insert("dongle".to_owned(), rule);
    world.edit_node("node-5", |node| node["status"]["nodeInfo"] = json!({"bootID": "first"}));
    world.edit_node("node-5", |node| node["status"]["nodeInfo"] = json!({"bootID": "second"}));
    world.reset("node-5");
    world.observe(Observation::Node(Err(watcher::Error::NoResourceVersion)));
    world.observe(Observation::Rule(Err(watcher::Error::NoResourceVersion)));
    world.observe(Observation::Pods(Err(watcher::Error::NoResourceVersion)));
    world.observe(Observation::WatchBegan(Watched::Rules));
    for reply in [Ok(()), Err(error(500)), confinement::rejection()] {
        world.answer_self_test(reply);
        world.advance(Duration::from_secs(60));
    }
    world.run_until_idle();
    world
}

fn text(metrics: &Metrics) -> String {
    metrics.text().unwrap().replace(concat!("\"", env!("CARGO_PKG_VERSION"), "\""), "\"0.0.0\"")
}

fn series(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect()
}

#[test]
fn rules_are_counted_by_state_until_they_are_gone() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.pass(5);
    let counts = |world: &World, [ready, stalled]: [usize; 2]| {
        let counts = [format!(r#"rules{{state="ready"}} {ready}"#), format!(r#"rules{{state="stalled"}} {stalled}"#)];
        counts.iter().all(|line| world.metric(line))
    };
    assert!(counts(&world, [1, 0]));
    world.set_rule("dongle", json!({"quantity": 0}));
    world.pass(5);
    assert!(counts(&world, [0, 1]));
    world.delete_rule("dongle");
    world.pass(5);
    assert!(counts(&world, [0, 0]));
}

/// An alert cannot distinguish a label value that has not occurred from one that it does not know.
#[test]
fn metric_series_after_a_story_are_those_of_the_start() {
    let world = story();
    let after = text(world.metrics());
    for label in ["result=", "values=", "resource="] {
        // Since when a watch is broken is 0 while it works.
        let is_zero = |line: &&str| line.contains(label) && line.ends_with(" 0") && !line.contains("_broken_");
        let zero = after.lines().find(is_zero);
        assert_eq!(zero, None, "it has not occurred");
    }
    let start = text(&Metrics::default());
    let (of_rules, others) = series(&after).into_iter().partition::<BTreeSet<_>, _>(|series| series.contains("rule="));
    assert_eq!(others, series(&start));
    let expected = ["advertised", "requested"]
        .map(|name| format!("node_resource_advertiser_{name}{{resource=\"example.com/dongle\",rule=\"dongle\"}}"));
    assert!(of_rules.iter().eq(&expected), "{of_rules:?}");
}

#[test]
fn metrics_recording_for_the_tests_of_alerts_is_current() {
    let world = story();
    let metrics = text(world.metrics());
    // In an order that stays. How long planning takes differs each time.
    let samples: BTreeMap<_, _> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, value)| (series, if series.contains("plan_duration") { "0" } else { value }))
        .collect();
    let recorded: String = samples.iter().map(|(series, value)| format!("{series} {value}\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/metrics.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &recorded).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == recorded, "UPDATE_GOLDEN=1 takes it as it is:\n{recorded}");
}
