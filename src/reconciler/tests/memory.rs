//! Rules that take more memory than they may.

use super::*;

impl World {
    /// A leader of one node, whose rules may take this many bytes.
    fn with_rules_memory(max_rules_memory: usize) -> Self {
        let mut world = Self::new(16);
        world.set_node("node-0", json!({}));
        world.restart(max_rules_memory);
        world
    }

    fn restart(&mut self, max_rules_memory: usize) {
        let options = Options { max_rules_memory, ..self.reconciler.options.clone() };
        self.reconciler = Reconciler::new(Candidate::for_test("pod-1"), options);
        self.start();
    }

    fn converge(&mut self) {
        self.run_until_idle();
        self.advance(Duration::from_secs(2));
    }

    /// Writes a rule that was created after all others, with its own resource and this many names besides the node's.
    fn add_rule(&mut self, name: &str, names: usize) {
        let all: Vec<_> = (0..names).map(|number| format!("name-{number:04}")).chain(["node-0".to_owned()]).collect();
        let resource = format!("example.com/{name}");
        let watching = std::mem::replace(&mut self.watching, false);
        self.set_rule(name, json!({"resourceName": resource, "allNodes": null, "nodeNames": all}));
        self.watching = watching;
        let second = self.version;
        let rule = self.rules.get_mut(name).unwrap();
        rule["metadata"]["creationTimestamp"] =
            json!(format!("2026-01-02T00:{:02}:{:02}Z", second / 60 % 60, second % 60));
        let rule = rule.clone();
        self.observe(Observation::Rule(Ok(Event::Apply(object(rule)))));
        self.converge();
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.nodes["node-0"]["status"]["allocatable"][format!("example.com/{name}")].as_str()
    }
}

#[test]
fn youngest_rule_that_does_not_fit_is_stalled_and_repaired() {
    let mut world = World::with_rules_memory(256 * 1024);
    world.add_rule("first", 500);
    world.add_rule("second", 500);
    assert_eq!((world.ready("second").as_str(), world.value("second")), ("True Advertised", Some("4")));
    assert!(!world.reconciler.rules.becomes_scarce());
    // The older one is edited, and takes the room of the younger one.
    let mut rule = world.rules["first"].clone();
    let names: Vec<_> = (0..900).map(|number| format!("name-{number:04}")).chain(["node-0".to_owned()]).collect();
    rule["spec"]["nodeNames"] = json!(names);
    rule["metadata"]["resourceVersion"] = json!(world.next_version());
    world.rules.insert("first".to_owned(), rule.clone());
    world.observe(Observation::Rule(Ok(Event::Apply(object(rule)))));
    world.converge();
    world.add_rule("third", 500);
    for name in ["second", "third"] {
        assert_eq!(world.ready(name), "False MemoryFull", "{name}");
    }
    assert_eq!(world.ready("first"), "True Advertised");
    assert_eq!((world.value("second"), world.value("third")), (Some("4"), None), "kept, and not added");
    assert!(world.metric("rules_memory_limit_bytes 262144"));
    // What it had is repaired.
    world.edit_node("node-0", |node| {
        for map in ["capacity", "allocatable"] {
            node["status"][map]["example.com/second"] = json!("0");
        }
    });
    world.converge();
    assert_eq!(world.value("second"), Some("4"));
    // There is room again, for all.
    world.delete_rule("first");
    world.converge();
    world.advance(Duration::from_secs(61));
    world.converge();
    assert_eq!([world.ready("second"), world.ready("third")], ["True Advertised"; 2]);
    assert_eq!((world.value("first"), world.value("third")), (None, Some("4")));
}

/// Nothing may be withdrawn because of what is not known.
#[test]
fn values_of_rules_that_are_not_even_known_stay() {
    let mut world = World::with_rules_memory(1 << 20);
    let names: Vec<_> = (0..20).map(|number| format!("rule-{number:02}")).collect();
    names.iter().for_each(|name| world.add_rule(name, 0));
    assert!(names.iter().all(|name| world.value(name) == Some("4")));
    // Room for seven in force, and four others.
    world.restart(16 * 1024);
    world.converge();
    assert_eq!(world.reconciler.rules.states().len(), 11);
    assert_eq!(world.reconciler.rules.hold().len(), 0, "nothing says that one is missing");
    world.edit_node("node-0", |node| {
        for map in ["capacity", "allocatable"] {
            node["status"][map]["example.com/rule-19"] = json!("0");
        }
    });
    world.converge();
    assert!(names.iter().all(|name| world.value(name) == Some("4")), "{:?}", world.nodes["node-0"]["status"]);
    // They are known again once there is room.
    names[..14].iter().for_each(|name| world.delete_rule(name));
    world.converge();
    world.advance(Duration::from_secs(61));
    world.converge();
    assert!(names[14..].iter().all(|name| world.ready(name) == "True Advertised"));
    world.delete_rule("rule-19");
    world.converge();
    let left = names.iter().filter(|name| world.value(name).is_some()).count();
    assert_eq!(left, 5, "those of the deleted rules are withdrawn");
}

