//! How kubectl, helm, Flux and Argo CD evaluate a rule, and the files in `examples/gitops/`.
//!
//! Method: run the real tools against the cluster while they wait for rules; evaluate the same objects with
//! kstatus and with the Lua script for Argo CD; run the scripts of the CI examples in their shells.

mod flux;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::helm::spawn_helm;
use harness::objects::{advertises, condition, rule};
use harness::{Cluster, ControlPlane, Controller, DEADLINE, Output, Process, project_file, tool};
use serde_json::{Value, json};

use crate::support::{rejected_objects, rejected_patches};
use flux::{Flux, example};

/// Longer than any test: a wait that returns has not timed out.
const WAIT_TIMEOUT: &str = "1h";

/// kubectl, helm and Flux each wait for a rule of their own, first while no controller runs, then while
/// the API server rejects the controller's patches.
#[test]
fn rule_wait_ends_when_nodes_advertise_the_value() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1"], &json!({"example.com/has-dongle": "true"}));
    rejected_patches::start(&cluster, "node-1");
    let flux = Flux::start(&cluster, &example("kustomize"));

    cluster.apply_rule("lock", &json!({"resourceName": "example.com/lock"}));
    let timeout = format!("--timeout={WAIT_TIMEOUT}");
    let wait = ["wait", "--for=condition=Ready", "ner/lock", &timeout, "-v=6"];
    let mut kubectl = cluster.control_plane.spawn_kubectl("kubectl-wait", &wait).unwrap();
    let key = json!({"resourceName": "example.com/key"});
    let mut helm = helm_upgrade(&cluster, "key", &key);
    flux.deploy(&cluster, WAIT_TIMEOUT);

    kubectl.wait_log("watch=true").unwrap();
    helm.wait_log("expectedStatus=Current actualStatus=InProgress").unwrap();
    flux.wait_condition(&cluster, "Reconciling", "True", "Running health checks");
    let of_all = |kstatus: &str, argo: &str| {
        ["dongle", "key", "lock"].map(|rule| (rule.to_owned(), [kstatus, argo].map(str::to_owned)))
    };
    let verdicts = self::verdicts(&cluster);
    assert_eq!(verdicts, BTreeMap::from(of_all("InProgress", "Progressing")));

    let controller = Controller::start(&cluster);
    for rule in ["dongle", "key", "lock"] {
        cluster.wait_status(rule, "that patches fail", |status| condition(status, "Ready") == ("False", "PatchFailed"));
    }
    kubectl.check_running().unwrap();
    helm.check_running().unwrap();
    flux.wait_condition(&cluster, "Reconciling", "True", "Running health checks");
    let verdicts = self::verdicts(&cluster);
    assert_eq!(verdicts, BTreeMap::from(of_all("InProgress", "Progressing")));

    rejected_patches::stop(&cluster);
    // Checked immediately: a wait may only return once the rule is Ready.
    let assert_advertised = |resource: &str, quantity: &str| {
        let node = cluster.node("node-1");
        assert!(advertises(&node, resource, quantity), "{node:#}");
    };
    assert_eq!(kubectl.wait_exit(DEADLINE).unwrap(), 0, "{}", kubectl.log());
    assert_advertised("example.com/lock", "4");
    assert_eq!(helm.wait_exit(DEADLINE).unwrap(), 0, "{}", helm.log());
    assert_advertised("example.com/key", "4");
    flux.wait_condition(&cluster, "Ready", "True", "Applied revision");
    assert_advertised("example.com/dongle", "8");
    assert_eq!(self::verdicts(&cluster), BTreeMap::from(of_all("Current", "Healthy")));
    controller.stop();
}

