//! The chart: rendering, installation, upgrade and uninstallation with helm.
//!
//! Method: apply what helm renders to a real API server, and run the program with the arguments,
//! the environment and the token of the chart's pods, which no kubelet runs here.

mod container;
mod installs;
mod random_values;
mod rules;
mod schema_conformance;

use std::fs;

use harness::helm::{NAMESPACE, RELEASE, chart, helm, helm_chart, rules_chart, service_account_kubeconfig};
use harness::{Cluster, ControlPlane, project_file};
use serde_json::json;

pub(crate) use container::Container;
use rules::{install_rules, uninstall_rules};

/// The cluster serves every kind of the chart, including Prometheus Operator's, so the API server validates
/// every field of every object. kubeconform does the same with the schemas that this API server publishes.
#[test]
fn chart_variants_apply_without_warnings() {
    let cluster = Cluster::shared();
    let crds = project_file("target/tools/crds");
    assert!(crds.exists(), "{} does not exist: run `make monitoring-crds`", crds.display());
    cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
    cluster.wait_crds();
    for name in [NAMESPACE, "node-resource-advertiser"] {
        let labels = json!({"pod-security.kubernetes.io/warn": "restricted"});
        let metadata = json!({"name": name, "labels": labels});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        cluster.apply(&namespace.to_string());
    }
    let mut variants = Vec::new();
    for entry in fs::read_dir(chart().join("ci")).unwrap() {
        let path = entry.unwrap().path();
        // Without the cluster, `auto` renders no Job.
        let prune = "--set=prune.enabled=true";
        let args = ["--values", path.to_str().unwrap(), prune];
        let rendered = helm_chart(&cluster, "template", &args);
        variants.push((path, rendered));
    }
    assert!(variants.len() >= 3, "{variants:?}");
    let values = rules_chart().join("ci/everything-values.yaml");
    let chart = rules_chart();
    let args = ["template", "rules", chart.to_str().unwrap(), "-f", values.to_str().unwrap()];
    variants.push((values.clone(), helm(&cluster, &args).stdout));
    let deploy = project_file("deploy");
    let built = cluster.kubectl(&["kustomize", deploy.to_str().unwrap()]);
    variants.push((deploy, built));
    let protect = project_file("deploy/protect.yaml");
    let text = fs::read_to_string(&protect).unwrap();
    variants.push((protect, text));

    let schemas = schema_conformance::write_schemas(&cluster);
    for (path, rendered) in variants {
        let args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let output = cluster.control_plane.kubectl_output(&args, Some(&rendered)).unwrap();
        let all_taken = output.code == 0 && !output.stderr.to_lowercase().contains("warning");
        assert!(all_taken, "{}: {}", path.display(), output.stderr);
        schema_conformance::check(&schemas, &path, &rendered);
    }
}

