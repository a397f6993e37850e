//! `validate`, compared with the API server and with kubectl.
//!
//! Method: send the same invalid and random objects to the API server's dry run and to the program, and
//! compare the results; pass the same YAML to kubectl and to the parser.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use harness::Cluster;
use harness::objects::rule;
use node_resource_advertiser::manifest::{self, Limits};
use serde_json::{Value, json};

use crate::support::{program, rejected_objects};

/// Returns what `validate -o json -` reports on a text.
fn validate(text: &str) -> Value {
    let args = ["validate", "-o", "json", "-"];
    let output = program::run(Path::new("/nowhere"), &args, Some(text));
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let problems = report["diagnostics"].as_array().unwrap();
    let worst = problems.iter().map(|problem| match problem["severity"].as_str() {
        Some("warning") => 0,
        Some("error") => 1,
        _ => 2,
    });
    assert_eq!(output.code, worst.max().unwrap_or(0), "{report:#}");
    report
}

/// `validate` rejects the objects that the API server rejects, for the same reason.
#[test]
fn validate_rejects_bad_objects_like_the_apiserver() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (what, message, object) in rejected_objects::all() {
        count += 1;
        let report = validate(object);
        let problems = report["diagnostics"].as_array().unwrap();
        let reported = problems.iter().any(|problem| {
            let text = format!("{} {}", problem["path"], problem["message"].as_str().unwrap());
            text.contains(message)
        });
        if report["errors"] != 1 || !reported {
            wrong.push(format!("{what}: expected {message:?}, got {report:#}"));
        }
    }
    assert!(count > 70, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns rules of many shapes, without expected results.
fn candidates() -> Vec<Value> {
    let mut random = fastrand::Rng::with_seed(11);
    let mut specs: Vec<Value> = Vec::new();
    let suffixes = [
        "", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E2", "e-1",
        "e18", "e99", "e-99", "K", "x",
    ];
    for _ in 0..150 {
        let digits = |random: &mut fastrand::Rng, most| -> String {
            (0..random.usize(0..=most)).map(|_| random.choice(['0', '0', '1', '5', '9']).unwrap()).collect()
        };
        let sign = random.choice(["", "", "", "+", "-"]).unwrap();
        let whole = digits(&mut random, 12);
        let fraction = if random.bool() { format!(".{}", digits(&mut random, 4)) } else { String::new() };
        let suffix = random.choice(suffixes).unwrap();
        specs.push(json!({"quantity": format!("{sign}{whole}{fraction}{suffix}")}));
    }
    for quantity in [
        "4503599627370497.0",
        "2251799813685247.5",
        "2251799813685248.0",
        "1.5Ei",
        "8Pi",
        "9223372036854775",
        "9223372036854775000m",
        "1024.0Ki",
        "0.5Ki",
        "00000000000000000004",
        "1e15",
        "1E",
        "0e99",
        "0.0",
        "120Ti",
        "62.0Gi",
        ".5k",
        "1e003",
        "0.009223372036854775E",
    ] {
        specs.push(json!({"quantity": quantity}));
    }
    for quantity in [
        json!(1),
        json!(9_007_199_254_740_993_i64),
        json!(9_223_372_036_854_775_i64),
        json!(1e15),
        json!(1.0),
        json!(-0.0),
        json!({}),
        json!(false),
    ] {
        specs.push(json!({"quantity": quantity}));
    }
    // Tables, whose entries break several rules at once.
    for _ in 0..60 {
        let entry = |random: &mut fastrand::Rng| {
            let value = random.choice(["m5.large", "", "8", "-a", "a b", "a.", "k8s.io/a"]).unwrap();
            let quantities =
                [json!(24), json!(0), json!("1500m"), json!("1.5Gi"), json!("x"), json!("10E"), json!(null)];
            (value.to_owned(), random.choice(quantities).unwrap())
        };
        let values: serde_json::Map<_, _> = (0..random.usize(0..3)).map(|_| entry(&mut random)).collect();
        let mut from = json!({"nodeLabel": {"key": "a", "values": values}});
        match random.u8(..5) {
            0 => from["max"] = json!(30),
            1 => from["min"] = json!(2),
            2 => from["nodeLabel"]["values"] = json!(null),
            _ => {}
        }
        specs.push(json!({"quantity": null, "quantityFrom": from}));
    }
    let text = |random: &mut fastrand::Rng| -> String {
        (0..random.usize(0..6))
            .map(|_| random.choice(['a', 'b', 'c', 'd', 'e', 'f', '8', '9', 'B', '-', '.', '_', '/', 'ß']).unwrap())
            .collect()
    };
    for _ in 0..60 {
        specs.push(json!({"resourceName": format!("{}/{}", text(&mut random), text(&mut random))}));
        specs.push(json!({"nodeNames": [text(&mut random)], "nodeSelector": null}));
        specs.push(json!({"nodeSelector": {"matchLabels": {text(&mut random): text(&mut random)}}}));
        let operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist"]).unwrap();
        let values = [json!([]), json!(["a"]), json!([text(&mut random)]), Value::Null];
        specs.push(json!({"nodeSelector": {"matchExpressions": [{
            "key": text(&mut random), "operator": operator, "values": random.choice(values).unwrap(),
        }]}}));
    }
    let nodes = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>();
    for spec in [
        json!({"nodeNames": nodes(1000), "nodeSelector": null}),
        json!({"nodeNames": nodes(1001), "nodeSelector": null}),
        json!({"nodeNames": null}),
        json!({"nodeNames": [null], "nodeSelector": null}),
        json!({"nodeSelector": null}),
        json!({"nodeSelector": {"matchLabels": null, "matchExpressions": null}}),
        json!({"nodeSelector": {"matchLabels": {"a": null}}}),
        json!({"nodeSelector": {"matchLabels": {"a": "b", "c": null}}}),
        json!({"nodeSelector": {"matchLabels": {"a": "b"}, "matchExpressions": null}}),
        json!({"nodeSelector": {"matchLabels": null, "matchExpressions": [
            {"key": "a", "operator": "Exists", "values": null},
        ]}}),
        json!({"nodeSelector": {"matchLabels": {"a": null}, "matchExpressions": [
            {"key": "a", "operator": "Exists"},
        ]}}),
        json!({"nodeSelector": {}}),
        json!({"nodeSelector": {"matchLabels": {}}}),
        json!({"nodeSelector": {"matchLabels": {"a": ""}, "matchExpressions": []}}),
        json!({"allNodes": false}),
        json!({"allNodes": null}),
        json!({"allNodes": "true"}),
        json!({"nodeNames": ["a"], "allNodes": true}),
        json!({"nodeNames": ["a"], "allNodes": false}),
        json!({"nodeSelector": {"matchExpressions": [null]}}),
        json!({"nodeSelector": {"matchLabels": [1]}}),
        json!({"nodeSelector": 5}),
        json!({"priority": null}),
        json!({"priority": "1"}),
        json!({"priority": -2_147_483_648_i64}),
        json!({"priority": 2_147_483_648_i64}),
        json!({"priority": 1.5}),
        json!({"conflictPolicy": null}),
        json!({"conflictPolicy": ""}),
        json!({"deletionPolicy": "Retain"}),
        json!({"unknown": null}),
    ] {
        specs.push(spec);
    }
    let mut objects: Vec<_> = specs.iter().map(|spec| rule("", spec)).collect();
    for (path, value) in [
        ("/metadata/labels", json!({"a": "b c"})),
        ("/metadata/labels", json!({"A/b": "c"})),
        ("/metadata/labels", json!({"a": null})),
        ("/metadata/labels", json!({"a": 1})),
        ("/metadata/labels", Value::Null),
        ("/metadata/annotations", json!({"A/b": "c d"})),
        ("/metadata/annotations", json!({"a b": ""})),
        ("/metadata/creationTimestamp", Value::Null),
        ("/metadata/unknown", json!(1)),
        ("/status", json!({"observedGeneration": "x"})),
        ("/status", json!({"unknown": 1})),
        ("/status", json!({"observedGeneration": 3})),
        ("/spec", Value::Null),
        ("/spec", json!([])),
        ("/data", json!({})),
    ] {
        let mut object = rule("", &json!({}));
        let (parent, key) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
        objects.push(object);
    }
    for (index, object) in objects.iter_mut().enumerate() {
        object["metadata"]["name"] = format!("candidate-{index}").into();
    }
    for name in ["A", "a_b", "a.", "a..b", "1", "-a", "a/b", "a b"] {
        objects.push(rule(name, &json!({})));
    }
    objects
}

/// Sends all objects to the API server as dry runs, and to `validate`.
#[test]
fn validate_verdicts_match_the_apiserver() {
    let cluster = Cluster::shared();
    let objects = candidates();
    let text = objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    let args = ["create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"];
    let output = cluster.control_plane.kubectl_output(&args, Some(&text)).unwrap();
    let accepted: BTreeSet<_> =
        output.stdout.lines().filter_map(|line| line.split_once('/').map(|(_, name)| name)).collect();

    let report = validate(&text);
    // These diagnostics concern several objects, each of which the server accepts.
    let about_several = ["equal-priority", "duplicate-name"];
    let mut rejected = BTreeMap::<&str, Vec<&Value>>::new();
    for problem in report["diagnostics"].as_array().unwrap() {
        // The server does not reject objects with mere warnings.
        if problem["severity"] != "warning" && !about_several.contains(&problem["code"].as_str().unwrap()) {
            rejected.entry(problem["name"].as_str().unwrap()).or_default().push(problem);
        }
    }

    let mut wrong = Vec::new();
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        if accepted.contains(name) == rejected.contains_key(name) {
            let quoted = format!("{name:?}");
            let server = output.stderr.lines().find(|line| line.contains(&quoted));
            let here = rejected.get(name);
            wrong.push(format!("{object}\n  the server: {server:?}\n  here: {here:?}"));
        }
    }
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} of {}:\n{}", objects.len(), wrong.join("\n"));
    // Both results must occur, or the test compares nothing.
    assert!(accepted.len() > 100 && rejected.len() > 100, "{} accepted, {} rejected", accepted.len(), rejected.len());
}

