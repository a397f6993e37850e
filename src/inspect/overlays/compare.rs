//! Compares NodeOverlays.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::difference::{Comparison, Difference};
use super::overlay::{KIND, NodeOverlay, OverlayRequirement};
use crate::model::quantity::Quantity;

/// Compares the overlays that the rules need with those that exist. Others count only where they take the effect of
/// one of ours.
pub(crate) fn compare(expected: &[NodeOverlay], found: &[NodeOverlay]) -> Comparison {
    let mut differences = Vec::new();
    let by_name: BTreeMap<_, _> = found.iter().map(|overlay| (&*overlay.metadata.name, overlay)).collect();
    let names: BTreeSet<_> = expected.iter().map(|overlay| &*overlay.metadata.name).collect();
    let mut by_weight = BTreeMap::<_, Vec<&NodeOverlay>>::new();
    let others: Vec<_> =
        found.iter().filter(|other| !other.is_ours() && !names.contains(&*other.metadata.name)).collect();
    for other in &others {
        by_weight.entry(other.spec.weight.unwrap_or_default()).or_default().push(other);
    }
    for overlay in expected {
        let object = object(overlay);
        match by_name.get(&*overlay.metadata.name) {
            None => differences.push(Difference::of_object(object.clone(), missing(overlay, &others))),
            Some(found) => {
                differences.extend(fields(overlay, found));
                differences.extend(weight(overlay, found));
                differences.extend(rejected(found));
            }
        }
        for other in overlay.spec.weight.and_then(|weight| by_weight.get(&weight)).into_iter().flatten() {
            let shared = resources(overlay).find(|name| resources(other).any(|other| other == *name));
            differences.extend(shared.map(|resource| {
                let message = format!(
                    "NodeOverlay {} has the same weight, and {resource} too: where both apply, Karpenter uses the one whose \
                     name is last in the alphabet",
                    other.metadata.name
                );
                Difference::of_object(object.clone(), message)
            }));
        }
    }
    for left in found.iter().filter(|found| found.is_ours() && !names.contains(&*found.metadata.name)) {
        let why = "it is left over: no rule needs it, and Karpenter creates nodes that never become initialized";
        differences.push(Difference::of_object(object(left), why.to_owned()));
    }
    Comparison { differences, compared: expected.len(), notes: Vec::new() }
}

/// Describes an overlay that does not exist, by what one of others does in its place.
fn missing(overlay: &NodeOverlay, others: &[&NodeOverlay]) -> String {
    let requirements = canonical(&overlay.spec.requirements);
    let alike = others.iter().filter(|other| canonical(&other.spec.requirements) == requirements);
    let mut amounts = alike.flat_map(|other| {
        let shared = resources(overlay).filter_map(|name| Some((name, amount(overlay, name)?, amount(other, name)?)));
        shared.map(|amounts| (&other.metadata.name, amounts)).collect::<Vec<_>>()
    });
    match amounts.next() {
        None => "it does not exist: Karpenter creates no node for a pod that requests the resource".to_owned(),
        Some((other, (_, expected, found))) if quantity(Some(&expected)) == quantity(Some(&found)) => {
            format!("it does not exist, and NodeOverlay {other} has its effect: apply this one, and delete that one")
        }
        Some((other, (name, expected, found))) => format!(
            "it does not exist, and NodeOverlay {other} has {found} of {name}, not {expected}: apply this one, and \
             delete that one"
        ),
    }
}

/// Returns the quantity of a resource, as written.
fn amount(overlay: &NodeOverlay, resource: &str) -> Option<String> {
    overlay.spec.capacity.as_ref()?.get(resource).map(text)
}

fn object(overlay: &NodeOverlay) -> String {
    format!("{KIND} {}", overlay.metadata.name)
}

fn resources(overlay: &NodeOverlay) -> impl Iterator<Item = &String> {
    overlay.spec.capacity.iter().flat_map(BTreeMap::keys)
}