/// What is certain does not wait until there is room for what is not known.
#[test]
fn deletion_that_is_seen_is_carried_out_beside_rules_that_are_not_known() {
    let mut world = World::with_rules_memory(1 << 20);
    let names: Vec<_> = (0..20).map(|number| format!("rule-{number:02}")).collect();
    names.iter().for_each(|name| world.add_rule(name, 0));
    world.restart(16 * 1024);
    world.converge();
    let states = world.reconciler.rules.states();
    assert!(states.contains("rule-00") && !states.contains("rule-19"));
    for name in ["rule-00", "rule-19"] {
        world.delete_rule(name);
        world.converge();
        assert_eq!(world.value(name), None, "{name}");
    }
    assert!(names[1..19].iter().all(|name| world.value(name) == Some("4")));
    // It is there again, and there is no room to know it.
    let rule = world.rules["rule-18"].clone();
    world.delete_rule("rule-18");
    world.rules.insert("rule-18".to_owned(), rule);
    world.list_all();
    world.converge();
    assert!(!world.reconciler.rules.states().contains("rule-18"));
    assert_eq!(world.value("rule-18"), Some("4"));
}

/// The state of each rule on each node takes memory, too.
#[test]
fn youngest_of_rules_that_select_too_many_nodes_are_stalled() {
    // Room for four rules of 512 nodes each.
    let mut world = World::with_rules_memory(4 * 512 * 128);
    for number in 1..512 {
        world.set_node(&format!("node-{number}"), json!({}));
    }
    for number in 0..8 {
        world.add_rule(&format!("rule-{number}"), 0);
        let name = format!("rule-{number}");
        let mut rule = world.rules[&name].clone();
        rule["spec"]["nodeNames"] = json!(null);
        rule["spec"]["allNodes"] = json!(true);
        rule["metadata"]["resourceVersion"] = json!(world.next_version());
        world.rules.insert(name, rule.clone());
        world.observe(Observation::Rule(Ok(Event::Apply(object(rule)))));
        world.converge();
    }
    let ready: Vec<_> = (0..8).map(|number| world.ready(&format!("rule-{number}"))).collect();
    assert_eq!(ready[..4], ["True Advertised"; 4]);
    assert_eq!(ready[4..], ["False MemoryFull"; 4]);
    world.advance(Duration::from_secs(300));
    assert_eq!(world.ready("rule-4"), "False MemoryFull");
    world.delete_rule("rule-0");
    world.delete_rule("rule-1");
    world.converge();
    world.advance(Duration::from_secs(70));
    world.converge();
    let ready: Vec<_> = (2..8).map(|number| world.ready(&format!("rule-{number}"))).collect();
    assert_eq!(ready[..4], ["True Advertised"; 4]);
    assert_eq!(ready[4..], ["False MemoryFull"; 2]);
}

/// Ten thousand rules of all nodes take a gigabyte with one batch of nodes.
#[test]
fn planning_pauses_after_many_new_states_of_rules() {
    let mut world = World::leading(256, &[]);
    (0..400).for_each(|number| world.set_rule(&format!("rule-{number}"), json!({"paused": true})));
    let (fleet, known) = world.reconciler.lend(world.now);
    let planned = fleet.plan(256, known);
    assert!((40..100).contains(&planned), "{planned}");
    world.run();
    assert_eq!(world.reconciler.nodes().counts("rule-399").unwrap().selected(), 256, "it goes on");
}

#[test]
fn states_of_rules_take_no_more_than_they_may_while_rules_stall() {
    let mut world = World::leading(256, &[]);
    let options = Options { max_rules_memory: 1 << 20, ..world.reconciler.options.clone() };
    world.reconciler = Reconciler::new(Candidate::for_test("pod-1"), options);
    world.watching = false;
    (0..400).for_each(|number| world.set_rule(&format!("rule-{number}"), json!({"paused": true})));
    world.start();
    world.run_until_idle();
    let taken = world.reconciler.nodes().tally().size();
    assert!((900 << 10..=1 << 20).contains(&taken) && world.most_states <= 1 << 20, "{taken} {}", world.most_states);
}