/// Converts integers outside the signed 64-bit range, which the server reads as floats.
fn as_the_server_reads(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if !number.is_i64() => return number.as_f64().into(),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = as_the_server_reads(item.take()));
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| *field = as_the_server_reads(field.take()));
        }
        _ => {}
    }
    value
}

/// kubectl prints what it parses, without a server.
#[test]
fn yaml_is_read_like_kubectl() {
    let cluster = Cluster::shared();
    let scalars = [
        "4",
        "+4",
        "-0",
        "017",
        "0o17",
        "-0o17",
        "08",
        "0x1F",
        "0b11",
        "+0b11",
        "0b12",
        "0o9",
        "1_000",
        "_1",
        "1__0",
        "0x",
        "0x_1F",
        "--1",
        "1e3",
        "1e+3",
        "12E03",
        "4.0",
        "4.",
        ".5",
        "+.5",
        "-.5e3",
        "._5",
        "-0.0",
        "1e-1",
        "1e",
        ".",
        "1.2.3",
        "1e22",
        "1e21",
        "1e20",
        "1E400",
        "1.5e300",
        "1e-7",
        "0.1",
        "123456789.125",
        "1.2345678901234567e18",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "+9223372036854775808",
        "1:30",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
        "800Gi",
        "yes",
        "y",
        "Y",
        "no",
        "n",
        "on",
        "oN",
        "Off",
        "true",
        "TRUE",
        "tRUE",
        "~",
        "null",
        "Null",
        "nULL",
        "\"yes\"",
        "'017'",
        "!!str 5",
        "!!int \"5\"",
        "!!float 3",
        "!!bool \"on\"",
        "!foo 1",
        "! 12",
        "=",
        "<<",
        "&a x",
        "|\n  a\n  b\n",
        ">-\n  a\n  b\n",
        "\"a\\u00e4\\x41\\n\"",
        "'it''s'",
        "a # b",
        "a#b",
        "[a, , b]",
        "[a, b,]",
        "{a, b: 1}",
        "{? a : 1}",
        "[a: 1]",
        "{1: a, yes: b, 1.5: c}",
        "\"a\n  b\"",
    ];
    let documents = [
        "e: {x: 5, <<: {x: 1}}",
        "e: {<<: {x: 1}, x: 5}",
        "e: {\"<<\": {x: 1}}",
        "e: {<<: [{x: 1, y: 2}, {x: 3, z: 4}], y: 7}",
        "e: &a {b: 1}\nf: {<<: *a, c: 2}\ng: [*a, *a]",
        "e:\n- a\n-  - b\n   - c\nf:\n  g: h\n",
        "e: a\n  b\n  c\n",
        "e:\n  ? a\n  : b\n",
        "e: {\"a\":1,\"b\":[1,2]}",
        "? e\n: f",
    ];
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {a: b}}\n";
    let texts = scalars.iter().map(|scalar| format!("{head}e: {scalar}\n"));
    let texts = texts.chain(documents.iter().map(|document| format!("{head}{document}\n")));
    let mut wrong = Vec::new();
    let mut accepted_by_both = 0;
    for text in texts {
        let args = ["label", "--local", "-o", "json", "-f", "-", "a=b", "--overwrite"];
        let output = cluster.control_plane.kubectl_output(&args, Some(&text)).unwrap();
        let theirs = serde_json::from_str(&output.stdout).ok().map(as_the_server_reads);
        let mut ours = None;
        manifest::read_text("x", text.clone(), &Limits::default(), &mut |read| {
            ours = read.ok().map(|document| document.value);
        });
        accepted_by_both += usize::from(ours.is_some());
        if ours != theirs {
            wrong.push(format!("{text:?}\n  kubectl: {theirs:?} {}\n  here: {ours:?}", output.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted_by_both > 80, "{accepted_by_both}");
}
