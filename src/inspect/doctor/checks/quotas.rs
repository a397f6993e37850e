//! Quotas that limit nothing.

use std::collections::BTreeMap;

use crate::inspect::doctor::finding::{Finding, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, known};
use crate::model::resource_name::{in_ignored_quota_key, is_extended};
use crate::model::spelling::closest_resource;

/// The prefix of extended resources in quotas.
const REQUESTS: &str = "requests.";

/// Finds keys that limit nothing: those without `requests.`, and misspelled resources.
pub(super) fn keys(snapshot: &Snapshot) -> Outcome {
    let quotas = known(&snapshot.quotas)?;
    // Whether a resource is misspelled is a question of what else there is. A key without `requests.` is wrong anyway.
    let provided = snapshot.largest().ok();
    let classes = snapshot.classes.as_ref().ok();
    let mut ignored = BTreeMap::<(&str, &str, bool), Vec<ObjectName>>::new();
    let mut misspelled = BTreeMap::<(&str, &str), Vec<ObjectName>>::new();
    for quota in quotas {
        let object = ObjectName::of("ResourceQuota", &quota.metadata);
        let hard = quota.spec.iter().filter_map(|spec| spec.hard.as_ref()).flatten();
        for key in hard.map(|(key, _)| key) {
            if let Some(resource) = in_ignored_quota_key(key) {
                let is_limited = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
                let is_limited = is_limited.is_some_and(|hard| hard.contains_key(&format!("{REQUESTS}{resource}")));
                ignored.entry((key, resource, is_limited)).or_default().push(object.clone());
            }
            let resource = key.strip_prefix(REQUESTS).filter(|resource| is_extended(resource));
            if let (Some(resource), Some(provided), Some(classes)) = (resource, &provided, classes)
                && !provided.contains_key(resource)
                && !classes.contains_key(resource)
                && let Some(close) = closest_resource(resource, provided.keys().copied())
            {
                misspelled.entry((resource, close)).or_default().push(object.clone());
            }
        }
    }
    let ignored = ignored.into_iter().map(|((key, resource, is_limited), quotas)| {
        let problem = format!("Kubernetes ignores the key {key}");
        match is_limited {
            true => {
                let problem = format!("{problem}: {REQUESTS}{resource} of the same quota limits it");
                Finding::warning(quotas, problem, "remove the key")
            }
            false => {
                let problem = format!("{problem}: pods may request any amount of {resource}");
                Finding::error(quotas, problem, format!("rename the key to {REQUESTS}{resource}"))
            }
        }
    });
    let misspelled = misspelled.into_iter().map(|((resource, close), quotas)| {
        let problem = format!("limits {resource}, which no node has, no rule declares and no DeviceClass maps");
        Finding::warning(quotas, problem, format!("limit {REQUESTS}{close}, if that is meant"))
    });
    Ok(ignored.chain(misspelled).collect())
}