/// kubectl keeps waiting, because it waits for a single condition.
#[test]
fn stalled_rule_ends_the_wait_of_helm_and_flux() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1"], &json!({}));
    rejected_objects::drop_validation_of_spec(&cluster);
    let controller = Controller::start(&cluster);
    let nothing = json!({"quantity": 0});

    let mut helm = helm_upgrade(&cluster, "zero", &nothing);
    assert_ne!(helm.wait_exit(DEADLINE).unwrap(), 0);
    let log = helm.log();
    assert!(log.contains("zero not ready. status: Failed"), "{log}");
    assert!(log.contains("message: spec.quantity: 0 is less than 1"), "{log}");

    let repository = cluster.control_plane.dir().join("repository");
    let overlay = repository.join("overlays/production");
    fs::create_dir_all(&overlay).unwrap();
    fs::write(overlay.join("rule.yaml"), rule("none", &nothing).to_string()).unwrap();
    let flux = Flux::start(&cluster, &repository);
    flux.deploy(&cluster, WAIT_TIMEOUT);
    flux.wait_condition(&cluster, "Ready", "False", "none status: 'Failed'");

    let failed = ["Failed", "Degraded"].map(str::to_owned);
    let failed = ["none", "zero"].map(|rule| (rule.to_owned(), failed.clone()));
    assert_eq!(verdicts(&cluster), BTreeMap::from(failed));
    cluster.kubectl(&["wait", "--for=condition=Stalled", "ner", "--all", "--timeout=180s"]);
    controller.stop();
}

/// kstatus has no other status for an object that may still become Ready; the example's script has one.
#[test]
fn conflict_is_in_progress_for_kstatus_and_degraded_for_argocd() {
    let cluster = Cluster::shared();
    cluster.create_nodes(["node-1"], &json!({}));
    cluster.write_quantity("node-1", "example.com/dongle", "8");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "Conflict", |status| condition(status, "Ready") == ("False", "Conflict"));
    let degraded = ["InProgress", "Degraded"].map(str::to_owned);
    assert_eq!(verdicts(&cluster), BTreeMap::from([("dongle".to_owned(), degraded)]));
    controller.stop();
}

#[test]
fn gitops_examples_are_valid_for_their_tools() {
    let cluster = Cluster::start();
    for (overlay, quantity) in [("staging", 1), ("production", 8)] {
        let path = example("kustomize/overlays").join(overlay);
        let built = cluster.kubectl(&["kustomize", path.to_str().unwrap()]);
        let rule: Value = serde_saphyr::from_str(&built).unwrap();
        assert_eq!(rule["spec"]["quantity"], quantity, "{built}");
        let args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        cluster.control_plane.kubectl_stdin(&args, &built).unwrap();
        let program = harness::program().unwrap();
        let (printed, code) = pipe(&program, &["validate", "-"], &built);
        assert_eq!(code, 0, "{printed}");
        let (printed, code) = kubeconform(&built);
        assert!(code == 0 && printed.contains("Valid: 1"), "{printed}");
        let (printed, code) = kubeconform(&built.replace("quantity", "quantities"));
        assert!(code == 1 && printed.contains("quantities"), "{printed}");
    }

    flux::install_kinds(&cluster);
    for namespace in ["flux-system", "argocd"] {
        cluster.kubectl(&["create", "namespace", namespace]);
    }
    for path in [
        "flux/rules.yaml",
        "flux/controller.yaml",
        "argocd/application.yaml",
        "argocd/controller.yaml",
        "argocd/argocd-cm.yaml",
    ] {
        let path = example(path);
        let args = ["create", "--validate=strict", "--dry-run=server", "-f"];
        cluster.kubectl(&[&args[..], &[path.to_str().unwrap()]].concat());
    }

    // The example extends the existing config map, as its comment describes.
    let own = ["configmap", "argocd-cm", "--namespace", "argocd"];
    cluster.kubectl(&[&["create"], &own[..], &["--from-literal=url=https://cd"]].concat());
    let path = example("argocd/argocd-cm.yaml");
    cluster.kubectl(&[&["patch"], &own[..], &["--patch-file", path.to_str().unwrap()]].concat());
    let data = cluster.get(&own)["data"].clone();
    assert_eq!((data.as_object().unwrap().len(), &data["url"]), (2, &json!("https://cd")));
}

