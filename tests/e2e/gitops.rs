/// Flux, running.
mod flux;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{ControlPlane, Process, wait_until};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Controller, DEADLINE, condition, rule};
use crate::helm::spawn_helm;
use crate::refusals::drop_validation_of_spec;
use crate::scale::{close_nodes, open_nodes};
use flux::{Flux, example};

/// Longer than any test lasts: what ends before that has not timed out.
const FOR_EVER: &str = "1h";

/// Each waits for a rule of its own, first while no controller is there to look at it, then while the
/// API server refuses the controller's patches.
#[test]
fn whoever_waits_for_a_rule_waits_until_its_nodes_carry_the_value() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({"example.com/has-dongle": "true"}));
    close_nodes(&cluster, "node-1");
    let flux = Flux::start(&cluster, &example("kustomize"));

    cluster.apply_rule("lock", &json!({"resourceName": "example.com/lock"}));
    let timeout = format!("--timeout={FOR_EVER}");
    let wait = ["wait", "--for=condition=Ready", "ner/lock", &timeout, "-v=6"];
    let mut kubectl = cluster.control_plane.spawn_kubectl("kubectl-wait", &wait).unwrap();
    let key = json!({"resourceName": "example.com/key"});
    let mut helm = helm_upgrade(&cluster, "key", &key);
    flux.deploy(&cluster, FOR_EVER);

    wait_log(&kubectl, "watch=true");
    wait_log(&helm, "expectedStatus=Current actualStatus=InProgress");
    flux.wait_condition(&cluster, "Reconciling", "True", "Running health checks");
    let of_all = |kstatus: &str, argo: &str| {
        ["dongle", "key", "lock"].map(|rule| (rule.to_owned(), [kstatus, argo].map(str::to_owned)))
    };
    let verdicts = self::verdicts(&cluster);
    assert_eq!(verdicts, BTreeMap::from(of_all("InProgress", "Progressing")));

    let controller = Controller::start(&cluster);
    for rule in ["dongle", "key", "lock"] {
        cluster.wait_status(rule, "that patches fail", |status| {
            condition(status, "Ready") == ("False", "PatchFailed")
        });
    }
    kubectl.check_running().unwrap();
    helm.check_running().unwrap();
    flux.wait_condition(&cluster, "Reconciling", "True", "Running health checks");
    let verdicts = self::verdicts(&cluster);
    assert_eq!(verdicts, BTreeMap::from(of_all("InProgress", "Progressing")));

    open_nodes(&cluster);
    // At once: whoever returned must have had a reason to.
    let carries = |resource: &str, quantity: &str| {
        let node = cluster.node("node-1");
        assert!(crate::cluster::advertises(&node, resource, quantity), "{node:#}");
    };
    assert_eq!(kubectl.wait_exit(DEADLINE).unwrap(), 0, "{}", kubectl.log());
    carries("example.com/lock", "4");
    assert_eq!(helm.wait_exit(DEADLINE).unwrap(), 0, "{}", helm.log());
    carries("example.com/key", "4");
    flux.wait_condition(&cluster, "Ready", "True", "Applied revision");
    carries("example.com/dongle", "8");
    assert_eq!(self::verdicts(&cluster), BTreeMap::from(of_all("Current", "Healthy")));
    controller.stop();
}

/// kubectl alone goes on waiting for Ready: it does not know that Stalled is an end.
#[test]
fn a_stalled_rule_ends_the_wait_of_helm_and_flux() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    drop_validation_of_spec(&cluster);
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
    flux.deploy(&cluster, FOR_EVER);
    flux.wait_condition(&cluster, "Ready", "False", "none status: 'Failed'");

    let failed = ["Failed", "Degraded"].map(str::to_owned);
    let failed = ["none", "zero"].map(|rule| (rule.to_owned(), failed.clone()));
    assert_eq!(verdicts(&cluster), BTreeMap::from(failed));
    cluster.kubectl(&["wait", "--for=condition=Stalled", "ner", "--all", "--timeout=60s"]);
    controller.stop();
}

/// A rule that waits for somebody is in progress by kstatus, which knows no other word for what may
/// still come about, and degraded by the example's script.
#[test]
fn a_conflict_is_in_progress_or_degraded() {
    let cluster = Cluster::start();
    cluster.create_nodes(["node-1".to_owned()], &json!({}));
    cluster.write_first_amount("node-1", "example.com/dongle", "8");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.wait_status("dongle", "Conflict", |status| {
        condition(status, "Ready") == ("False", "Conflict")
    });
    let degraded = ["InProgress", "Degraded"].map(str::to_owned);
    assert_eq!(verdicts(&cluster), BTreeMap::from([("dongle".to_owned(), degraded)]));
    controller.stop();
}

