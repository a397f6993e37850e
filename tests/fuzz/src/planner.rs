//! Plans for arbitrary nodes and rules.

use std::sync::Arc;

use arbitrary::Unstructured;
use node_resource_advertiser::model::ledger::{ANNOTATION, Ledger};
use node_resource_advertiser::model::node::{ApiNode, FactNames, Interner, Node};
use node_resource_advertiser::model::pod::NodeRequests;
use node_resource_advertiser::model::quantity::Quantity;
use node_resource_advertiser::planner::input::{Contest, Lost, NewValues, PlanningInput, PodUsage};
use node_resource_advertiser::planner::rules::{Rule, RuleSet};
use node_resource_advertiser::planner::withdraw::{Recorded, Withdrawal, withdraw, withdraw_unreadable};
use node_resource_advertiser::planner::{Change, Plan, patch, plan, plan_repairs, plan_resets};
use serde_json::{Map, Value, json};
use simulator::json_patch;

use crate::limits::limited;
use crate::nodes::{Case, Circumstances, MAPS, NAMES, Pods};

/// Plans until nothing is left to do: one for a partial patch, two for values that were lowered before.
const PLANS: usize = 4;

/// Every plan can be applied, changes only what it may, and converges.
pub fn check(bytes: &[u8]) {
    let Ok(case) = Unstructured::new(bytes).arbitrary::<Case>() else { return };
    limited(bytes.len(), 64, || case.check());
}

impl Case {
    fn check(&self) {
        let (rules, input) = (self.rule_set(), self.circumstances.input());
        let planned = plan(&decoded(&self.node), &rules, &input);
        assert_eq!(planned, plan(&decoded(&self.node), &rules, &input), "planning is repeatable");
        let parts = planned.changes().iter().enumerate();
        let is_first = |at: usize| self.circumstances.first >> (at % 8) & 1 == 1;
        let first: Vec<_> = parts.filter(|(at, _)| is_first(*at)).map(|(_, change)| change.clone()).collect();
        let mut node = self.applied(&self.node, &first);
        for _ in 0..PLANS {
            node = self.applied(&node, plan(&decoded(&node), &rules, &input).changes());
        }
        let end = plan(&decoded(&node), &rules, &input);
        assert_eq!(end.changes(), [], "{node} {self:#?}");

        self.check_repairs();
        self.check_withdrawal();
    }

    /// Returns the node after some changes in one patch, and checks the invariants.
    fn applied(&self, before: &Value, changes: &[Change]) -> Value {
        if changes.is_empty() {
            return before.clone();
        }
        let patch = patch(&decoded(before), changes).expect("a plan has a patch");
        let after = json_patch::apply(before, &json!(patch));
        let after = after.unwrap_or_else(|failure| panic!("{failure:?}: {patch} {before} {self:#?}"));
        assert_eq!(without_what_is_ours(before), without_what_is_ours(&after), "{patch}");
        for name in NAMES {
            self.check_resource(name, changes, before, &after);
        }
        after
    }

    fn check_resource(&self, name: &str, changes: &[Change], before: &Value, after: &Value) {
        let what = || format!("{name} {before} {after} {self:#?}");
        let change = changes.iter().find(|change| change.is_of(name));
        let (was, is) = (listed(before, name), listed(after, name));
        for map in MAPS {
            let value = |node: &Value| node["status"][map].get(name).cloned();
            let (old, new) = (value(before), value(after));
            if old == new {
                continue;
            }
            let change = change.unwrap_or_else(|| panic!("untold: {}", what()));
            let is_vacant = old.as_ref().is_none_or(|old| quantity(old) == Some(0.into()));
            let takes_over = change.action_name() == "takeOver" && self.overwrites(name);
            // A recorded value is repaired or replaced; it is removed only if it equals the ledger.
            let is_own = was.is_some_and(|was| new.is_some() || old.as_ref().and_then(quantity) == Some(was));
            assert!(is_vacant || is_own || takes_over, "I1: {}", what());
            let new = new.as_ref().map(|new| quantity(new).expect("a quantity is written"));
            assert!(new.is_none_or(|new| new > 0.into()), "I3: {}", what());
        }
        let agrees = |node: &Value, listed: Option<Quantity>| {
            let has = |map: &str| node["status"][map].get(name).and_then(quantity);
            listed.is_none_or(|listed| MAPS.iter().all(|map| has(map) == Some(listed)))
        };
        assert!(!agrees(before, was) || agrees(after, is), "I2: {}", what());
    }

    fn overwrites(&self, name: &str) -> bool {
        let mut specs = self.rules.iter().map(|rule| &rule["spec"]);
        specs.any(|spec| spec["resourceName"] == name && spec["conflictPolicy"] == "Overwrite")
    }

