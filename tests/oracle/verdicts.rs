//! Pods, quotas and LimitRanges with one fault each, whose verdict `validate` and the API server must agree on.

use std::collections::BTreeSet;
use std::thread;

use harness::ControlPlane;
use node_resource_advertiser::manifest::{self, Files, Limits};
use node_resource_advertiser::validate::{Diagnostic, Severity, Validator};
use serde_json::{Value, json};

use super::report;

/// Enough for kubectl's own limit of requests per second not to matter.
const PROCESSES: usize = 4;

const RESOURCE: &str = "example.com/dongle";

/// Names of resources, valid or not, native or not.
fn names() -> Vec<String> {
    let names = "
        example.com/dongle  example/x  example.com/A_b.c-9  Example.com/dongle  example.com/Dongle  dongle
        my_company.com/dongle  example.com/a/b  example.com/  /dongle  -example.com/dongle  example.com./dongle
        example.com/-dongle  example.com/dongle-  requests.example.com/dongle  limits.example.com/dongle
        requests.dongle  limits.dongle  gpu  storage  pods  cpu  memory  hugepages-2Mi  ephemeral-storage
        kubernetes.io/dongle  vendor.kubernetes.io/dongle  notkubernetes.io/dongle  Vendor.kubernetes.io/dongle
        requests.kubernetes.io/dongle  count/pods  exämple.com/dongle  example.com/döngle  requests.Example.com/dongle
        requests.example.com/  requests./dongle  requests.my_company.com/dongle  requests.example.com/a/b
        services.nodeports  requests.cpu  requests.storage  hugepages-x  requests.hugepages-2Mi
    ";
    let mut names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
    for (domain, name) in [(244, 63), (245, 63), (253, 1), (254, 1), (1, 64)] {
        names.push(format!("{}/{}", "a".repeat(domain), "b".repeat(name)));
        names.push(format!("requests.{}/{}", "a".repeat(domain), "b".repeat(name)));
    }
    names.push("example.com/dongle stick".to_owned());
    names
}

/// Quantities, valid or not.
fn quantities() -> Vec<Value> {
    let mut quantities: Vec<Value> =
        ["", "0", "1", "-1", "-0", "1k", "1500m", "0.5", "1e3", "4GB", "four", "${N}", "4 ", "1Gi", "-1Ki", "1000m"]
            .map(Value::from)
            .into();
    quantities.extend([json!(0), json!(3), json!(-3), json!(1.5), json!(true), json!(null), json!({}), json!([1])]);
    quantities
}

/// What is merged into a container.
fn containers() -> Vec<Value> {
    let mut containers: Vec<Value> = Vec::new();
    // Huge pages have rules of their own.
    let names = names().into_iter().filter(|name| !name.starts_with("hugepages-"));
    containers.extend(names.map(|name| json!({"resources": {"limits": {name: "64Mi"}}})));
    containers.extend(quantities().iter().map(|quantity| json!({"resources": {"limits": {RESOURCE: quantity}}})));
    let amounts = |limits: Value, requests: Value| json!({"resources": {"limits": limits, "requests": requests}});
    containers.extend([
        amounts(json!({RESOURCE: 1}), json!({RESOURCE: 1})),
        amounts(json!({RESOURCE: "1"}), json!({RESOURCE: "1000m"})),
        amounts(json!({RESOURCE: 2}), json!({RESOURCE: 1})),
        amounts(json!({RESOURCE: 1}), json!({RESOURCE: 2})),
        amounts(json!({RESOURCE: 1}), json!({RESOURCE: 0})),
        amounts(json!({RESOURCE: 0}), json!({RESOURCE: 0})),
        amounts(json!({RESOURCE: 1}), json!({})),
        amounts(json!({}), json!({RESOURCE: 1})),
        amounts(json!({}), json!({RESOURCE: 0})),
        amounts(json!(null), json!({RESOURCE: 1})),
        amounts(json!({"example.com/a": 1}), json!({"example.com/b": 1})),
        amounts(json!({RESOURCE: 1, "cpu": 1}), json!({"cpu": "500m"})),
        amounts(json!(null), json!(null)),
        amounts(json!([]), json!({})),
        amounts(json!({}), json!("1")),
        json!({"resources": [RESOURCE]}),
        json!({"resources": RESOURCE}),
        json!({"resources": null}),
        json!({"resources": {RESOURCE: 1}}),
        json!({"resources": {"limit": {RESOURCE: 1}}}),
        json!({"resources": {"request": {RESOURCE: 1}}}),
        json!({"resources": {"amounts": {RESOURCE: 1}}}),
        json!({"resources": {"Limits": {RESOURCE: 1}}}),
        json!({"resource": {"limits": {RESOURCE: 1}}}),
        json!({"Resources": {"requests": {RESOURCE: 1}}}),
        json!({"resource": {RESOURCE: 1}}),
        json!({"amounts": {RESOURCE: 1}}),
        json!({"limits": {RESOURCE: 1}}),
        json!({"requests": {RESOURCE: 1}}),
        json!({RESOURCE: 1}),
        json!({"initContainers": {"limits": {RESOURCE: 1}}}),
        json!({"initContainers": [{"name": "b", "image": "b", "resources": {"limits": {RESOURCE: 1}}}]}),
        json!({"resizePolicy": [{"resourceName": RESOURCE, "restartPolicy": "NotRequired"}]}),
        json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": format!("limits.{RESOURCE}")}}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
    ]);
    containers
}

