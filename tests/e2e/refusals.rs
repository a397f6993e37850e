use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, condition, rule};

/// The objects in `tests/bad-objects.yaml`, each with what is wrong with it and what the answer
/// must contain.
pub fn bad_objects() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let objects = include_str!("../bad-objects.yaml").split("\n---\n").skip(1);
    objects.map(|object| {
        let comment = object.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
        let (what, says) = comment.split_once(": ").unwrap();
        (what, says, object)
    })
}

#[test]
fn every_bad_object_is_refused_by_the_api_server_with_advice() {
    let cluster = Cluster::start();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (what, says, object) in bad_objects() {
        count += 1;
        let args = ["create", "--validate=strict", "-f", "-"];
        let answer = cluster.control_plane.kubectl_output(&args, Some(object)).unwrap();
        if answer.code == 0 || !answer.stderr.contains(says) {
            wrong.push(format!("{what}: wanted {says:?}, got {}{}", answer.stdout, answer.stderr));
        }
    }
    assert!(count > 70, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names = cluster.kubectl(&["get", "ner", "-o", "name"]);
    assert_eq!(names, "", "something got in");
}

#[test]
fn whole_numbers_are_taken_however_they_are_written() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    for (written, stored) in [
        (json!(4), "4"),
        (json!("4"), "4"),
        (json!("1.5Gi"), "1536Mi"),
        (json!("4000m"), "4"),
        (json!("4.0"), "4"),
        (json!("+7"), "7"),
        (json!("1000"), "1k"),
        (json!("2e3"), "2e3"),
        (json!("0.5k"), "500"),
        // kubectl loses digits of a number this large that is not a string.
        (json!("9223372036854775"), "9223372036854775"),
    ] {
        cluster.apply_rule("dongle", &json!({"quantity": written}));
        cluster.wait_advertised("node-1", "example.com/dongle", stored);
        cluster.wait_ready("dongle", "1/1");
    }
    controller.stop();
}

/// Takes the validation out of the CRD, as if it were from before it had any.
fn drop_validation(cluster: &Cluster) {
    let name = "nodeextendedresources.noderesource.dev";
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let patch = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema,
    }]);
    cluster.kubectl(&["patch", "crd", name, "--type=json", "-p", &patch.to_string()]);
}

/// Takes the validation of the spec out of the CRD, and waits until the API server does without.
pub fn drop_validation_of_spec(cluster: &Cluster) {
    let name = "nodeextendedresources.noderesource.dev";
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch = json!([{"op": "replace", "path": path, "value": schema}]);
    cluster.kubectl(&["patch", "crd", name, "--type=json", "-p", &patch.to_string()]);
    let object = rule("zero", &json!({"quantity": 0})).to_string();
    harness::wait_until("the validation to be gone", crate::cluster::DEADLINE, || {
        let args = ["create", "--dry-run=server", "--validate=false", "-f", "-"];
        let answer = cluster.control_plane.kubectl_output(&args, Some(&object))?;
        Ok((answer.code == 0).then_some(()))
    })
    .unwrap();
}

#[test]
fn a_rule_from_before_the_validation_is_stalled_and_frozen_and_the_others_go_on() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("held", &json!({"resourceName": "example.com/held"}));
    cluster.wait_advertised("node-1", "example.com/held", "4");
    controller.stop();

    drop_validation(&cluster);
    let bad = [
        ("zero", json!({"quantity": 0})),
        ("native", json!({"resourceName": "cpu"})),
        ("both", json!({"nodeNames": ["node-1"], "nodeSelector": {}})),
        ("held", json!({"resourceName": "example.com/held", "quantity": "none"})),
    ];
    // Of these the API server takes not even a status.
    let unreadable = [
        ("fraction", json!({"quantity": 4.5})),
        ("no-quantity", json!({"quantity": {"of": "dongles"}})),
    ];
    // The API server takes up the new schema within a moment.
    harness::wait_until("the validation to be gone", crate::cluster::DEADLINE, || {
        let object = rule("fraction", &unreadable[0].1).to_string();
        let args = ["apply", "--validate=false", "-f", "-"];
        let answer = cluster.control_plane.kubectl_output(&args, Some(&object))?;
        Ok((answer.code == 0).then_some(()))
    })
    .unwrap();
    for (name, spec) in bad.iter().chain(&unreadable) {
        let object = rule(name, spec).to_string();
        let args = ["apply", "--validate=false", "-f", "-"];
        cluster.control_plane.kubectl_stdin(&args, &object).unwrap();
    }
    cluster.install_crd();

    let controller = Controller::start(&cluster);
    cluster.apply_rule("good", &json!({}));
    cluster.wait_advertised("node-1", "example.com/dongle", "4");
    for (name, _) in &bad {
        let status = cluster.wait_status(name, "Stalled", |status| {
            condition(status, "Stalled") == ("True", "InvalidSpec")
        });
        assert_eq!(condition(&status, "Ready"), ("False", "InvalidSpec"), "{name}");
        let conditions = status["conditions"].as_array().unwrap();
        let stalled = conditions.iter().find(|condition| condition["type"] == "Stalled").unwrap();
        assert_ne!(stalled["message"], Value::from(""), "{name}");
    }
    for (name, _) in bad.iter().chain(&unreadable) {
        cluster.wait_event(name, "InvalidSpec", "stays as it is");
    }
    cluster.wait_advertised("node-1", "example.com/held", "4");
    // Frozen does not mean forgotten: a reboot must not cost the pods that use it.
    cluster.write_amount("node-1", "example.com/held", "0");
    cluster.wait_advertised("node-1", "example.com/held", "4");
    // Deleting it is a decision again.
    cluster.kubectl(&["delete", "ner", "held"]);
    cluster.wait_for("example.com/held to be withdrawn", &["node", "node-1"], |node| {
        node["status"]["capacity"].get("example.com/held").is_none()
    });
    controller.stop();
}
