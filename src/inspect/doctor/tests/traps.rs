//! The traps.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::{
    DONGLE, LISTED, account, assert_found, deployment, foreign_overlay, found, healthy, lease, listed, node, overlay,
    parse, pods, policies, quota, ready, rule, scheduler,
};
use crate::inspect::doctor::finding::Severity::{Error, Warning};
use crate::inspect::doctor::snapshot::{NodeEntry, Policies, Repair, RuleEntry, Rules, Snapshot, Version};
use crate::inspect::doctor::{checks, read};
use crate::model::api;
use crate::model::node::object::NodeObject;
use crate::model::node::{Interner, heartbeats};
use crate::planner::rules::Rule;
use crate::planner::selector::Selection;

#[test]
fn crd_that_differs_is_found() {
    assert_found("crd", Error, "drops these fields: spec.paused", |cluster| {
        let mut crd = api::crd();
        let schema = crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
        spec.properties.as_mut().unwrap().remove("paused").unwrap();
        cluster.crd = Ok(Some(crd));
    });
    assert_found("crd", Warning, "fields that this program does not know: spec.later", |cluster| {
        let mut crd = api::crd();
        let schema = crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
        spec.properties.as_mut().unwrap().insert("later".to_owned(), Default::default());
        cluster.crd = Ok(Some(crd));
    });
    assert_found("crd", Error, "does not serve the version v1alpha1", |cluster| {
        let mut crd = api::crd();
        crd.spec.versions[0].served = false;
        cluster.crd = Ok(Some(crd));
    });
}

