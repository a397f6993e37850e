//! `why` about the pods of a namespace and of workloads.
//!
//! Method: create workloads whose pods find no node, or that a quota keeps from being created, let the scheduler and the
//! controller manager decide, and compare what `why` prints with what they report.

use std::path::Path;
use std::time::Duration;

use harness::objects::{DONGLE, bound_pod, pod};
use harness::{Cluster, ControlPlane, Controller, Output, Process};
use serde_json::{Value, json};

use crate::support::workloads::workload;
use crate::support::{golden, program};

fn why(kubeconfig: &Path, args: &[&str]) -> Output {
    program::run(kubeconfig, &[&["why"], args].concat(), None)
}

/// Waits until the scheduler has rejected this number of pods with a label.
fn wait_rejected(cluster: &Cluster, app: &str, count: usize) {
    let is_rejected = |pod: &&Value| pod["status"]["conditions"][0]["reason"] == "Unschedulable";
    let args = ["pods", "-l", &format!("app={app}")];
    cluster.wait_for(&format!("the scheduler to reject {count} pods of {app}"), &args, |pods| {
        pods["items"].as_array().unwrap().iter().filter(is_rejected).count() == count
    });
}

#[test]
fn why_groups_waiting_pods_by_cause() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(1));
    cluster.wait_for("node-1 to be ready", &["node", "node-1"], |node| node["spec"]["taints"].is_null());
    cluster.write_quantity("node-1", DONGLE, "4");
    let kubeconfig = cluster.control_plane.kubeconfig();
    let nothing = why(&kubeconfig, &[]);
    assert_eq!((nothing.code, &*nothing.stdout), (0, "namespace default: no pod waits for a node.\n"));

    cluster.apply(&bound_pod("holder", "node-1", DONGLE, "2").to_string());
    cluster.apply(&workload("Deployment", "default", "web", &json!({"replicas": 2})).to_string());
    cluster.apply(&workload("Job", "default", "batch", &json!({})).to_string());
    cluster.apply(&pod("fits", DONGLE, "1").to_string());
    wait_rejected(&cluster, "web", 2);
    wait_rejected(&cluster, "batch", 1);
    cluster.wait_running("fits");
    let all = why(&kubeconfig, &[]);
    assert_eq!(all.code, 1, "{}", all.stderr);
    let start = "namespace default: 3 pods wait for a node, because of extended resources.\n3 pods: batch-";
    assert!(all.stdout.starts_with(start), "{}", all.stdout);
    assert!(all.stdout.contains("example.com/dongle: each requests 3; 1 of 4 free"), "{}", all.stdout);
    let mut screens = vec![golden::console("why", &nothing), golden::console("why", &all)];
    assert!(all.stdout.lines().count() < 24 && all.stdout.lines().all(|line| line.len() <= 80), "{}", all.stdout);
    let web = "deployment/web has 2 of 2 pods: 2 pods wait for a node, because of extended resources. 2 pods: web-";
    let batch = "job/batch has 1 of 1 pods: 1 pod waits for a node, because of extended resources. 1 pod: batch-";
    for (name, found) in [("deployment/web", web), ("deploy.apps/web", web), ("job/batch", batch)] {
        let output = why(&kubeconfig, &[name]);
        assert_eq!(output.code, 1, "{name}: {}", output.stderr);
        let text = program::in_one_line(&output.stdout);
        assert!(text.starts_with(found), "{text}");
        screens.push(golden::console(&format!("why {name}"), &output));
    }
    let completed =
        |words: &[&str]| program::run(&kubeconfig, &[&["complete", "--", "why"], words].concat(), None).stdout;
    assert_eq!(completed(&["deploy/w"]), "deploy/web\n:4\n");
    assert_eq!(completed(&["-n", "kube-system", "jobs.batch/"]), ":4\n");
    // Only pods that wait for a node are asked about.
    assert_eq!(completed(&["fits"]), ":4\n");
    assert!(completed(&["batch-"]).starts_with("batch-"), "{}", completed(&["batch-"]));
    let none = why(&kubeconfig, &["deployment/none"]);
    let message = "there is no deployment none in the namespace default (-n selects another)";
    assert!(none.code == 2 && none.stderr.contains(message), "{}", none.stderr);
    screens.push(golden::console("why deployment/none", &none));
    golden::check("why-waiting-pods.console", &screens.join("\n"));
    let json: Value = serde_json::from_str(&why(&kubeconfig, &["-A", "-o", "json"]).stdout).unwrap();
    assert_eq!((&json["kind"], &json["waitingPods"]), (&json!("PendingPods"), &json!(3)), "{json:#}");
    assert_eq!(json["causes"][0]["verdict"], "NotEnough");
    assert!(json["causes"][0]["pods"][0].as_str().unwrap().starts_with("default/batch-"), "{json:#}");

    let log = cluster.control_plane.logs().join("why-web.log");
    let env = [("KUBECONFIG", kubeconfig.to_str().unwrap())];
    let args = ["why", "deployment/web", "-w"];
    let mut waits = Process::spawn("kubectl ner", &harness::program().unwrap(), &args, &env, &log).unwrap();
    waits.wait_log("1 of 4 free").unwrap();
    cluster.write_quantity("node-1", DONGLE, "40");
    assert_eq!(waits.wait_exit(Duration::from_secs(300)).unwrap(), 0, "{}", waits.log());
}

