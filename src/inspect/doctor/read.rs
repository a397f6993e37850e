//! Reads a snapshot: one list per kind, all at once, each of which may fail on its own.

mod recent;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use kube::{Client, Resource as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::accounts::accounts;
use super::finding::{NotRun, ObjectName};
use super::guards::{guards, uncounted};
use super::snapshot::{
    Account, Binding, Guards, NodeEntry, Policies, Policy, Read, RuleEntry, Rules, SchedulerConfig, Snapshot, Uncounted,
};
use crate::cluster::requests::Requests;
use crate::inspect::inventory;
use crate::inspect::inventory::device_classes::by_resource;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::lists::{self, NODES, is_not_served, list};
use crate::inspect::overlays::overlay::{NodeOverlay, OVERLAYS};
use crate::model::api::{self, FIELD_MANAGER, NodeExtendedResource};
use crate::model::node::object::NodeObject;
use crate::model::node::{FactNames, Interner};
use crate::planner::rules::{InvalidRule, Rule};
use crate::reconciler::PROTECTION_LABEL;
use crate::response::request_error::RequestError;
pub(crate) use recent::version;
use recent::{Recent, recent};
#[cfg(test)]
pub(super) use recent::{rejected_pod, repair};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What the controller writes that no user of rules does.
const CONFINED: [&str; 2] = ["nodes/status", "leases"];

/// Reads what the checks look at; the controller's own objects in this namespace only, if one is given.
pub(crate) async fn snapshot(client: &Client, namespace: Option<&str>) -> Snapshot {
    let requests = &lists::requests(client);
    // All at once: a server that hangs is waited for once.
    let (
        crd,
        rules,
        nodes,
        pods,
        quotas,
        classes,
        overlays,
        schedulers,
        protection,
        confinement,
        guarded,
        leases,
        recent,
        own,
    ) = tokio::join!(
        crd(requests),
        rules(requests),
        nodes(requests),
        inventory::read::pods(requests),
        quotas(requests),
        classes(requests),
        overlays(requests),
        schedulers(requests),
        protection(requests),
        confinement(requests),
        guarded(requests),
        lists::leases(requests, namespace),
        recent(requests),
        own(requests, namespace),
    );
    let leases = leases.map_err(|error| NotRun::of("list leases", &error));
    let Recent { version, now, rejected, repairs } = recent;
    let Own { deployments, accounts } = own;
    let (guards, uncounted) = guarded;
    let pods = pods.map(|(pods, _)| pods).map_err(|error| NotRun::of("list pods", &error));
    let of_pods = |keep: fn(&PodEntry) -> bool| {
        let pods = pods.as_ref().map_err(Clone::clone)?;
        Ok(pods.iter().filter(|pod| keep(pod)).map(Arc::clone).collect())
    };
    Snapshot {
        namespace: namespace.map(str::to_owned),
        now,
        version,
        crd,
        rules,
        nodes,
        // One that is going away waits for nothing.
        waiting: of_pods(|pod| pod.node.is_none() && !pod.is_terminating),
        bound: of_pods(|pod| pod.node.is_some()),
        rejected,
        quotas,
        classes,
        overlays,
        schedulers,
        repairs,
        leases,
        deployments,
        accounts,
        protection,
        confinement,
        guards,
        uncounted,
    }
}

/// Reads the guards, and then the pods that they select.
async fn guarded(requests: &Requests) -> (Read<Guards>, Read<Vec<Uncounted>>) {
    let guards = guards(requests).await;
    let uncounted = uncounted(requests, &guards, None).await;
    (guards, uncounted)
}

/// The controllers' Deployments, and their accounts.
struct Own {
    deployments: Read<Vec<Deployment>>,
    accounts: Read<Vec<Account>>,
}

async fn own(requests: &Requests, namespace: Option<&str>) -> Own {
    let params = ListParams::default().labels(DEPLOYMENT_LABELS);
    let deployments = list(requests, &Deployment::url_path(&(), namespace), params, Some).await;
    let deployments = deployments.map_err(|error| NotRun::of("list deployments", &error));
    let accounts = match &deployments {
        Ok(deployments) => accounts(requests, deployments).await,
        Err(why) => Err(why.clone()),
    };
    Own { deployments, accounts }
}

/// The labels of the chart's Deployment.
const DEPLOYMENT_LABELS: &str =
    "app.kubernetes.io/name=node-resource-advertiser,app.kubernetes.io/component=controller";

async fn crd<T: DeserializeOwned>(requests: &Requests) -> Read<Option<T>> {
    let name = format!("{}.{}", NodeExtendedResource::plural(&()), NodeExtendedResource::group(&()));
    let crd = lists::found(requests.send(Request::new(CRD).get(&name, &GetParams::default())).await);
    crd.map_err(|error| NotRun::of("get customresourcedefinitions", &error))
}

pub(crate) async fn rules(requests: &Requests) -> Read<Option<Rules>> {
    let path = NodeExtendedResource::url_path(&(), None);
    let mut deleting = BTreeMap::new();
    let keep = |object: Value| match waits_for(&object) {
        // It counts as gone, as in the controller.
        Some((name, waits_for)) => {
            deleting.insert(name, waits_for);
            None
        }
        None => rule(object),
    };
    let rules = lists::found(list(requests, &path, ListParams::default(), keep).await);
    let rules = rules.map_err(|error| NotRun::of("list nodeextendedresources", &error))?;
    Ok(rules.map(|rules| Rules { deleting, ..Rules::new(rules) }))
}

/// Returns the name of a rule that is being deleted, and what keeps it.
pub(super) fn waits_for(object: &Value) -> Option<(String, String)> {
    let metadata = ObjectMeta::deserialize(object.get("metadata")?).ok()?;
    let waits_for = api::waits_for(&metadata)?;
    Some((metadata.name?, waits_for))
}

/// Reads a rule.
pub(crate) fn rule(object: Value) -> Option<RuleEntry> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    // Of an object that the CRD's validation would reject, as much as there is.
    let (name, resource) = (text("/metadata/name")?.into(), text("/spec/resourceName"));
    Some(match serde_json::from_value::<NodeExtendedResource>(object) {
        Ok(object) => RuleEntry {
            name,
            resource,
            rule: Rule::new(&object).map(Arc::new),
            generation: object.metadata.generation,
            status: object.status.unwrap_or_default(),
        },
        Err(error) => {
            let rule = Err(InvalidRule::Malformed(error.to_string()));
            RuleEntry { name, resource, rule, generation: None, status: Default::default() }
        }
    })
}

