/// kubeconform, and the schemas that it is given.
mod conformity;

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{ControlPlane, Output};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller};
use crate::helm::{NAMESPACE, RELEASE, chart, helm, helm_chart, service_account};

/// A rule that comes with the chart.
const FOUR_DONGLES: [&str; 3] = [
    "--set=rules.dongle.resourceName=example.com/dongle",
    "--set=rules.dongle.nodeNames={node-1}",
    "--set=rules.dongle.quantity=4",
];

/// Every kind that the cluster may have objects of is known to it, Prometheus Operator's too, so that
/// the API server checks every field of every object; and so does kubeconform, by the schemas that this
/// API server publishes.
#[test]
fn every_variant_is_taken_by_the_api_server_without_a_warning() {
    let cluster = Cluster::start();
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/crds");
    assert!(crds.exists(), "{} is not there: run `make tools`", crds.display());
    cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
    for name in [NAMESPACE, "node-resource-advertiser"] {
        let labels = json!({"pod-security.kubernetes.io/warn": "restricted"});
        let metadata = json!({"name": name, "labels": labels});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        cluster.apply(&namespace.to_string());
    }
    let mut variants = Vec::new();
    for entry in fs::read_dir(chart().join("ci")).unwrap() {
        let path = entry.unwrap().path();
        let rendered = helm_chart(&cluster, "template", &["--values", path.to_str().unwrap()]);
        variants.push((path, rendered));
    }
    assert!(variants.len() >= 3, "{variants:?}");
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let built = cluster.kubectl(&["kustomize", deploy.to_str().unwrap()]);
    variants.push((deploy, built));

    let schemas = conformity::write_schemas(&cluster);
    for (path, rendered) in variants {
        let args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let answer = cluster.control_plane.kubectl_output(&args, Some(&rendered)).unwrap();
        let all_taken = answer.code == 0 && !answer.stderr.to_lowercase().contains("warning");
        assert!(all_taken, "{}: {}", path.display(), answer.stderr);
        conformity::check(&schemas, &path, &rendered);
    }
}

/// The program runs with the arguments and the environment of the rendered containers, and with the
/// token of the chart's ServiceAccount: what a kubelet would do with the Deployment and the Job.
#[test]
fn installed_upgraded_and_uninstalled_without_a_trace() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    let annotations = cluster.node("node-1")["metadata"]["annotations"].clone();
    let notes =
        helm_chart(&cluster, "install", &[&["--create-namespace"], &FOUR_DONGLES[..]].concat());
    assert!(notes.contains("kubectl get ner -o wide"), "{notes}");
    let kubeconfig = service_account(&cluster);
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::of(&deployment);
    let leader = controller.start(&cluster, &kubeconfig);
    leader.wait_log("this process leads now");
    leader.wait_ready();
    let standby = controller.start(&cluster, &kubeconfig);
    standby.wait_log("standing by");
    cluster.wait_advertised("node-1", "example.com/dongle", "4");

    // The rule, which came last since its kind was new, is now the release's own.
    helm_chart(&cluster, "upgrade", &["--reuse-values", "--set=rules.dongle.quantity=5"]);
    cluster.wait_advertised("node-1", "example.com/dongle", "5");
    let hooks = helm(&cluster, &["get", "hooks", RELEASE, "--namespace", NAMESPACE]).stdout;
    assert!(!hooks.contains("NodeExtendedResource"), "{hooks}");

    let job = hooks.split("\n---\n").find(|hook| hook.contains("kind: Job")).expect("a prune Job");
    let prune = Container::of(&serde_saphyr::from_str(job).unwrap()).run(&kubeconfig);
    assert_eq!(prune.code, 0, "{prune:?}");
    // No kubelet is here to run the Job once more.
    helm_chart(&cluster, "upgrade", &["--reuse-values", "--set=prune.enabled=false"]);
    uninstall(&cluster);
    let node = cluster.wait_withdrawn("node-1", "example.com/dongle");
    assert_eq!(node["metadata"]["annotations"], annotations, "no trace is left");
    assert_nothing_is_left(&cluster);
    for replica in [leader, standby] {
        assert!(!replica.log().contains("denied request"), "{}", replica.log());
        replica.stop();
    }
    let node = cluster.wait_withdrawn("node-1", "example.com/dongle");
    assert_eq!(node["metadata"]["annotations"], annotations, "no trace is left");
    assert_nothing_is_left(&cluster);

    // Installed again, it does not wait until the Job's Lease is over.
    helm_chart(&cluster, "install", &FOUR_DONGLES);
    let leader = controller.start(&cluster, &service_account(&cluster));
    cluster.wait_advertised("node-1", "example.com/dongle", "4");
    leader.stop();
}

