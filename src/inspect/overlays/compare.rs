//! Compares NodeOverlays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

use super::difference::{Comparison, Difference};
use super::overlay::{KIND, NodeOverlay, OverlayRequirement};
use crate::model::quantity::Quantity;
use crate::planner::overlap::Overlap;
use crate::planner::selector::Selection;

/// An overlay that this program did not print.
struct Other<'t> {
    overlay: &'t NodeOverlay,
    requirements: BTreeSet<OverlayRequirement>,
    /// What it applies to; `None` if it has an operator that only Karpenter has.
    selection: Option<Selection>,
    /// The same without such requirements.
    widest: Option<Selection>,
}

impl<'t> Other<'t> {
    fn new(overlay: &'t NodeOverlay) -> Self {
        let requirements = canonical(&overlay.spec.requirements);
        Self { overlay, requirements, selection: selection(overlay), widest: widest(overlay) }
    }

    fn name(&self) -> &str {
        &self.overlay.metadata.name
    }

    /// Returns the resources that this overlay and one of ours have, each with both quantities, as written.
    fn shared<'o>(&'o self, ours: &'o NodeOverlay) -> impl Iterator<Item = Shared<'o>> {
        resources(ours).filter_map(move |resource| {
            let [expected, found] = [ours, self.overlay].map(|overlay| amount(overlay, resource));
            Some(Shared { resource, expected: expected?, found: found? })
        })
    }

    /// Returns whether it has an effect that one of ours lacks: another resource, or another field, such as a price.
    fn does_more_than(&self, ours: &NodeOverlay) -> bool {
        let is_other = |resource: &String| resources(ours).all(|own| own != resource);
        resources(self.overlay).any(is_other) || self.overlay.spec.others.values().any(|value| !value.is_null())
    }
}

/// A resource that two overlays have.
struct Shared<'t> {
    resource: &'t str,
    expected: String,
    found: String,
}

impl Shared<'_> {
    fn is_equal(&self) -> bool {
        quantity(Some(&self.expected)) == quantity(Some(&self.found))
    }
}