#[test]
fn rule_that_is_not_as_declared_is_found() {
    let status = |severity, text: &str, entry: RuleEntry| {
        assert_found("rule-status", severity, text, |cluster| cluster.rules = Ok(Some(Rules::new(vec![entry]))));
    };
    let conditions = |conditions: &[[&str; 3]]| rule("dongle", DONGLE, json!(4), conditions);
    let conflict = "Ready is False, Conflict: m; do what its problems say of each node; see `kubectl describe \
                    ner dongle`";
    status(Error, conflict, conditions(&[["Ready", "False", "Conflict"]]));
    status(Error, "QuantityUnknown: m; set on these nodes what", conditions(&[["Ready", "False", "QuantityUnknown"]]));
    status(Error, "Later: m; see `kubectl describe ner dongle`", conditions(&[["Ready", "False", "Later"]]));
    status(Warning, "Held: m; wait until pods there end;", conditions(&[["Ready", "False", "Held"]]));
    status(Warning, "NoNodesSelected", conditions(&[["Ready", "True", "NoNodesSelected"]]));
    status(Warning, "EqualPriority", conditions(&[["Overlapping", "True", "EqualPriority"]]));
    status(Warning, "no controller has seen it", RuleEntry { generation: Some(2), ..ready() });
    let mut progressing = healthy();
    progressing.rules = Ok(Some(Rules::new(vec![conditions(&[["Ready", "False", "Progressing"]])])));
    assert_eq!(found(&progressing), []);
    assert_found("rule-status", Error, "NodeExtendedResource bad: it is invalid", |cluster| {
        let rules = vec![ready(), rule("bad", "example.com/key", json!(0), &[])];
        cluster.rules = Ok(Some(Rules::new(rules)));
        // What it declares is not unknown.
        cluster.waiting = Ok(pods(&[("a", "example.com/key", "9")]));
        cluster.nodes =
            Ok(vec![node("n", &json!({"example.com/key": "0", DONGLE: "4"}), Some(LISTED), api::FIELD_MANAGER)]);
    });
    assert_found("rule-status", Error, "the object cannot be read", |cluster| {
        let rules = vec![ready(), rule("bad", "example.com/key", json!({"odd": [1]}), &[])];
        cluster.rules = Ok(Some(Rules::new(rules)));
        cluster.waiting = Ok(pods(&[("a", "example.com/key", "9")]));
    });
    assert_found(
        "rule-status",
        Warning,
        "kept: it is being deleted and declares nothing: it waits for the",
        |cluster| {
            let metadata =
                json!({"name": "kept", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.example/b"]});
            let (name, waits_for) = read::waits_for(&json!({"metadata": metadata})).unwrap();
            assert_eq!(waits_for, "the finalizer a.example/b");
            cluster.rules.as_mut().unwrap().as_mut().unwrap().deleting.insert(name, waits_for);
        },
    );
    assert_found("device-class", Error, "DeviceClass dra maps example.com/dongle too", |cluster| {
        cluster.classes = Ok(BTreeMap::from([(DONGLE.to_owned(), "dra".to_owned())]));
    });
}

#[test]
fn namespace_without_a_lease_says_nothing_of_a_leader_elsewhere() {
    let mut cluster = healthy();
    (cluster.namespace, cluster.leases) = (Some("other".to_owned()), Ok(Vec::new()));
    cluster.nodes = Ok(vec![node("node-1", &json!({}), None, "kubelet")]);
    let problems: String = found(&cluster).into_iter().map(|(.., problem)| problem).collect();
    assert!(problems.contains("whether a controller leads is unknown"), "{problems}");
    assert!(problems.contains("others were not looked at") && !problems.contains("no controller leads"), "{problems}");
}

#[test]
fn rule_that_is_being_deleted_is_not_one_that_does_not_exist() {
    let mut cluster = healthy();
    let rules = cluster.rules.as_mut().unwrap().as_mut().unwrap();
    *rules = Rules::new(Vec::new());
    let is_gone = |cluster: &Snapshot| found(cluster).iter().any(|(.., problem)| problem.contains("does not exist"));
    assert!(is_gone(&cluster));
    let rules = cluster.rules.as_mut().unwrap().as_mut().unwrap();
    rules.deleting.insert("dongle".to_owned(), "the finalizer a.example/b".to_owned());
    assert!(!is_gone(&cluster));
}

#[test]
fn request_that_nothing_meets_is_found() {
    let misspelled = "Pod default/a, default/b and 1 more: requests example.com/dongel, which no node has";
    assert_found("undeclared-request", Error, misspelled, |cluster| {
        cluster.waiting = Ok(pods(&["a", "b", "c"].map(|name| (name, "example.com/dongel", "1"))));
    });
    assert_found("undeclared-request", Error, "request example.com/dongle, if", |cluster| {
        cluster.waiting = Ok(pods(&[("a", "example.com/dongel", "1")]));
    });
    assert_found("undeclared-request", Warning, "declare vendor.example/gpu with a rule", |cluster| {
        cluster.waiting = Ok(pods(&[("a", "vendor.example/gpu", "1"), ("b", "example.com/other", "9")]));
    });
    assert_found("oversized-request", Error, "requests 9 of example.com/dongle; no node has more than 4", |cluster| {
        cluster.waiting = Ok(pods(&[("a", DONGLE, "9"), ("c", DONGLE, "4")]));
    });
    let mut two = healthy();
    two.waiting = Ok(pods(&[("a", DONGLE, "9"), ("b", DONGLE, "5")]));
    let problems: Vec<_> = found(&two).into_iter().map(|(.., problem)| problem).collect();
    let [nine, five] = &problems[..] else { panic!("{problems:?}") };
    assert!(nine.starts_with("Pod default/a: requests 9 ") && five.starts_with("Pod default/b: requests 5 "));
}

#[test]
fn request_is_not_found_while_its_resource_is_only_down() {
    let [key, keys] = ["example.com/key", "example.com/keys"];
    let mut cluster = healthy();
    let amounts = json!({
        "capacity": {key: "4", keys: "4", DONGLE: "4"}, "allocatable": {key: "0", keys: "4", DONGLE: "4"},
    });
    let annotations = json!({"noderesource.dev/advertised": LISTED});
    let unhealthy = parse::<NodeObject>(json!({
        "metadata": {"name": "node-2", "annotations": annotations}, "status": amounts,
    }));
    let unhealthy = NodeEntry::new(unhealthy, &mut Interner::default());
    cluster.nodes.as_mut().unwrap().push(unhealthy);
    cluster.waiting = Ok(pods(&[("a", key, "1")]));
    assert_eq!(found(&cluster), [], "all devices of a plugin are unhealthy");
    let zero = node("node-2", &json!({key: "0", keys: "4", DONGLE: "4"}), Some(LISTED), api::FIELD_MANAGER);
    *cluster.nodes.as_mut().unwrap().last_mut().unwrap() = zero;
    let found: Vec<_> = found(&cluster).into_iter().map(|(check, severity, _)| (check, severity)).collect();
    let expected = [("undeclared-request", Warning), ("leftover-zero", Warning)];
    assert_eq!(found, expected, "its device plugin is gone: the name is not misspelled");
}

#[test]
fn request_of_what_is_only_in_capacity_is_found() {
    let key = "example.com/key";
    let written_by = |manager: &str| {
        let fields = json!({"f:status": {"f:capacity": {format!("f:{key}"): {}}}});
        let node = parse::<NodeObject>(json!({
            "metadata": {
                "name": "node-2",
                "annotations": {"noderesource.dev/advertised": LISTED},
                "managedFields": [heartbeats("k3s"), {"manager": manager, "fieldsV1": fields}],
            },
            "status": {"capacity": {key: "9", DONGLE: "4"}, "allocatable": {DONGLE: "4"}},
        }));
        NodeEntry::new(node, &mut Interner::default())
    };
    let says = "Pod default/a: requests example.com/key, of which node-2 has 9 in status.capacity, by controller,";
    assert_found("oversized-request", Warning, says, |cluster| {
        cluster.nodes.as_mut().unwrap().push(written_by("controller"));
        cluster.waiting = Ok(pods(&[("a", key, "1")]));
    });
    let mut cluster = healthy();
    cluster.nodes.as_mut().unwrap().push(written_by("k3s"));
    cluster.waiting = Ok(pods(&[("a", key, "1")]));
    assert_eq!(found(&cluster), [], "all devices of a plugin are unhealthy");
}

#[test]
fn request_is_not_oversized_while_a_rule_of_its_resource_is_invalid() {
    let mut cluster = healthy();
    cluster.rules = Ok(Some(Rules::new(vec![ready(), rule("bad", DONGLE, json!("8.5"), &[])])));
    cluster.waiting = Ok(pods(&[("a", DONGLE, "8")]));
    let checks: Vec<_> = found(&cluster).into_iter().map(|(check, ..)| check).collect();
    assert_eq!(checks, ["rule-status"], "it may declare 8 once it is corrected");
}

#[test]
fn quota_key_that_limits_nothing_is_found() {
    for (key, severity, text) in [
        (DONGLE, Error, "ignores the key example.com/dongle: pods may request any amount"),
        ("limits.example.com/dongle", Error, "rename the key to requests.example.com/dongle"),
        ("requests.example.com/dongel", Warning, "limit requests.example.com/dongle, if"),
    ] {
        assert_found("quota-key", severity, text, |cluster| cluster.quotas = Ok(vec![quota(key)]));
    }
    let limited = "requests.example.com/dongle of the same quota limits it; remove the key";
    assert_found("quota-key", Warning, limited, |cluster| {
        let hard = json!({DONGLE: "8", "requests.example.com/dongle": "8"});
        cluster.quotas = Ok(vec![parse(json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}))]);
    });
    let mut cluster = healthy();
    let keys = ["count/jobs.batch", "requests.example.com/unlike", "gold.storageclass.storage.k8s.io/requests.storage"];
    cluster.quotas = Ok(keys.map(quota).into());
    assert_eq!(found(&cluster), []);
}

