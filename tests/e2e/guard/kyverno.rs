//! The policy for Kyverno, on Kyverno's command line, which `make test-kyverno` builds.
//!
//! Method: Kyverno applies the policy to objects as its webhook does, and needs no cluster. Where an API server sets
//! defaults, here the objects have them: requests beside limits, and `resources` in each container. The policy that
//! rejects pods is that of every guard.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{DONGLE, Fate, container, containers, counted, counts, deployment, pod, policies, spec};

/// Returns the objects as Kyverno changes them when a user of this group creates them.
fn admitted(group: &str, mut objects: Vec<Value>) -> Vec<Value> {
    let folder = std::env::temp_dir().join(format!("kyverno-{group}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // The command writes a file for each name.
    for (number, object) in objects.iter_mut().enumerate() {
        object["metadata"]["name"] = json!(format!("object-{number}"));
    }
    let documents: Vec<_> = objects.iter().map(Value::to_string).collect();
    let user = json!({
        "apiVersion": "cli.kyverno.io/v1alpha1", "kind": "UserInfo", "userInfo": {"username": "someone", "groups": [group]},
    });
    let policies = policies(&["--kyverno"]);
    let policy = policies.split("---\n").next().unwrap();
    assert!(policy.contains("kind: MutatingPolicy"), "{policy}");
    fs::write(folder.join("policy.yaml"), policy).unwrap();
    fs::write(folder.join("objects.yaml"), documents.join("\n---\n")).unwrap();
    fs::write(folder.join("user.yaml"), user.to_string()).unwrap();
    let mut command = Command::new(harness::tool("kubectl-kyverno").unwrap());
    command.args(["apply", "policy.yaml", "--resource", "objects.yaml", "--userinfo", "user.yaml"]);
    let output = command.args(["--output", "admitted"]).current_dir(&folder).output().unwrap();
    let [printed, complaints] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && printed.contains("fail: 0, warn: 0, error: 0"), "{printed}{complaints}");
    let admitted = (0..objects.len()).map(|number| {
        let text = fs::read_to_string(folder.join(format!("admitted/object-{number}-mutated.yaml"))).ok()?;
        Some(serde_saphyr::from_str(text.split("\n---").next()?).unwrap())
    });
    // It writes no object that the policy does not select.
    let admitted =
        admitted.zip(&objects).map(|(admitted, object)| admitted.unwrap_or_else(|| object.clone())).collect();
    fs::remove_dir_all(folder).unwrap();
    admitted
}

fn dongles(amount: &str) -> Value {
    json!({"requests": {DONGLE: amount}, "limits": {DONGLE: amount}})
}

#[test]
fn pods_of_a_guard_count() {
    let one = Some("1");
    let native = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
    let labels = |labels: Value| pod(&json!({"metadata": {"labels": labels}}));
    let init = |resources: &Value| spec(&json!({"initContainers": [container("i", resources)]}));
    let system = json!({"metadata": {"namespace": "kube-system"}});
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    let cases = [
        ("no request", spec(&json!({})), counts([one])),
        ("several containers", spec(&containers(&[json!({}), json!({})])), counts([one, None])),
        ("other resources", spec(&containers(std::slice::from_ref(&native))), counts([one])),
        ("an init container", init(&json!({})), counts([one, None])),
        ("an init container's request", init(&dongles("2")), counts([None, Some("2")])),
        ("an amount of its own", spec(&containers(&[dongles("3")])), counts([Some("3")])),
        ("the second container's", spec(&containers(&[native, dongles("2")])), counts([None, Some("2")])),
        ("zero", spec(&containers(&[dongles("0")])), counts([one])),
        ("a mirror that is none", pod(&mirror), counts([one])),
        ("the other size", labels(json!({"size": "small"})), counts([one])),
        ("no size", labels(json!({"size": null})), counts([None])),
        ("another app", labels(json!({"app": "other"})), counts([None])),
        ("the system's namespace", pod(&system), counts([None])),
    ];
    let admitted = admitted("system:authenticated", cases.iter().map(|(_, pod, _)| pod.clone()).collect());
    let fates: Vec<(&str, Fate)> = cases.iter().zip(&admitted).map(|((what, ..), pod)| (*what, counted(pod))).collect();
    let expected: Vec<_> = cases.into_iter().map(|(what, _, fate)| (what, fate)).collect();
    assert_eq!(fates, expected);
}

#[test]
fn guard_leaves_templates_and_mirror_pods_alone() {
    let mirror = pod(&json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}));
    let admitted = admitted("system:nodes", vec![deployment(), mirror]);
    assert_eq!(admitted[0]["spec"], deployment()["spec"]);
    assert_eq!(counted(&admitted[1]), counts([None]));
}