#[test]
fn why_names_workloads_whose_pods_a_quota_keeps_from_being_created() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(1));
    cluster.write_quantity("node-1", DONGLE, "40");
    cluster.kubectl(&["create", "namespace", "limited"]);
    let hard = json!({format!("requests.{DONGLE}"): "3"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard},
        "metadata": {"name": "dongles", "namespace": "limited"}});
    cluster.apply(&quota.to_string());
    cluster.wait_for("the quota to count", &["resourcequota", "dongles", "-n", "limited"], |quota| {
        quota["status"]["hard"].is_object()
    });
    cluster.apply(&workload("StatefulSet", "limited", "first", &json!({"replicas": 1})).to_string());
    cluster.wait_for("the first pod", &["statefulset", "first", "-n", "limited"], |set| set["status"]["replicas"] == 1);
    let kinds = [
        ("Deployment", json!({"replicas": 2})),
        ("StatefulSet", json!({})),
        ("DaemonSet", json!({})),
        ("Job", json!({})),
    ];
    for (kind, spec) in &kinds {
        cluster.apply(&workload(kind, "limited", &format!("over-{}", kind.to_lowercase()), spec).to_string());
    }
    let kubeconfig = cluster.control_plane.kubeconfig();
    let mut screens = Vec::new();
    for (kind, _) in &kinds {
        let name = format!("{}/over-{}", kind.to_lowercase(), kind.to_lowercase());
        let what = format!("an Event about the pods of {name}");
        cluster.wait_for(&what, &["events", "-n", "limited", "--field-selector=reason=FailedCreate"], |events| {
            let mut events = events["items"].as_array().unwrap().iter();
            events.any(|event| event["involvedObject"]["name"].as_str().unwrap().starts_with(&name[kind.len() + 1..]))
        });
        if *kind == "Deployment" {
            cluster.wait_for("its condition", &["deployment", "over-deployment", "-n", "limited"], |object| {
                let conditions = object["status"]["conditions"].as_array();
                conditions.into_iter().flatten().any(|condition| condition["type"] == "ReplicaFailure")
            });
        }
        let output = why(&kubeconfig, &[&name, "-n", "limited"]);
        assert_eq!(output.code, 1, "{name}: {}{}", output.stdout, output.stderr);
        let text = program::in_one_line(&output.stdout);
        assert!(text.starts_with(&format!("{name} has 0 of ")), "{text}");
        for part in ["Pods cannot be created: ", "exceeded quota: dongles", "kubectl describe quota -n limited"] {
            assert!(text.contains(part), "{name}: {text}");
        }
        screens.push(golden::console(&format!("why {name} -n limited"), &output));
    }
    golden::check("why-quota.console", &screens.join("\n"));
    let all = why(&kubeconfig, &["-n", "limited", "-o", "wide"]);
    assert_eq!(all.code, 1, "{}", all.stderr);
    for name in
        ["replicaset/over-deployment-", "statefulset/over-statefulset", "daemonset/over-daemonset", "job/over-job"]
    {
        assert!(all.stdout.lines().any(|line| line.starts_with(name)), "{name}: {}", all.stdout);
    }
    assert!(!all.stdout.contains("statefulset/first"), "it has its pod: {}", all.stdout);
}

