//! The cpu and memory that a pod requests, which is one of the pods of its node.

use super::amounts::Amounts;
use super::{Pod, PodSpec, Resources};
use crate::model::compute::Compute;

impl Pod {
    /// Returns the cpu and memory that the pod requests of its node, like `PodRequests` in
    /// `k8s.io/component-helpers/resource`, apart from a resize in progress.
    #[must_use]
    pub fn compute(&self) -> Compute {
        let of = |amounts: &Amounts| Compute::new(amounts.cpu.unwrap_or_default(), amounts.memory.unwrap_or_default());
        let PodSpec { containers, init_containers, overhead, resources, .. } = &self.spec;
        let mut running = Compute::default();
        containers.iter().for_each(|container| running += of(&container.resources.requests));
        let (mut sidecars, mut starting) = (Compute::default(), Compute::default());
        for container in init_containers {
            let own = of(&container.resources.requests);
            if container.restart_policy.as_deref() == Some("Always") {
                running += own;
                sidecars += own;
                starting = starting.max(sidecars);
            } else {
                starting = starting.max(own + sidecars);
            }
        }
        let mut all = running.max(starting);
        if let Some(Resources { requests }) = resources {
            let whole = of(requests);
            all.cpu = if requests.cpu.is_some() { whole.cpu } else { all.cpu };
            all.memory = if requests.memory.is_some() { whole.memory } else { all.memory };
        }
        Compute { pods: 1, ..all + of(overhead) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn cpu_and_memory_are_counted_as_the_scheduler_counts_them() {
        let container = |cpu: &str, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let mut sidecar = container("500m", "1Gi");
        sidecar["restartPolicy"] = json!("Always");
        let compute = |spec: Value| {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            let Compute { cpu, memory, pods: 1 } = pod.compute() else { panic!("{pod:?}") };
            (cpu, memory >> 20)
        };
        let containers = [container("1", "1Gi"), container("250m", "512Mi")];
        assert_eq!(compute(json!({"containers": containers})), (1250, 1536));
        let init = [sidecar, container("2", "100Mi")];
        assert_eq!(compute(json!({"containers": containers, "initContainers": init})), (2500, 2560));
        let overhead = json!({"cpu": "100m", "memory": "10Mi"});
        assert_eq!(compute(json!({"containers": containers, "overhead": overhead})), (1350, 1546));
        let whole = json!({"requests": {"cpu": "3"}});
        assert_eq!(compute(json!({"containers": containers, "resources": whole})), (3000, 1536));
        let limits = json!([{"resources": {"limits": {"cpu": "1"}}}]);
        assert_eq!(compute(json!({"containers": limits})), (1000, 0), "the API server sets the request");
    }
}
