//! Which nodes a pod may use, apart from what they have: its nodeSelector, its required node affinity and its tolerations, as
//! the scheduler's filters NodeUnschedulable, TaintToleration and NodeAffinity decide it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration};
use serde::Serialize;

use super::NodeEntry;
use crate::model::node::Node;

/// The taint of a cordoned node.
const UNSCHEDULABLE: Taint<'_> = Taint { key: "node.kubernetes.io/unschedulable", value: "", effect: "NoSchedule" };
/// The only field that a selector of nodes can name.
const NAME: &str = "metadata.name";
/// The label by which pods name nodes.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Where a pod may be, and who decides it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Placement {
    /// `spec.nodeSelector`.
    labels: BTreeMap<String, String>,
    /// The terms of the required node affinity, one of which has to match; `None` without any.
    terms: Option<Vec<NodeSelectorTerm>>,
    tolerations: Vec<Toleration>,
    /// The scheduler that the pod asks for.
    pub(crate) scheduler: String,
    /// Whether a scheduler has reported on the pod.
    pub(crate) is_considered: bool,
}

/// What keeps a pod off a node, whatever the node has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) enum Obstacle {
    /// The node is cordoned.
    Cordoned,
    /// A taint that the pod does not tolerate, as kubectl prints it.
    Taint(String),
    /// What the nodeSelector needs, and what the node has instead.
    NodeSelector(String),
    /// What the node affinity needs.
    NodeAffinity(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordoned => f.write_str("cordoned"),
            Self::Taint(taint) => write!(f, "the pod does not tolerate the taint {taint}"),
            Self::NodeSelector(why) => write!(f, "the pod's nodeSelector needs {why}"),
            Self::NodeAffinity(why) => write!(f, "the pod's node affinity needs {why}"),
        }
    }
}

impl Placement {
    /// Reads what a pod says about nodes.
    pub(crate) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let affinity = spec.affinity.and_then(|affinity| affinity.node_affinity);
        let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution);
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        Self {
            labels: spec.node_selector.unwrap_or_default(),
            terms: required.map(|required| required.node_selector_terms),
            tolerations: spec.tolerations.unwrap_or_default(),
            scheduler: spec.scheduler_name.unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned()),
            is_considered: conditions.into_iter().flatten().any(|condition| condition.type_ == "PodScheduled"),
        }
    }

    /// Returns what keeps the pod off a node, the first that the scheduler meets.
    pub(crate) fn obstacle(&self, entry: &NodeEntry) -> Option<Obstacle> {
        let NodeEntry { node, readiness, .. } = entry;
        if readiness.is_cordoned && !self.tolerates(&UNSCHEDULABLE) {
            return Some(Obstacle::Cordoned);
        }
        let keeps_off =
            |taint: &&str| Taint::parse(taint).is_some_and(|taint| taint.repels() && !self.tolerates(&taint));
        if let Some(taint) = readiness.taints.iter().map(|taint| &**taint).find(keeps_off) {
            return Some(Obstacle::Taint(taint.to_owned()));
        }
        let mut labels = self.labels.iter();
        if let Some((key, value)) = labels.find(|(key, value)| node.labels.get(key) != Some(value.as_str())) {
            return Some(Obstacle::NodeSelector(format!("{key}={value}{}", instead(node, key))));
        }
        let terms = self.terms.as_ref()?;
        match &terms[..] {
            terms if terms.iter().any(|term| unmet(term, node).is_none()) => None,
            [] => Some(Obstacle::NodeAffinity("what no node has: it has no terms".to_owned())),
            [term] => unmet(term, node).map(Obstacle::NodeAffinity),
            terms => Some(Obstacle::NodeAffinity(format!("one of {} terms, and the node meets none", terms.len()))),
        }
    }

    fn tolerates(&self, taint: &Taint<'_>) -> bool {
        self.tolerations.iter().any(|toleration| {
            let is_of = |field: &Option<String>, value: &str| {
                field.as_deref().is_none_or(|field| field.is_empty() || field == value)
            };
            let has_value = match toleration.operator.as_deref().unwrap_or_default() {
                "" | "Equal" => toleration.value.as_deref().unwrap_or_default() == taint.value,
                "Exists" => true,
                // Lt and Gt are alpha in Kubernetes 1.37, and off.
                _ => false,
            };
            is_of(&toleration.effect, taint.effect) && is_of(&toleration.key, taint.key) && has_value
        })
    }

    /// Returns the only node that the pod may use, if all terms of its affinity name the same, as those of a DaemonSet's
    /// pods do.
    pub(crate) fn own_node(&self) -> Option<&str> {
        let mut names = self.terms.iter().flatten().map(|term| {
            term.match_fields.iter().flatten().find_map(|field| match field.values.as_deref() {
                Some([name]) if field.key == NAME && field.operator == "In" => Some(name.as_str()),
                _ => None,
            })
        });
        let first = names.next()??;
        names.all(|name| name == Some(first)).then_some(first)
    }

    /// Returns the nodes that the pod names, if it may use no others.
    pub(crate) fn named_nodes(&self) -> BTreeSet<&str> {
        let mut names: BTreeSet<_> = self.labels.get(HOSTNAME).map(String::as_str).into_iter().collect();
        let of_terms = self.terms.iter().flatten().map(|term| {
            let fields = term.match_fields.iter().flatten().filter(|field| field.key == NAME);
            let labels = term.match_expressions.iter().flatten().filter(|label| label.key == HOSTNAME);
            let named = fields.chain(labels).filter(|named| named.operator == "In");
            named.flat_map(|named| named.values.iter().flatten()).map(String::as_str).collect::<Vec<_>>()
        });
        let of_terms: Vec<_> = of_terms.collect();
        if of_terms.iter().all(|names| !names.is_empty()) {
            names.extend(of_terms.into_iter().flatten());
        }
        names
    }
}

