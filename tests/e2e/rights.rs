use std::collections::BTreeSet;

use harness::ControlPlane;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller};
use crate::helm::{NAMESPACE, RELEASE, apply_chart, service_account};
use crate::prune::prune_as;

const DONGLE: &str = "example.com/dongle";

/// `verb group/resource/subresource` for everything that the chart's roles allow.
fn granted(cluster: &Cluster) -> BTreeSet<String> {
    let lease = format!("{RELEASE}-lease");
    let events = format!("{RELEASE}-events");
    let roles = [
        cluster.get(&["clusterrole", RELEASE]),
        cluster.get(&["role", &events, "--namespace", "default"]),
        cluster.get(&["role", &lease, "--namespace", NAMESPACE]),
    ];
    let mut rights = BTreeSet::new();
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().unwrap().iter();
        items.map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]).into_iter();
                rights.extend(verbs.map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    rights
}

fn right(request: &Value) -> Option<String> {
    let object = request["objectRef"].as_object()?;
    let field = |name: &str| object.get(name).and_then(Value::as_str);
    let resource = field("resource")?;
    let subresource = field("subresource").map(|name| format!("/{name}")).unwrap_or_default();
    let (verb, group) = (request["verb"].as_str()?, field("apiGroup").unwrap_or_default());
    Some(format!("{verb} {group}/{resource}{subresource}"))
}

#[test]
fn the_chart_grants_what_is_used_and_nothing_else() {
    let cluster = Cluster::without_crd(ControlPlane::builder().scheduler().kubelets(1).audit());
    apply_chart(&cluster, &[]);
    let kubeconfig = service_account(&cluster);
    let lease = ["--lease-namespace", NAMESPACE];
    let controller = Controller::start_unready(&cluster, &kubeconfig, &lease);
    controller.wait_ready();

    // All that the program does: advertise, repair and tell of it, lower with pods looked at, withdraw.
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_ready("dongle", "1/1");
    cluster.write_amount("node-1", DONGLE, "1");
    cluster.wait_advertised("node-1", DONGLE, "4");
    cluster.wait_event("node-1", "Repaired", "was 1");
    cluster.apply_rule("dongle", &json!({"quantity": 2}));
    cluster.wait_advertised("node-1", DONGLE, "2");
    cluster.wait_ready("dongle", "1/1");
    controller.stop();
    let answer = prune_as(&kubeconfig, &[&lease[..], &["--node", "node-1"]].concat());
    assert_eq!(answer.code, 0, "{}", answer.stderr);

    let user = format!("system:serviceaccount:{NAMESPACE}:{RELEASE}");
    let requests = cluster.control_plane.audit().unwrap();
    let requests: Vec<_> =
        requests.iter().filter(|request| request["user"]["username"] == user.as_str()).collect();
    let refused: Vec<_> =
        requests.iter().filter(|request| request["responseStatus"]["code"] == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let used: BTreeSet<_> = requests.iter().filter_map(|request| right(request)).collect();
    assert_eq!(used, granted(&cluster));
}