/// Runs the program as a kubelet runs the Deployment and the Job: with the arguments and the
/// environment of their containers, and the token of the chart's ServiceAccount.
#[test]
fn chart_uninstall_withdraws_everything() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    let annotations = cluster.node("node-1")["metadata"]["annotations"].clone();
    let notes = helm_chart(&cluster, "install", &["--create-namespace"]);
    assert!(notes.contains("kubectl get ner -o wide"), "{notes}");
    assert_eq!(protection_objects(&cluster), 2, "the policy and its binding, by their label");
    assert!(!notes.contains("MutatingAdmissionPolicy"), "{notes}");
    let kubeconfig = service_account_kubeconfig(&cluster);
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::from_workload(&deployment);
    let leader = controller.start(&cluster, &kubeconfig);
    leader.wait_log("this process is now the leader");
    leader.wait_ready();
    let standby = controller.start(&cluster, &kubeconfig);
    standby.wait_log("standing by");
    install_rules(&cluster);
    cluster.wait_advertised("node-1", "example.com/dongle", "4");

    let hooks = helm(&cluster, &["get", "hooks", RELEASE, "--namespace", NAMESPACE]).stdout;
    assert!(!hooks.contains("kind: Lease"), "there was no Lease to replace: {hooks}");
    // `helm test`, which reaches a replica by its address instead of by the Service.
    let test = Container::of_test(&hooks, leader.address()).run(&kubeconfig);
    assert_eq!((&*test.stdout, test.code), ("confinement: confined\nprotection: present\n", 0), "{test:?}");
    let prune = Container::from_hooks(&hooks).run(&kubeconfig);
    assert_eq!(prune.code, 0, "{prune:?}");
    // No kubelet runs the Job again.
    uninstall(&cluster, &["--no-hooks"]);
    let node = cluster.wait_withdrawn("node-1", "example.com/dongle");
    assert_eq!(node["metadata"]["annotations"], annotations, "as before the installation");
    uninstall_rules(&cluster);
    assert_only_crd_is_left(&cluster);
    for replica in [leader, standby] {
        assert!(!replica.log().contains("denied request"), "{}", replica.log());
        replica.stop();
    }
    let node = cluster.wait_withdrawn("node-1", "example.com/dongle");
    assert_eq!(node["metadata"]["annotations"], annotations, "as before the installation");
    assert_only_crd_is_left(&cluster);

    // A new installation does not wait until the Job's Lease expires.
    helm_chart(&cluster, "install", &[]);
    let hooks = helm(&cluster, &["get", "hooks", RELEASE, "--namespace", NAMESPACE]).stdout;
    assert!(hooks.contains("kind: Lease"), "{hooks}");
    install_rules(&cluster);
    let leader = controller.start(&cluster, &service_account_kubeconfig(&cluster));
    cluster.wait_advertised("node-1", "example.com/dongle", "4");
    leader.stop();
}

/// A controller that runs while helm deletes its permissions withdraws nothing either.
#[test]
fn chart_uninstall_without_prune_keeps_values() {
    let cluster = Cluster::shared_without_crd();
    cluster.create_nodes(["node-1"], &json!({}));
    helm_chart(&cluster, "install", &["--create-namespace", "--set=prune.enabled=false"]);
    let deployment = cluster.get(&["deployment", RELEASE, "--namespace", NAMESPACE]);
    let controller = Container::from_workload(&deployment).start(&cluster, &service_account_kubeconfig(&cluster));
    cluster.apply_rule("dongle", &json!({}));
    let before = cluster.wait_ready("dongle", "1/1");
    let before = (before, cluster.node("node-1")["metadata"]["annotations"].clone());

    uninstall(&cluster, &[]);
    cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
    controller.wait_log("this process is no longer the leader");
    controller.stop();
    let node = cluster.wait_advertised("node-1", "example.com/dongle", "4");
    let status = cluster.get(&["ner", "dongle"])["status"].clone();
    assert_eq!((status, node["metadata"]["annotations"].clone()), before);
}

/// Two releases would undo each other's changes: Helm rejects the second before it installs anything.
#[test]
fn chart_rejects_a_second_release() {
    let cluster = Cluster::shared_without_crd();
    helm_chart(&cluster, "install", &["--create-namespace"]);
    let chart = chart();
    let second = ["install", "second", chart.to_str().unwrap(), "--namespace", "other"];
    let second = [&second[..], &["--create-namespace", "--set=crds.enabled=false"]].concat();
    let output = helm(&cluster, &second);
    let because = format!(
        "the release {RELEASE} in the namespace {NAMESPACE} already installs \
         node-resource-advertiser in this cluster, and two controllers would undo each other's \
         changes: upgrade that release, or uninstall it first; `helm uninstall` withdraws \
         everything from all nodes, and with --no-hooks keeps it for the next release"
    );
    assert!(output.code != 0 && output.stderr.contains(&because), "{output:?}");
    let roles = cluster.get(&["clusterrolebindings", "node-resource-advertiser"]);
    assert_eq!(roles["subjects"][0]["namespace"], NAMESPACE);

    // Without ClusterRoles, Helm itself rejects the second release.
    let without_roles = [&second[..], &["--set=rbac.create=false"]].concat();
    cluster.kubectl(&["delete", "clusterrole", "node-resource-advertiser"]);
    let output = helm(&cluster, &without_roles);
    let because = "exists and cannot be imported into the current release";
    assert!(output.code != 0 && output.stderr.contains(because), "{output:?}");
}

