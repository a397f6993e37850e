//! How a report on a cluster is printed, and which exit code follows.

use serde_json::json;

use super::*;
use crate::cli::answers::answer::Answer as _;
use crate::cli::table;
use crate::inspect::doctor::snapshot::{Rules, Snapshot};
use crate::inspect::doctor::tests::{DONGLE, healthy, node, pods, quota, rule};
use crate::model::api;

#[test]
fn healthy_cluster_exits_with_0() {
    assert_eq!(Report::new(&healthy()).verdict(true) as u8, 0);
}

#[test]
fn report_names_every_object_when_it_is_wide() {
    let mut cluster = healthy();
    cluster.waiting = Ok(pods(&["a", "b", "c", "d"].map(|name| (name, "example.com/dongel", "1"))));
    let report = Report::new(&cluster);
    let text = |is_wide| {
        let (headings, rows) = report.table(is_wide);
        table::render(&headings, &rows, false, None)
    };
    assert!(text(false).contains("Pod default/a, default/b and 2 more   error"), "{}", text(false));
    assert!(!text(false).contains("default/d") && text(true).contains("   └─ default/d\n"), "{}", text(true));
    assert_eq!((report.names(), report.verdict(false) as u8), (vec!["undeclared-request".to_owned()], 1));
    assert_eq!(report.remarks(), ["1 error: 24 checks passed"]);
    let report = serde_json::to_value(&report).unwrap();
    assert_eq!(report["checks"][0], json!({"check": "crd", "result": "Passed"}));
    let object = json!({"kind": "Pod", "namespace": "default", "name": "a"});
    assert_eq!(report["checks"][4]["findings"][0]["objects"][0], object);
    cluster.quotas = Ok((0..30).map(|number| quota(&format!("example.com/{number}"))).collect());
    let shown = Report::new(&cluster).table(false).1.len();
    assert_eq!(shown, 3 + 1 + 20 + 1, "ten problems of a check, and how many more");
}

#[test]
fn check_without_a_right_is_not_passed() {
    let mut cluster = healthy();
    cluster.waiting = Err(NotRun::Forbidden("list pods"));
    cluster.rules = Err(NotRun::Forbidden("list nodeextendedresources"));
    cluster.quotas = Ok(vec![quota(DONGLE)]);
    let report = Report::new(&cluster);
    assert_eq!(report.verdict(false) as u8, 1, "the quota needs no rule");
    cluster.quotas = Ok(vec![]);
    let report = Report::new(&cluster);
    assert_eq!((report.verdict(false) as u8, report.verdict(true) as u8), (3, 3));
    let ran = checks::ALL.iter().filter(|check| (check.run)(&cluster).is_ok()).count();
    let counts = format!("{ran} checks passed, {} could not run", checks::ALL.len() - ran);
    assert_eq!(report.remarks(), [counts], "nothing is fine that was not looked at");
    let notes = report.notes().join("\n");
    for check in checks::ALL {
        let ran = (check.run)(&cluster).is_ok();
        assert_ne!(ran, notes.contains(check.name), "{}: {notes}", check.name);
    }
    assert!(notes.contains(": you lack permission to list nodeextendedresources"), "{notes}");
    assert!(notes.contains("\nyou lack permission to list pods"), "{notes}");
    cluster.waiting = Err(NotRun::Failed("cannot list pods: etcd is full".to_owned()));
    assert_eq!(Report::new(&cluster).verdict(false) as u8, 2);
    assert_eq!(cluster.why_blank(), None);
}

#[test]
fn cause_is_reported_once() {
    let mut cluster = healthy();
    let conditions = [["Ready", "False", "InvalidLedger"]];
    cluster.rules = Ok(Some(Rules::new(vec![rule("dongle", DONGLE, json!(4), &conditions)])));
    let failed = |cluster: &Snapshot| Report::new(cluster).names();
    assert_eq!(failed(&cluster), ["rule-status"], "the annotation has been repaired since");
    cluster.nodes = Ok(vec![node("node-1", &json!({DONGLE: "4"}), Some("{"), api::FIELD_MANAGER)]);
    assert_eq!(failed(&cluster), ["ledger"]);
}

#[test]
fn check_with_nothing_to_look_at_is_no_problem_and_not_passed() {
    let mut cluster = healthy();
    cluster.schedulers = Ok(Vec::new());
    let report = Report::new(&cluster);
    assert_eq!((report.verdict(true) as u8, report.notes()), (0, vec![]));
    // No check depends on it here, and it was not looked at.
    cluster.accounts = Err(NotRun::Forbidden("create subjectaccessreviews"));
    assert!(!Report::new(&cluster).remarks()[0].starts_with("No problems found"));
    let nothing = "No problems found: 24 checks passed; this cluster has nothing to look at for scheduler-ignores";
    assert_eq!(report.remarks(), [nothing]);
}
