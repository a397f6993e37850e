//! The NodeOverlays of rules: one for each, or for each quantity of a table.

pub(crate) mod compare;
mod declared;
pub(crate) mod difference;
pub(crate) mod label_keys;
pub(crate) mod overlay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::model::count::{NAMED, few};
use crate::model::label::excerpt;
use crate::planner::overlap::Overlap;
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::selector::{Requirement, Selection};
use declared::{Part, parts};
use label_keys::{LabelKey, TemplateLabels};
use overlay::{MAX_WEIGHT, NodeOverlay, OverlayRequirement, Spec};

/// What Karpenter must know of some rules.
#[derive(Debug, Default)]
pub(crate) struct Overlays {
    /// The overlays, by resource, then by precedence.
    pub(crate) overlays: Vec<NodeOverlay>,
    /// The rules without an overlay, with a sentence each.
    pub(crate) unexpressed: BTreeMap<Arc<str>, String>,
    /// Sentences about rules that need none, and about what else must be set.
    pub(crate) notes: Vec<String>,
}

impl Overlays {
    /// Returns the overlays of these rules. Where several overlays with the same resource apply to a node, the heaviest
    /// is that of the rule that the planner prefers. Of labels that `templates` lack, there is a note.
    pub(crate) fn new(rules: &RuleSet, templates: &TemplateLabels) -> Self {
        let mut by_resource = BTreeMap::<_, Vec<&Arc<Rule>>>::new();
        for rule in rules.by_precedence() {
            by_resource.entry(rule.resource.as_str()).or_default().push(rule);
        }
        let names: BTreeSet<_> = rules.by_precedence().map(|rule| &*rule.name).collect();
        let mut expressed = Self::default();
        let mut of_templates = BTreeMap::<&str, BTreeSet<&str>>::new();
        for rules in by_resource.values() {
            // Also rules without an overlay have a weight: it stays the same when they get one.
            for (rule, weight) in rules.iter().zip((i64::MIN..=MAX_WEIGHT).rev()) {
                match of_rule(rule, weight, &names) {
                    Ok(overlays) => {
                        expressed.overlays.extend(overlays);
                        expressed.note_offerings(rule);
                        for key in keys(rule).filter(|key| templates.lack(key)) {
                            of_templates.entry(key).or_default().insert(&rule.name);
                        }
                    }
                    Err(Without::Need(note)) => expressed.notes.push(note),
                    Err(Without::Way(why)) => drop(expressed.unexpressed.insert(Arc::clone(&rule.name), why)),
                }
            }
            expressed.note_tie(rules);
        }
        for (key, rules) in of_templates {
            let rules = few(&rules.into_iter().collect::<Vec<_>>(), NAMED, ", ");
            expressed.notes.push(format!(
                "Karpenter knows the label {key} (of {rules}) only from spec.template.metadata.labels of a NodePool: \
                 set it there, otherwise the overlay applies to nothing, without an error"
            ));
        }
        expressed
    }

    fn note_offerings(&mut self, rule: &Rule) {
        for key in keys(rule).filter(|key| LabelKey::of(key) == LabelKey::OfOfferings) {
            self.notes.push(format!(
                "rule {} selects by {key}: Karpenter applies its overlay to an instance type with every value of this \
                 label if one fits; restrict NodePools to the values that the rule selects",
                rule.name
            ));
        }
    }

    /// Notes the first two rules of which the cluster may prefer the other one.
    fn note_tie(&mut self, rules: &[&Arc<Rule>]) {
        let is_tied = |one: &Rule, other: &Rule| {
            one.quantity != other.quantity && one.selection.overlap(&other.selection) != Overlap::Never
        };
        let undated = rules.iter().filter(|rule| rule.created.is_none() && !rule.paused).collect::<Vec<_>>();
        let tied = undated.chunk_by(|one, other| one.priority == other.priority).find_map(|equal| {
            let mut pairs =
                equal.iter().enumerate().flat_map(|(at, one)| equal[at + 1..].iter().map(move |other| (one, other)));
            pairs.find(|(one, other)| is_tied(one, other))
        });
        if let Some((one, other)) = tied {
            self.notes.push(format!(
                "rules {} and {} have the same priority and may select the same nodes: in a cluster the oldest wins, \
                 and files do not have its age; give them different priorities",
                one.name, other.name
            ));
        }
    }
}