/// Compares the overlays that the rules need with those that exist. Others count only where they take the effect of
/// one of ours.
pub(crate) fn compare(expected: &[NodeOverlay], found: &[NodeOverlay]) -> Comparison {
    let mut differences = Vec::new();
    let by_name: BTreeMap<_, _> = found.iter().map(|overlay| (&*overlay.metadata.name, overlay)).collect();
    let names: BTreeSet<_> = expected.iter().map(|overlay| &*overlay.metadata.name).collect();
    let mut by_weight = BTreeMap::<_, Vec<&NodeOverlay>>::new();
    let others = found.iter().filter(|other| !other.is_ours() && !names.contains(&*other.metadata.name));
    // Karpenter applies no rejected one, and of two it prefers the heavier.
    let mut others: Vec<_> = others.filter(|other| rejected(other).is_none()).map(Other::new).collect();
    others.sort_by_key(|other| Reverse(other.overlay.spec.weight));
    for Other { overlay, .. } in &others {
        by_weight.entry(overlay.spec.weight.unwrap_or_default()).or_default().push(overlay);
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
        differences.extend(heavier(overlay, &others, by_name.contains_key(&*overlay.metadata.name)));
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

/// Describes an overlay that does not exist, by what one of others does in its place: one of the same selection, or one
/// that selects more.
fn missing(overlay: &NodeOverlay, others: &[Other<'_>]) -> String {
    let requirements = canonical(&overlay.spec.requirements);
    let alike = others.iter().find_map(|other| {
        let shared = other.shared(overlay).next().filter(|_| other.requirements == requirements)?;
        let advice = match other.does_more_than(overlay) {
            true => format!("apply this one, and remove {} from that one", shared.resource),
            false => "apply this one, and delete that one".to_owned(),
        };
        Some((other, "", advice, shared))
    });
    let own = selection(overlay);
    let broader = || {
        others.iter().find_map(|other| {
            let is_broader = own.as_ref()?.is_within(other.selection.as_ref()?);
            let shared = other.shared(overlay).next().filter(|_| is_broader)?;
            Some((other, ", which selects more,", "apply this one".to_owned(), shared))
        })
    };
    match alike.or_else(broader) {
        None => "it does not exist: Karpenter creates no node for a pod that requests the resource".to_owned(),
        Some((other, which, advice, shared)) if shared.is_equal() => {
            format!("it does not exist, and NodeOverlay {}{which} has its effect: {advice}", other.name())
        }
        Some((other, which, advice, Shared { resource, expected, found })) => format!(
            "it does not exist, and NodeOverlay {}{which} has {found} of {resource}, not {expected}: {advice}",
            other.name()
        ),
    }
}

/// Reports overlays of others that Karpenter prefers to one of ours, and that have another quantity.
fn heavier(overlay: &NodeOverlay, others: &[Other<'_>], exists: bool) -> Vec<Difference> {
    let requirements = canonical(&overlay.spec.requirements);
    let own = widest(overlay);
    let may_meet = |other: &Other<'_>| match (&own, &other.widest) {
        (Some(own), Some(other)) => own.overlap(other) != Overlap::Never,
        _ => true,
    };
    let heavier = others.iter().filter(|other| {
        let is_named = !exists && other.requirements == requirements;
        other.overlay.spec.weight > overlay.spec.weight && !is_named && may_meet(other)
    });
    let different = heavier.filter_map(|other| {
        let Shared { resource, expected, found } = other.shared(overlay).find(|shared| !shared.is_equal())?;
        let message = format!(
            "NodeOverlay {} has a higher weight, and {found} of {resource}, not {expected}: where both apply, Karpenter \
             uses that one",
            other.name()
        );
        Some(Difference::of_object(object(overlay), message))
    });
    different.collect()
}

/// Returns what an overlay applies to, if labels have all of its operators.
fn selection(overlay: &NodeOverlay) -> Option<Selection> {
    selection_of(overlay.spec.requirements.clone())
}

/// Returns the same without requirements whose operators labels do not have, such as Gt: all that it applies to, and
/// maybe more.
fn widest(overlay: &NodeOverlay) -> Option<Selection> {
    let known = |requirement: &&OverlayRequirement| {
        ["In", "NotIn", "Exists", "DoesNotExist"].contains(&requirement.operator.as_str())
    };
    selection_of(overlay.spec.requirements.iter().filter(known).cloned().collect())
}

fn selection_of(requirements: Vec<OverlayRequirement>) -> Option<Selection> {
    if requirements.is_empty() {
        return Some(Selection::All);
    }
    let expressions = requirements.into_iter().map(|OverlayRequirement { key, operator, values }| {
        LabelSelectorRequirement { key, operator, values: (!values.is_empty()).then_some(values) }
    });
    let selector = LabelSelector { match_expressions: Some(expressions.collect()), match_labels: None };
    Selection::new(Some(&selector), None, None).ok()
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
            (
                json!({"weight": 9, "requirements": [{"key": "c", "operator": "Exists"}]}),
                "it does not exist: Karpenter creates no node",
            ),
            (
                json!({"weight": 9, "requirements": []}),
                "it does not exist, and NodeOverlay theirs, which selects more, has its effect: apply this one",
            ),
            (
                json!({
                    "weight": 9, "requirements": [{"key": "a", "operator": "In", "values": ["x", "y", "z"]}],
                    "capacity": {"example.com/dongle": 5},
                }),
                "it does not exist, and NodeOverlay theirs, which selects more, has 5 of example.com/dongle, not 4: apply",
            ),
            (
                json!({"weight": 9, "requirements": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
                "it does not exist: Karpenter creates no node",
            ),
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

    /// Its other effects would be lost.
    #[test]
    fn overlay_of_another_that_does_more_is_not_to_be_deleted() {
        let two = |quantity: u8| json!({"example.com/dongle": quantity, "example.com/key": 3});
        for (spec, message) in [
            (json!({"priceAdjustment": null}), "its effect: apply this one, and delete that one"),
            (
                json!({"priceAdjustment": "-50%"}),
                "its effect: apply this one, and remove example.com/dongle from that one",
            ),
            (json!({"price": "1.5"}), "its effect: apply this one, and remove example.com/dongle from that one"),
            (json!({"capacity": two(4)}), "its effect: apply this one, and remove example.com/dongle from that one"),
            (
                json!({"capacity": two(5)}),
                "5 of example.com/dongle, not 4: apply this one, and remove example.com/dongle from that one",
            ),
            (
                json!({"capacity": {"example.com/dongle": 5}}),
                "5 of example.com/dongle, not 4: apply this one, and delete that one",
            ),
        ] {
            let mut changes = json!({"metadata": {"labels": null}, "spec": {"weight": 9}});
            json_patch::merge(&mut changes["spec"], &spec);
            let found = messages(&[overlay("hand", changes)]);
            let start = "NodeOverlay dongle: it does not exist, and NodeOverlay hand has ";
            assert_eq!(found, [format!("{start}{message}")], "{spec}");
        }
    }

    #[test]
    fn overlay_of_another_that_weighs_more_is_named_if_its_quantity_differs() {
        let expected = overlay("dongle", json!({"spec": {"weight": 9}}));
        let found = |exists: bool, spec: Value| {
            let theirs = json!({"metadata": {"labels": null}, "spec": {"weight": 10}});
            let mut theirs = overlay("theirs", theirs);
            let mut changed = serde_json::to_value(&theirs.spec).unwrap();
            json_patch::merge(&mut changed, &spec);
            theirs.spec = serde_json::from_value(changed).unwrap();
            let own = exists.then(|| expected.clone());
            let found: Vec<_> = own.into_iter().chain([theirs]).collect();
            let comparison = compare(std::slice::from_ref(&expected), &found);
            comparison.differences.into_iter().map(|it| it.message).collect::<Vec<_>>()
        };
        let five = json!({"example.com/dongle": "5"});
        let of_a = |operator: &str, values: &[&str]| json!([{"key": "a", "operator": operator, "values": values}]);
        let named = "NodeOverlay theirs has a higher weight, and 5 of example.com/dongle, not 4: where both apply, \
                     Karpenter uses that one";
        for (spec, is_named) in [
            (json!({"capacity": five}), true),
            (json!({"capacity": five, "requirements": []}), true),
            (json!({"capacity": five, "requirements": of_a("In", &["x"])}), true),
            (json!({"capacity": five, "requirements": of_a("Gt", &["1"])}), true),
            (json!({"capacity": five, "requirements": of_a("In", &["z"])}), false),
            (
                json!({"capacity": five, "requirements": [
                    {"key": "a", "operator": "In", "values": ["z"]}, {"key": "cpu", "operator": "Gt", "values": ["4"]},
                ]}),
                false,
            ),
            (json!({"capacity": five, "weight": 8}), false),
            (json!({"capacity": five, "weight": null}), false),
            (json!({}), false),
            (json!({"capacity": {"example.com/dongle": null, "example.com/key": "5"}}), false),
        ] {
            let messages = found(true, spec.clone());
            assert_eq!(messages, is_named.then_some(named).into_iter().collect::<Vec<_>>(), "{spec}");
        }
        let own = expected.clone();
        let of_others = |name: &str, weight: u32, changes: Value| {
            let mut other = json!({"metadata": {"labels": null}, "spec": {"weight": weight, "capacity": five}});
            json_patch::merge(&mut other, &changes);
            overlay(name, other)
        };
        let rejected =
            of_others("rejected", 10, json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
        assert_eq!(compare(std::slice::from_ref(&own), &[own.clone(), rejected]).differences.len(), 0);
        let light = of_others("light", 1, json!({}));
        let heavy = of_others("heavy", 3, json!({"spec": {"capacity": {"example.com/dongle": "3"}}}));
        let differences = compare(std::slice::from_ref(&own), &[light, heavy]).differences;
        assert!(differences[0].message.contains("NodeOverlay heavy has 3 of"), "{}", differences[0].message);
        let missing = found(false, json!({"capacity": five}));
        assert!(missing.len() == 1 && missing[0].starts_with("it does not exist, and"), "{missing:?}");
        assert_eq!(found(false, json!({"capacity": five, "requirements": []}))[1..], [named]);
    }
}