/// Compares all fields that this program writes, except for the weight, which depends on the other rules.
pub(crate) fn fields(expected: &NodeOverlay, found: &NodeOverlay) -> Vec<Difference> {
    let object = &object(expected);
    let mut differences = Vec::new();
    let metadata = [
        ("metadata.labels", &expected.metadata.labels, &found.metadata.labels),
        ("metadata.annotations", &expected.metadata.annotations, &found.metadata.annotations),
    ];
    for (map, expected, found) in metadata {
        for (key, value) in expected.iter().flatten() {
            let found = found.as_ref().and_then(|found| found.get(key));
            if found != Some(value) {
                let field = format!("{map}[{key}]");
                differences.push(Difference::of_field(object, &field, Some(value.clone()), found.cloned()));
            }
        }
    }
    let requirements = [&expected.spec.requirements, &found.spec.requirements].map(|list| canonical(list));
    let [wanted, present] = &requirements;
    if wanted != present {
        let shown = requirements.map(|requirements| Some(list(&requirements)));
        let [expected, found] = shown;
        differences.push(Difference::of_field(object, "spec.requirements", expected, found));
    }
    let names: BTreeSet<_> = resources(expected).chain(resources(found)).collect();
    for name in names {
        let [expected, found] = [expected, found].map(|overlay| overlay.spec.capacity.as_ref()?.get(name).map(text));
        if quantity(expected.as_ref()) != quantity(found.as_ref()) {
            let field = format!("spec.capacity[{name}]");
            differences.push(Difference::of_field(object, &field, expected, found));
        }
    }
    for (field, value) in found.spec.others.iter().filter(|(_, value)| !value.is_null()) {
        differences.push(Difference::of_field(object, &format!("spec.{field}"), None, Some(text(value))));
    }
    differences
}

fn weight(expected: &NodeOverlay, found: &NodeOverlay) -> Option<Difference> {
    let [wanted, present] = [expected, found].map(|overlay| overlay.spec.weight.map(|weight| weight.to_string()));
    (wanted != present).then(|| Difference::of_field(&object(expected), "spec.weight", wanted, present))
}

/// Returns why Karpenter does not apply an overlay, if its status has a reason.
fn rejected(found: &NodeOverlay) -> Option<Difference> {
    let conditions = found.status.iter().flat_map(|status| &status.conditions);
    let condition =
        conditions.into_iter().find(|condition| condition.kind == "Ready" && condition.status == "False")?;
    let field = "status.conditions[Ready]";
    let why = format!("False: {}: {}", condition.reason, condition.message);
    Some(Difference::of_field(&object(found), field, Some("True".to_owned()), Some(why)))
}

