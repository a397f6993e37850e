//! Which values the policy keeps, and which it admits as a kubelet wrote them.
//!
//! Method: a table of nodes, each with its maps, its ledger, a write, and the expected maps.

use harness::Cluster;
use harness::objects::{DONGLE, LEDGER};
use harness::protection::{self, DONGLE_LEDGER, patch_as, wait_effect};
use serde_json::{Value, json};

use super::{BINDING, LATER, POLICY, both, create_nodes, dongles, maps, node, register, report, write};

/// A node before a write, and its expected maps afterwards.
struct Case {
    what: &'static str,
    ledger: String,
    before: Value,
    written: Value,
    after: Value,
}

impl Case {
    fn new(what: &'static str, before: Value, written: Value, after: Value) -> Self {
        Self { what, ledger: DONGLE_LEDGER.to_owned(), before, written, after }
    }

    /// A case in which the write changes nothing.
    fn kept(what: &'static str, before: Value, written: Value) -> Self {
        Self::new(what, before.clone(), written, before)
    }

    /// A case in which the node has what was written.
    fn written(what: &'static str, before: Value, written: Value) -> Self {
        Self::new(what, before, written.clone(), written)
    }

    fn with_ledger(self, ledger: impl Into<String>) -> Self {
        Self { ledger: ledger.into(), ..self }
    }
}

/// Writes each node with `write`, and compares its maps.
fn check(cluster: &Cluster, prefix: &str, write: impl Fn(&Cluster, &str, &Value) -> Value, cases: &[Case]) {
    let names: Vec<_> = (0..cases.len()).map(|number| format!("{prefix}-{number}")).collect();
    let nodes = names.iter().zip(cases);
    let nodes: Vec<_> = nodes.map(|(name, case)| node(name, &case.before, &case.ledger)).collect();
    create_nodes(cluster, &nodes);
    for (name, case) in names.iter().zip(cases) {
        assert_eq!(maps(&write(cluster, name, &case.written)), case.after, "{}", case.what);
    }
}

