//! I4: a leader withdraws by the list with which the watch of rules begins in its term.

use super::*;

impl World {
    /// Lists the rules for the watch. What fails is tried again some time later.
    pub(super) fn list_rules(&mut self) {
        self.lists_rules_again = self.list_rules != 200;
        let rules = self.rules.clone().into_values().collect();
        if self.lists_rules_again {
            self.fail_list(self.list_rules);
        } else if self.holds_lists {
            self.open.push(Open::Rules(rules));
        } else {
            self.show_rules(rules);
        }
    }

    /// Shows a list of the rules, whole.
    pub(super) fn show_rules(&mut self, rules: Vec<Value>) {
        self.observe(Observation::Rule(Ok(Event::Init)));
        for rule in rules {
            self.observe(Observation::Rule(Ok(Event::InitApply(object(rule)))));
        }
        self.observe(Observation::Rule(Ok(Event::InitDone)));
    }

    /// A list of the rules fails, even with a page that is not the first.
    fn fail_list(&mut self, code: u16) {
        let error = kube::Error::Api(Box::new(Status::failure("no", "").with_code(code)));
        self.observe(Observation::Rule(Err(watcher::Error::InitialListFailed(error))));
    }

    /// The open list of the rules, by what it has.
    fn take_list(&mut self) -> Vec<Value> {
        match self.open.pop() {
            Some(Open::Rules(rules)) if self.open.is_empty() => rules,
            other => panic!("{other:?}, and {:?}", self.open),
        }
    }

    /// A process that has just begun to lead two nodes of a rule. Its watch has shown no rule so far, and lists them.
    fn beginning() -> Self {
        let mut before = Self::leading(2, &[("dongle", 4)]);
        before.run_until_idle();
        let mut world = Self::new(16);
        world.reconciler.options.mass_withdrawal_delay = Duration::ZERO;
        (world.nodes, world.version) = (before.nodes, before.version);
        world.list_all();
        world.rules = before.rules;
        world.holds_lists = true;
        world.lead();
        world
    }

    /// The rest of an old list, which has no rule, is no evidence; the list that began in this term is.
    fn assert_waits_for_its_own_list(mut self) {
        let rules = self.take_list();
        self.observe(Observation::Rule(Ok(Event::InitDone)));
        assert!(self.only_repairs());
        self.show_rules(rules);
        assert!(self.is_as_declared());
    }

    /// Whether repairs are written, and nothing else.
    fn only_repairs(&mut self) -> bool {
        self.run();
        self.reset("node-0");
        self.set_node("new", json!({}));
        self.run();
        assert_eq!(self.patched(), ["node-0"]);
        let patch = self.open.iter().position(|open| matches!(open, Open::Patch { .. })).unwrap();
        let patch = self.open.remove(patch);
        self.answer(patch);
        assert_eq!((self.dongles("node-0"), self.dongles("node-1"), self.dongles("new")), (4, 4, -1));
        !self.reconciler.knows_all() && self.patched().is_empty()
    }

    /// Whether everything is as the one rule declares.
    fn is_as_declared(&mut self) -> bool {
        self.pass(5);
        let nodes: Vec<_> = self.nodes.keys().cloned().collect();
        let is_declared = |node: &String| {
            let ledger = self.ledger(node).unwrap_or_default();
            self.dongles(node) == 4 && ledger.contains("dongle") && !ledger.contains("key")
        };
        self.reconciler.knows_all() && nodes.iter().all(is_declared)
    }
}

#[test]
fn leader_lists_the_rules_once_in_each_term() {
    let mut world = World::leading(2, &[("dongle", 4)]);
    world.pass(600);
    assert_eq!(world.rule_relists, 1);
    world.renews_no_more();
    world.renews = true;
    world.pass(60);
    assert_eq!(world.rule_relists, 2);
}

/// The rules that it has shown by then are some of them. The watch lists them again by itself.
#[test]
fn list_that_breaks_is_no_evidence_and_the_next_one_is() {
    let mut world = World::beginning();
    let rules = world.take_list();
    for code in [500, 410] {
        world.observe(Observation::Rule(Ok(Event::Init)));
        world.observe(Observation::Rule(Ok(Event::InitApply(object(rules[0].clone())))));
        assert!(world.only_repairs());
        world.fail_list(code);
        assert!(world.only_repairs());
    }
    world.show_rules(rules);
    assert!(world.is_as_declared());
    assert_eq!(world.rule_relists, 1);
}

