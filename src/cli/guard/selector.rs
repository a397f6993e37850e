//! Selectors of pods and namespaces: which ones can guard, and what they are in CEL.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::error::GuardError;
use crate::inspect::diff::label_filter::LabelFilter;

/// The namespace of the cluster's own pods, which no guard may reject.
pub(super) const SYSTEM: &str = "kube-system";

/// The label that every namespace has.
pub(super) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Labels that pods get from controllers, with values that change from one revision or run to the next, or when they are bound
/// (`PodTopologyLabelsAdmission`), after any guard.
const NOT_OF_TEMPLATES: [&str; 12] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Returns an error unless the labels identify pods of a kind.
pub(super) fn check_pods(pods: &LabelFilter) -> Result<(), GuardError> {
    let requirements = requirements(&pods.to_label_selector());
    let is_positive = |it: &&LabelSelectorRequirement| matches!(&*it.operator, "In" | "Exists");
    if !requirements.iter().any(|it| is_positive(&it)) {
        let problem = "--pods has to name a label that the pods have: every other pod would count, too";
        return Err(GuardError::Selector(problem.to_owned()));
    }
    let of_templates =
        |it: &&LabelSelectorRequirement| it.operator == "DoesNotExist" || !NOT_OF_TEMPLATES.contains(&&*it.key);
    match requirements.iter().find(|it| !of_templates(it)) {
        None => Ok(()),
        Some(LabelSelectorRequirement { key, .. }) => Err(GuardError::Selector(format!(
            "--pods: pods get the label {key} from a controller, with another value for each revision or run, or when \
             they are bound: use a label of the pods' template"
        ))),
    }
}

/// Returns an error if the namespace is asked for that guards leave alone.
pub(super) fn check_namespaces(namespaces: &LabelFilter) -> Result<(), GuardError> {
    let requirements = requirements(&namespaces.to_label_selector());
    let is_system = |it: &LabelSelectorRequirement| {
        let values = it.values.iter().flatten();
        it.key == NAMESPACE_NAME && it.operator == "In" && values.into_iter().any(|value| value == SYSTEM)
    };
    if requirements.iter().any(is_system) {
        return Err(GuardError::Selector(format!(
            "--namespaces: a guard leaves {SYSTEM} alone, where a rejected pod can stop the cluster. Write the request \
             into the template there"
        )));
    }
    Ok(())
}

/// Returns the requirements of a selector, all in one form.
fn requirements(selector: &LabelSelector) -> Vec<LabelSelectorRequirement> {
    let equal = selector.match_labels.iter().flatten().map(|(key, value)| LabelSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(vec![value.clone()]),
    });
    equal.chain(selector.match_expressions.iter().flatten().cloned()).collect()
}

/// Returns a CEL expression that is true if the labels of `object`, an expression too, match.
pub(super) fn in_cel(selector: &LabelSelector, object: &str) -> String {
    let labels = format!("{object}.metadata.?labels");
    let of = |LabelSelectorRequirement { key, operator, values }: &LabelSelectorRequirement| {
        let has = format!("{labels}[?'{key}'].hasValue()");
        let values: Vec<_> = values.iter().flatten().map(|value| format!("'{value}'")).collect();
        let is_in = format!("{labels}[?'{key}'].orValue('') in [{}]", values.join(", "));
        match &**operator {
            "In" => format!("{has} && {is_in}"),
            "NotIn" => format!("!({has} && {is_in})"),
            "Exists" => has,
            _ => format!("!{has}"),
        }
    };
    requirements(selector).iter().map(of).collect::<Vec<_>>().join(" && ")
}
