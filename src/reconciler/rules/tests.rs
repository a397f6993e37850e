//! What the watch makes of the rules.

use serde_json::{Value, json};

use super::*;

const MAX_SIZE: usize = 16 << 20;

fn object(name: &str, quantity: Value) -> RuleObject {
    serde_json::from_value(json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name, "uid": name, "generation": 1},
        "spec": {"resourceName": "example.com/dongle", "quantity": quantity, "allNodes": true},
    }))
    .unwrap()
}

fn listed(objects: impl IntoIterator<Item = RuleObject>) -> Rules {
    let mut rules = Rules::new(MAX_SIZE);
    rules.observe(Event::Init);
    for object in objects {
        assert_eq!(rules.observe(Event::InitApply(object)).enqueue, Enqueue::None);
    }
    assert!(!rules.listed(), "a list is nothing until it is whole");
    assert_eq!(rules.observe(Event::InitDone).enqueue, Enqueue::All);
    rules
}

/// The watch begins anew, with a list of these.
fn relist(rules: &mut Rules, objects: impl IntoIterator<Item = RuleObject>) -> Seen {
    rules.observe(Event::Init);
    objects.into_iter().for_each(|object| drop(rules.observe(Event::InitApply(object))));
    rules.observe(Event::InitDone)
}

#[test]
fn edited_rule_enqueues_old_and_new_selection() {
    let mut rules = listed([object("a", json!(4))]);
    let affected = rules.observe(Event::Apply(object("a", json!(5)))).enqueue;
    assert!(matches!(affected, Enqueue::Selected(rules) if rules.len() == 2));
    assert_eq!(rules.observe(Event::Apply(object("a", json!("5")))).enqueue, Enqueue::None);
    let affected = rules.observe(Event::Delete(object("a", json!(5)))).enqueue;
    assert!(matches!(affected, Enqueue::Selected(rules) if rules.len() == 1));
}

/// Nodes that it no longer selects may have its values.
#[test]
fn pausing_and_resuming_a_rule_enqueues_the_nodes_that_record_it() {
    let paused = |paused: bool| {
        let mut rule = object("a", json!(4));
        rule.spec.as_mut().unwrap().paused = paused;
        rule
    };
    let mut rules = listed([paused(false)]);
    let is_recorded = |seen: Seen| matches!(seen.enqueue, Enqueue::SelectedOrRecorded(rules, name) if rules.len() == 2 && &*name == "a");
    assert!(is_recorded(rules.observe(Event::Apply(paused(true)))));
    assert!(rules.set().is_frozen("a"));
    assert_eq!(rules.observe(Event::Apply(paused(true))).enqueue, Enqueue::None);
    assert!(is_recorded(rules.observe(Event::Apply(paused(false)))));
    assert!(!rules.set().is_frozen("a"));
}

fn deleting(name: &str) -> RuleObject {
    let mut deleting = object(name, json!(4));
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    deleting.meta_mut().deletion_timestamp = Some(now);
    deleting.meta_mut().finalizers = Some(["example.com/keep", "foregroundDeletion"].map(str::to_owned).into());
    deleting
}

#[test]
fn rule_being_deleted_counts_as_deleted_and_keeps_its_status() {
    let mut rules = listed([object("a", json!(4))]);
    let seen = rules.observe(Event::Apply(deleting("a")));
    assert!(matches!(seen.enqueue, Enqueue::Selected(_)));
    assert_eq!((seen.removed, seen.touched), (vec!["a".into()], vec!["a".into()]));
    assert!(rules.get("a").is_none());
    let waits_for = rules.with_status("a").unwrap().waits_for.clone();
    assert_eq!(waits_for.as_deref(), Some("the finalizers example.com/keep, foregroundDeletion"));
    let again = rules.observe(Event::Apply(deleting("a")));
    assert_eq!((again.enqueue, again.touched), (Enqueue::None, vec!["a".into()]));
    let gone = rules.observe(Event::Delete(deleting("a")));
    assert_eq!((gone.enqueue, gone.removed), (Enqueue::None, vec!["a".into()]));
    assert!(rules.with_status("a").is_none());
}