/// What a leader knows stays known while its watch lists the rules again: the previous list was one of its term.
#[test]
fn watch_that_expires_in_a_term_leaves_the_evidence() {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    let expired = Status::failure("too old", "Expired").with_code(410);
    world.observe(Observation::Rule(Err(watcher::Error::WatchError(Box::new(expired)))));
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.set_node("new", json!({}));
    world.run_until_idle();
    assert_eq!(world.dongles("new"), 4);
    world.watching = false;
    world.set_rule("dongle", json!({"quantity": 6}));
    world.show_rules(world.rules.clone().into_values().collect());
    world.run_until_idle();
    assert_eq!((world.dongles("new"), world.rule_relists), (6, 1));
}

/// It began before others led, who may have written rules since.
#[test]
fn list_of_an_earlier_term_is_no_evidence() {
    let mut world = World::beginning();
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.renews_no_more();
    world.renews = true;
    world.advance(Duration::from_secs(30));
    assert!(world.reconciler.leads(world.now.instant));
    assert_eq!(world.rule_relists, 2);
    world.assert_waits_for_its_own_list();
}

/// The list of before is the standby's own.
#[test]
fn list_that_a_standby_began_is_no_evidence_once_it_leads() {
    let mut world = World::beginning();
    world.renews_no_more();
    world.observe(Observation::Rule(Ok(Event::Init)));
    world.renews = true;
    world.advance(Duration::from_secs(30));
    world.assert_waits_for_its_own_list();
}

/// I4: as where the CustomResourceDefinition was deleted and created again before this process led.
#[test]
fn empty_list_of_a_new_leader_holds_the_rules_until_another_list() {
    for is_back in [true, false] {
        let mut world = World::beginning();
        world.reconciler.options.mass_withdrawal_delay = Duration::from_secs(300);
        let rules = world.take_list();
        world.show_rules(Vec::new());
        world.advance(Duration::from_secs(299));
        assert!(world.metric("rules_missing 1") && world.open.is_empty());
        world.advance(Duration::from_secs(2));
        assert_eq!(world.rule_relists, 2);
        drop(world.take_list());
        assert!(world.only_repairs() && world.metric("rules_missing 1"));
        assert!(world.watches_pods, "another list of all pods would be expensive");
        // This one breaks as well.
        world.fail_list(500);
        assert!(world.only_repairs() && world.metric("rules_missing 1"));
        world.show_rules(if is_back { rules } else { Vec::new() });
        world.pass(5);
        assert_eq!(world.dongles("node-1"), if is_back { 4 } else { -1 });
        assert!(world.metric("rules_missing 0"));
    }
}

#[test]
fn missing_crd_is_no_evidence() {
    let mut world = World::beginning();
    let rules = world.take_list();
    for _ in 0..30 {
        world.fail_list(404);
        world.advance(Duration::from_secs(60));
        world.observe(Observation::Rule(Ok(Event::Init)));
    }
    assert!(world.reconciler.leads(world.now.instant) && world.only_repairs());
    assert!(world.is_reported("rules") && world.readiness().rules.is_some());
    world.show_rules(rules);
    assert!(world.is_as_declared());
    world.observe(Observation::WatchBegan(Watched::Rules));
    world.advance(Duration::from_secs(5));
    assert!(!world.is_reported("rules") && world.readiness().rules.is_none());
}

#[test]
fn rule_that_is_deleted_while_it_is_listed_is_withdrawn() {
    let mut world = World::beginning();
    let rules = world.take_list();
    world.show_rules(rules);
    world.run();
    world.delete_rule("dongle");
    world.pass(5);
    assert_eq!((world.dongles("node-0"), world.ledger("node-1")), (-1, None));
}

/// A rule that came and went, and the deletion of one that exists again.
#[test]
fn what_the_watch_of_before_shows_last_is_overruled_by_the_list() {
    let mut world = World::beginning();
    let rules = world.take_list();
    world.observe(Observation::Rule(Ok(Event::Delete(object(rules[0].clone())))));
    let mut key = rules[0].clone();
    (key["metadata"]["name"], key["spec"]["resourceName"]) = (json!("key"), json!("example.com/key"));
    world.observe(Observation::Rule(Ok(Event::Apply(object(key)))));
    assert!(world.only_repairs());
    world.show_rules(rules);
    assert!(world.is_as_declared());
}

/// The API server, or a proxy, neither answers nor rejects: the client gives up after a minute, and tries again.
#[test]
fn list_that_never_ends_is_reported_and_withdraws_nothing() {
    let mut world = World::beginning();
    drop(world.take_list());
    world.advance(Duration::from_secs(59));
    assert!(world.only_repairs() && !world.is_reported("rules"));
    for _ in 0..3 {
        world.fail_list(504);
        assert!(world.only_repairs() && world.is_reported("rules"));
        world.observe(Observation::Rule(Ok(Event::Init)));
        assert!(world.is_reported("rules"), "to begin is not to work");
        world.advance(Duration::from_secs(10));
    }
    assert!(!world.reconciler.leads(world.now.instant), "another replica is given a turn");
}