/// Why a rule has no overlay.
enum Without {
    /// It needs none.
    Need(String),
    /// Karpenter has no way to express it.
    Way(String),
}

/// Returns the overlays of a rule. `names` are those of all rules, which no other overlay can have.
fn of_rule(rule: &Rule, weight: i64, names: &BTreeSet<&str>) -> Result<Vec<NodeOverlay>, Without> {
    let name = &rule.name;
    if rule.paused {
        return Err(Without::Need(format!("rule {name} is paused: no new node gets its resource")));
    }
    if rule.selection.overlap(&rule.selection) == Overlap::Never {
        return Err(Without::Need(format!("rule {name} selects no node: its requirements contradict each other")));
    }
    let cannot = |why: String| Without::Way(format!("rule {name} cannot be expressed for Karpenter: {why}"));
    if weight < 1 {
        return Err(cannot(format!(
            "more than {MAX_WEIGHT} rules declare {}, and a NodeOverlay has a weight from 1 to {MAX_WEIGHT}",
            rule.resource
        )));
    }
    let own = requirements(&rule.selection).map_err(cannot)?;
    let mut overlays = Vec::new();
    for Part { quantity, only, name: part } in parts(rule).map_err(cannot)? {
        let requirements = checked(own.iter().cloned().chain(only).collect()).map_err(cannot)?;
        let capacity = BTreeMap::from([(rule.resource.to_string(), Value::String(quantity.to_string()))]);
        let spec = Spec { requirements, capacity: Some(capacity), weight: Some(weight), others: BTreeMap::new() };
        let overlay = NodeOverlay::of_rule(name, part.as_deref(), spec);
        if part.is_some() && names.contains(&*overlay.metadata.name) {
            return Err(cannot(format!(
                "rule {} has the name of one of its overlays; rename one",
                overlay.metadata.name
            )));
        }
        overlays.push(overlay);
    }
    Ok(overlays)
}

/// Returns the requirements that select the same nodes, or why there are none.
fn requirements(selection: &Selection) -> Result<Vec<OverlayRequirement>, String> {
    if let Some(first) = selection.names().next() {
        return Err(format!(
            "it selects nodes by name ({}), and Karpenter creates nodes with names of its own",
            excerpt(first)
        ));
    }
    let overlay_requirement = |requirement: &Requirement| OverlayRequirement {
        key: requirement.key().to_owned(),
        operator: requirement.operator().to_owned(),
        values: requirement.values().map(str::to_owned).collect(),
    };
    Ok(selection.requirements().iter().map(overlay_requirement).collect())
}

/// Returns the requirements, or why Karpenter cannot decide by them.
fn checked(requirements: Vec<OverlayRequirement>) -> Result<Vec<OverlayRequirement>, String> {
    for key in requirements.iter().map(|requirement| &*requirement.key) {
        match LabelKey::of(key) {
            LabelKey::AfterStart => {
                return Err(format!("nodes have the label {key} only after their start; select by another label"));
            }
            LabelKey::Restricted => {
                return Err(format!("Karpenter allows no requirement on the label {key}; select by another label"));
            }
            LabelKey::OfInstanceTypes | LabelKey::OfOfferings | LabelKey::OfTemplates => {}
        }
        // Karpenter joins Exists and NotIn to NotIn, which holds without the label.
        let has = |operator| requirements.iter().any(|other| other.key == key && other.operator == operator);
        if has("Exists") && has("NotIn") && !has("In") {
            return Err(format!(
                "Karpenter cannot require that the label {key} exists with other than some values; use In"
            ));
        }
    }
    Ok(requirements)
}

fn keys(rule: &Rule) -> impl Iterator<Item = &str> {
    let own = rule.selection.requirements().iter().map(Requirement::key);
    let keys: BTreeSet<_> = own.chain(rule.quantity.by_label().map(|by_label| by_label.key)).collect();
    keys.into_iter()
}

#[cfg(test)]
mod tests;
