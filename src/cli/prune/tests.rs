use super::*;

#[test]
fn unlisted_rule_is_reported_with_what_was_searched() {
    let nodes = ["node-1", "node-2"].map(str::to_owned);
    for (nodes, unreadable, line) in [
        (&nodes[..0], 0, "rule r: no node lists it; nothing to withdraw"),
        (&nodes[..], 0, "rule r: none of the searched nodes (node-1, node-2) lists it; nothing to withdraw"),
        (&nodes[..0], 2, "rule r: no node lists it, except possibly 2 nodes whose annotations cannot be read"),
    ] {
        assert_eq!(describe_unlisted("r", nodes, unreadable), line);
    }
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

#[test]
fn failed_nodes_are_reported_beside_a_failed_output() {
    let mut report = Report::new(false, 2);
    report.output = Err(Error::Output(std::io::Error::other("disk full")));
    report.failed = 1;
    let errors: Vec<_> = report.finish(&PrunePlan::default()).iter().map(ToString::to_string).collect();
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
        let Scope { nodes, withdrawal, repair_ledgers } = args(flags).scope();
        assert_eq!((withdrawal.recorded, withdrawal.zeros, repair_ledgers), (recorded, zeros, repairs), "{flags:?}");
        assert!(nodes.is_empty(), "{flags:?}");
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