#[test]
fn resource_that_the_scheduler_ignores_is_found() {
    for (text, field) in [
        ("ignoredResources: [example.com/dongle]", "because of ignoredResources of"),
        ("ignoredResourceGroups: [example.com]", "because of ignoredResourceGroups of"),
    ] {
        assert_found("scheduler-ignores", Error, field, |cluster| {
            let text = format!("profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{{text}}}}}]}}]");
            cluster.schedulers = Ok(scheduler(&text));
        });
    }
    assert_found("scheduler-ignores", Error, "managedResources of an extender", |cluster| {
        let managed = "{name: example.com/dongle, ignoredByScheduler: true}, {name: example.com/key}";
        cluster.schedulers = Ok(scheduler(&format!("extenders: [{{managedResources: [{managed}]}}]")));
    });
    assert_found("scheduler-ignores", Warning, "cannot be read as one", |cluster| {
        cluster.schedulers = Ok(scheduler("profiles: ["));
    });
}

#[test]
fn other_writer_of_a_value_is_found() {
    let on = |nodes: Vec<NodeEntry>| |cluster: &mut Snapshot| cluster.nodes = Ok(nodes);
    assert_found("another-writer", Error, "Node node-1: nfd-master writes example.com/dongle: node-1 has 9, and", {
        on(vec![listed("node-1", "9", "nfd-master")])
    });
    assert_found("another-writer", Error, "a device plugin probably", on(vec![listed("node-1", "2", "k3s")]));
    assert_found("another-writer", Warning, "nfd-master has written example.com/dongle too", {
        on(vec![listed("node-1", "4", "nfd-master")])
    });
    assert_found("another-writer", Warning, "kubectl-patch has written example.com/dongle too", {
        on(vec![node("node-1", &json!({DONGLE: "4"}), None, "kubectl-patch")])
    });
    // The controller has taken it over.
    let mut own = healthy();
    own.nodes = Ok(vec![listed("node-1", "4", "kubectl-patch")]);
    assert_eq!(found(&own), []);
    // Admission has kept the value.
    let mut kept = healthy();
    kept.nodes = Ok(vec![listed("node-1", "4", "k3s")]);
    assert_eq!(found(&kept), []);
    assert_found(
        "kubelet-reset",
        Warning,
        "has reset example.com/dongle to 0 within the last hour, on one",
        |cluster| {
            let message = "Repaired example.com/dongle on node-1: 0 (by k3s) -> 4, as rule dongle declares";
            let repair = read::repair(message).unwrap();
            // A node that is gone has no kubelet to name.
            let gone = Repair { node: "b".to_owned(), ..repair.clone() };
            cluster.repairs = Ok(vec![repair.clone(), repair, gone]);
        },
    );
    let mut others = healthy();
    let by_others = ["kubelet", "nfd-master"].map(|name| format!("Repaired {DONGLE} on node-1: 0 (by {name}) -> 4"));
    others.repairs = Ok(by_others.map(|message| read::repair(&message).unwrap()).into());
    assert_eq!(found(&others), [], "neither is the kubelet of this node");
    for other in ["", "Repaired a on b: 9 (by k3s) -> 4", "Repaired a on b: 10 (by k3s) -> 4"] {
        assert_eq!(read::repair(other), None, "{other}");
    }
}