#[test]
fn the_examples_are_what_the_tools_take() {
    let cluster = Cluster::start();
    for (overlay, quantity) in [("staging", 1), ("production", 8)] {
        let path = example("kustomize/overlays").join(overlay);
        let built = cluster.kubectl(&["kustomize", path.to_str().unwrap()]);
        let rule: Value = serde_saphyr::from_str(&built).unwrap();
        assert_eq!(rule["spec"]["quantity"], quantity, "{built}");
        let args = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        cluster.control_plane.kubectl_stdin(&args, &built).unwrap();
        let program = env!("CARGO_BIN_EXE_node-resource-advertiser");
        let (answer, code) = pipe(Path::new(program), &["validate", "-"], &built);
        assert_eq!(code, 0, "{answer}");
        let (answer, code) = kubeconform(&built);
        assert!(code == 0 && answer.contains("Valid: 1"), "{answer}");
        let (answer, code) = kubeconform(&built.replace("quantity", "quantities"));
        assert!(code == 1 && answer.contains("quantities"), "{answer}");
    }

    flux::install_kinds(&cluster);
    for namespace in ["flux-system", "argocd"] {
        cluster.kubectl(&["create", "namespace", namespace]);
    }
    for path in ["flux/rules.yaml", "argocd/application.yaml", "argocd/argocd-cm.yaml"] {
        let path = example(path);
        let args = ["create", "--validate=strict", "--dry-run=server", "-f"];
        cluster.kubectl(&[&args[..], &[path.to_str().unwrap()]].concat());
    }

    // As its comment says, it is added to what is there.
    let own = ["configmap", "argocd-cm", "--namespace", "argocd"];
    cluster.kubectl(&[&["create"], &own[..], &["--from-literal=url=https://cd"]].concat());
    let path = example("argocd/argocd-cm.yaml");
    cluster.kubectl(&[&["patch"], &own[..], &["--patch-file", path.to_str().unwrap()]].concat());
    let data = cluster.get(&own)["data"].clone();
    assert_eq!((data.as_object().unwrap().len(), &data["url"]), (2, &json!("https://cd")));
}

/// The steps that plan, by the shell that runs them there and with the rights that the README names.
#[test]
fn the_jobs_show_the_plan_of_the_cluster() {
    let cluster = Cluster::with(ControlPlane::builder().user("pipeline"));
    let readme = fs::read_to_string(example("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.trim().strip_prefix("kubectl create "));
    let command: Vec<_> = command.expect("the command that grants the rights").split(' ').collect();
    cluster.kubectl(&[&["create"], &command[..]].concat());
    let bind = ["create", "clusterrolebinding", "plan", "--clusterrole=plan", "--user=pipeline"];
    cluster.kubectl(&bind);
    cluster.create_nodes(["node-1".to_owned()], &json!({"example.com/has-dongle": "true"}));
    let folder = cluster.control_plane.dir().join("checkout");
    fs::create_dir_all(folder.join("rules")).unwrap();
    fs::copy(example("kustomize/base/dongle.yaml"), folder.join("rules/dongle.yaml")).unwrap();
    let program = env!("CARGO_BIN_EXE_node-resource-advertiser");
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

/// Installs a chart that holds one rule, and waits for it.
fn helm_upgrade(cluster: &Cluster, name: &str, spec: &Value) -> Process {
    let chart = cluster.control_plane.dir().join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    let about = json!({"apiVersion": "v2", "name": "rules", "version": "1.0.0"});
    fs::write(chart.join("Chart.yaml"), about.to_string()).unwrap();
    fs::write(chart.join("templates/rule.yaml"), rule(name, spec).to_string()).unwrap();
    let timeout = format!("--timeout={FOR_EVER}");
    let chart = chart.to_str().unwrap();
    spawn_helm(cluster, &["upgrade", "--install", "rules", chart, "--wait", "--debug", &timeout])
}

fn wait_log(process: &Process, text: &str) {
    let waited = wait_until(&format!("{text:?} in the log"), DEADLINE, || {
        process.check_running()?;
        Ok(process.log().contains(text).then_some(()))
    });
    waited.unwrap_or_else(|error| panic!("{error:#}\n{}", process.log()));
}

/// What kstatus and the example's script for Argo CD say of each rule.
fn verdicts(cluster: &Cluster) -> BTreeMap<String, [String; 2]> {
    let rules = cluster.get(&["ner"]).to_string();
    let config = example("argocd/argocd-cm.yaml");
    let health: PathBuf = harness::tool("health").unwrap();
    let (answer, code) = pipe(&health, &[config.to_str().unwrap()], &rules);
    assert_eq!(code, 0, "{answer}");
    let verdicts: Vec<Value> = serde_json::from_str(&answer).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let verdict = |verdict: &Value| {
        let by = |tool: &str| text(&verdict[tool]["status"]);
        (text(&verdict["name"]), [by("kstatus"), by("argocd")])
    };
    verdicts.iter().map(verdict).collect()
}

/// kubeconform, with the schema that the project publishes.
fn kubeconform(objects: &str) -> (String, i32) {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("crds/json-schema/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json");
    let args = ["-strict", "-summary", "-schema-location", schemas.to_str().unwrap(), "-"];
    pipe(&harness::tool("kubeconform").unwrap(), &args, objects)
}

/// Runs a program with something on its standard input; what it prints, and its exit code.
fn pipe(program: &Path, args: &[&str], input: &str) -> (String, i32) {
    let mut process = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (text, output.status.code().unwrap())
}