    /// A plan from the ledger alone writes recorded values and nothing else.
    fn check_repairs(&self) {
        let node = decoded(&self.node);
        let contested = self.circumstances.input().contested;
        for planned in [plan_repairs(&node, &contested), plan_resets(&node)] {
            let after = self.applied(&self.node, planned.changes());
            assert_eq!(after["metadata"], self.node["metadata"]);
            for resource in planned.changes().iter().map(Change::name) {
                let values = MAPS.map(|map| quantity(&after["status"][map][resource]));
                assert_eq!(values, [listed(&after, resource); 2], "{after}");
            }
        }
        let after = self.applied(&self.node, plan_repairs(&node, &contested).changes());
        assert_eq!(plan_repairs(&decoded(&after), &contested).changes(), []);
    }

    /// After withdrawing everything, nothing is listed, and nothing is left to withdraw.
    fn check_withdrawal(&self) {
        let node = decoded(&self.node);
        let withdrawal = Withdrawal { recorded: Recorded::All, in_use: true, ..Withdrawal::default() };
        let planned = withdraw(&node, &withdrawal, &PodUsage::NotFetched);
        if let Plan::Blocked(_) = planned.plan {
            let own: ApiNode = serde_json::from_value(self.node.clone()).expect("it is a node");
            let own = own.own_resources();
            let own: Vec<_> = own.iter().map(String::as_str).collect();
            let planned = withdraw_unreadable(&node, &own, &withdrawal);
            let patch = patch(&node, planned.changes()).expect("a plan has a patch");
            let after = json_patch::apply(&self.node, &json!(patch));
            let after = after.unwrap_or_else(|failure| panic!("{failure:?}: {patch}"));
            assert_eq!(without_what_is_ours(&self.node), without_what_is_ours(&after));
            return;
        }
        let after = self.applied(&self.node, planned.changes());
        assert_eq!(withdraw(&decoded(&after), &withdrawal, &PodUsage::NotFetched).changes(), [], "{after}");
        assert!(NAMES.iter().all(|name| listed(&after, name).is_none()), "{after}");
    }

    fn rule_set(&self) -> RuleSet {
        let rules = self.rules.iter().map(|rule| {
            let object = serde_json::from_value(rule.clone()).expect("a rule is decoded");
            Arc::new(Rule::new(&object).expect("a rule is valid"))
        });
        RuleSet::new(rules, [("frozen".into(), self.frozen)])
    }
}

impl Circumstances {
    fn input(&self) -> PlanningInput {
        let pods = match &self.pods {
            Pods::NotFetched => PodUsage::NotFetched,
            Pods::Unavailable => PodUsage::Unavailable("no right".into()),
            Pods::Known(amounts) => PodUsage::Known(requests(amounts)),
        };
        let contest = |may_repair| Contest { may_repair, manager: None, lost: Lost::Value };
        let names = || NAMES.into_iter().map(Arc::<str>::from);
        PlanningInput {
            contested: names().zip(self.contested).filter_map(|(name, may)| Some((name, contest(may?)))).collect(),
            pods,
            new_values: [NewValues::Write, NewValues::CheckOlderNodes, NewValues::Check]
                [usize::from(self.new_values % 3)],
            released: names().zip(self.released).filter(|(_, released)| *released).map(|(name, _)| name).collect(),
            moved: names().zip(self.moved).filter(|(_, moved)| *moved).map(|(name, _)| name).collect(),
        }
    }
}

fn requests(amounts: &[u16; NAMES.len()]) -> NodeRequests {
    let amounts = NAMES.into_iter().zip(amounts).map(|(name, amount)| (name.to_owned(), json!(format!("{amount}m"))));
    let container = json!({"resources": {"requests": Map::from_iter(amounts)}});
    let pods = json!({"items": [{"spec": {"containers": [container]}}]});
    NodeRequests::from_pods(&serde_json::from_value(pods).expect("pods are decoded"))
}

fn decoded(node: &Value) -> Node {
    Node::new(serde_json::from_value(node.clone()).expect("a node is decoded"), &mut Interner::keeping(FactNames::All))
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// Returns the ledger's entry for a resource, if the ledger can be read.
fn listed(node: &Value, name: &str) -> Option<Quantity> {
    let ledger = Ledger::parse(node["metadata"]["annotations"].get(ANNOTATION).and_then(Value::as_str)).ok()?;
    ledger.get(name)?.quantity.parse().ok()
}

/// The node without the ledger, without resources that may be advertised, and without maps that are then empty.
fn without_what_is_ours(node: &Value) -> Value {
    let mut node = node.clone();
    for (parent, field, ours) in
        [("metadata", "annotations", &[ANNOTATION][..]), ("status", MAPS[0], &NAMES), ("status", MAPS[1], &NAMES)]
    {
        let parent = node[parent].as_object_mut().expect("it is there");
        if let Some(fields) = parent.get_mut(field).and_then(Value::as_object_mut) {
            fields.retain(|name, _| !ours.contains(&name.as_str()));
            if fields.is_empty() {
                parent.remove(field);
            }
        }
    }
    node
}
