//! The status of a Pod, as far as it shows whether the pod has started, and whether it has finished.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// `status` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ApiPodStatus")]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) has_started: bool,
    /// Set if devices of a ResourceClaim replace extended resources (KEP-5004).
    pub(super) extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ExtendedResourceClaimStatus {
    pub(super) request_mappings: Option<Vec<RequestMapping>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RequestMapping {
    pub(super) resource_name: String,
}

/// The same, as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ApiPodStatus {
    pub(super) phase: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) nominated_node_name: Option<Box<str>>,
    pub(super) conditions: Option<Vec<Condition>>,
    pub(super) extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    start_time: Option<IgnoredAny>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: Box<str>,
    pub(super) status: Box<str>,
    pub(super) message: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    state: Option<ContainerState>,
    last_state: Option<ContainerState>,
    restart_count: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    running: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

impl ApiPodStatus {
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().flatten().find(|condition| *condition.kind == *kind)
    }

    /// Returns whether something of the pod has run, so that a kubelet must have admitted it. A start time is not enough: for
    /// some ten seconds, it also stands on pods that a starting kubelet rejects. This rule had no exception among 612 pods
    /// of real kubelets.
    fn has_started(&self) -> bool {
        let statuses = [&self.container_statuses, &self.init_container_statuses, &self.ephemeral_container_statuses];
        let has_sandbox = || self.condition("PodReadyToStartContainers").is_some_and(|it| *it.status == *"True");
        let has_run = || {
            self.phase == "Running" || has_sandbox() || {
                statuses.into_iter().flatten().flatten().any(ContainerStatus::has_run)
            }
        };
        self.start_time.is_some() && self.condition("Initialized").is_some() && has_run()
    }
}

impl ContainerStatus {
    fn has_run(&self) -> bool {
        let ran = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
        self.restart_count > 0 || [&self.state, &self.last_state].into_iter().flatten().any(ran)
    }
}

impl From<ApiPodStatus> for PodStatus {
    fn from(status: ApiPodStatus) -> Self {
        let has_started = status.has_started();
        let ApiPodStatus { phase, extended_resource_claim_status, .. } = status;
        Self { phase, has_started, extended_resource_claim_status }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn has_started(status: &Value) -> bool {
        serde_json::from_value::<PodStatus>(status.clone()).unwrap().has_started
    }

    fn status(phase: &str, conditions: &[(&str, &str)], containers: &Value) -> Value {
        let conditions: Vec<_> = conditions.iter().map(|(kind, is)| json!({"type": kind, "status": is})).collect();
        let started = "2026-01-01T00:00:00Z";
        json!({"phase": phase, "startTime": started, "conditions": conditions, "containerStatuses": containers})
    }

    /// As real kubelets wrote them.
    #[test]
    fn pod_has_started_once_something_of_it_has_run() {
        let waiting =
            json!([{"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}}]);
        let initialized = [("PodReadyToStartContainers", "False"), ("Initialized", "True"), ("Ready", "False")];
        let with_sandbox = [("PodReadyToStartContainers", "True"), ("Initialized", "False")];
        let after = |container: Value| status("Pending", &initialized, &json!([container]));
        for (status, expected) in [
            (json!({}), false),
            (json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}), false),
            // A kubelet that starts rejects it after ten seconds.
            (json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}), false),
            // It waits for a Secret; or a kubelet before 1.37 rejects it.
            (status("Pending", &initialized, &waiting), false),
            (status("Pending", &with_sandbox, &waiting), true),
            (status("Running", &initialized, &waiting), true),
            (status("Running", &[], &json!([])), false),
            (status("Running", &[], &json!([{"state": {"running": {}}}])), false),
            (after(json!({"state": {"running": {"startedAt": null}}})), true),
            (after(json!({"state": {"terminated": {"exitCode": 0}}})), true),
            (after(json!({"state": {"waiting": {}}, "lastState": {"terminated": {}}})), true),
            (after(json!({"state": {"waiting": {}}, "restartCount": 1})), true),
            (after(json!({"state": null, "lastState": null})), false),
        ] {
            assert_eq!(has_started(&status), expected, "{status}");
            let mut without_start_time = status.clone();
            without_start_time["startTime"] = Value::Null;
            assert!(!has_started(&without_start_time), "{without_start_time}");
            for containers in ["initContainerStatuses", "ephemeralContainerStatuses"] {
                let mut other = status.clone();
                other[containers] = other["containerStatuses"].take();
                assert_eq!(has_started(&other), expected, "{other}");
            }
        }
    }
}
