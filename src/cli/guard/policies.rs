//! The policies, as objects.
//!
//! A pod counts what one of its containers requests, so the request goes to the first container: the others, init
//! containers and sidecars included, add nothing to it. An extended resource has equal requests and limits
//! (<https://kubernetes.io/docs/tasks/configure-pod-container/extended-resource/>). Mirror pods of static pods are left
//! alone: the kubelet runs those whatever the API server answers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::{Value, json};

use super::selector::{NAMESPACE_NAME, SYSTEM, in_cel};
use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::doctor::guards::{LABEL, RESOURCE};
use crate::model::count::{NAMED, few};
use crate::planner::rules::Rule;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Who adds the request to pods that count nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adding {
    /// The API server.
    Kubernetes,
    /// Kyverno, for API servers that cannot.
    Kyverno,
    /// Those who write the templates.
    Template,
}

/// Which pods have to count how much of a resource.
#[derive(Debug)]
pub(super) struct Guard {
    /// Of all objects.
    pub(super) name: String,
    pub(super) resource: String,
    /// At least 1.
    pub(super) quantity: i128,
    pub(super) pods: LabelFilter,
    pub(super) namespaces: LabelFilter,
}

/// Returns the name of the policies for a resource, pods and namespaces: one for others must not replace them. The name of
/// `app=x` is made of words alone; a checksum follows whatever says more.
pub(super) fn default_name(resource: &str, pods: &LabelFilter, namespaces: &LabelFilter) -> String {
    let fits = |char: char| char.is_ascii_alphanumeric() || char == '.';
    let name: String = resource.chars().map(|char| if fits(char) { char.to_ascii_lowercase() } else { '-' }).collect();
    let selected = format!("{pods} {namespaces}");
    let readable = selected.to_ascii_lowercase().replace('!', " not ");
    let words = readable.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.fold(format!("guard-{name}"), |name, word| name + "-" + word);
    let is_word = |text: &str| text.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit());
    let are_words = |text: &str, separators: &[char]| text.split(separators).all(is_word);
    match selected.trim_end().split_once('=') {
        Some((key, value)) if is_word(key) && is_word(value) && are_words(resource, &['.', '/']) => name,
        _ => format!("{name}-{:08x}", checksum(&format!("{resource} {selected}"))),
    }
}

