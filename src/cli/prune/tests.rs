use super::*;
use crate::controller::prune::NodePrune;
use crate::model::ledger;
use crate::model::node::CONDITION_TYPE;
use crate::model::node::Interner;
use crate::planner::Action;

#[test]
fn unlisted_rule_is_reported_with_what_was_searched() {
    let named = || Target {
        choice: NodeChoice { names: ["node-1", "node-2"].map(str::to_owned).into(), ..NodeChoice::default() },
        ..Target::default()
    };
    let labelled = || Target {
        choice: NodeChoice { labels: "pool=a".parse().unwrap(), ..NodeChoice::default() },
        ..Target::default()
    };
    for (target, unreadable, line) in [
        (Target::default(), 0, "rule r: no node lists it; nothing to withdraw"),
        (named(), 0, "rule r: none of the searched nodes (node-1, node-2) lists it; nothing to withdraw"),
        (labelled(), 0, "rule r: none of the selected nodes lists it; nothing to withdraw"),
        (Target::default(), 2, "rule r: no node lists it, except possibly 2 nodes whose annotations cannot be read"),
    ] {
        assert_eq!(describe_unlisted("r", &target, unreadable), line);
    }
}

#[test]
fn empty_selector_of_nodes_to_prune_is_rejected() {
    for empty in ["", " "] {
        assert_eq!(
            selector(empty).unwrap_err(),
            "it is empty: give labels, or leave out --selector to prune all nodes"
        );
    }
    assert!(!args(&["--all", "-l", "pool=a"]).target().choice.labels.is_empty());
}

/// What is wrong with Leases hides nothing else, and is not hidden.
#[test]
fn every_lease_that_is_lost_or_not_kept_is_an_error() {
    let ended = |name: &str, end| {
        let (namespace, name) = ("system".to_owned(), name.to_owned());
        EndedLease { lease: crate::cluster::lease::LeaseName { namespace, name }, end }
    };
    let leases = [
        ended("a", LeaseEnd::Lost),
        ended("b", LeaseEnd::NotKept("no response".to_owned())),
        ended("c", LeaseEnd::Released),
        ended("d", LeaseEnd::Kept(k8s_openapi::jiff::Timestamp::now())),
        ended("e", LeaseEnd::Expires("a patch".to_owned())),
    ];
    let errors = |alone| {
        let errors = report_leases(&leases, alone, "kubectl");
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let [lost, not_kept] = &errors(Ok(()))[..] else { panic!("two errors") };
    assert!(lost.starts_with("the lease system/a was taken"), "{lost}");
    assert!(not_kept.starts_with("cannot keep the lease system/b: "), "{not_kept}");
    // One that was found before is not reported twice.
    let [lost, _] = &errors(Err("lost before".to_owned()))[..] else { panic!("two errors") };
    assert_eq!(lost, "lost before");
}

#[tokio::test]
async fn failed_nodes_are_reported_beside_a_failed_output() {
    let mut report = Report::new(&PrunePlan::default(), "");
    report.printer = Printer::failing(Error::Output(std::io::Error::other("disk full")));
    report.failed = 1;
    let errors: Vec<_> = report.finish(&PrunePlan::default()).await.iter().map(ToString::to_string).collect();
    let [output, failed] = &errors[..] else { panic!("{errors:?}") };
    assert!(output.contains("disk full"), "{output}");
    assert!(failed.contains("nodes that failed: 1"), "{failed}");
}

mod worlds;

/// Returns the arguments after `prune`.
fn args(words: &[&str]) -> Args {
    use clap::Parser as _;
    let words = [&["node-resource-advertiser", "prune"], words].concat();
    let crate::cli::Command::Prune(args) = crate::cli::Cli::try_parse_from(words).unwrap().command else { panic!() };
    args
}

#[test]
fn prune_withdraws_only_what_its_flags_name() {
    for (flags, recorded, zeros, repairs) in [
        (&["--zeros"][..], Recorded::None, true, false),
        (&["--repair-ledger"], Recorded::None, false, true),
        (&["--zeros", "--repair-ledger"], Recorded::None, true, true),
        (&["--all"], Recorded::All, false, false),
        (&["--rule", "r", "--zeros"], Recorded::OfRules(["r".to_owned()].into()), true, false),
    ] {
        let Target { choice: NodeChoice { names, labels }, scope: Scope { withdrawal, repair_ledgers } } =
            args(flags).target();
        assert_eq!((withdrawal.recorded, withdrawal.zeros, repair_ledgers), (recorded, zeros, repairs), "{flags:?}");
        assert!(names.is_empty() && labels.is_empty(), "{flags:?}");
    }
}

#[test]
fn only_zeros_are_pruned_beside_an_active_controller() {
    for (flags, expected) in [
        (&["--zeros"][..], IfControllerActive::Ignore),
        (&["--zeros", "--repair-ledger"], IfControllerActive::Refuse),
        (&["--repair-ledger"], IfControllerActive::Refuse),
        (&["--zeros", "--rule", "r"], IfControllerActive::Refuse),
        (&["--all"], IfControllerActive::Refuse),
        (&["--all", "--take-over"], IfControllerActive::TakeOver),
        (&["--all", "--take-over", "--dry-run"], IfControllerActive::Ignore),
        (&["--all", "--force"], IfControllerActive::Ignore),
    ] {
        assert_eq!(args(flags).if_active(), expected, "{flags:?}");
    }
}

/// The condition belongs to what is recorded, which stays.
#[test]
fn zeros_are_pruned_without_the_condition_of_the_node() {
    let amounts = serde_json::json!({"example.com/old": "0", "example.com/dongle": "4"});
    let ledger = r#"{"example.com/dongle":{"quantity":"4","rule":"dongle"}}"#;
    let condition =
        serde_json::json!({"type": CONDITION_TYPE, "status": "True", "reason": "Advertised", "message": "m"});
    let node = serde_json::json!({
        "metadata": {"name": "node-1", "uid": "1", "resourceVersion": "1", "annotations": {ledger::ANNOTATION: ledger}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition]},
    });
    let changed = |flags: &[&str]| {
        let node = serde_json::from_value(node.clone()).unwrap();
        let planned = NodePrune::new(node, &args(flags).target().scope, &mut Interner::default());
        let changes = planned.changes().iter();
        changes.map(|change| (change.name().to_owned(), change.action == Action::RemoveCondition)).collect::<Vec<_>>()
    };
    let zero = [("example.com/old".to_owned(), false)];
    assert_eq!(changed(&["--zeros"]), zero);
    assert_eq!(changed(&["--zeros", "--rule", "other"]), zero);
    assert!(changed(&["--all"]).iter().any(|(_, is_condition)| *is_condition), "{:?}", changed(&["--all"]));
}

