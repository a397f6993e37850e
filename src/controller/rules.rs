//! The rules as last seen, and the snapshot of them that nodes are planned with.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

use crate::model::api::{NodeExtendedResource, NodeExtendedResourceStatus};
use crate::planner::rules::{InvalidRule, Rule, RuleSet};

/// An object of the watch: one that cannot be decoded is still known by name.
pub(super) type RuleObject = DeserializeGuard<NodeExtendedResource>;

/// Every rule that exists.
#[derive(Debug, Default)]
pub(super) struct Rules {
    by_name: BTreeMap<Arc<str>, RuleState>,
    /// What a list under way has brought so far.
    listing: BTreeMap<Arc<str>, RuleState>,
    listed: bool,
    set: RuleSet,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleState {
    pub(super) uid: Option<String>,
    pub(super) generation: Option<i64>,
    /// The status that the object carries.
    pub(super) status: Option<NodeExtendedResourceStatus>,
    pub(super) rule: Result<Arc<Rule>, InvalidRule>,
}

/// Which nodes have to be planned again after an event.
#[derive(Debug, PartialEq)]
pub(super) enum Enqueue {
    None,
    /// Those that one of these rules selects.
    Selected(Vec<Arc<Rule>>),
    All,
}

impl Rules {
    /// Takes in an event of the watch. A rule counts as gone once its deletion has been asked for.
    pub(super) fn apply(&mut self, event: Event<RuleObject>) -> Enqueue {
        match event {
            Event::Init => {
                self.listing.clear();
                Enqueue::None
            }
            Event::InitApply(object) => {
                if object.meta().deletion_timestamp.is_none() {
                    self.listing.insert(object.name_any().into(), RuleState::new(object));
                }
                Enqueue::None
            }
            Event::InitDone => {
                let before =
                    std::mem::replace(&mut self.by_name, std::mem::take(&mut self.listing));
                let first = !std::mem::replace(&mut self.listed, true);
                let same = before.len() == self.by_name.len()
                    && before
                        .iter()
                        .zip(&self.by_name)
                        .all(|((name, old), (other, new))| name == other && old.rule == new.rule);
                if same && !first {
                    return Enqueue::None;
                }
                self.compile();
                Enqueue::All
            }
            Event::Apply(object) if object.meta().deletion_timestamp.is_none() => {
                let name: Arc<str> = object.name_any().into();
                let new = RuleState::new(object);
                let rule = new.rule.clone();
                let old = self.by_name.insert(name, new);
                self.changed(old, Some(rule))
            }
            Event::Apply(object) | Event::Delete(object) => {
                let old = self.by_name.remove(object.name_any().as_str());
                self.changed(old, None)
            }
        }
    }

    fn changed(
        &mut self,
        old: Option<RuleState>,
        new: Option<Result<Arc<Rule>, InvalidRule>>,
    ) -> Enqueue {
        let old = old.map(|state| state.rule);
        if old == new {
            return Enqueue::None;
        }
        self.compile();
        let valid: Result<Vec<_>, _> = old.into_iter().chain(new).collect();
        // What an invalid rule has advertised stands in ledgers alone.
        valid.map_or(Enqueue::All, Enqueue::Selected)
    }

    fn compile(&mut self) {
        let valid = self.by_name.values().filter_map(|state| state.rule.as_ref().ok().cloned());
        let invalid = self.by_name.iter().filter(|(_, state)| state.rule.is_err());
        self.set = RuleSet::new(valid, invalid.map(|(name, _)| (Arc::clone(name), None)));
    }

    /// Whether all rules have been listed once. Before that, none can be taken for gone.
    pub(super) fn listed(&self) -> bool {
        self.listed
    }

    /// The rules to plan nodes with.
    pub(super) fn set(&self) -> &RuleSet {
        &self.set
    }

    pub(super) fn get(&self, name: &str) -> Option<&RuleState> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut RuleState> {
        self.by_name.get_mut(name)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &RuleState> {
        self.by_name.values()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }
}

impl RuleState {
    fn new(object: RuleObject) -> Self {
        let metadata = object.meta();
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        let (rule, status) = match object.0 {
            Ok(object) => (Rule::new(&object).map(Arc::new), object.status),
            Err(invalid) => (Err(InvalidRule::Malformed(invalid.error)), None),
        };
        Self { uid, generation, status, rule }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, quantity: Value) -> RuleObject {
        serde_json::from_value(json!({
            "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
            "metadata": {"name": name, "uid": name, "generation": 1},
            "spec": {"resourceName": "example.com/dongle", "quantity": quantity, "allNodes": true},
        }))
        .unwrap()
    }

    fn listed(objects: impl IntoIterator<Item = RuleObject>) -> Rules {
        let mut rules = Rules::default();
        rules.apply(Event::Init);
        for object in objects {
            assert_eq!(rules.apply(Event::InitApply(object)), Enqueue::None);
        }
        assert!(!rules.listed(), "a list is nothing until it is whole");
        assert_eq!(rules.apply(Event::InitDone), Enqueue::All);
        rules
    }

    #[test]
    fn edited_rule_enqueues_old_and_new_selection() {
        let mut rules = listed([object("a", json!(4))]);
        let affected = rules.apply(Event::Apply(object("a", json!(5))));
        assert!(matches!(affected, Enqueue::Selected(rules) if rules.len() == 2));
        assert_eq!(rules.apply(Event::Apply(object("a", json!("5")))), Enqueue::None);
        let affected = rules.apply(Event::Delete(object("a", json!(5))));
        assert!(matches!(affected, Enqueue::Selected(rules) if rules.len() == 1));
    }

    #[test]
    fn rule_being_deleted_counts_as_deleted() {
        let mut rules = listed([object("a", json!(4))]);
        let mut deleting = object("a", json!(4));
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        );
        deleting.meta_mut().deletion_timestamp = Some(now);
        assert!(matches!(rules.apply(Event::Apply(deleting)), Enqueue::Selected(_)));
        assert!(rules.get("a").is_none());
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

    #[test]
    fn relisted_rules_enqueue_only_changes() {
        let mut rules = listed([object("a", json!(4)), object("b", json!(4))]);
        for (objects, affected) in [
            (vec![object("a", json!(4)), object("b", json!(4))], Enqueue::None),
            (vec![object("a", json!(4))], Enqueue::All),
            (vec![object("a", json!(5))], Enqueue::All),
        ] {
            rules.apply(Event::Init);
            for object in objects {
                rules.apply(Event::InitApply(object));
            }
            assert_eq!(rules.apply(Event::InitDone), affected);
        }
    }
}
