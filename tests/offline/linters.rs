use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use crate::read;

/// A linter's check, and whether these manifests fail it.
type Check = (&'static str, fn(&Manifests) -> bool);

/// What the linters look at; `make lint-chart` runs them.
const CHECKS: [Check; 12] = [
    ("CKV_K8S_11", |manifests| manifests.container("/resources/limits/cpu").is_none()),
    ("container-resources", |manifests| manifests.container("/resources/limits/cpu").is_none()),
    ("container-ephemeral-storage-request-and-limit", |manifests| {
        manifests.container("/resources/limits/ephemeral-storage").is_none()
    }),
    ("CKV_K8S_15", |manifests| manifests.container("/imagePullPolicy").unwrap() != "Always"),
    ("container-image-pull-policy", |manifests| manifests.container("/imagePullPolicy").unwrap() != "Always"),
    ("CKV_K8S_43", |manifests| !manifests.container("/image").unwrap().as_str().unwrap().contains("@sha256:")),
    ("CKV_K8S_40", |manifests| manifests.container("/securityContext/runAsUser").is_none()),
    ("container-security-context-user-group-id", |manifests| {
        manifests.container("/securityContext/runAsGroup").is_none()
            && manifests.pod("/securityContext/runAsGroup").is_none()
    }),
    ("CKV_K8S_38", |manifests| manifests.pod("/automountServiceAccountToken") == Some(&Value::Bool(true))),
    ("CKV_K8S_21", |manifests| manifests.kinds_in_default() == ["Role", "RoleBinding"]),
    ("deployment-has-host-podantiaffinity", |manifests| manifests.pod("/affinity/podAntiAffinity").is_none()),
    ("deployment-has-host-podantiaffinity", |manifests| manifests.pod("/topologySpreadConstraints/0").is_some()),
];

/// What the chart renders with its default values.
struct Manifests(Vec<Value>);

impl Manifests {
    fn pod(&self, path: &str) -> Option<&Value> {
        let deployment = self.0.iter().find(|object| object["kind"] == "Deployment").unwrap();
        deployment["spec"]["template"]["spec"].pointer(path)
    }

    fn container(&self, path: &str) -> Option<&Value> {
        self.pod("/containers/0").unwrap().pointer(path)
    }

    fn kinds_in_default(&self) -> Vec<&str> {
        let in_default = self.0.iter().filter(|object| object["metadata"]["namespace"] == "default");
        in_default.map(|object| object["kind"].as_str().unwrap()).collect()
    }
}

#[test]
fn findings_of_linters_are_those_that_the_chart_has() {
    let page = read("docs/linters.md");
    let id = Regex::new("`([^`]*)`").unwrap();
    let cells = page.lines().filter(|line| line.starts_with("| ")).skip(1).map(|row| row.split(" | ").nth(1).unwrap());
    let documented: BTreeSet<_> =
        cells.flat_map(|cell| id.captures_iter(cell).map(|found| found[1].to_owned()).collect::<Vec<_>>()).collect();
    let known: BTreeSet<_> = CHECKS.iter().map(|(id, _)| (*id).to_owned()).collect();
    assert_eq!(documented, known, "docs/linters.md and this test");
    let objects = read("deploy/install.yaml");
    let objects = objects.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let manifests = Manifests(objects.filter(|object| !object.is_null()).collect());
    let passed: Vec<_> = CHECKS.iter().filter(|(_, fails)| !fails(&manifests)).map(|(id, _)| id).collect();
    assert!(passed.is_empty(), "the chart passes {passed:?} by now, or another reason stands on the page");
}