/// What is merged into the spec of a pod.
fn pod_specs() -> Vec<Value> {
    let container = |resources: Value| json!([{"name": "b", "image": "b", "resources": resources}]);
    let limits = json!({"limits": {RESOURCE: 1}});
    vec![
        json!({"container": container(limits.clone())}),
        json!({"Containers": container(limits.clone())}),
        json!({"initContainer": container(limits.clone())}),
        json!({"pods": {"main": container(limits.clone())}}),
        json!({"containers": {"name": "b", "image": "b", "resources": limits}}),
        json!({"containers": {"name": "b", "image": "b", "limits": {RESOURCE: 1}}}),
        json!({"containers": {"b": {"image": "b", "resources": limits}}}),
        json!({"initContainers": {"b": {"image": "b", "resources": limits}}}),
        claim(RESOURCE),
        json!({}),
        json!({"initContainers": container(json!({"limits": {RESOURCE: 1}}))}),
        json!({"initContainers": container(json!({"requests": {RESOURCE: 1}}))}),
        json!({"initContainers": container(json!({"limits": {RESOURCE: "0.5"}}))}),
        json!({"initContainers": container(json!({"limits": {"Example.com/dongle": 1}}))}),
        json!({"resources": {"limits": {RESOURCE: 1}}}),
        json!({"resources": {"requests": {RESOURCE: 1}}}),
        json!({"resources": {"limits": {"dongle": 1}}}),
        json!({"resources": {"limits": {"cpu": 1}}}),
        json!({"resource": {"limits": {RESOURCE: 1}}}),
        json!({"resource": {RESOURCE: 1}}),
        json!({"limits": {RESOURCE: 1}}),
        json!({RESOURCE: 1}),
        json!({"resources": {RESOURCE: 1}}),
        json!({"resources": {"limit": {RESOURCE: 1}}}),
        json!({"resources": [RESOURCE]}),
        json!({"resources": RESOURCE}),
        json!({"resources": {"limits": RESOURCE}}),
        json!({"resources": null}),
        json!({"overhead": {RESOURCE: "four"}}),
        json!({"overhead": {RESOURCE: -1}}),
        json!({"overhead": {"Example.com/dongle": 1}}),
        json!({"overhead": RESOURCE}),
        json!({"overhead": {RESOURCE: 1}}),
        json!({"overhead": {RESOURCE: 1}, "runtimeClassName": null}),
        json!({"overhead": {"cpu": 1}}),
        json!({"overhead": {}}),
        json!({"overhead": null}),
        json!({"ephemeralContainers": container(limits.clone())}),
        json!({"nodeSelector": {RESOURCE: "true"}}),
        downward(&format!("limits.{RESOURCE}")),
        downward(&format!("requests.{RESOURCE}")),
        downward("limits.cpu"),
        projected(&format!("limits.{RESOURCE}")),
        projected("requests.memory"),
    ]
}

/// A volume that claims an amount of a resource, which is no container's.
fn claim(resource: &str) -> Value {
    let resources = json!({"requests": {"storage": "1Gi", resource: "1"}});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}});
    json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]})
}

/// A volume with a file that has an amount of a resource.
fn downward(resource: &str) -> Value {
    let field = json!({"containerName": "a", "resource": resource});
    json!({"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "p", "resourceFieldRef": field}]}}]})
}

/// The same volume, as one of several that are projected into one.
fn projected(resource: &str) -> Value {
    let volume = downward(resource)["volumes"][0]["downwardAPI"].clone();
    json!({"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": volume}]}}]})
}

