//! Karpenter's NodeOverlays that this program has printed.

use std::collections::{BTreeMap, BTreeSet};

use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, known};
use crate::inspect::hint;
use crate::inspect::overlays::Overlays;
use crate::inspect::overlays::compare::fields;
use crate::inspect::overlays::label_keys::TemplateLabels;
use crate::inspect::overlays::overlay::{KIND, NodeOverlay};

const FIX: &str = "apply what node-resource-advertiser autoscaler --for karpenter prints for the rules";

/// Finds overlays that no rule needs or that differ from their rule, and rules without one where others have one.
///
/// Weights are not compared: they depend on whether rules come from files, which have no age.
pub(super) fn check(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let ours = known(&snapshot.overlays)?.iter().flatten().filter(|overlay| overlay.is_ours());
    let ours: BTreeMap<_, _> = ours.map(|overlay| (&*overlay.metadata.name, overlay)).collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let Overlays { overlays, .. } = Overlays::new(&rules.set, &TemplateLabels::default());
    let expected: BTreeMap<_, _> = overlays.iter().map(|overlay| (&*overlay.metadata.name, overlay)).collect();
    let mut findings = Vec::new();
    for (name, overlay) in &ours {
        let entry = rules.all.iter().find(|entry| *entry.name == *overlay.rule());
        match (expected.get(name), entry) {
            (Some(expected), _) => findings.extend(differing(expected, overlay)),
            // Its values stay, and the rule itself is reported.
            (None, Some(entry)) if entry.rule.is_err() => {}
            (None, entry) => findings.push(left_over(overlay, entry.is_some())),
        }
    }
    let without = expected.iter().filter(|(name, _)| !ours.contains_key(*name));
    let without: BTreeSet<_> = without.map(|(_, overlay)| overlay.rule()).collect();
    findings.extend(without.into_iter().map(|name| {
        let problem = "it has no NodeOverlay, and other rules have one: Karpenter creates no node for its resource";
        Finding::warning(vec![ObjectName::new("NodeExtendedResource", name)], problem.to_owned(), FIX)
    }));
    Ok(findings)
}

fn left_over(overlay: &NodeOverlay, has_rule: bool) -> Finding {
    let (name, rule) = (&*overlay.metadata.name, overlay.rule());
    let why = match has_rule {
        true => format!("new nodes do not get what rule {rule} declares"),
        false => format!("there is no rule {rule}"),
    };
    let problem =
        format!("{why}: Karpenter creates nodes for it that never become initialized, and never removes them");
    Finding::error(vec![ObjectName::new(KIND, name)], problem, hint::kubectl(&format!("delete nodeoverlay {name}")))
}

fn differing(expected: &NodeOverlay, found: &NodeOverlay) -> Option<Finding> {
    let name = &expected.metadata.name;
    let differences = fields(expected, found);
    let messages: Vec<_> = differences.iter().map(|difference| difference.message.as_str()).collect();
    let problem = format!("it differs from rule {}: {}", expected.rule(), messages.join("; "));
    (!messages.is_empty()).then(|| Finding::error(vec![ObjectName::new(KIND, name)], problem, FIX))
}
