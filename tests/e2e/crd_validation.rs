//! The CRD's validation, and invalid rules that were stored before it existed.
//!
//! Method: create every object of `tests/testdata/rejected-by-apiserver.yaml` and compare the rejection; then store
//! invalid rules under a CRD without validation, and run the controller with them.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use harness::objects::{DONGLE, condition, rule};
use harness::{Cluster, Controller, Output, oracle, quantities};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::{Api, Client, Config};
use node_resource_advertiser::model::api::{
    MAX_ENTRIES, MAX_ENTRIES_LENGTH, MAX_NAMES, MAX_NAMES_LENGTH, MAX_REQUIREMENTS, MAX_VALUES, MAX_VALUES_LENGTH,
    NodeExtendedResource,
};
use serde_json::{Value, json};

use crate::support::rejected_objects;

#[test]
fn crd_rejects_bad_objects_with_advice() {
    let cluster = Cluster::shared();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (what, message, object) in rejected_objects::all() {
        count += 1;
        let args = ["create", "--validate=strict", "-f", "-"];
        let output = cluster.control_plane.kubectl_output(&args, Some(object)).unwrap();
        if output.code == 0 || !output.stderr.contains(message) {
            wrong.push(format!("{what}: expected {message:?}, got {}{}", output.stdout, output.stderr));
        }
    }
    assert!(count > 70, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names = cluster.kubectl(&["get", "ner", "-o", "name"]);
    assert_eq!(names, "", "an object was stored");
}

/// Creates and applies a rule as dry runs, and returns both responses.
fn dry_runs(cluster: &Cluster, selector: &str) -> [Output; 2] {
    let rule = format!(
        "{{apiVersion: noderesource.dev/v1alpha1, kind: NodeExtendedResource, metadata: {{name: a}}, \
         spec: {{resourceName: example.com/dongle, quantity: 4, nodeSelector: {selector}}}}}"
    );
    let create = ["create", "--dry-run=server", "--validate=ignore", "-f", "-"];
    let apply = ["apply", "--dry-run=server", "--validate=ignore", "--server-side", "-f", "-"];
    [&create[..], &apply[..]].map(|args| cluster.control_plane.kubectl_output(args, Some(&rule)).unwrap())
}

/// Empty YAML values are null, which the API server drops from fields that are not nullable.
#[test]
fn crd_rejects_selectors_that_lost_a_requirement() {
    let cluster = Cluster::shared();
    let empty = "no requirement is left";
    let no_value = "a label without a value: write its value";
    let null = "must be of type";
    let unknown = "field not declared in schema";
    for (selector, [created, applied]) in [
        ("{}", [empty, empty]),
        ("{matchLabels: {}}", [empty, empty]),
        ("{matchExpressions: []}", [empty, empty]),
        ("{matchLabels: }", [empty, null]),
        ("{matchExpressions: }", [empty, null]),
        ("{matchLabel: {zone: a}}", [empty, unknown]),
        ("{matchLabels: {zone: }}", [no_value, no_value]),
        ("{matchLabels: {zone: a, example.com/has-dongle: }}", [no_value, no_value]),
        // On create, the API server drops the null: `validate` reports it.
        ("{matchLabels: {zone: a}, matchExpressions: }", ["", null]),
        ("{matchExpressions: [{key: zone, operator: In, values: }]}", ["In and NotIn", null]),
        ("{matchExpressions: [{key: , operator: Exists}]}", ["Required value", null]),
        ("{matchLabels: {zone: \"\"}}", ["", ""]),
    ] {
        for (expected, output) in [created, applied].into_iter().zip(dry_runs(&cluster, selector)) {
            assert_eq!(output.code == 0, expected.is_empty(), "{selector}: {}", output.stderr);
            assert!(output.stderr.contains(expected), "{selector}: {}", output.stderr);
        }
    }
}

#[test]
fn crd_accepts_whole_numbers_in_any_notation() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
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
        cluster.wait_advertised("node-1", DONGLE, stored);
        cluster.wait_ready("dongle", "1/1");
    }
    controller.stop();
}