async fn nodes(requests: &Requests) -> Read<Vec<NodeEntry>> {
    let mut interner = Interner::keeping(FactNames::All);
    let keep = |object: NodeObject| Some(NodeEntry::new(object, &mut interner));
    let nodes = list(requests, NODES, ListParams::default(), keep).await;
    nodes.map_err(|error| NotRun::of("list nodes", &error))
}

async fn quotas<T: DeserializeOwned>(requests: &Requests) -> Read<Vec<T>> {
    let quotas = lists::all(requests, "/api/v1/resourcequotas").await;
    quotas.map_err(|error| NotRun::of("list resourcequotas", &error))
}

/// Returns the DeviceClass of each resource that one maps.
async fn classes(requests: &Requests) -> Read<BTreeMap<String, String>> {
    let classes = inventory::read::classes(requests).await;
    classes.map(by_resource).map_err(|error| NotRun::of("list deviceclasses", &error))
}

async fn overlays(requests: &Requests) -> Read<Option<Vec<NodeOverlay>>> {
    let overlays = lists::found(lists::all(requests, OVERLAYS).await);
    overlays.map_err(|error| NotRun::of("list nodeoverlays", &error))
}

async fn schedulers(requests: &Requests) -> Read<Vec<SchedulerConfig>> {
    let keep = |config_map: ConfigMap| {
        let name = config_map.metadata.name.unwrap_or_default();
        let texts = config_map.data.into_iter().flat_map(BTreeMap::into_values);
        let texts: Vec<_> = texts.filter(|text| text.contains("KubeSchedulerConfiguration")).collect();
        Some((name, texts)).filter(|(_, texts)| !texts.is_empty())
    };
    let listed = list(requests, "/api/v1/namespaces/kube-system/configmaps", ListParams::default(), keep).await;
    let listed = listed.map_err(|error| NotRun::of("list configmaps in kube-system", &error))?;
    let configs = listed.into_iter().flat_map(|(name, texts)| {
        let config_map = ObjectName::namespaced("ConfigMap", "kube-system", &name);
        texts.into_iter().map(move |text| SchedulerConfig { config_map: config_map.clone(), text })
    });
    Ok(configs.collect())
}