/// What a kubelet would start.
struct Container {
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Container {
    /// The one of a Deployment or a Job.
    fn of(workload: &Value) -> Self {
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let variable = |variable: &Value| {
            // All that is not a value is the pod's name.
            let value = variable.get("value").map_or_else(|| "a-pod".to_owned(), text);
            (text(&variable["name"]), value)
        };
        Self {
            args: container["args"].as_array().unwrap().iter().map(text).collect(),
            env: container["env"].as_array().unwrap().iter().map(variable).collect(),
        }
    }

    fn start(&self, cluster: &Cluster, kubeconfig: &Path) -> Controller {
        let args: Vec<_> = self.args.iter().map(String::as_str).collect();
        let env: Vec<_> = self.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        Controller::start_as(cluster, kubeconfig, &args, &env)
    }

    fn run(&self, kubeconfig: &Path) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("KUBECONFIG", kubeconfig)
            .output()
            .expect("the program runs");
        Output {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

#[test]
fn a_rule_that_was_never_upgraded_goes_with_the_release_too() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    // No kubelet is here to run the Job.
    let args = ["--create-namespace", "--set=prune.enabled=false"];
    helm_chart(&cluster, "install", &[&args, &FOUR_DONGLES[..]].concat());
    cluster.get(&["ner", "dongle"]);
    uninstall(&cluster);
    assert_nothing_is_left(&cluster);
}

/// A controller that is at work while its rights are deleted takes nothing back either.
#[test]
fn without_the_job_the_nodes_keep_what_was_advertised() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    helm_chart(&cluster, "install", &["--create-namespace", "--set=prune.enabled=false"]);
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::of(&deployment).start(&cluster, &service_account(&cluster));
    cluster.apply_rule("dongle", &json!({}));
    let before = cluster.wait_ready("dongle", "1/1");
    let before = (before, cluster.node("node-1")["metadata"]["annotations"].clone());

    uninstall(&cluster);
    cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
    controller.wait_log("this process leads no longer");
    controller.stop();
    let node = cluster.wait_advertised("node-1", "example.com/dongle", "4");
    let status = cluster.get(&["ner", "dongle"])["status"].clone();
    assert_eq!((status, node["metadata"]["annotations"].clone()), before);
}

/// Two would undo each other's work: the second is refused before anything of it is installed.
#[test]
fn a_second_release_is_refused() {
    let cluster = Cluster::without_crd(ControlPlane::builder());
    helm_chart(&cluster, "install", &["--create-namespace"]);
    let chart = chart();
    let second = ["install", "second", chart.to_str().unwrap(), "--namespace", "other"];
    let second = [&second[..], &["--create-namespace", "--set=crds.enabled=false"]].concat();
    let answer = helm(&cluster, &second);
    let because = format!(
        "the release {RELEASE} in the namespace {NAMESPACE} is this cluster's \
         node-resource-advertiser already, and two would undo each other's work: upgrade that one, \
         or uninstall it first"
    );
    assert!(answer.code != 0 && answer.stderr.contains(&because), "{answer:?}");
    let roles = cluster.get(&["clusterrolebindings", "node-resource-advertiser"]);
    assert_eq!(roles["subjects"][0]["namespace"], NAMESPACE);

    // Helm itself says it where the chart does not get to see the cluster's roles.
    let without_roles = [&second[..], &["--set=rbac.create=false"]].concat();
    cluster.kubectl(&["delete", "clusterrole", "node-resource-advertiser"]);
    let answer = helm(&cluster, &without_roles);
    let because = "exists and cannot be imported into the current release";
    assert!(answer.code != 0 && answer.stderr.contains(because), "{answer:?}");
}

fn uninstall(cluster: &Cluster) {
    let answer = helm(cluster, &["uninstall", RELEASE, "--namespace", NAMESPACE]);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
}

/// But the CRD, which is to be kept.
fn assert_nothing_is_left(cluster: &Cluster) {
    cluster.get(&["crd", "nodeextendedresources.noderesource.dev"]);
    let kinds = "ner,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,services,\
                 deployments,jobs,configmaps,secrets,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings,poddisruptionbudgets";
    let of_release = format!("app.kubernetes.io/instance={RELEASE}");
    let left = cluster.get(&[kinds, "--all-namespaces", "--selector", &of_release]);
    assert_eq!(left["items"], json!([]), "nothing is left");
    for kind in ["ner", "leases"] {
        let left = cluster.get(&[kind, "--namespace", NAMESPACE]);
        assert_eq!(left["items"], json!([]), "none of {kind} is left");
    }
}