/// Workloads with resources beside the pod rather than in it.
fn beside_pods() -> Vec<Value> {
    let spec = json!({"containers": [{"name": "a", "image": "b"}]});
    let resources = json!({"limits": {RESOURCE: 1}});
    let mut objects = Vec::new();
    for place in ["", "/spec", "/spec/template"] {
        for fields in [
            json!({"resources": resources}),
            json!({"resources": {RESOURCE: 1}}),
            json!({"limits": {RESOURCE: 1}}),
            json!({RESOURCE: 1}),
            json!({"containers": [{"name": "a", "image": "b", "resources": resources}]}),
            json!({"sepc": {"containers": [{"name": "a", "image": "b", "resources": resources}]}}),
        ] {
            let mut object = with_pod("Deployment", &spec);
            let at = object.pointer_mut(place).unwrap();
            *at = merged(at, &fields);
            objects.push(object);
        }
    }
    objects.push(merged(&with_pod("Pod", &spec), &json!({"resources": resources})));
    let spec = json!({"containers": [{"name": "a", "image": "b", "resources": resources}]});
    for (kind, place) in
        [("Pod", "/spec"), ("Deployment", "/spec"), ("Deployment", "/spec/template"), ("Job", "/spec/template/spec")]
    {
        let mut object = with_pod(kind, &spec);
        let at = object.pointer_mut(place).unwrap();
        *at = json!([at.clone()]);
        objects.push(object);
    }
    objects
}

fn merged(base: &Value, fields: &Value) -> Value {
    let mut merged = base.as_object().cloned().unwrap_or_default();
    merged.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(merged)
}

/// An object of every kind that has pods.
fn with_pod(kind: &str, spec: &Value) -> Value {
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let job = json!({"template": {"spec": merged(spec, &json!({"restartPolicy": "Never"}))}});
    let selector = json!({"matchLabels": labels});
    let (version, fields) = match kind {
        "Pod" => ("v1", json!({"spec": spec})),
        "PodTemplate" => ("v1", json!({"template": template})),
        "ReplicationController" => ("v1", json!({"spec": {"template": template}})),
        "Job" => ("batch/v1", json!({"spec": job})),
        "CronJob" => ("batch/v1", json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}})),
        "StatefulSet" => ("apps/v1", json!({"spec": {"serviceName": "a", "selector": selector, "template": template}})),
        _ => ("apps/v1", json!({"spec": {"selector": selector, "template": template}})),
    };
    merged(&json!({"apiVersion": version, "kind": kind}), &fields)
}

fn quotas() -> Vec<Value> {
    let mut hard: Vec<Value> = names().iter().map(|name| json!({name: "4"})).collect();
    for key in [format!("requests.{RESOURCE}"), RESOURCE.to_owned(), format!("limits.{RESOURCE}")] {
        hard.extend(quantities().iter().map(|quantity| json!({&key: quantity})));
    }
    let quota = |fields: Value| merged(&json!({"apiVersion": "v1", "kind": "ResourceQuota"}), &fields);
    let mut quotas: Vec<_> = hard.into_iter().map(|hard| quota(json!({"spec": {"hard": hard}}))).collect();
    let counted = json!({format!("requests.{RESOURCE}"): 1});
    quotas.extend([
        quota(json!({"spec": {"hards": counted}})),
        quota(json!({"spec": {"limits": counted}})),
        quota(json!({"spec": {"limits": {RESOURCE: 1}}})),
        quota(json!({"spec": counted})),
        quota(json!({"spec": {RESOURCE: 1}})),
        quota(json!({"spec": {"hard": [counted]}})),
        quota(json!({"spec": {"hard": RESOURCE}})),
        quota(json!({"spec": {"hard": null}})),
        quota(json!({"spec": [{"hard": counted}]})),
        quota(json!({"spec": null})),
        quota(json!({"hard": counted})),
        quota(json!({"hard": counted, "spec": {"hard": counted}})),
        quota(json!({"spec": {"hard": counted, "scopes": ["BestEffort"]}})),
        quota(json!({"spec": {"hard": {"hard": counted}}})),
    ]);
    quotas
}