#[tokio::test]
async fn stop_revokes_the_permission_to_write() {
    let (stop, request) = tokio::sync::oneshot::channel::<()>();
    let permissions = stream::once(std::future::ready(Permission::Granted(None)));
    let mut permissions = std::pin::pin!(until_stopped(permissions, async { drop(request.await) }));
    assert_eq!(permissions.next().await, Some(Permission::Granted(None)));
    stop.send(()).unwrap();
    assert_eq!(permissions.next().await, Some(Permission::Revoked(STOPPED.to_owned())));
}

#[tokio::test]
async fn nodes_that_a_signal_left_are_counted() {
    let mut report = Report::new(&PrunePlan { nodes: 3, ..PrunePlan::default() }, "");
    for (node, outcome) in [("a", NodeOutcome::Pruned), ("b", NodeOutcome::Failed(STOPPED.to_owned()))] {
        report.add(&NodeResult { node: node.into(), changes: Vec::new(), outcome });
    }
    let errors: Vec<_> = report.finish(&PrunePlan::default()).await.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["stopped by a signal: 1 node is left; run prune again to withdraw the rest"]);
}

#[test]
fn dry_run_takes_the_values_of_kubectl() {
    for (flags, expected) in [
        (&["--all"][..], false),
        (&["--all", "--dry-run"], true),
        (&["--dry-run", "--all"], true),
        (&["--all", "--dry-run=client"], true),
        (&["--all", "--dry-run=none"], false),
    ] {
        assert_eq!(args(flags).dry_run, expected, "{flags:?}");
    }
    let server = dry_run_mode("server").unwrap_err();
    assert!(server.ends_with("write --dry-run=client"), "{server}");
    assert!(dry_run_mode("true").is_err());
}