/// A cluster before Kubernetes 1.36, and the same after its upgrade.
#[test]
fn chart_upgrade_adds_protection_once_the_cluster_serves_the_kind() {
    let kinds = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
    let old = kinds.iter().fold(ControlPlane::builder(), |builder, kind| {
        builder.without_api(&format!("admissionregistration.k8s.io/v1/{kind}"))
    });
    let old = Cluster::start_without_crd(old.without_admission("MutatingAdmissionPolicy"));
    let notes = helm_chart(&old, "install", &["--create-namespace"]);
    assert!(notes.contains("This cluster does not serve MutatingAdmissionPolicy"), "{notes}");
    let output = old.control_plane.kubectl_output(&["get", kinds[0]], None).unwrap();
    assert!(output.stderr.contains("doesn't have a resource type"), "{output:?}");
    let install = fs::read_to_string(project_file("deploy/install.yaml")).unwrap();
    assert!(!install.contains("kind: MutatingAdmissionPolicy"), "such a cluster would reject it");

    let new = Cluster::shared_without_crd();
    helm_chart(&new, "install", &["--create-namespace", "--set=protect.enabled=false"]);
    assert_eq!(protection_objects(&new), 0);
    helm_chart(&new, "upgrade", &["--reset-values"]);
    assert_eq!(protection_objects(&new), 2);
}

/// Counts the objects from which the controller detects the policy.
fn protection_objects(cluster: &Cluster) -> usize {
    let kinds = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";
    let selector = "noderesource.dev/protection=true";
    let found = cluster.get(&[kinds, "--selector", selector]);
    found["items"].as_array().unwrap().len()
}

fn uninstall(cluster: &Cluster, args: &[&str]) {
    let uninstall = ["uninstall", RELEASE, "--namespace", NAMESPACE];
    let output = helm(cluster, &[&uninstall[..], args].concat());
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
}

/// Checks that only the kept CRD is left, and perhaps the Lease, which no hook may release while pods
/// of the Deployment still run.
fn assert_only_crd_is_left(cluster: &Cluster) {
    cluster.get(&["crd", "nodeextendedresources.noderesource.dev"]);
    // Older versions of Kubernetes do not serve all.
    let served = cluster.kubectl(&["api-resources", "--output=name"]);
    let served: Vec<_> = served.lines().filter_map(|name| name.split('.').next()).collect();
    let kinds = "nodeextendedresources clusterroles clusterrolebindings roles rolebindings serviceaccounts services \
                 deployments jobs configmaps secrets validatingadmissionpolicies validatingadmissionpolicybindings \
                 mutatingadmissionpolicies mutatingadmissionpolicybindings poddisruptionbudgets";
    let kinds: Vec<_> = kinds.split(' ').filter(|kind| served.contains(kind)).collect();
    let of_release = format!("app.kubernetes.io/instance={RELEASE}");
    let left = cluster.get(&[&kinds.join(","), "--all-namespaces", "--selector", &of_release]);
    assert_eq!(left["items"], json!([]), "nothing is left");
    assert_eq!(cluster.get(&["ner"])["items"], json!([]), "no rule is left");
    let leases = cluster.get(&["leases", "--namespace", NAMESPACE]);
    let others = leases["items"].as_array().unwrap().iter();
    let others: Vec<_> = others.filter(|lease| lease["metadata"]["name"] != RELEASE).collect();
    assert!(others.is_empty(), "{others:#?}");
}