/// A quantity as a number where it is one.
fn quantity(text: Option<&String>) -> Option<Result<Quantity, &String>> {
    text.map(|text| text.parse().map_err(|_| text))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns requirements in an order that does not matter to Karpenter.
fn canonical(requirements: &[OverlayRequirement]) -> BTreeSet<OverlayRequirement> {
    let sorted = requirements.iter().map(|requirement| {
        let mut requirement = requirement.clone();
        requirement.values.sort_unstable();
        requirement.values.dedup();
        requirement
    });
    sorted.collect()
}

fn list(requirements: &BTreeSet<OverlayRequirement>) -> String {
    let shown = requirements.iter().map(|OverlayRequirement { key, operator, values }| match values.is_empty() {
        true => format!("{key} {operator}"),
        false => format!("{key} {operator} [{}]", values.join(" ")),
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn overlay(name: &str, changes: Value) -> NodeOverlay {
        let mut object = json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {
                "name": name, "uid": "u",
                "labels": {"app.kubernetes.io/managed-by": "node-resource-advertiser"},
                "annotations": {"noderesource.dev/rule": name},
            },
            "spec": {
                "requirements": [
                    {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "Exists"},
                ],
                "capacity": {"example.com/dongle": "4"}, "weight": 10_000,
            },
        });
        json_patch::merge(&mut object, &changes);
        serde_json::from_value(object).unwrap()
    }

    fn messages(found: &[NodeOverlay]) -> Vec<String> {
        let comparison = compare(&[overlay("dongle", json!({}))], found);
        comparison.differences.iter().map(|it| format!("{}: {}", it.object, it.message)).collect()
    }

    #[test]
    fn equal_overlays_have_no_difference() {
        let same = json!({
            "metadata": {"labels": {"other": "x"}, "annotations": {"other": "x"}},
            "spec": {
                "requirements": [
                    {"key": "b", "operator": "Exists", "values": []},
                    {"key": "a", "operator": "In", "values": ["y", "x"]},
                ],
                "capacity": {"example.com/dongle": 4},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(messages(&[overlay("dongle", same)]), [""; 0]);
        let foreign = json!({
            "metadata": {"labels": null},
            "spec": {"weight": 9, "price": "1"},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        });
        assert_eq!(messages(&[overlay("dongle", json!({})), overlay("spot", foreign)]), [""; 0]);
    }

    #[test]
    fn edited_overlay_differs_field_by_field() {
        for (edit, message) in [
            (json!({"spec": {"weight": 5}}), "spec.weight: expected 10000, found 5"),
            (json!({"spec": {"weight": null}}), "spec.weight: expected 10000, found nothing"),
            (
                json!({"spec": {"capacity": {"example.com/dongle": "5"}}}),
                "spec.capacity[example.com/dongle]: expected 4, found 5",
            ),
            (
                json!({"spec": {"capacity": {"example.com/dongle": "five"}}}),
                "spec.capacity[example.com/dongle]: expected 4, found five",
            ),
            (
                json!({"spec": {"capacity": {"example.com/key": 1}}}),
                "spec.capacity[example.com/key]: expected nothing, found 1",
            ),
            (json!({"spec": {"requirements": []}}), "spec.requirements: expected [a In [x y], b Exists], found []"),
            (json!({"spec": {"priceAdjustment": "+10%"}}), "spec.priceAdjustment: expected nothing, found +10%"),
            (
                json!({"metadata": {"labels": null}}),
                "metadata.labels[app.kubernetes.io/managed-by]: expected node-resource-advertiser, found nothing",
            ),
            (
                json!({"metadata": {"annotations": {"noderesource.dev/rule": "x"}}}),
                "metadata.annotations[noderesource.dev/rule]: expected dongle, found x",
            ),
            (
                json!({"status": {"conditions": [
                    {"type": "Ready", "status": "False", "reason": "Conflict", "message": "conflict with another overlay"},
                ]}}),
                "status.conditions[Ready]: expected True, found False: Conflict: conflict with another overlay",
            ),
        ] {
            assert_eq!(messages(&[overlay("dongle", edit)]), [format!("NodeOverlay dongle: {message}")]);
        }
    }

    #[test]
    fn missing_left_over_and_conflicting_overlays_are_named() {
        assert!(messages(&[])[0].starts_with("NodeOverlay dongle: it does not exist"), "{:?}", messages(&[]));
        let theirs = |spec: Value| messages(&[overlay("theirs", json!({"metadata": {"labels": null}, "spec": spec}))]);
        for (spec, message) in [
            (json!({"weight": 9}), "it does not exist, and NodeOverlay theirs has its effect"),
            (
                json!({"weight": 9, "capacity": {"example.com/dongle": 5}}),
                "it does not exist, and NodeOverlay theirs has 5 of example.com/dongle, not 4",
            ),
            (json!({"weight": 9, "requirements": []}), "it does not exist: Karpenter creates no node"),
        ] {
            let found = theirs(spec);
            assert!(found[0].starts_with(&format!("NodeOverlay dongle: {message}")), "{found:?}");
        }
        let own = || overlay("dongle", json!({}));
        let gone = messages(&[own(), overlay("gone", json!({}))]);
        assert!(gone.len() == 1 && gone[0].starts_with("NodeOverlay gone: it is left over"), "{gone:?}");
        let foreign = |spec: Value| overlay("theirs", json!({"metadata": {"labels": null}, "spec": spec}));
        let conflict = messages(&[own(), foreign(json!({}))]);
        let why = "NodeOverlay dongle: NodeOverlay theirs has the same weight, and example.com/dongle too";
        assert!(conflict.len() == 1 && conflict[0].starts_with(why), "{conflict:?}");
        let other = json!({"capacity": {"example.com/dongle": null, "example.com/key": 1}});
        assert_eq!(messages(&[own(), foreign(other)]), [""; 0], "another resource");
    }
}
