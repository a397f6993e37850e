//! Reads a snapshot: four lists at once. Only that of the nodes is indispensable.

use http::StatusCode;
use kube::Client;
use kube::api::ListParams;
use thiserror::Error;

use super::snapshot::{Entry, FeatureRule, Rules, Snapshot};
use crate::cluster::requests::Requests;
use crate::inspect::diff::cluster::{self, ClusterError};
use crate::inspect::inventory;
use crate::inspect::inventory::device_classes::by_resource;
use crate::inspect::lists::{self, NODES, Refusal, is_not_served};
use crate::model::node::{FactNames, Interner};
use crate::response::request_error::RequestError;

const FEATURE_RULES: &str = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules";

/// Why there is no snapshot.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("you lack permission to list nodes, whose values are to be adopted. The server says: {0}")]
    Forbidden(String),
    #[error("cannot list nodes: {0}")]
    Nodes(String),
}

/// Reads the nodes, and as much of the rest as can be read.
pub(crate) async fn snapshot(client: &Client) -> Result<Snapshot, ReadError> {
    let requests = &lists::requests(client);
    let (nodes, rules, classes, features) = tokio::join!(
        nodes(requests),
        cluster::rules(client),
        inventory::read::classes(requests),
        lists::all(requests, FEATURE_RULES),
    );
    let nodes = nodes.map_err(|error| match error.code() {
        Some(StatusCode::FORBIDDEN) => ReadError::Forbidden(error.to_string()),
        _ => ReadError::Nodes(error.to_string()),
    })?;
    let mut gaps = Vec::new();
    let rules = match rules {
        Ok(Some(rules)) => Rules::new(rules.present),
        Ok(None) => {
            let lack = "there is no CustomResourceDefinition of rules in the cluster: install \
                        node-resource-advertiser before you apply the output";
            gaps.push(lack.to_owned());
            Rules::new(Vec::new())
        }
        Err(error) => {
            gaps.push(format!(
                "{}: the output may declare again what a rule declares, and may have the name of one, so use kubectl \
                 create, which replaces nothing",
                why_no_rules(&error)
            ));
            Rules::default()
        }
    };
    let classes = optional(classes, "deviceclasses", "the output may contain what DRA provides", &mut gaps);
    let lack = "what Node Feature Discovery declares is unknown";
    let features = optional(features, "nodefeaturerules.nfd.k8s-sigs.io", lack, &mut gaps);
    Ok(Snapshot {
        nodes,
        rules,
        classes: by_resource(classes),
        features: features.into_iter().flat_map(FeatureRule::features).collect(),
        gaps,
    })
}

async fn nodes(requests: &Requests) -> Result<Vec<Entry>, RequestError> {
    let mut interner = Interner::keeping(FactNames::All);
    let keep = |object| Some(Entry::new(object, &mut interner));
    let mut nodes = lists::list(requests, NODES, ListParams::default(), keep).await?;
    nodes.sort_by_key(Entry::name);
    Ok(nodes)
}

/// Returns the objects; none if the cluster does not serve the kind, or if they cannot be listed, which is a gap.
fn optional<T>(list: Result<Vec<T>, RequestError>, kind: &str, lack: &str, gaps: &mut Vec<String>) -> Vec<T> {
    match lists::granted_or_gap(list, kind, lack, gaps) {
        Ok(list) => return list,
        Err(error) if is_not_served(&error) => {}
        Err(error) => gaps.push(format!("cannot list {kind}: {lack} ({error})")),
    }
    Vec::new()
}

fn why_no_rules(error: &ClusterError) -> String {
    match error.refusal() {
        Some(Refusal(why)) => format!("you lack permission to list nodeextendedresources (the server says: {why})"),
        None => error.to_string(),
    }
}