/// Returns the FNV-1a hash of a text, which no version of this program changes.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Guard {
    /// Returns the policies and their bindings.
    pub(super) fn objects(&self, adding: Adding) -> Vec<Value> {
        let mut objects = match adding {
            Adding::Kubernetes => {
                vec![self.mutating_policy(), self.binding("MutatingAdmissionPolicyBinding", json!({}))]
            }
            Adding::Kyverno => vec![self.kyverno_policy()],
            Adding::Template => Vec::new(),
        };
        let actions = json!({"validationActions": ["Deny"]});
        objects.extend([self.validating_policy(), self.binding("ValidatingAdmissionPolicyBinding", actions)]);
        objects
    }

    /// Returns sentences on what does not work as it may be expected to.
    pub(super) fn notes(&self, rules: &[Rule]) -> Vec<String> {
        let rules = || rules.iter().filter(|rule| rule.resource.as_str() == self.resource);
        let most: Option<Vec<_>> = rules().map(|rule| rule.quantity.most().whole()).collect();
        let largest = most.and_then(|most| most.into_iter().max());
        let names: Vec<_> = rules().map(|rule| rule.name.to_string()).collect();
        let note = |largest| {
            format!(
                "no pod will fit: each counts {}, and the rules declare at most {largest} on a node ({})",
                self.quantity,
                few(&names, NAMED, ", ")
            )
        };
        largest.filter(|largest| *largest < self.quantity).map(note).into_iter().collect()
    }

    fn object(&self, kind: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": kind,
            "metadata": {
                "name": self.name, "labels": {LABEL: "true"}, "annotations": {RESOURCE: self.resource},
            },
            "spec": spec,
        })
    }

    fn binding(&self, kind: &str, mut spec: Value) -> Value {
        spec["policyName"] = json!(self.name);
        self.object(kind, &spec)
    }

    /// Adds the request to pods that count nothing.
    fn mutating_policy(&self) -> Value {
        let Self { resource, quantity, .. } = self;
        let key = resource.replace('~', "~0").replace('/', "~1");
        let patch = |field: &str| {
            let path = format!("/spec/containers/0/resources/{field}");
            format!(
                "[object.spec.containers[0].?resources.?{field}.hasValue()\n  \
                 ? JSONPatch{{op: 'add', path: '{path}/{key}', value: '{quantity}'}}\n  \
                 : JSONPatch{{op: 'add', path: '{path}', value: {{'{resource}': '{quantity}'}}}}]"
            )
        };
        let counts_nothing = format!("!({})", self.counts("object"));
        self.object(
            "MutatingAdmissionPolicy",
            &json!({
                "failurePolicy": "Fail",
                // Another policy may put a container first.
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": self.constraints(&["CREATE"]),
                "matchConditions": [not_a_mirror(), {"name": "counts-nothing", "expression": counts_nothing}],
                "mutations": [{
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": format!("{} + {}", patch("requests"), patch("limits"))},
                }],
            }),
        )
    }

    /// Adds the request with Kyverno, which takes the same expressions and needs no binding.
    fn kyverno_policy(&self) -> Value {
        let mut policy = self.mutating_policy();
        policy["apiVersion"] = json!("policies.kyverno.io/v1");
        policy["kind"] = json!("MutatingPolicy");
        // Else some versions derive policies for the templates of workloads from those for pods.
        policy["spec"]["autogen"] = json!({"podControllers": {"controllers": []}});
        // A scan of pods that exist has no user, whom a condition asks for.
        policy["spec"]["evaluation"] = json!({"background": {"enabled": false}});
        policy
    }

    /// Rejects pods that get around the scheduler's count. A pod that had the labels before is left alone, so that one from
    /// before the guard can end.
    fn validating_policy(&self) -> Value {
        let Self { resource, name, .. } = self;
        let pods = self.pods.to_label_selector();
        let [is_selected, was_selected] = ["object", "oldObject"].map(|object| in_cel(&pods, object));
        let begins = format!("{is_selected} && !(request.operation == 'UPDATE' && {was_selected})");
        let counts = format!(
            "pods with these labels have to request {resource} (policy {name}): state the request and an equal limit in a \
             container"
        );
        let bypasses = format!(
            "pods with these labels must not set spec.nodeName, which bypasses the count of {resource} (policy {name}): use \
             a nodeSelector or node affinity"
        );
        self.object(
            "ValidatingAdmissionPolicy",
            &json!({
                "failurePolicy": "Fail",
                "matchConstraints": self.constraints(&["CREATE", "UPDATE"]),
                "matchConditions": [not_a_mirror(), {"name": "gets-the-labels", "expression": begins}],
                "validations": [
                    {"expression": self.counts("object"), "message": counts},
                    {
                        "expression": "request.operation == 'UPDATE' || object.spec.?nodeName.orValue('') == ''",
                        "message": bypasses,
                    },
                ],
            }),
        )
    }

    /// Whether a container of a pod requests the resource.
    fn counts(&self, pod: &str) -> String {
        format!(
            "({pod}.spec.containers + {pod}.spec.?initContainers.orValue([])).exists(it,\n  \
             quantity(it.?resources.?requests[?'{}'].orValue('0')).isGreaterThan(quantity('0')))",
            self.resource
        )
    }

    fn constraints(&self, operations: &[&str]) -> Value {
        let mut namespaces: LabelSelector = self.namespaces.to_label_selector();
        namespaces.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: NAMESPACE_NAME.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![SYSTEM.to_owned()]),
        });
        json!({
            "namespaceSelector": namespaces,
            "objectSelector": self.pods.to_label_selector(),
            "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"],
                "scope": "Namespaced",
            }],
        })
    }
}

fn not_a_mirror() -> Value {
    json!({
        "name": "not-a-mirror-of-a-static-pod",
        "expression": "!('system:nodes' in request.userInfo.groups \
                       && object.metadata.?annotations[?'kubernetes.io/config.mirror'].hasValue())",
    })
}
