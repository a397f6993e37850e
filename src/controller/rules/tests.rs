//! What the watch, and a leader's list, make of the rules.

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

/// A list of unknown version.
fn list(items: impl IntoIterator<Item = RuleObject>) -> RuleList {
    at(None, items)
}

fn at(version: impl Into<Option<u64>>, items: impl IntoIterator<Item = RuleObject>) -> RuleList {
    let mut list = RuleList::new(MAX_SIZE);
    list.add(version.into(), items);
    list
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
fn pausing_and_resuming_a_rule_enqueues_all_nodes() {
    let paused = |paused: bool| {
        let mut rule = object("a", json!(4));
        rule.spec.as_mut().unwrap().paused = paused;
        rule
    };
    let mut rules = listed([paused(false)]);
    assert_eq!(rules.observe(Event::Apply(paused(true))).enqueue, Enqueue::All);
    assert!(rules.set().is_frozen("a"));
    assert_eq!(rules.observe(Event::Apply(paused(true))).enqueue, Enqueue::None);
    assert_eq!(rules.observe(Event::Apply(paused(false))).enqueue, Enqueue::All);
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
    assert_eq!(rules.hold().names().collect::<Vec<_>>(), Vec::<&Arc<str>>::new(), "only half of the rules are missing");
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
        let mut rules = listed([object("bad", bad.clone()), object("good", json!(4))]);
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
    assert_eq!(rules.observe(Event::Apply(invalid(0))).enqueue, Enqueue::All);
    rules.observe(Event::Init);
    rules.observe(Event::InitApply(invalid(-1)));
    rules.observe(Event::InitApply(object("good", json!(4))));
    assert_eq!(rules.observe(Event::InitDone).enqueue, Enqueue::All);
}

#[test]
fn relisted_rules_enqueue_only_changes() {
    let mut rules = listed([object("a", json!(4)), object("b", json!(4))]);
    for (objects, affected) in [
        (vec![object("a", json!(4)), object("b", json!(4))], Enqueue::None),
        (vec![object("a", json!(4))], Enqueue::All),
        (vec![object("a", json!(5))], Enqueue::All),
    ] {
        rules.observe(Event::Init);
        for object in objects {
            rules.observe(Event::InitApply(object));
        }
        assert_eq!(rules.observe(Event::InitDone).enqueue, affected);
    }
}

/// The list of a new leader shows a rule whose name has been used again, and deleted again, while the list was in flight.
#[test]
fn list_with_a_deleted_rule_is_not_believed_whatever_happened_to_its_name_since() {
    let object = |uid: &str, version: &str| {
        let mut rule = object("a", json!(4));
        rule.meta_mut().uid = Some(uid.to_owned());
        rule.meta_mut().resource_version = Some(version.to_owned());
        rule
    };
    let mut rules = listed([object("first", "1")]);
    let mark = rules.mark();
    rules.observe(Event::Delete(object("first", "2")));
    rules.observe(Event::Apply(object("second", "3")));
    rules.observe(Event::Delete(object("second", "4")));
    rules.observe_list(list([object("first", "1")]), &mark);
    assert!(rules.get("a").is_none(), "no event of the watch would ever remove it");
}

#[test]
fn newest_deletions_are_remembered() {
    let names: Vec<_> = (0..MAX_DELETED * 2).map(|number| format!("{:04}", MAX_DELETED * 2 - number)).collect();
    let mut rules = listed(names.iter().map(|name| object(name, json!(4))));
    let mark = rules.mark();
    names.iter().for_each(|name| drop(rules.observe(Event::Delete(object(name, json!(4))))));
    let newer = names[MAX_DELETED..].iter().map(|name| object(name, json!(4)));
    rules.observe_list(list(newer), &mark);
    assert_eq!(rules.iter().count(), 0, "the list was sent before the deletions");
}

#[test]
fn list_is_doubtful_once_a_deletion_since_its_request_is_forgotten() {
    let names: Vec<_> = (0..=MAX_DELETED).map(|number| number.to_string()).collect();
    let mut rules = listed(names.iter().map(|name| object(name, json!(4))));
    let mark = rules.mark();
    for (number, name) in names.iter().enumerate() {
        assert_eq!(rules.validity(&mark), Validity::Usable, "after {number} deletions");
        rules.observe(Event::Delete(object(name, json!(4))));
    }
    assert_eq!(rules.validity(&mark), Validity::Doubtful);
    assert_eq!(rules.validity(&rules.mark()), Validity::Usable, "a list that is requested now");
}

/// The watch shows an edit that precedes the deletion, which only the list shows so far.
#[test]
fn watch_behind_a_list_does_not_bring_back_what_is_gone() {
    let mut rules = listed([object("a", json!(4))]);
    let mark = rules.mark();
    assert_eq!(rules.observe_list(list([]), &mark).removed, ["a".into()]);
    let mut late = object("a", json!(5));
    late.meta_mut().resource_version = Some("8".to_owned());
    assert_eq!(rules.observe(Event::Apply(late)), Seen::nothing());
    assert!(rules.get("a").is_none());
    let mut recreated = object("a", json!(5));
    recreated.meta_mut().uid = Some("another".to_owned());
    rules.observe(Event::Apply(recreated));
    assert!(rules.get("a").is_some());
}

/// The list of the watch began before the rule was deleted, and the list of the leader after that.
#[test]
fn list_of_the_watch_is_in_doubt_where_a_list_meanwhile_lacks_one_of_its_rules() {
    // One that was known before both, and that either lacks, is certainly gone.
    for (names, is_in_doubt) in [(&["a"][..], false), (&["a", "b"], true), (&[], false)] {
        let mut rules = listed([object("a", json!(4))]);
        rules.observe(Event::Init);
        let mark = rules.mark();
        assert_eq!(rules.validity(&mark), Validity::Usable);
        rules.observe_list(list([object("a", json!(4))]), &mark);
        for name in names {
            rules.observe(Event::InitApply(object(name, json!(4))));
        }
        assert_eq!(rules.observe(Event::InitDone).is_in_doubt, is_in_doubt, "{names:?}");
        // Without another list, a new rule is just new.
        rules.observe(Event::Init);
        for name in ["a", "b", "c"] {
            rules.observe(Event::InitApply(object(name, json!(4))));
        }
        assert!(!rules.observe(Event::InitDone).is_in_doubt);
    }
    // One that the list has shown to be gone is not in doubt.
    let mut rules = listed([object("a", json!(4))]);
    rules.observe(Event::Init);
    rules.observe_list(list([]), &rules.mark());
    rules.observe(Event::InitApply(object("a", json!(4))));
    assert!(!rules.observe(Event::InitDone).is_in_doubt);
    assert!(rules.get("a").is_none());
}

/// A list has shown that the rule is gone, and only the watch shows that it was deleted.
#[test]
fn deletion_that_the_watch_shows_after_a_list_ends_the_hold() {
    let mut rules = listed([object("a", json!(4))]);
    let mark = rules.mark();
    rules.observe_list(list([]), &mark);
    let mut named = NamedRules::default();
    named.add(["a"], 1);
    assert!(rules.hold_missing(&named, Duration::from_secs(300), Instant::now()));
    let seen = rules.observe(Event::Delete(object("a", json!(4))));
    assert_eq!((seen.enqueue, rules.hold().len()), (Enqueue::All, 0));
    assert!(!rules.hold_missing(&named, Duration::from_secs(300), Instant::now()));
    assert_eq!(rules.observe(Event::Delete(object("a", json!(4)))), Seen::nothing());
}

/// What the list lacks and is not newer is gone, although the watch has not shown it yet.
#[test]
fn rule_that_precedes_a_list_and_is_not_in_it_is_gone() {
    let object = |name: &str, version: u64| {
        let mut rule = object(name, json!(4));
        rule.meta_mut().resource_version = Some(version.to_string());
        rule
    };
    for (version, is_known) in [(6, false), (7, false), (8, true)] {
        let mut rules = listed([object("a", 1)]);
        let mark = rules.mark();
        rules.observe_list(at(7, [object("a", 1)]), &mark);
        rules.observe(Event::Apply(object("b", version)));
        assert_eq!(rules.get("b").is_some(), is_known, "{version}");
        // It shows again what the list has.
        rules.observe(Event::Apply(object("a", 5)));
        assert_eq!(rules.get("a").unwrap().version, Some(5));
        // What it shows while the list is under way.
        let mut rules = listed([object("a", 1)]);
        let mark = rules.mark();
        rules.observe(Event::Apply(object("b", version)));
        rules.observe_list(at(7, [object("a", 1)]), &mark);
        assert_eq!(rules.get("b").is_some(), is_known, "{version}");
        // What it lists meanwhile.
        let mut rules = listed([object("a", 1)]);
        rules.observe(Event::Init);
        let mark = rules.mark();
        rules.observe_list(at(7, [object("a", 1)]), &mark);
        rules.observe(Event::InitApply(object("a", 1)));
        rules.observe(Event::InitApply(object("b", version)));
        assert!(!rules.observe(Event::InitDone).is_in_doubt);
        assert_eq!(rules.get("b").is_some(), is_known, "{version}");
        // A list that begins later, of either kind, is not behind.
        rules.observe(Event::Init);
        rules.observe(Event::InitApply(object("b", version)));
        rules.observe(Event::InitDone);
        assert!(rules.get("b").is_some());
        for items in [vec![object("a", 1)], vec![object("a", 1), object("c", version)]] {
            let (mark, is_listed) = (rules.mark(), items.len() > 1);
            rules.observe_list(at(9, items), &mark);
            assert_eq!((rules.get("b").is_some(), rules.get("c").is_some()), (false, is_listed));
        }
    }
}