/// Runs the plan steps in the shell that CI uses, with the permissions that the README names.
#[test]
fn ci_examples_print_the_plan_of_the_cluster() {
    let cluster = Cluster::start_with(ControlPlane::builder().user("pipeline"));
    let readme = fs::read_to_string(example("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.trim().strip_prefix("kubectl create "));
    let command: Vec<_> = command.expect("the command that grants the permissions").split(' ').collect();
    cluster.kubectl(&[&["create"], &command[..]].concat());
    let bind = ["create", "clusterrolebinding", "plan", "--clusterrole=plan", "--user=pipeline"];
    cluster.kubectl(&bind);
    cluster.create_nodes(["node-1"], &json!({"example.com/has-dongle": "true"}));
    let folder = cluster.control_plane.dir().join("checkout");
    fs::create_dir_all(folder.join("rules")).unwrap();
    fs::copy(example("kustomize/base/dongle.yaml"), folder.join("rules/dongle.yaml")).unwrap();
    let program = harness::program().unwrap();
    std::os::unix::fs::symlink(program, folder.join("node-resource-advertiser")).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig_for("pipeline");
    let run = |shell: &str, script: &str, credentials: &str| {
        let output = Command::new(shell)
            .args(["-e", "-c", script])
            .current_dir(&folder)
            .env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()))
            .env("KUBECONFIG", &kubeconfig)
            .env("CREDENTIALS", credentials)
            .env("RUNNER_TEMP", &folder)
            .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
            .output()
            .expect("the shell runs");
        (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
    };
    let changes = "+ node-1   example.com/dongle";

    let job = fs::read_to_string(example("ci/github-actions.yaml")).unwrap();
    let job: Value = serde_saphyr::from_str(&job).unwrap();
    let steps = job["jobs"]["check"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "Plan").unwrap();
    let script = step["run"].as_str().unwrap();
    let (shown, code) = run("bash", script, &fs::read_to_string(&kubeconfig).unwrap());
    assert!(code == 0 && shown.contains(changes), "{code}: {shown}");
    assert_eq!(fs::read_to_string(folder.join("summary.md")).unwrap(), shown);
    let (shown, code) = run("bash", script, "nonsense");
    assert!(code != 0, "{shown}");

    let job = fs::read_to_string(example("ci/gitlab-ci.yaml")).unwrap();
    let job: Value = serde_saphyr::from_str(&job).unwrap();
    assert_eq!(job["plan"]["allow_failure"]["exit_codes"], json!([1]));
    let (shown, code) = run("sh", job["plan"]["script"][0].as_str().unwrap(), "");
    assert!(code == 1 && shown.contains(changes), "{code}: {shown}");
}

/// Starts helm, which installs a chart of one rule and waits for it.
fn helm_upgrade(cluster: &Cluster, name: &str, spec: &Value) -> Process {
    let chart = cluster.control_plane.dir().join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    let about = json!({"apiVersion": "v2", "name": "rules", "version": "1.0.0"});
    fs::write(chart.join("Chart.yaml"), about.to_string()).unwrap();
    fs::write(chart.join("templates/rule.yaml"), rule(name, spec).to_string()).unwrap();
    let timeout = format!("--timeout={WAIT_TIMEOUT}");
    let chart = chart.to_str().unwrap();
    spawn_helm(cluster, &["upgrade", "--install", "rules", chart, "--wait", "--debug", &timeout])
}

/// Returns each rule's status by kstatus and by the example's script for Argo CD.
fn verdicts(cluster: &Cluster) -> BTreeMap<String, [String; 2]> {
    let rules = cluster.get(&["ner"]).to_string();
    let config = example("argocd/argocd-cm.yaml");
    let health = tool("health").unwrap();
    let (printed, code) = pipe(&health, &[config.to_str().unwrap()], &rules);
    assert_eq!(code, 0, "{printed}");
    let verdicts: Vec<Value> = serde_json::from_str(&printed).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let verdict = |verdict: &Value| {
        let by = |tool: &str| text(&verdict[tool]["status"]);
        (text(&verdict["name"]), [by("kstatus"), by("argocd")])
    };
    verdicts.iter().map(verdict).collect()
}

/// Runs kubeconform with the schema that the project publishes.
fn kubeconform(objects: &str) -> (String, i32) {
    let schemas = project_file("crds/json-schema/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json");
    let args = ["-strict", "-summary", "-schema-location", schemas.to_str().unwrap(), "-"];
    pipe(&tool("kubeconform").unwrap(), &args, objects)
}

/// Runs a program with `input` on standard input, and returns what it prints and its exit code.
fn pipe(program: &Path, args: &[&str], input: &str) -> (String, i32) {
    let Output { stdout, stderr, code } = Output::run(Command::new(program).args(args), Some(input)).unwrap();
    (stdout + &stderr, code)
}