#[test]
fn protection_keeps_what_a_registration_resets() {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    let three = r#"{"example.com/a":{"quantity":"1","rule":"a"},"example.com/b":{"quantity":"1","rule":"b"},"example.com/c":{"quantity":"1","rule":"c"}}"#;
    let of = |names: &[&str], value: &str| {
        let map: Value = names.iter().map(|name| (format!("example.com/{name}"), value)).collect();
        json!({"capacity": map, "allocatable": map})
    };
    let upper = "example.com/Upper_Case.x-1";
    check(
        &cluster,
        "kept",
        register,
        &[
            Case::kept("a listed resource", both("4"), both("0")),
            Case::kept("a value that is held, or contested", both("7"), both("0")),
            Case::kept(
                "different values in the two maps, in their notation",
                dongles(Some("1k"), Some("999")),
                both("0"),
            ),
            Case::kept("a value that is set to 0 in another form", both("4"), both("00")),
            Case::kept("the same with a suffix", both("4"), both("0k")),
            Case::kept("the greatest value", both("9223372036854775807"), both("0")),
            Case::kept("three", of(&["a", "b", "c"], "1"), of(&["a", "b", "c"], "0"))
                .with_ledger(three),
            Case::new(
                "listed neighbors of a resource that one map lacks",
                json!({"capacity": {"example.com/a": "1"}, "allocatable": {"example.com/a": "1", "example.com/b": "1"}}),
                of(&["a", "b"], "0"),
                json!({
                    "capacity": {"example.com/a": "1", "example.com/b": "0"},
                    "allocatable": {"example.com/a": "1", "example.com/b": "0"},
                }),
            )
            .with_ledger(three),
            Case::new(
                "listed neighbors of an unlisted resource",
                of(&["a", "b", "other"], "1"),
                of(&["a", "b", "other"], "0"),
                json!({
                    "capacity": {"example.com/a": "1", "example.com/b": "1", "example.com/other": "0"},
                    "allocatable": {"example.com/a": "1", "example.com/b": "1", "example.com/other": "0"},
                }),
            )
            .with_ledger(three),
            Case::kept(
                "a name with other characters",
                json!({"capacity": {upper: "2"}, "allocatable": {upper: "2"}}),
                json!({"capacity": {upper: "0"}, "allocatable": {upper: "0"}}),
            )
            .with_ledger(format!(r#"{{"{upper}":{{"quantity":"2","rule":"x"}}}}"#)),
            Case::kept("fields of a later version", both("4"), both("0")).with_ledger(
                r#"{"example.com/a":{"quantity":"1","rule":"a","later":{"x":{"y":1},"z":2}},"example.com/dongle":{"quantity":"4","rule":"dongle","later":[{"x":1},"},\""]}}"#,
            ),
            Case::new(
                "only the reset, among the other changes of a registration",
                json!({
                    "capacity": {DONGLE: "4", "hugepages-2Mi": "4Mi", "cpu": "4"},
                    "allocatable": {DONGLE: "4", "hugepages-2Mi": "4Mi", "cpu": "4"},
                }),
                json!({
                    "capacity": {DONGLE: "0", "hugepages-2Mi": "0", "cpu": "8"},
                    "allocatable": {DONGLE: "0", "hugepages-2Mi": "0", "cpu": "8"},
                }),
                json!({
                    "capacity": {DONGLE: "4", "hugepages-2Mi": "0", "cpu": "8"},
                    "allocatable": {DONGLE: "4", "hugepages-2Mi": "0", "cpu": "8"},
                }),
            ),
        ],
    );

    // A kubelet that changes the ledger in the same write does not change what it lists.
    create_nodes(&cluster, &[node("removed", &both("4"), DONGLE_LEDGER), node("added", &both("4"), "")]);
    let mut patch = json!({"status": both("0"), "metadata": {"annotations": {LEDGER: null}}});
    assert_eq!(maps(&write(&cluster, "removed", &patch)), both("4"));
    patch["metadata"]["annotations"][LEDGER] = json!(DONGLE_LEDGER);
    assert_eq!(maps(&write(&cluster, "added", &patch)), both("0"));
}

/// k3s and MicroK8s run the kubelet in a program of their own. It has the credentials that the Node authorizer requires,
/// and the program's name as its field manager.
#[test]
fn protection_depends_on_no_field_manager() {
    let cluster = Cluster::start();
    protection::install(&cluster);
    for manager in ["kubelet", "k3s", "kubelite", "hollow-kubelet"] {
        create_nodes(&cluster, &[node(manager, &both("4"), DONGLE_LEDGER)]);
        let kubeconfig = cluster.control_plane.kubelet_kubeconfig(manager).unwrap();
        let field_manager = format!("--field-manager={manager}");
        let write = |status: &Value| {
            let patch = json!({ "status": status });
            let output = patch_as(&cluster, &kubeconfig, &[&field_manager], manager, &patch);
            assert_eq!(output.code, 0, "{output:?}");
            cluster.get(&["node", manager, "--show-managed-fields"])
        };
        let heartbeat = |time: &str| {
            let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": time});
            json!({"conditions": [ready], "capacity": {"cpu": "8"}})
        };
        let reported = write(&heartbeat(LATER));
        let fields = reported["metadata"]["managedFields"].to_string();
        assert!(fields.contains(&format!(r#""manager":"{manager}""#)), "{fields}");
        assert_eq!(maps(&write(&both("0")))["allocatable"], both("4")["allocatable"], "{manager}: a registration");
        let mut reported = heartbeat("2026-01-01T00:00:20Z");
        reported["allocatable"] = json!({DONGLE: "0"});
        assert_eq!(maps(&write(&reported))["allocatable"][DONGLE], "0", "{manager}: a report");
    }
}

#[test]
fn protection_admits_everything_else_as_written() {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    let native = |value: &str| json!({"capacity": {"pods": value, "a.kubernetes.io/x": value}, "allocatable": {"pods": value, "a.kubernetes.io/x": value}});
    check(
        &cluster,
        "registration",
        register,
        &[
            Case::written("a resource that is not listed", both("4"), both("0"))
                .with_ledger(r#"{"example.com/key":{"quantity":"4","rule":"dongle"}}"#),
            Case::written("no ledger", both("4"), both("0")).with_ledger(""),
            Case::written("a rule of that name", both("4"), both("0")).with_ledger(
                r#"{"example.com/key":{"quantity":"4","rule":"example.com/dongle"}}"#,
            ),
            Case::written("a longer name", both("4"), both("0")).with_ledger(
                r#"{"example.com/dongles":{"quantity":"4","rule":"a"},"a.example.com/dongle":{"quantity":"4","rule":"a"}}"#,
            ),
            Case::written("what is 0 already", both("0"), both("0")),
            Case::new(
                "a device plugin's 0 in allocatable",
                dongles(Some("4"), Some("0")),
                dongles(Some("0"), Some("0")),
                both("0"),
            ),
            Case::new(
                "a previous 0 in capacity",
                dongles(Some("0"), Some("4")),
                dongles(Some("0"), Some("0")),
                both("0"),
            ),
            Case::new(
                "a resource that capacity lacks",
                dongles(None, Some("4")),
                dongles(Some("0"), Some("0")),
                both("0"),
            ),
            Case::written("another value", both("4"), both("2")),
            Case::written("allocatable alone", both("4"), dongles(Some("4"), Some("0"))),
            Case::written("capacity alone", both("4"), dongles(Some("0"), Some("4"))),
            Case::new("a removal", both("4"), json!({"capacity": {DONGLE: null}, "allocatable": {DONGLE: null}}), dongles(None, None)),
            Case::new("two maps removed", both("4"), json!({"capacity": null, "allocatable": null}), dongles(None, None)),
            Case::written("native resources, which are never reset", native("4"), native("0")).with_ledger(
                r#"{"pods":{"quantity":"4","rule":"a"},"a.kubernetes.io/x":{"quantity":"4","rule":"a"}}"#,
            ),
        ],
    );
    check(
        &cluster,
        "report",
        report,
        &[
            Case::written("a device plugin's last devices", both("4"), both("0")),
            Case::written("a device plugin's unhealthy devices", both("4"), dongles(Some("4"), Some("0"))),
            Case::written("what was 0 in allocatable", dongles(Some("4"), Some("0")), both("0")),
            Case::written("more", both("4"), both("5")),
        ],
    );
    // A recreated node has no values to keep.
    let kubeconfig = cluster.control_plane.kubelet_kubeconfig("new").unwrap();
    let new = node("new", &both("0"), DONGLE_LEDGER).to_string();
    let create = ["--kubeconfig", kubeconfig.to_str().unwrap(), "create", "-f", "-"];
    cluster.control_plane.kubectl_stdin(&create, &new).unwrap();
    assert_eq!(maps(&cluster.node("new")), both("0"));
}

#[test]
fn protection_ignores_writes_of_other_users() {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    create_nodes(&cluster, &["admin", "group", "user"].map(|name| node(name, &both("4"), DONGLE_LEDGER)));
    let admin = cluster.control_plane.kubeconfig();
    let patch = json!({"status": both("0")});
    for (name, args) in [
        ("admin", &[][..]),
        ("group", &["--as=system:node:group", "--as-group=system:masters"]),
        ("user", &["--as=kubelet", "--as-group=system:masters", "--as-group=system:nodes"]),
    ] {
        let output = patch_as(&cluster, &admin, args, name, &patch);
        assert_eq!((output.code, maps(&cluster.node(name))), (0, both("0")), "{output:?}");
    }
    // Another node's kubelet, which may write anything in this test.
    create_nodes(&cluster, &[node("node", &both("4"), DONGLE_LEDGER)]);
    let other = cluster.control_plane.kubelet_kubeconfig("other").unwrap();
    let output = patch_as(&cluster, &other, &[], "node", &patch);
    assert!(output.code != 0 && output.stderr.contains("orbidden"), "{output:?}");
    assert_eq!(maps(&cluster.node("node")), both("4"));
}

/// What a kubelet's credentials are good for is Kubernetes' own affair; SECURITY.md relies on it.
#[test]
fn kubelet_writes_neither_other_nodes_nor_rules_nor_the_lease() {
    let cluster = Cluster::shared();
    create_nodes(&cluster, &["node-1", "node-2"].map(|name| node(name, &both("4"), DONGLE_LEDGER)));
    let kubeconfig = cluster.control_plane.kubelet_kubeconfig("node-1").unwrap();
    let kubelet = cluster.control_plane.proxy_of(&kubeconfig).unwrap();
    let ledger = json!({"metadata": {"annotations": {LEDGER: "{}"}}, "status": both("0")}).to_string();
    let named = |name: &str| json!({"metadata": {"name": name}}).to_string();
    for (method, path, body, because) in [
        ("PATCH", "/api/v1/nodes/node-2/status", ledger.clone(), "is not allowed to modify node"),
        ("POST", "/apis/noderesource.dev/v1alpha1/nodeextendedresources", named("dongle"), "cannot create"),
        (
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            named("node-resource-advertiser"),
            "can only access leases",
        ),
    ] {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (code, answer) = kubelet.send(method, path, content_type, &body).unwrap();
        assert!(code == 403 && answer.contains(because), "{method} {path}: {code} {answer}");
    }
    // Its own node is its own.
    let (code, answer) =
        kubelet.send("PATCH", "/api/v1/nodes/node-1/status", "application/merge-patch+json", &ledger).unwrap();
    assert_eq!(code, 200, "{answer}");
}

/// A kubelet's writes are admitted whatever the annotation contains.
#[test]
fn protection_accepts_any_ledger() {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    let entry = |name: &str| format!(r#""{name}":{{"quantity":"4","rule":"dongle"}}"#);
    // The maximum length that the controller reads, and the maximum that the API server stores.
    let long = format!("{{{},{}", entry("example.com/other"), r#"},""#.repeat(21_000));
    let longest = format!("{{{},{}", entry("example.com/other"), "x".repeat(250_000));
    let dongle_with_blanks = r#"{ "example.com/dongle": {"quantity": "4", "rule": "dongle"}}"#;
    let ledgers = [
        "",
        " ",
        "{",
        "{}",
        "[]",
        "x",
        "null",
        r#"{""#,
        r#"{"}"#,
        r#"{"":{}}"#,
        r#"{"},""#,
        dongle_with_blanks,
        &long,
        &longest,
    ];
    let cases = |write: &str| {
        let case = |ledger: &&str| Case::written("", both("4"), both(write)).with_ledger(*ledger);
        ledgers.iter().map(case).collect::<Vec<_>>()
    };
    check(&cluster, "registration", register, &cases("0"));
    let evaluated = evaluations(&cluster);
    check(&cluster, "heartbeat", report, &cases("4"));
    assert_eq!(evaluations(&cluster), evaluated, "a heartbeat does not pass the match conditions");

    // A node without annotations, conditions and maps.
    cluster.create_nodes(["bare"], &json!({}));
    assert_eq!(maps(&register(&cluster, "bare", &both("0"))), both("0"));
    assert_eq!(maps(&report(&cluster, "bare", &both("4"))), both("4"));

    let absent = format!("{{{},{}}}", entry("example.com/absent"), entry("example.com/dongle"));
    let kept = Case::kept("names that the node lacks", both("4"), both("0")).with_ledger(absent);
    check(&cluster, "absent", register, &[kept]);
}

/// Returns how often a request passed the policy's match conditions, from the API server's metrics.
fn evaluations(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.control_plane.get("/metrics").unwrap();
    let series = "apiserver_mutating_admission_policy_check_total{";
    metrics.lines().filter(|line| line.starts_with(series)).map(str::to_owned).collect()
}

/// CEL's cost limits allow as many resources as a ledger of 64 KiB can list, with long or short names.
#[test]
fn protection_keeps_every_resource_of_a_full_ledger() {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    for (count, digits) in [(500, 63), (1600, 4)] {
        let names: Vec<_> = (0..count).map(|number| format!("a.b/{number:0digits$}")).collect();
        let entries = names.iter().map(|name| format!(r#""{name}":{{"quantity":"4","rule":"r"}}"#));
        let ledger = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
        assert!((48_000..65_536).contains(&ledger.len()), "{}", ledger.len());
        let of = |value: &str| {
            let map: Value = names.iter().map(|name| (name.clone(), value)).collect();
            json!({"capacity": map, "allocatable": map})
        };
        let what = "a full ledger";
        let kept = Case::kept(what, of("4"), of("0")).with_ledger(&*ledger);
        check(&cluster, &format!("registration-{count}"), register, &[kept]);
        let reported = Case::written(what, of("4"), of("0")).with_ledger(&*ledger);
        check(&cluster, &format!("report-{count}"), report, &[reported]);
    }
}

#[test]
fn protection_without_its_binding_is_not_in_force() {
    let cluster = Cluster::shared();
    protection::install(&cluster);
    for (number, object) in [BINDING, POLICY].into_iter().enumerate() {
        let name = format!("node-{number}");
        create_nodes(&cluster, &[node(&name, &both("4"), DONGLE_LEDGER)]);
        assert_eq!(maps(&register(&cluster, &name, &both("0"))), both("4"), "the policy works");
        cluster.kubectl(&["delete", object]);
        wait_effect(&cluster, &name, false);
        protection::apply(&cluster);
        wait_effect(&cluster, &name, true);
    }
}
