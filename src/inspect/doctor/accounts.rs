//! What the accounts of controllers may do.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::PostParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::finding::{NotRun, ObjectName};
use super::snapshot::{Account, Read};
use crate::cluster::requests::Requests;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The verbs on pods that a controller needs.
const POD_VERBS: [&str; 2] = ["list", "watch"];

/// Asks the API server what the accounts of controllers may do with pods. It stores no such question.
pub(super) async fn accounts(requests: &Requests, deployments: &[Deployment]) -> Read<Vec<Account>> {
    let mut accounts = Vec::new();
    for deployment in deployments {
        let object = ObjectName::of("Deployment", &deployment.metadata);
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let name = template.and_then(|pod| pod.service_account_name.as_deref()).unwrap_or("default");
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
        let mut lacks = Vec::new();
        for verb in POD_VERBS {
            let spec =
                json!({"user": user, "groups": groups, "resourceAttributes": {"verb": verb, "resource": "pods"}});
            if !is_allowed(requests, &spec).await? {
                lacks.push(verb);
            }
        }
        accounts.push(Account { deployment: object, user, lacks });
    }
    Ok(accounts)
}

async fn is_allowed(requests: &Requests, spec: &Value) -> Read<bool> {
    #[derive(Deserialize)]
    struct Review {
        status: Status,
    }

    #[derive(Deserialize)]
    struct Status {
        allowed: bool,
    }

    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let request = Request::new(REVIEWS).create(&PostParams::default(), review.to_string().into_bytes());
    let review = requests.send::<Review>(request).await;
    review.map(|review| review.status.allowed).map_err(|error| NotRun::of("create subjectaccessreviews", &error))
}