fn limit_ranges() -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for kind in ["Container", "Pod"] {
        items.extend(names().iter().map(|name| json!({"type": kind, "max": {name: "4"}})));
    }
    items.extend(quantities().iter().map(|quantity| json!({"type": "Container", "max": {RESOURCE: quantity}})));
    let maps = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    // Each two fields in both orders, and equal.
    for (one, other) in
        maps.iter().enumerate().flat_map(|(index, one)| maps[index + 1..].iter().map(move |other| (one, other)))
    {
        for (low, high) in [(1, 2), (2, 1), (2, 2)] {
            let amounts = |amount: i32| json!({RESOURCE: amount});
            items.push(json!({"type": "Container", *one: amounts(low), *other: amounts(high)}));
        }
    }
    items.extend(maps.iter().map(|map| json!({"type": "Pod", *map: {RESOURCE: 1}})));
    for kind in ["PersistentVolumeClaim", "openshift.io/Image"] {
        let names = names().into_iter().chain(["requests.storage".to_owned()]);
        items.extend(names.map(|name| json!({"type": kind, "max": {name: "4"}, "min": {"storage": "1"}})));
        items.extend(maps.iter().map(|map| json!({"type": kind, *map: {"requests.example.com/dongle": 1}})));
        items.push(json!({"type": kind, "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}));
    }
    for kind in [json!("container"), json!(""), json!(null), json!("example.com/x"), json!("a b"), json!(5)] {
        items.push(json!({"type": kind, "max": {RESOURCE: 1}}));
    }
    for (min, max, ratio) in
        [("1", "2", "3"), ("1", "2", "2"), ("2", "5", "2500m"), ("2", "5", "2501m"), ("0", "2", "9"), ("0", "0", "9")]
    {
        let [min, max, ratio] = [min, max, ratio].map(|amount| json!({RESOURCE: amount}));
        items.push(json!({"type": "Pod", "min": min, "max": max, "maxLimitRequestRatio": ratio}));
    }
    items.extend([
        json!({"max": {RESOURCE: 1}}),
        json!({"type": "Container", "maximum": {RESOURCE: 1}}),
        json!({"type": "Container", "defaultRequests": {RESOURCE: 1}}),
        json!({"type": "Container", "amounts": {RESOURCE: 1}}),
        json!({"type": "Container", RESOURCE: 1}),
        json!({"type": "Container", "max": RESOURCE}),
        json!({"type": "Container", "max": [RESOURCE]}),
        json!({"type": "Container", "max": null}),
        json!(RESOURCE),
        json!([{"type": "Container", "max": {RESOURCE: 1}}]),
    ]);
    let item = json!({"type": "Container", "max": {RESOURCE: 1}});
    let other = json!({"type": "Pod", "max": {RESOURCE: 1}});
    let mut specs: Vec<_> = items.into_iter().map(|item| json!({"spec": {"limits": [item]}})).collect();
    specs.extend([
        json!({"spec": {"limits": [item, other]}}),
        json!({"spec": {"limits": [item, item]}}),
        json!({"spec": {"limits": [item, {"type": "Container", "max": {"cpu": 1}}]}}),
        json!({"spec": {"limits": item}}),
        json!({"spec": {"limits": RESOURCE}}),
        json!({"spec": {"limit": [item]}}),
        json!({"spec": {"limits": [other], "max": {RESOURCE: 1}}}),
        json!({"spec": [item]}),
        json!({"spec": item}),
        json!({"limits": [item]}),
        json!({"limits": [item], "spec": {"limits": [item]}}),
    ]);
    let ranges = specs.into_iter();
    ranges.map(|fields| merged(&json!({"apiVersion": "v1", "kind": "LimitRange"}), &fields)).collect()
}

/// Every object, with a name of its own.
fn objects() -> Vec<Value> {
    let kinds = [
        "Pod",
        "Deployment",
        "PodTemplate",
        "ReplicationController",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Job",
        "CronJob",
    ];
    let base = json!({"name": "a", "image": "b"});
    let mut specs: Vec<Value> =
        containers().iter().map(|fields| json!({"containers": [merged(&base, fields)]})).collect();
    specs.extend(pod_specs().iter().map(|fields| merged(&json!({"containers": [base]}), fields)));
    let mut objects = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        // The kinds share their validation: each fault in a Pod, and in one more kind.
        let other = kinds[1..][index % (kinds.len() - 1)];
        objects.extend(["Pod", other].map(|kind| with_pod(kind, spec)));
    }
    objects.extend(beside_pods());
    objects.extend(quotas());
    objects.extend(limit_ranges());
    for (index, object) in objects.iter_mut().enumerate() {
        object["metadata"] = json!({"name": format!("case-{index}")});
    }
    objects
}

/// Returns the errors that `validate` reports on an object.
fn errors(validator: &Validator, object: &Value) -> Vec<Diagnostic> {
    let mut validator = validator.clone();
    manifest::read_text("case.json", object.to_string(), &Limits::default(), &mut |read| validator.take(read));
    let report = validator.finish(Files::default());
    let errors = report.diagnostics.into_iter().filter(|diagnostic| diagnostic.severity != Severity::Warning);
    errors.collect()
}

/// Returns the names of the objects that the API server accepts, and what kubectl prints on the others.
fn accepted(control_plane: &ControlPlane, objects: &[Value]) -> (BTreeSet<String>, String) {
    let text = objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    let args = ["create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"];
    let output = control_plane.kubectl_output(&args, Some(&text)).unwrap();
    let names =
        output.stdout.lines().filter_map(|line| line.split_once('/')).map(|(_, name)| name.to_owned()).collect();
    (names, output.stderr)
}

/// Returns the differences for a Pod without a limit, in namespaces with one LimitRange each.
fn completed_by_limit_ranges(control_plane: &ControlPlane, validator: &Validator) -> Vec<String> {
    let item = |fields: Value| merged(&json!({"type": "Container"}), &fields);
    let items = [
        item(json!({"default": {RESOURCE: 1}, "defaultRequest": {RESOURCE: 1}})),
        item(json!({"default": {RESOURCE: 2}})),
        item(json!({"max": {RESOURCE: 1}})),
        item(json!({"max": {RESOURCE: 2}})),
        item(json!({"min": {RESOURCE: 1}})),
        item(json!({"max": {"example.com/other": 1}})),
        json!({"type": "Pod", "max": {RESOURCE: 1}}),
    ];
    let mut mismatches = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let metadata = json!({"name": "a", "namespace": format!("limits-{index}")});
        let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": metadata["namespace"]}});
        control_plane.kubectl_stdin(&["create", "-f", "-"], &format!("{namespace}\n---\n{range}")).unwrap();
        let container = json!({"name": "a", "image": "b", "resources": {"requests": {RESOURCE: 1}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}});
        let (names, message) = accepted(control_plane, std::slice::from_ref(&pod));
        let errors = errors(validator, &json!({"apiVersion": "v1", "kind": "List", "items": [pod, range]}));
        if names.is_empty() == errors.is_empty() {
            mismatches.push(format!("{item}\n  server: {message}\n  validate: {errors:?}"));
        }
    }
    mismatches
}

