//! Guards, pods that do not count, and nodes with too many pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DONGLE, assert_found, found, guard_policy, guards, healthy, listed, node, parse};
use crate::inspect::doctor::finding::Severity::{Error, Warning};
use crate::inspect::doctor::guards::uncounted_pod;
use crate::inspect::doctor::snapshot::{Binding, GuardPolicies, GuardPolicy, Guards, Rules, Snapshot, Uncounted};
use crate::inspect::inventory::pods::{PodEntry, Pods};
use crate::model::api;
use crate::planner::selector::Selection;

#[test]
fn guard_that_is_not_in_force_is_found() {
    let edited = |edit: fn(&mut Guards)| {
        move |cluster: &mut Snapshot| {
            let mut guards = guards();
            edit(&mut guards);
            cluster.guards = Ok(guards);
        }
    };
    let adding = "MutatingAdmissionPolicy guard: ";
    let rejecting = "ValidatingAdmissionPolicy guard: ";
    for (severity, object, text, edit) in [
        (Error, adding, "it has no binding", edited(|guards| guards.adding.bindings.clear())),
        (Error, rejecting, "it has no binding", edited(|guards| guards.rejecting.bindings.clear())),
        (
            Warning,
            rejecting,
            "no binding of it has the action Deny",
            edited(|guards| guards.rejecting.bindings[0].denies = false),
        ),
        (Error, rejecting, "its expressions do not fit the objects", {
            edited(|guards| guards.rejecting.policies[0].warnings.push("a: undeclared reference".to_owned()))
        }),
        (Warning, adding, "there is no ValidatingAdmissionPolicy of its name", {
            edited(|guards| guards.rejecting = GuardPolicies::default())
        }),
        (Error, rejecting, "the MutatingAdmissionPolicy of its name is gone", {
            edited(|guards| guards.adding.policies.clear())
        }),
        (Error, adding, "it and the ValidatingAdmissionPolicy of its name count another resource", {
            edited(|guards| guards.adding.policies[0].resource = Some("example.com/key".to_owned()))
        }),
        (Error, adding, "it and the ValidatingAdmissionPolicy of its name select pods by other labels", {
            edited(|guards| guards.adding.policies[0].pods = parse(json!({"matchLabels": {"app": "other"}})))
        }),
        (
            Error,
            adding,
            "it and the ValidatingAdmissionPolicy of its name select other namespaces",
            edited(|guards| guards.adding.policies[0].namespaces = parse(json!({}))),
        ),
        (Error, rejecting, "its pods request example.com/key, which no rule declares", {
            edited(|guards| {
                for half in [&mut guards.adding, &mut guards.rejecting] {
                    half.policies[0].resource = Some("example.com/key".to_owned());
                }
            })
        }),
    ] {
        assert_found("guard", severity, &format!("{object}{text}"), edit);
    }
    let large = |operator: &str| {
        let sizes = json!({"key": "size", "operator": operator, "values": ["large"]});
        let pods = json!({"matchLabels": {"app": "renderer"}, "matchExpressions": [sizes]});
        GuardPolicy { name: "large".to_owned(), pods: parse(pods), ..guard_policy(DONGLE) }
    };
    let beside = |first: GuardPolicy| {
        move |cluster: &mut Snapshot| {
            let mut guards = guards();
            guards.adding.policies[0].pods = first.pods;
            guards.rejecting.policies[0].pods = guards.adding.policies[0].pods.clone();
            for half in [&mut guards.adding, &mut guards.rejecting] {
                half.policies.push(large("In"));
                half.bindings.push(Binding { policy: "large".to_owned(), denies: true });
            }
            cluster.guards = Ok(guards);
        }
    };
    let text = "MutatingAdmissionPolicy guard, large: they can select the same pod";
    assert_found("guard", Warning, text, beside(guard_policy(DONGLE)));
    let mut apart = healthy();
    beside(large("NotIn"))(&mut apart);
    assert_eq!(found(&apart), []);
    // Templates state the request or Kyverno adds it, on a cluster that is older than the first policy.
    let mut alone = healthy();
    edited(|guards| guards.adding = GuardPolicies::default())(&mut alone);
    assert_eq!(found(&alone), []);
    let mut none = healthy();
    none.guards = Ok(Guards::default());
    assert_eq!(found(&none), []);
}

#[test]
fn pod_that_a_guard_selects_and_that_requests_nothing_is_found() {
    let pod = |name: &str, requests: Value| {
        let object = json!({
            "metadata": {"namespace": "media", "name": name}, "status": {"phase": "Running"},
            "spec": {"nodeName": "node-1", "containers": [{"name": "a", "resources": {"requests": requests}}]},
        });
        uncounted_pod(parse(object), &guard_policy(DONGLE), DONGLE)
    };
    assert!(pod("counts", json!({DONGLE: "1"})).is_none());
    let uncounted = [json!({}), json!({DONGLE: "0"}), json!({"example.com/key": "1"})];
    let uncounted: Vec<Uncounted> = uncounted.into_iter().filter_map(|requests| pod("renderer", requests)).collect();
    assert_eq!(uncounted.len(), 3);
    let text = "Pod media/renderer, media/renderer and 1 more: guard guard selects it, and it requests no \
                example.com/dongle: it is not counted";
    assert_found("uncounted-pod", Warning, text, |cluster| cluster.uncounted = Ok(uncounted));
}

/// Returns pods on a node that request so many dongles each.
pub(super) fn bound(node: &str, amounts: &[&str]) -> Vec<Arc<PodEntry>> {
    let mut pods = Pods::default();
    for (number, amount) in amounts.iter().enumerate() {
        pods.add(parse(json!({
            "metadata": {"namespace": "default", "name": format!("pod-{number}")}, "status": {"phase": "Running"},
            "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {DONGLE: amount}}}]},
        })));
    }
    pods.finish()
}

#[test]
fn node_whose_pods_request_more_than_it_has_is_found() {
    let text = "Node node-1: its pods request more example.com/dongle than it has: 5 of 4 on node-1";
    assert_found("overcommitted-node", Warning, text, |cluster| cluster.bound = Ok(bound("node-1", &["3", "2"])));
    assert_found("overcommitted-node", Warning, "1 of 0 on node-2", |cluster| {
        // A rule for other nodes declares it.
        let mut entry = super::ready();
        let rule = Arc::make_mut(entry.rule.as_mut().unwrap());
        rule.selection = Selection::Names(["node-1".into()].into());
        cluster.rules = Ok(Some(Rules::new(vec![entry])));
        cluster.overlays = Ok(None);
        cluster.nodes.as_mut().unwrap().push(node("node-2", &json!({}), None, "k3s"));
        cluster.bound = Ok(bound("node-2", &["1"]));
    });
    for (name, nodes, pods) in [
        ("exactly full", vec![listed("node-1", "4", api::FIELD_MANAGER)], bound("node-1", &["3", "1"])),
        ("a node that is gone", vec![listed("node-1", "4", api::FIELD_MANAGER)], bound("node-9", &["9"])),
    ] {
        let mut cluster = healthy();
        (cluster.nodes, cluster.bound) = (Ok(nodes), Ok(pods));
        assert_eq!(found(&cluster), [], "{name}");
    }
    // The cause is found once.
    assert_found("ledger", Error, "the node has none of it", |cluster| {
        cluster.nodes = Ok(vec![listed("node-1", "0", "k3s")]);
        cluster.bound = Ok(bound("node-1", &["1"]));
    });
}