async fn protection(requests: &Requests) -> Read<Policies> {
    #[derive(Deserialize)]
    struct Object {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: Spec,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        policy_name: Option<String>,
    }

    let params = ListParams::default().labels(PROTECTION_LABEL);
    let failed = |action, error: RequestError| match is_not_served(&error) {
        true => {
            let why = "this cluster does not serve MutatingAdmissionPolicy, which Kubernetes 1.36 and later have";
            NotRun::Unavailable(why.to_owned())
        }
        false => NotRun::of(action, &error),
    };
    let path = format!("{ADMISSION}/mutatingadmissionpolicies");
    let policies = list(requests, &path, params, |object: Object| {
        Some(Policy { name: object.metadata.name?, warnings: Vec::new() })
    });
    let path = format!("{ADMISSION}/mutatingadmissionpolicybindings");
    // A binding works without the label.
    let bindings = list(requests, &path, ListParams::default(), |object: Object| {
        Some(Binding { policy: object.spec.policy_name?, denies: false })
    });
    let (policies, bindings) = tokio::join!(policies, bindings);
    Ok(Policies {
        policies: policies.map_err(|error| failed("list mutatingadmissionpolicies", error))?,
        bindings: bindings.map_err(|error| failed("list mutatingadmissionpolicybindings", error))?,
    })
}

async fn confinement(requests: &Requests) -> Read<Policies> {
    let path = format!("{ADMISSION}/validatingadmissionpolicies");
    let policies = list(requests, &path, ListParams::default(), |object: ValidatingAdmissionPolicy| {
        // Kustomize may add a prefix and a suffix. Other policies of this project are about what users write.
        let name = object.metadata.name.filter(|name| name.contains(FIELD_MANAGER))?;
        let rules = object.spec?.match_constraints?.resource_rules?;
        let mut resources = rules.iter().flat_map(|rule| rule.resources.iter().flatten());
        resources.find(|resource| CONFINED.contains(&resource.as_str()))?;
        let checked = object.status.and_then(|status| status.type_checking);
        let warnings = checked.into_iter().flat_map(|checked| checked.expression_warnings.unwrap_or_default());
        let warnings = warnings.map(|found| format!("{}: {}", found.field_ref, found.warning)).collect();
        Some(Policy { name, warnings })
    });
    let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let bindings = list(requests, &path, ListParams::default(), |object: ValidatingAdmissionPolicyBinding| {
        let spec = object.spec?;
        let denies = spec.validation_actions.iter().flatten().any(|action| action == "Deny");
        Some(Binding { policy: spec.policy_name?, denies })
    });
    let (policies, bindings) = tokio::join!(policies, bindings);
    Ok(Policies {
        policies: policies.map_err(|error| NotRun::of("list validatingadmissionpolicies", &error))?,
        bindings: bindings.map_err(|error| NotRun::of("list validatingadmissionpolicybindings", &error))?,
    })
}