fn instead(node: &Node, key: &str) -> String {
    match node.labels.get(key) {
        Some(value) => format!(", and the node has {key}={value}"),
        None => format!(", and the node has no label {key}"),
    }
}

/// Returns what a node does not meet of a term, whose requirements all have to match. A term without any matches nothing.
fn unmet(term: &NodeSelectorTerm, node: &Node) -> Option<String> {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return Some("what no node has: its term is empty".to_owned());
    }
    let label = labels.iter().find(|label| !meets(label, node));
    let label = label.map(|label| format!("{}{}", text(label), instead(node, &label.key)));
    label.or_else(|| fields.iter().find(|field| !names(field, node)).map(text))
}

fn meets(requirement: &NodeSelectorRequirement, node: &Node) -> bool {
    let value = node.labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let has = |value: &str| values.iter().any(|other| other == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || match values {
        [bound] => Some((number(value?)?, number(bound)?)),
        _ => None,
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(has),
        "NotIn" => !values.is_empty() && !value.is_some_and(has),
        "Exists" => values.is_empty() && value.is_some(),
        "DoesNotExist" => values.is_empty() && value.is_none(),
        "Gt" => compared().is_some_and(|(value, bound)| value > bound),
        "Lt" => compared().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns whether a node has the name that a field needs; the scheduler accepts one value only.
fn names(requirement: &NodeSelectorRequirement, node: &Node) -> bool {
    let [value] = requirement.values.as_deref().unwrap_or_default() else { return false };
    match requirement.operator.as_str() {
        _ if requirement.key != NAME => false,
        "In" => **value == *node.name,
        "NotIn" => **value != *node.name,
        _ => false,
    }
}

fn text(requirement: &NodeSelectorRequirement) -> String {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    let values = values.as_deref().unwrap_or_default().join(", ");
    match operator.as_str() {
        "In" | "NotIn" => format!("{key} {operator} ({values})"),
        "Exists" | "DoesNotExist" => format!("{key} {operator}"),
        operator => format!("{key} {operator} {values}"),
    }
}

/// A taint, as kubectl prints it: `key=value:Effect` or `key:Effect`. No part of it can have `=` or `:`.
struct Taint<'t> {
    key: &'t str,
    value: &'t str,
    effect: &'t str,
}

impl<'t> Taint<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (key, effect) = text.rsplit_once(':')?;
        let (key, value) = key.split_once('=').unwrap_or((key, ""));
        Some(Self { key, value, effect })
    }

    /// Returns whether it keeps new pods off, instead of making the node less attractive.
    fn repels(&self) -> bool {
        matches!(self.effect, "NoSchedule" | "NoExecute")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::node::Interner;

    /// Returns what keeps a pod with this spec off a node with these labels and this spec.
    fn obstacle(pod: &Value, labels: &Value, node: &Value) -> Option<String> {
        let pod: Pod = serde_json::from_value(json!({"spec": pod})).unwrap();
        let node = json!({"metadata": {"name": "node-1", "labels": labels}, "spec": node});
        let entry = NodeEntry::new(serde_json::from_value(node).unwrap(), &mut Interner::default());
        Placement::of(&pod).obstacle(&entry).map(|obstacle| obstacle.to_string())
    }

    fn affinity(terms: Value) -> Value {
        let required = json!({"nodeSelectorTerms": terms});
        json!({"containers": [], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        }}})
    }

    #[test]
    fn node_selector_and_affinity_keep_pods_off_as_in_the_scheduler() {
        let labels = json!({"zone": "a", "size": "8"});
        let of = |pod: Value| obstacle(&pod, &labels, &json!({}));
        let selector = |labels: Value| json!({"containers": [], "nodeSelector": labels});
        assert_eq!(of(selector(json!({"zone": "a"}))), None);
        let needs = "the pod's nodeSelector needs zone=b, and the node has zone=a";
        assert_eq!(of(selector(json!({"zone": "b"}))).as_deref(), Some(needs));
        let label = |operator: &str, key: &str, values: &[&str]| {
            affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        for (operator, key, values, is_allowed) in [
            ("In", "zone", &["b", "a"][..], true),
            ("In", "zone", &["b"], false),
            ("In", "other", &["a"], false),
            ("NotIn", "zone", &["a"], false),
            ("NotIn", "zone", &["b"], true),
            ("NotIn", "other", &["a"], true),
            ("Exists", "zone", &[], true),
            ("Exists", "other", &[], false),
            ("DoesNotExist", "zone", &[], false),
            ("DoesNotExist", "other", &[], true),
            ("Gt", "size", &["7"], true),
            ("Gt", "size", &["8"], false),
            ("Lt", "size", &["9"], true),
            ("Lt", "size", &["8"], false),
            ("Lt", "zone", &["9"], false),
            ("Lt", "other", &["9"], false),
            ("Odd", "zone", &["a"], false),
        ] {
            let found = of(label(operator, key, values));
            assert_eq!(found.is_none(), is_allowed, "{key} {operator} {values:?}: {found:?}");
        }
        let named = |operator: &str, name: &str| {
            affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}]))
        };
        assert_eq!(of(named("In", "node-1")), None);
        let other = "the pod's node affinity needs metadata.name In (node-2)";
        assert_eq!(of(named("In", "node-2")).as_deref(), Some(other));
        assert_eq!(of(named("NotIn", "node-2")), None);
        let term = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        assert_eq!(of(affinity(json!([term("b"), {}, term("a")]))), None, "one term is enough");
        assert!(of(affinity(json!([term("b"), {}]))).unwrap().ends_with("one of 2 terms, and the node meets none"));
        assert!(of(affinity(json!([{}]))).is_some() && of(affinity(json!([]))).is_some());
    }

    #[test]
    fn taints_and_cordons_keep_pods_off_that_do_not_tolerate_them() {
        let taint = |effect: &str| json!({"taints": [{"key": "dedicated", "value": "infra", "effect": effect}]});
        let pod = |tolerations: Value| json!({"containers": [], "tolerations": tolerations});
        let of = |tolerations: Value, node: &Value| obstacle(&pod(tolerations), &json!({}), node);
        let found = of(json!([]), &taint("NoSchedule"));
        assert_eq!(found.as_deref(), Some("the pod does not tolerate the taint dedicated=infra:NoSchedule"));
        assert_eq!(of(json!([]), &taint("PreferNoSchedule")), None);
        for (toleration, tolerates) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "dedicated", "operator": "Exists"}), true),
            (json!({"key": "dedicated", "value": "infra"}), true),
            (json!({"key": "dedicated", "value": "other"}), false),
            (json!({"key": "dedicated"}), false),
            (json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}), true),
            (json!({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "dedicated", "operator": "Gt", "value": "1"}), false),
        ] {
            let found = of(json!([toleration.clone()]), &taint("NoExecute"));
            assert_eq!(found.is_none(), tolerates, "{toleration}");
        }
        let cordoned = json!({"unschedulable": true});
        assert_eq!(of(json!([]), &cordoned).as_deref(), Some("cordoned"));
        assert_eq!(of(json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]), &cordoned), None);
    }

    #[test]
    fn own_node_is_the_one_that_each_term_names() {
        let named = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let both = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-9"]}]});
        let other = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        for (terms, own) in [
            (json!([named("node-9")]), Some("node-9")),
            (json!([named("node-9"), both]), Some("node-9")),
            (json!([named("node-9"), named("node-8")]), None),
            (json!([named("node-9"), other]), None),
            (json!([]), None),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": affinity(terms.clone())})).unwrap();
            assert_eq!(Placement::of(&pod).own_node(), own, "{terms}");
        }
    }

    #[test]
    fn named_nodes_are_those_that_every_way_to_place_the_pod_needs() {
        let named = |pod: Value| {
            let pod: Pod = serde_json::from_value(json!({"spec": pod})).unwrap();
            Placement::of(&pod).named_nodes().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-9"]}]});
        assert_eq!(named(affinity(json!([field.clone()]))), ["node-9"]);
        let other = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(named(affinity(json!([field, other]))), <[&str; 0]>::default(), "the other term names none");
        let selector = json!({"containers": [], "nodeSelector": {"kubernetes.io/hostname": "node-8"}});
        assert_eq!(named(selector), ["node-8"]);
    }
}