#[test]
fn name_without_a_node_among_others_is_found() {
    let naming = |names: &[&str]| {
        let mut entry = ready();
        let rule = Arc::make_mut(entry.rule.as_mut().unwrap());
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        rule.selection = Selection::new(None, Some(&names), None).unwrap();
        Ok(Some(Rules::new(vec![entry])))
    };
    let text = "NodeExtendedResource dongle: its nodeNames have 1 name that is probably misspelled: workr-2 (is it \
                worker-2?); correct what is misspelled";
    assert_found("rule-status", Warning, text, |cluster| {
        cluster.nodes.as_mut().unwrap().push(node("worker-2", &json!({}), None, "kubelet"));
        cluster.rules = naming(&["workr-2", "node-7", "gone", "node-1"]);
        cluster.overlays = Ok(None);
    });
    // Nodes that come and go, and one that is listed anyway.
    for names in [&["node-1"][..], &["node-1", "node-2", "other"], &["worker-2", "workerr-2"]] {
        let mut present = healthy();
        present.nodes.as_mut().unwrap().push(listed("worker-2", "4", api::FIELD_MANAGER));
        (present.rules, present.overlays) = (naming(names), Ok(None));
        assert_eq!(found(&present), [], "{names:?}");
    }
}

#[test]
fn ledger_that_is_wrong_is_found() {
    let own = api::FIELD_MANAGER;
    let amounts = json!({DONGLE: "4"});
    assert_found("ledger", Error, "prune --repair-ledger --node node-1 --force", |cluster| {
        cluster.nodes = Ok(vec![node("node-1", &amounts, Some("{"), own)]);
    });
    assert_found("ledger", Error, "the node has none of it", |cluster| {
        cluster.nodes = Ok(vec![listed("node-1", "0", "k3s")]);
    });
    assert_found("ledger", Warning, "withdraws them, or lets them stay where the entry says Retain", |cluster| {
        let text = LISTED.replace(r#""rule":"dongle""#, r#""rule":"gone","deletionPolicy":"Retain""#);
        cluster.nodes = Ok(vec![node("node-1", &amounts, Some(&text), own)]);
    });
    assert_found("ledger", Warning, "lists values of rule gone, which does not exist", |cluster| {
        let text = LISTED.replace(r#""rule":"dongle""#, r#""rule":"gone""#);
        cluster.nodes = Ok(vec![node("node-1", &amounts, Some(&text), own)]);
    });
}

#[test]
fn leftover_zero_is_found() {
    assert_found("leftover-zero", Warning, "prune --zeros --node node-1 --dry-run", |cluster| {
        let amounts = json!({"example.com/old": "0", DONGLE: "4"});
        cluster.nodes = Ok(vec![node("node-1", &amounts, Some(LISTED), api::FIELD_MANAGER)]);
    });
    let mut mapped = healthy();
    let amounts = json!({"example.com/old": "0", DONGLE: "4"});
    mapped.nodes = Ok(vec![node("node-1", &amounts, Some(LISTED), api::FIELD_MANAGER)]);
    mapped.classes = Ok(BTreeMap::from([("example.com/old".to_owned(), "old".to_owned())]));
    assert_eq!(found(&mapped), [], "a DeviceClass maps it, and nothing rejects its pods");
    // The controller treats it as absent.
    assert_found("missing-value", Warning, "controller may be about to write it", |cluster| {
        cluster.nodes = Ok(vec![node("node-1", &json!({DONGLE: "0"}), None, "k3s")]);
    });
}

#[test]
fn controller_that_does_not_work_is_found() {
    let live = "2026-01-01T11:59:59.000000Z";
    for (leases, severity, text) in [
        (
            vec![],
            Error,
            "no Lease of a controller exists: nothing is written, repaired or withdrawn; `kubectl -n system describe",
        ),
        (vec![lease("", live)], Error, "it has no holder"),
        (
            vec![lease("nra-1_0", "2026-01-01T11:59:00.000000Z")],
            Error,
            "leads since 2026-01-01T11:59:15Z, when nra-1_0 stopped",
        ),
        (vec![lease("prune_1767268800000000000_ended", live)], Warning, "kubectl delete lease -n system nra"),
        (vec![lease("prune_1767268800000000000", live)], Warning, "wait until it ends"),
        (vec![lease("a_0", live), lease("b_0", live)], Error, "several Leases"),
    ] {
        assert_found("leader", severity, text, |cluster| cluster.leases = Ok(leases));
    }
    assert_found("leader", Error, "in the namespace team-a; others were not looked at; name the", |cluster| {
        (cluster.namespace, cluster.leases) = (Some("team-a".to_owned()), Ok(vec![]));
    });
    let version = env!("CARGO_PKG_VERSION");
    for (deployed, check, severity, text) in [
        (deployment(0, 0, version), "replicas", Error, "scale deployment/nra --replicas=2"),
        (deployment(2, 0, version), "replicas", Error, "0 of 2 replicas are ready: nothing is written"),
        (deployment(2, 1, version), "replicas", Warning, "1 of 2"),
        (deployment(2, 2, "0.0.1"), "program-version", Warning, "its version is 0.0.1"),
    ] {
        assert_found(check, severity, text, |cluster| cluster.deployments = Ok(vec![deployed]));
    }
}

#[test]
fn policy_that_is_not_in_force_is_found() {
    let (none, one) = (Policies::default, || policies(&[], &[]));
    assert_found("protection", Warning, "no policy in the API keeps", |cluster| cluster.protection = Ok(none()));
    assert_found("protection", Error, "it has no binding", |cluster| cluster.protection = Ok(one()));
    assert_found("confinement", Warning, "no policy in the API confines", |cluster| cluster.confinement = Ok(none()));
    assert_found("confinement", Error, "it has no binding", |cluster| cluster.confinement = Ok(one()));
    assert_found("confinement", Warning, "has the action Deny", |cluster| {
        cluster.confinement = Ok(policies(&[], &[("policy", false), ("other", true)]));
    });
    assert_found("confinement", Error, "undeclared reference", |cluster| {
        cluster.confinement = Ok(policies(&["spec.validations[0]: undeclared reference"], &[("policy", true)]));
    });
}

#[test]
fn policy_that_the_controller_does_not_expect_in_the_api_is_not_missed() {
    for (protection, findings) in [("static", 0), ("none", 0), ("auto", 1), ("api", 1)] {
        let mut deployed = json!(deployment::<Deployment>(2, 2, env!("CARGO_PKG_VERSION")));
        deployed["spec"]["template"]["spec"] =
            json!({"containers": [{"name": "a", "env": [{"name": "NRA_PROTECTION", "value": protection}]}]});
        let deployments = Ok(vec![serde_json::from_value(deployed).unwrap()]);
        let cluster = Snapshot { protection: Ok(Policies::default()), deployments, ..healthy() };
        assert_eq!(found(&cluster).len(), findings, "{protection}");
    }
}

#[test]
fn version_that_does_not_fit_is_found() {
    let server = |text: &str| {
        let version = Version::parse(text).unwrap();
        move |cluster: &mut Snapshot| (cluster.version, cluster.nodes) = (Ok(version), Ok(vec![]))
    };
    assert_found("kubernetes-version", Error, "before 1.30 are not", server("v1.29.9"));
    assert_found("kubernetes-version", Warning, "tested with 1.37 at most", server("v1.38.0-alpha.1"));
    let kubelet = |text: &'static str| {
        |cluster: &mut Snapshot| {
            let entry = listed("node-1", "4", api::FIELD_MANAGER);
            cluster.nodes = Ok(vec![NodeEntry { kubelet_version: text.into(), ..entry }]);
        }
    };
    assert_found("kubelet-version", Warning, "v1.38.0 is newer than", kubelet("v1.38.0"));
    assert_found("kubelet-version", Warning, "upgrade these kubelets", kubelet("v1.33.5-eks-1"));
    for fine in ["v1.34.0", "v1.37.9+k3s1", ""] {
        let mut cluster = healthy();
        kubelet(fine)(&mut cluster);
        assert_eq!(found(&cluster), [], "{fine}");
    }
    assert_eq!(Version::parse("1.30+").map(|version| version.minor), Some(30));
    assert_eq!(Version::parse("odd"), None);
    let page = std::fs::read_to_string("docs/compatibility.md").unwrap();
    let [(_, oldest), (_, newest)] = [checks::OLDEST, checks::NEWEST];
    assert!(page.contains(&format!("| 1.{} and earlier | not supported", oldest - 1)));
    assert!(page.contains(&format!("| 1.{newest}.")) && !page.contains(&format!("| 1.{}", newest + 1)));
}

#[test]
fn node_overlay_that_fits_no_rule_is_found() {
    let gone = "NodeOverlay gone: there is no rule gone: Karpenter creates nodes for it that never become initialized";
    assert_found("node-overlay", Error, gone, |cluster| {
        cluster.overlays = Ok(Some(vec![overlay("dongle", "4"), overlay("gone", "4")]));
    });
    let differs = "it differs from rule dongle: spec.capacity[example.com/dongle]: expected 4, found 5";
    assert_found("node-overlay", Error, differs, |cluster| cluster.overlays = Ok(Some(vec![overlay("dongle", "5")])));
    let paused = |cluster: &mut Snapshot| {
        let mut entry = ready();
        entry.rule = entry.rule.map(|rule| Arc::new(Rule { paused: true, ..(*rule).clone() }));
        cluster.rules = Ok(Some(Rules::new(vec![entry])));
    };
    assert_found("node-overlay", Error, "new nodes do not get what rule dongle declares", paused);
    let without = "NodeExtendedResource key: it has no NodeOverlay, and other rules have one";
    let key = || rule("key", "example.com/key", json!(1), &[]);
    assert_found("node-overlay", Warning, without, |cluster| {
        cluster.rules = Ok(Some(Rules::new(vec![ready(), key()])));
    });
    // Nothing shows that Karpenter creates nodes here.
    for overlays in [None, Some(vec![]), Some(vec![foreign_overlay()])] {
        let mut cluster = healthy();
        cluster.rules = Ok(Some(Rules::new(vec![ready(), key()])));
        cluster.overlays = Ok(overlays);
        assert_eq!(found(&cluster), []);
    }
    // The values of an invalid rule stay, and the rule is reported.
    let mut invalid = healthy();
    invalid.rules = Ok(Some(Rules::new(vec![ready(), rule("bad", DONGLE, json!(0), &[])])));
    invalid.overlays = Ok(Some(vec![overlay("dongle", "4"), overlay("bad", "4")]));
    assert!(found(&invalid).iter().all(|(check, ..)| *check == "rule-status"), "{:?}", found(&invalid));
}

#[test]
fn account_that_may_not_watch_pods_is_found_where_a_rule_needs_it() {
    assert_found("pods-permission", Error, "serviceaccount:system:nra lacks permission to watch pods", |cluster| {
        cluster.accounts = Ok(vec![account(&["watch"])]);
    });
    assert_found("pods-permission", Error, "lacks permission to list and watch pods", |cluster| {
        cluster.accounts = Ok(vec![account(&["list", "watch"])]);
    });
    let mut immediate = healthy();
    immediate.accounts = Ok(vec![account(&["list", "watch"])]);
    let mut entry = ready();
    let rule = Arc::make_mut(entry.rule.as_mut().unwrap());
    rule.shrink_policy = api::ShrinkPolicy::Immediate;
    immediate.rules = Ok(Some(Rules::new(vec![entry])));
    assert_eq!(found(&immediate), [], "no rule needs it");
    // The values of a rule that is gone leave too.
    let leaving = LISTED.replace("}}", r#","whenUnused":true}}"#);
    for (policy, text) in [(api::DeletionPolicy::WhenUnused, None), (api::DeletionPolicy::Withdraw, Some(leaving))] {
        assert_found("pods-permission", Error, "lacks permission to watch pods", |cluster| {
            cluster.accounts = Ok(vec![account(&["watch"])]);
            let mut entry = ready();
            let rule = Arc::make_mut(entry.rule.as_mut().unwrap());
            (rule.shrink_policy, rule.deletion_policy) = (api::ShrinkPolicy::Immediate, policy);
            cluster.rules = Ok(Some(Rules::new(vec![entry])));
            if let Some(text) = &text {
                cluster.nodes = Ok(vec![node("node-1", &json!({DONGLE: "4"}), Some(text), api::FIELD_MANAGER)]);
            }
        });
    }
    let mut unknown = healthy();
    unknown.accounts = Ok(Vec::new());
    let check = checks::ALL.iter().find(|check| check.name == "pods-permission").unwrap();
    assert!((check.run)(&unknown).is_err(), "without a Deployment, its account is not known");
}