#[test]
fn verdicts_of_pods_quotas_and_limit_ranges_match_the_apiserver() {
    let control_plane = ControlPlane::builder().start().unwrap();
    let objects = objects();
    let (accepted, messages) = thread::scope(|scope| {
        let parts = objects.chunks(objects.len().div_ceil(PROCESSES));
        let parts: Vec<_> = parts.map(|part| scope.spawn(|| accepted(&control_plane, part))).collect();
        let parts = parts.into_iter().map(|part| part.join().unwrap());
        parts.fold((BTreeSet::new(), String::new()), |(mut names, messages), (more, message)| {
            names.extend(more);
            (names, messages + &message)
        })
    });
    let validator = Validator::new().unwrap();
    let mut mismatches = Vec::new();
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let errors = errors(&validator, object);
        let ours: Vec<_> = errors.iter().map(Diagnostic::title).collect();
        if accepted.contains(name) != errors.is_empty() {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let theirs = messages.lines().find(|line| line.contains(name)).unwrap_or("accepted, or without a name");
            mismatches.push(format!("{kind} {object}\n  server: {theirs}\n  validate: {ours:?}"));
        }
        // An error without what to write is of no use.
        if let Some(error) = errors.iter().find(|error| error.hint.is_none() || error.path.is_empty()) {
            mismatches.push(format!("{object}: no hint or path: {}", error.title()));
        }
    }
    mismatches.extend(completed_by_limit_ranges(&control_plane, &validator));
    report(&mismatches, objects.len());
    println!("{} of {} objects are accepted", accepted.len(), objects.len());
    assert!(accepted.len() > 100 && objects.len() - accepted.len() > 300, "{} of {}", accepted.len(), objects.len());
}