/// Creates a rule of each quantity, which the API server does not store, and returns whether it is
/// accepted.
async fn accepted(cluster: &Cluster, texts: &[String]) -> Vec<bool> {
    let kubeconfig = Kubeconfig::read_from(cluster.control_plane.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let kind = kube::api::ApiResource::erase::<NodeExtendedResource>(&());
    let rules: Api<DynamicObject> = Api::all_with(client, &kind);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let create = async |text: &String| {
        let object = rule("whole", &json!({"quantity": text}));
        match rules.create(&dry_run, &serde_json::from_value(object).unwrap()).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 422 => {
                assert!(status.message.contains("spec.quantity"), "{text:?}: {}", status.message);
                assert!(!status.message.contains("rule:"), "{text:?}: {}", status.message);
                false
            }
            Err(error) => panic!("{text:?}: {error}"),
        }
    };
    // Several threads, each with a persistent connection.
    stream::iter(texts).map(create).buffered(16).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_accepts_every_whole_quantity() {
    let cluster = Cluster::shared();
    // The oracle test gives all of them to `validate`.
    let mut texts: Vec<_> = quantities::multiples(|_| true).step_by(61).collect();
    texts.extend(quantities::notations().into_iter().step_by(2));
    texts.extend(["120Ti", "1000Ti", "62.0Gi"].map(str::to_owned));
    texts.extend((1826..=8192).step_by(97).map(|number| format!("{number}Ti")));
    texts.extend((1..=9).map(|number| format!("{number}Pi")));
    let whole = oracle::whole_quantities(&texts);
    let verdicts = accepted(&cluster, &texts).await;
    let differences: Vec<_> = texts
        .iter()
        .zip(whole.iter().zip(&verdicts))
        .filter(|(_, (whole, verdict))| whole != verdict)
        .map(|(text, (whole, _))| format!("{text:?}: whole {whole}"))
        .collect();
    let (count, wrong) = (texts.len(), differences.len());
    assert!(differences.is_empty(), "{wrong} of {count} differ:\n{}", differences.join("\n"));
    let whole = whole.iter().filter(|whole| **whole).count();
    println!("{count} quantities, {whole} of them whole: no difference");
    assert!(count > 5000 && whole > 2000, "{whole} of {count}");
}

/// A replica keeps every rule in memory.
#[test]
fn crd_bounds_the_size_of_a_spec() {
    let cluster = Cluster::shared();
    let padded = |number: usize, length: usize| format!("{number:0length$}");
    // One more character than allowed, or none.
    let names = |more: usize| {
        let longer = MAX_NAMES_LENGTH % MAX_NAMES + more;
        let names =
            (0..MAX_NAMES).map(|number| padded(number, MAX_NAMES_LENGTH / MAX_NAMES + usize::from(number < longer)));
        json!({"nodeNames": names.collect::<Vec<_>>()})
    };
    let selector = |more: usize| {
        let length = MAX_VALUES_LENGTH / (MAX_REQUIREMENTS * MAX_VALUES);
        let expressions = (0..MAX_REQUIREMENTS).map(|expression| {
            let values =
                (0..MAX_VALUES).map(|value| padded(value, length + if expression + value == 0 { more } else { 0 }));
            let key = format!("{expression:0253}/{}", "k".repeat(63));
            json!({"key": key, "operator": "In", "values": values.collect::<Vec<_>>()})
        });
        let labels = (0..MAX_REQUIREMENTS).map(|label| (format!("{label:0253}/{}", "k".repeat(63)), "v".repeat(63)));
        json!({"nodeSelector": {
            "matchLabels": labels.collect::<BTreeMap<_, _>>(), "matchExpressions": expressions.collect::<Vec<_>>(),
        }})
    };
    // Each entry as long as it may be: CEL evaluates all of them within its limit.
    let table = |entries: usize, length: usize| {
        let values = (0..entries).map(|number| (padded(number, length), json!(format!("{}m", padded(4000, 31)))));
        let values: serde_json::Map<_, _> = values.collect();
        json!({"quantity": null, "quantityFrom": {"nodeLabel": {"key": "a", "values": values}, "whenMissing": "Keep"}})
    };
    let largest_table = table(MAX_ENTRIES, MAX_ENTRIES_LENGTH / MAX_ENTRIES);
    let with_table = |mut spec: Value| {
        spec.as_object_mut().unwrap().extend(largest_table.as_object().unwrap().clone());
        spec
    };
    let too_many = format!("must have at most {MAX_ENTRIES} items");
    for (spec, rejection) in [
        (names(0), None),
        (names(1), Some("too long: at most")),
        (selector(0), None),
        (selector(1), Some("too long: at most")),
        (largest_table.clone(), None),
        (table(MAX_ENTRIES + 1, 9), Some(too_many.as_str())),
        (table(MAX_ENTRIES_LENGTH / 63 + 1, 63), Some("too long: the values")),
        (with_table(names(0)), None),
        (with_table(selector(0)), None),
    ] {
        let args = ["create", "--dry-run=server", "-f", "-", "-o", "json"];
        let output = cluster.control_plane.kubectl_output(&args, Some(&rule("a", &spec).to_string())).unwrap();
        let is_right = rejection.map_or(output.code == 0, |message| output.stderr.contains(message));
        assert!(is_right, "{spec:.80}: {output:?}");
        if rejection.is_none() {
            let created: Value = serde_json::from_str(&output.stdout).unwrap();
            let length = created["spec"].to_string().len();
            assert!(length < 64 * 1024, "a spec of {length} bytes");
        }
    }
}

#[test]
fn stored_invalid_rule_is_stalled_and_keeps_its_values() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    let controller = Controller::start(&cluster);
    cluster.apply_rule("held", &json!({"resourceName": "example.com/held"}));
    cluster.apply_rule("empty", &json!({"resourceName": "example.com/everywhere"}));
    cluster.wait_advertised("node-1", "example.com/held", "4");
    cluster.wait_advertised("node-1", "example.com/everywhere", "4");
    controller.stop();

    rejected_objects::drop_validation(&cluster);
    let bad = [
        ("zero", json!({"quantity": 0})),
        ("native", json!({"resourceName": "cpu"})),
        ("both", json!({"nodeNames": ["node-1"], "allNodes": true})),
        ("held", json!({"resourceName": "example.com/held", "quantity": "none"})),
        // Selects every node under an earlier CRD.
        ("empty", json!({"resourceName": "example.com/everywhere", "nodeSelector": {}})),
    ];
    // The API server does not even accept a status for these.
    let without_status =
        [("fraction", json!({"quantity": 4.5})), ("no-quantity", json!({"quantity": {"of": "dongles"}}))];
    for (name, spec) in bad.iter().chain(&without_status) {
        let object = rule(name, spec).to_string();
        let args = ["apply", "--validate=false", "-f", "-"];
        cluster.control_plane.kubectl_stdin(&args, &object).unwrap();
    }
    cluster.install_crd();

    let controller = Controller::start(&cluster);
    cluster.apply_rule("good", &json!({}));
    cluster.wait_advertised("node-1", DONGLE, "4");
    for (name, _) in &bad {
        let status =
            cluster.wait_status(name, "Stalled", |status| condition(status, "Stalled") == ("True", "InvalidSpec"));
        assert_eq!(condition(&status, "Ready"), ("False", "InvalidSpec"), "{name}");
        let conditions = status["conditions"].as_array().unwrap();
        let stalled = conditions.iter().find(|condition| condition["type"] == "Stalled").unwrap();
        assert_ne!(stalled["message"], Value::from(""), "{name}");
    }
    for (name, _) in bad.iter().chain(&without_status) {
        cluster.wait_event(name, "InvalidSpec", "Its advertised values stay");
    }
    cluster.wait_advertised("node-1", "example.com/held", "4");
    // A stalled rule's values are still repaired: a reboot must not kill the pods that use them.
    for resource in ["example.com/held", "example.com/everywhere"] {
        cluster.wait_advertised("node-1", resource, "4");
        cluster.write_quantity("node-1", resource, "0");
        cluster.wait_advertised("node-1", resource, "4");
    }
    // The edit that the message recommends is enough.
    cluster.wait_status("empty", "a message with the edit", |status| {
        status.to_string().contains("replace nodeSelector: {} by allNodes: true")
    });
    let edit = r#"{"spec": {"nodeSelector": null, "allNodes": true}}"#;
    cluster.kubectl(&["patch", "ner", "empty", "--type=merge", "--patch", edit]);
    cluster.wait_ready("empty", "1/1");
    // Deleting the rule withdraws its value.
    cluster.kubectl(&["delete", "ner", "held"]);
    cluster.wait_for("example.com/held to be withdrawn", &["node", "node-1"], |node| {
        node["status"]["capacity"].get("example.com/held").is_none()
    });
    controller.stop();
}
