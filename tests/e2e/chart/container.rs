//! Runs the containers of the chart's pods as processes, because no kubelet runs in these tests.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use harness::helm::{NAMESPACE, RELEASE};
use harness::{Cluster, Controller, Output};
use serde_json::Value;

/// A container as a kubelet would start it.
pub struct Container {
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Container {
    /// Returns the container of a Deployment or a Job.
    pub fn from_workload(workload: &Value) -> Self {
        Self::from_pod(workload, &workload["spec"]["template"]["spec"])
    }

    fn from_pod(workload: &Value, spec: &Value) -> Self {
        let container = &spec["containers"][0];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let variable = |variable: &Value| {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.name") => "a-pod".to_owned(),
                Some("metadata.namespace") => text(&workload["metadata"]["namespace"]),
                _ => text(&variable["value"]),
            };
            (text(&variable["name"]), value)
        };
        Self {
            args: container["args"].as_array().unwrap().iter().map(text).collect(),
            env: container["env"].as_array().into_iter().flatten().map(variable).collect(),
        }
    }

    /// Returns the container of the Job among the hooks that helm prints.
    pub fn from_hooks(hooks: &str) -> Self {
        let job = hooks.split("\n---\n").find(|hook| hook.contains("kind: Job"));
        let job = job.unwrap_or_else(|| panic!("no prune Job: {hooks}"));
        Self::from_workload(&serde_saphyr::from_str(job).unwrap())
    }

    /// Returns the container of the pod among these hooks that `helm test` runs, which asks a replica at this address.
    pub fn of_test(hooks: &str, address: SocketAddr) -> Self {
        let pod = hooks.split("\n---\n").find(|hook| hook.contains("kind: Pod"));
        let pod = pod.unwrap_or_else(|| panic!("no pod: {hooks}"));
        let pod: Value = serde_saphyr::from_str(pod).unwrap();
        let mut container = Self::from_pod(&pod, &pod["spec"]);
        let service = format!("http://{RELEASE}.{NAMESPACE}.svc:8080");
        let url =
            container.args.iter_mut().find(|arg| **arg == service).unwrap_or_else(|| panic!("no {service}: {pod}"));
        *url = format!("http://{address}");
        container
    }

    /// Starts the controller.
    pub fn start(&self, cluster: &Cluster, kubeconfig: &Path) -> Controller {
        let args: Vec<_> = self.args.iter().map(String::as_str).collect();
        let env: Vec<_> = self.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        Controller::spawn(&cluster.control_plane.logs(), kubeconfig, &args, &env).unwrap()
    }

    /// Runs the container until it exits.
    pub fn run(&self, kubeconfig: &Path) -> Output {
        let mut program = Command::new(harness::program().unwrap());
        program.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        Output::run(program.env("KUBECONFIG", kubeconfig), None).unwrap()
    }
}
