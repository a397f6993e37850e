//! The guards of a cluster, and the pods that they select and that do not count.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;

use super::finding::{NotRun, ObjectName};
use super::snapshot::{Binding, GuardPolicies, GuardPolicy, Guards, Read, Uncounted};
use crate::cluster::node_client::{POD_PAGE_SIZE, UNFINISHED};
use crate::cluster::requests::Requests;
use crate::inspect::inventory::pods::Pods;
use crate::inspect::lists::{is_not_served, list};
use crate::model::pod::object::PodObject;

/// The label of all guards' objects.
pub(crate) const LABEL: &str = "noderesource.dev/guard";

/// The annotation with the guarded resource.
pub(crate) const RESOURCE: &str = "noderesource.dev/guarded-resource";

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    match_constraints: Constraints,
    policy_name: Option<String>,
    validation_actions: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Constraints {
    object_selector: LabelSelector,
    namespace_selector: LabelSelector,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    type_checking: TypeChecking,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TypeChecking {
    expression_warnings: Vec<Warning>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Warning {
    field_ref: String,
    warning: String,
}

/// Reads the guards.
pub(crate) async fn guards(requests: &Requests) -> Read<Guards> {
    let [adding, rejecting] = [
        ["mutatingadmissionpolicies", "list mutatingadmissionpolicies"],
        ["validatingadmissionpolicies", "list validatingadmissionpolicies"],
    ]
    .map(|[plural, action]| policies(requests, plural, action));
    let (adding, rejecting) = tokio::join!(adding, rejecting);
    Ok(Guards { adding: adding?, rejecting: rejecting? })
}

async fn policies(requests: &Requests, plural: &str, action: &'static str) -> Read<GuardPolicies> {
    let path = format!("{ADMISSION}/{plural}");
    let policies = list(requests, &path, ListParams::default().labels(LABEL), |Object { metadata, spec, status }| {
        let Constraints { object_selector, namespace_selector } = spec.match_constraints;
        let warnings = status.type_checking.expression_warnings.into_iter();
        Some(GuardPolicy {
            name: metadata.name?,
            resource: metadata.annotations.and_then(|mut annotations| annotations.remove(RESOURCE)),
            pods: object_selector,
            namespaces: namespace_selector,
            warnings: warnings.map(|found| format!("{}: {}", found.field_ref, found.warning)).collect(),
        })
    });
    let path = format!("{ADMISSION}/{}bindings", plural.replace("policies", "policy"));
    let bindings = list(requests, &path, ListParams::default(), |Object { spec, .. }| {
        let denies = spec.validation_actions.iter().any(|action| action == "Deny");
        Some(Binding { policy: spec.policy_name?, denies })
    });
    match tokio::join!(policies, bindings) {
        (Ok(policies), Ok(bindings)) => Ok(GuardPolicies { policies, bindings }),
        (Err(error), _) | (_, Err(error)) if is_not_served(&error) => Ok(GuardPolicies::default()),
        (Err(error), _) | (_, Err(error)) => Err(NotRun::of(action, &error)),
    }
}

/// Reads the unfinished pods that guards select, and returns those that do not count: of one resource, or of all.
pub(crate) async fn uncounted(
    requests: &Requests,
    guards: &Read<Guards>,
    resource: Option<&str>,
) -> Read<Vec<Uncounted>> {
    let guards = guards.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for guard in guards.each() {
        let Some(guarded) = guard.resource.as_deref() else { continue };
        if resource.is_none_or(|resource| resource == guarded) {
            found.extend(of_guard(requests, guard, guarded).await?);
        }
    }
    Ok(found)
}

async fn of_guard(requests: &Requests, guard: &GuardPolicy, resource: &str) -> Read<Vec<Uncounted>> {
    let [pods, namespaces] = [&guard.pods, &guard.namespaces].map(|selector| Selector::try_from(selector.clone()));
    // The API server has accepted them.
    let (Ok(pods), Ok(namespaces)) = (pods, namespaces) else { return Ok(Vec::new()) };
    let params = ListParams::default().fields(UNFINISHED).labels_from(&pods).limit(POD_PAGE_SIZE);
    let keep = |object: PodObject| uncounted_pod(object, guard, resource);
    let mut found =
        list(requests, "/api/v1/pods", params, keep).await.map_err(|error| NotRun::of("list pods", &error))?;
    if !found.is_empty() {
        let names = list(requests, "/api/v1/namespaces", ListParams::default(), |object: Namespace| {
            let labels = object.metadata.labels.unwrap_or_default();
            object.metadata.name.filter(|_| namespaces.matches(&labels)).map(|name| (name, ()))
        });
        let names: BTreeMap<_, _> =
            names.await.map_err(|error| NotRun::of("list namespaces", &error))?.into_iter().collect();
        found.retain(|pod| pod.pod.namespace.as_ref().is_some_and(|namespace| names.contains_key(namespace)));
    }
    Ok(found)
}

/// Returns a selected pod that requests nothing of the resource.
pub(super) fn uncounted_pod(object: PodObject, guard: &GuardPolicy, resource: &str) -> Option<Uncounted> {
    let pod = Pods::default().entry(object);
    let mut requests = pod.requests.iter().chain(&pod.claimed);
    let counts = requests.any(|(name, _)| **name == *resource);
    (!counts && !pod.is_terminating).then(|| Uncounted {
        guard: guard.name.clone(),
        resource: resource.to_owned(),
        pod: ObjectName::namespaced("Pod", &pod.namespace, &pod.name),
        node: pod.node.map(|node| node.to_string()),
    })
}