/// A pod that waits for a cause of its own, and what names the cause.
struct Waits {
    name: &'static str,
    pod: Value,
    says: &'static str,
}

fn ten_causes() -> Vec<Waits> {
    let waits = |name: &'static str, resource: &str, quantity: &str, spec: Value, says: &'static str| {
        let mut pod = pod(name, resource, quantity);
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Waits { name, pod, says }
    };
    let on = |node: &str| json!({"nodeSelector": {"kubernetes.io/hostname": node}});
    vec![
        waits("full", DONGLE, "3", json!({}), "wait until pods end, such as default/holder (2)"),
        waits("too-large", DONGLE, "9", json!({}), "the most that one has, or that a rule declares there, is 4"),
        waits("misspelled", "example.com/dongel", "1", json!({}), "is it example.com/dongle?"),
        waits("tainted", DONGLE, "1", on("node-2"), "dedicated=infra:NoSchedule"),
        waits("cordoned", DONGLE, "1", on("node-3"), "cordoned"),
        waits("nowhere", DONGLE, "1", json!({"nodeSelector": {"pool": "gone"}}), "pool"),
        waits("unselected", "example.com/key", "1", json!({}), "rule key names only node-9, which does not exist"),
        waits("kept", "example.com/seat", "3", json!({}), "conflict"),
        waits("gated", DONGLE, "1", json!({"schedulingGates": [{"name": "example.com/gate"}]}), "scheduling gates"),
        waits("unscheduled", DONGLE, "1", json!({"schedulerName": "none"}), "none"),
    ]
}

/// One command and one screen of 80 by 24 for each.
#[test]
fn why_names_each_of_ten_causes_on_one_screen() {
    let cluster = Cluster::shared_with(ControlPlane::builder().scheduler().kubelets(3));
    for node in ["node-1", "node-2", "node-3"] {
        cluster.wait_for("the node to be ready", &["node", node], |node| node["spec"]["taints"].is_null());
    }
    cluster.write_quantity("node-1", "example.com/seat", "1");
    let controller = Controller::start(&cluster);
    cluster.apply_rule("dongle", &json!({}));
    cluster.apply_rule("key", &json!({"resourceName": "example.com/key", "allNodes": null, "nodeNames": ["node-9"]}));
    let seat = json!({"resourceName": "example.com/seat", "allNodes": null, "nodeNames": ["node-1"]});
    cluster.apply_rule("seat", &seat);
    cluster.wait_ready("dongle", "3/3");
    cluster.kubectl(&["taint", "node", "node-2", "dedicated=infra:NoSchedule"]);
    cluster.kubectl(&["cordon", "node-3"]);
    cluster.apply(&bound_pod("holder", "node-1", DONGLE, "2").to_string());
    let kubeconfig = cluster.control_plane.kubeconfig();
    let causes = ten_causes();
    for Waits { name, pod, .. } in &causes {
        cluster.apply(&pod.to_string());
        if *name != "unscheduled" {
            cluster.wait_for("the scheduler to look at the pod", &["pod", name], |pod| {
                pod["status"]["conditions"][0]["reason"].is_string()
            });
        }
    }
    let (mut wrong, mut screens) = (Vec::new(), Vec::new());
    for Waits { name, says, .. } in &causes {
        let output = why(&kubeconfig, &[name]);
        screens.push(golden::console(&format!("why {name}"), &output));
        let screen = output.stdout;
        let lines: usize = screen.lines().map(|line| line.chars().count().div_ceil(80)).sum();
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        if lines > 23 || !words.contains(says) {
            wrong.push(format!("{name}, {lines} lines, without {says:?}:\n{screen}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    golden::check("why-ten-causes.console", &screens.join("\n"));
    controller.stop();
}
