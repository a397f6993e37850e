//! Objects that show how far the caches of an API server are: what was deleted before a canary was created is gone once
//! the canary has an effect.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, ensure};

use crate::{ControlPlane, wait_until};

/// Objects that change the answers to other requests. Each text contains CANARY, which stands for a new name.
pub(crate) struct Canary {
    what: &'static str,
    /// The prefix of the keys of these kinds in etcd.
    pub(crate) keys: &'static str,
    /// Paths of collections, each with an object.
    objects: [(&'static str, &'static str); 2],
    /// The path and the body of a request that stores nothing, and the text in the response once the canary has an
    /// effect.
    probe: (&'static str, &'static str, &'static str),
}

pub(crate) const ALL: [Canary; 3] = [
    Canary {
        what: "permissions",
        keys: "/registry/clusterrole",
        objects: [
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                r#"{"metadata": {"name": "CANARY"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/canary"]}]}"#,
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                r#"{
                    "metadata": {"name": "CANARY"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "CANARY"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "CANARY"}]
                }"#,
            ),
        ],
        probe: (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            r#"{"spec": {"user": "CANARY", "nonResourceAttributes": {"path": "/canary", "verb": "get"}}}"#,
            r#""allowed":true"#,
        ),
    },
    Canary {
        what: "validating policies",
        keys: "/registry/validatingadmissionpolic",
        objects: [
            (
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
                r#"{"metadata": {"name": "CANARY"}, "spec": {
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"], "resourceNames": ["CANARY"]
                    }]},
                    "validations": [{"expression": "false", "message": "seen by CANARY"}]
                }}"#,
            ),
            (
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
                r#"{"metadata": {"name": "CANARY"}, "spec": {"policyName": "CANARY", "validationActions": ["Deny"]}}"#,
            ),
        ],
        probe: (
            "/api/v1/namespaces/default/configmaps?dryRun=All",
            r#"{"metadata": {"name": "CANARY"}}"#,
            "seen by CANARY",
        ),
    },
    Canary {
        what: "mutating policies",
        keys: "/registry/mutatingadmissionpolic",
        objects: [
            (
                "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
                r#"{"metadata": {"name": "CANARY"}, "spec": {
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"], "resourceNames": ["CANARY"]
                    }]},
                    "reinvocationPolicy": "Never",
                    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
                        "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'seen-by': 'CANARY'}}]"
                    }}]
                }}"#,
            ),
            (
                "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
                r#"{"metadata": {"name": "CANARY"}, "spec": {"policyName": "CANARY"}}"#,
            ),
        ],
        probe: (
            "/api/v1/namespaces/default/configmaps?dryRun=All",
            r#"{"metadata": {"name": "CANARY"}}"#,
            r#""seen-by":"CANARY""#,
        ),
    },
];

impl Canary {
    /// Creates the canary, waits for its effect, and deletes it.
    pub(crate) fn observe(&self, control_plane: &ControlPlane) -> Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("canary-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let named = |text: &str| text.replace("CANARY", &name);
        let send = |path: &str, body: &str| control_plane.send("POST", path, "application/json", &named(body));
        for (collection, object) in &self.objects {
            let (code, answer) = send(collection, object)?;
            ensure!(code == 201, "POST {collection}: {code}: {answer}");
        }
        let (path, body, effect) = self.probe;
        wait_until(&format!("the API server to observe all {}", self.what), || {
            let (_, answer) = send(path, body)?;
            Ok(answer.contains(&named(effect)).then_some(()))
        })?;
        self.objects.iter().try_for_each(|(collection, _)| control_plane.delete(&format!("{collection}/{name}")))
    }
}
