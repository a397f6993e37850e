//! Objects that the API server rejects, and a CRD without that validation, as in an earlier
//! version.

use harness::objects::rule;
use harness::{Cluster, wait_until};
use serde_json::{Value, json};

/// Returns the objects in `tests/testdata/rejected-by-apiserver.yaml`, each with what is wrong with it and what its
/// rejection must contain.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let objects = include_str!("../../testdata/rejected-by-apiserver.yaml").split("\n---\n").skip(1);
    objects.map(|object| {
        let comment = object.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap();
        let (what, message) = comment.split_once(": ").unwrap();
        (what, message, object)
    })
}

/// Removes all validation from the CRD.
pub fn drop_validation(cluster: &Cluster) {
    let fields = json!({"spec": anything(), "status": anything()});
    replace_schema(cluster, "", &json!({"type": "object", "properties": fields}));
}

/// Removes the validation of the spec from the CRD.
pub fn drop_validation_of_spec(cluster: &Cluster) {
    replace_schema(cluster, "/properties/spec", &anything());
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Replaces a part of the CRD's schema, and waits until the API server uses the new one.
fn replace_schema(cluster: &Cluster, path: &str, schema: &Value) {
    let path = format!("/spec/versions/0/schema/openAPIV3Schema{path}");
    let patch = json!([
        {"op": "replace", "path": path, "value": schema},
        // A selectable field must be in the schema.
        {"op": "add", "path": "/spec/versions/0/selectableFields", "value": []},
    ]);
    let patch = patch.to_string();
    let name = "nodeextendedresources.noderesource.dev";
    cluster.kubectl(&["patch", "crd", name, "--type=json", "-p", &patch]);
    let object = rule("canary", &json!({"quantity": 4.5})).to_string();
    wait_until("the CRD's validation to be gone", || {
        let args = ["create", "--dry-run=server", "--validate=false", "-f", "-"];
        let output = cluster.control_plane.kubectl_output(&args, Some(&object))?;
        Ok((output.code == 0).then_some(()))
    })
    .unwrap();
}