/// The deletion of such a rule is certain, unlike that of one that a list lacks.
#[test]
fn listed_rule_that_is_being_deleted_is_not_held() {
    let mut rules = Rules::new(MAX_SIZE);
    rules.observe(Event::Init);
    rules.observe(Event::InitApply(deleting("a")));
    assert_eq!(rules.observe(Event::InitDone).touched, ["a".into()]);
    let mut in_ledgers = NamedRules::default();
    in_ledgers.add(["a", "b"], 2);
    rules.hold_missing(&in_ledgers, Duration::from_secs(300), Instant::now());
    assert_eq!(rules.hold().names().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
    // It ends while the watch is broken.
    rules.observe(Event::Init);
    assert_eq!(rules.observe(Event::InitDone).removed, ["a".into()]);
    assert!(rules.with_status("a").is_none());
    // Or another one has its name.
    rules.observe(Event::Apply(deleting("a")));
    rules.observe(Event::Apply(object("a", json!(4))));
    assert_eq!(rules.with_status("a").unwrap().waits_for, None);
}

#[test]
fn invalid_rule_is_kept_without_affecting_others() {
    for bad in [json!(4.5), json!(0), json!({}), json!("4 dongles")] {
        let rules = listed([object("bad", bad.clone()), object("good", json!(4))]);
        assert!(rules.set().is_frozen("bad"), "{bad}");
        assert!(rules.get("bad").unwrap().rule.is_err());
        assert!(rules.get("good").unwrap().rule.is_ok());
    }
}

/// Its values yield to rules of a higher priority.
#[test]
fn priority_of_an_invalid_rule_enqueues_nodes() {
    let invalid = |priority: i32| {
        let mut rule = object("bad", json!(0));
        rule.spec.as_mut().unwrap().priority = priority;
        rule
    };
    let mut rules = listed([invalid(1), object("good", json!(4))]);
    assert_eq!(rules.observe(Event::Apply(invalid(1))).enqueue, Enqueue::None);
    let recorded = Enqueue::SelectedOrRecorded(vec![], "bad".into());
    assert_eq!(rules.observe(Event::Apply(invalid(0))).enqueue, recorded);
    assert_eq!(relist(&mut rules, [invalid(-1), object("good", json!(4))]).enqueue, Enqueue::All);
}

#[test]
fn relisted_rules_enqueue_only_changes() {
    let mut rules = listed([object("a", json!(4)), object("b", json!(4))]);
    for (objects, affected) in [
        (vec![object("a", json!(4)), object("b", json!(4))], Enqueue::None),
        (vec![object("a", json!(4))], Enqueue::All),
        (vec![object("a", json!(5))], Enqueue::All),
    ] {
        assert_eq!(relist(&mut rules, objects).enqueue, affected);
    }
}

/// A list has shown that the rule is gone, and only the watch shows that it was deleted.
#[test]
fn deletion_that_the_watch_shows_after_a_list_ends_the_hold() {
    let mut rules = listed([object("a", json!(4))]);
    relist(&mut rules, []);
    let mut named = NamedRules::default();
    named.add(["a"], 1);
    assert!(rules.hold_missing(&named, Duration::from_secs(300), Instant::now()));
    let seen = rules.observe(Event::Delete(object("a", json!(4))));
    assert_eq!((seen.enqueue, rules.hold().len()), (Enqueue::All, 0));
    assert!(!rules.hold_missing(&named, Duration::from_secs(300), Instant::now()));
    assert_eq!(rules.observe(Event::Delete(object("a", json!(4)))), Seen::nothing());
}

/// What is on its way of the list before is no evidence, nor any part of a list.
#[test]
fn rules_are_known_by_a_whole_list_that_began_when_it_was_needed() {
    let now = Instant::now();
    let mut rules = Rules::new(MAX_SIZE);
    relist(&mut rules, [object("a", json!(4))]);
    assert!(!rules.take_relist(now) && !rules.are_known(), "nobody needs it");
    rules.observe(Event::Init);
    rules.list_again();
    assert!(!rules.are_known());
    assert!(rules.take_relist(now) && !rules.take_relist(now), "the watch begins anew once");
    assert_eq!(rules.observe(Event::InitDone), Seen::nothing(), "it is the list of before");
    rules.observe(Event::InitApply(object("b", json!(4))));
    assert!(!rules.are_known() && rules.get("b").is_none());
    rules.observe(Event::Init);
    rules.observe(Event::InitApply(object("a", json!(4))));
    // It breaks, and begins again.
    rules.observe(Event::Init);
    assert!(!rules.are_known());
    assert!(rules.observe(Event::InitDone).is_list && rules.are_known());
    assert!(rules.get("a").is_none());
    rules.stand_by();
    assert!(!rules.are_known() && !rules.take_relist(now));
}

/// Whatever happened to its name before.
#[test]
fn rule_that_a_list_has_exists() {
    let mut rules = listed([object("a", json!(4))]);
    rules.observe(Event::Delete(object("a", json!(4))));
    relist(&mut rules, [object("a", json!(5))]);
    assert!(rules.get("a").is_some());
    let mut older = object("a", json!(6));
    older.meta_mut().resource_version = Some("1".to_owned());
    rules.observe(Event::Apply(older));
    assert_eq!(rules.get("a").unwrap().version, Some(1), "as where etcd was restored");
}
