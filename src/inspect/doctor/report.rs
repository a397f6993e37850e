//! What all checks have found.

use serde::Serialize;

use super::checks;
use super::finding::{Finding, NotRun, Severity};
use super::snapshot::Snapshot;

/// What all checks have found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) checks: Vec<Checked>,
    /// Why something could not be read.
    #[serde(skip)]
    pub(crate) unread: Vec<NotRun>,
}

/// What one check has found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    pub(crate) check: &'static str,
    #[serde(flatten)]
    result: CheckResult,
}

#[derive(Debug, Serialize)]
#[serde(tag = "result")]
enum CheckResult {
    Passed,
    Failed {
        findings: Vec<Finding>,
    },
    /// It could not run.
    NotRun {
        #[serde(rename = "reason", serialize_with = "as_text")]
        why: NotRun,
    },
}

fn as_text<S: serde::Serializer>(why: &NotRun, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(why)
}

impl Report {
    /// Runs all checks.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let checks = checks::ALL.iter().map(|check| {
            let result = match (check.run)(snapshot) {
                Ok(findings) if findings.is_empty() => CheckResult::Passed,
                Ok(mut findings) => {
                    findings.sort_by_key(|finding| finding.severity != Severity::Error);
                    CheckResult::Failed { findings }
                }
                Err(why) => CheckResult::NotRun { why },
            };
            Checked { check: check.name, result }
        });
        let unread = snapshot.unread().cloned().collect();
        let mut report = Self { errors: 0, warnings: 0, checks: checks.collect(), unread };
        report.drop_consequences();
        let count = |severity| report.findings().filter(|finding| finding.severity == severity).count();
        (report.errors, report.warnings) = (count(Severity::Error), count(Severity::Warning));
        report
    }

    /// Drops what another check has found the cause of.
    fn drop_consequences(&mut self) {
        let causes =
            self.checks.iter().flat_map(|checked| checked.findings().iter().map(|it| (checked.check, it.clone())));
        let causes: Vec<_> = causes.collect();
        for checked in &mut self.checks {
            if let CheckResult::Failed { findings } = &mut checked.result {
                findings.retain(|finding| {
                    let by = finding.found_by.as_ref();
                    !by.is_some_and(|by| causes.iter().any(|(check, cause)| by.is(check, cause, finding.severity)))
                });
                if findings.is_empty() {
                    checked.result = CheckResult::Passed;
                }
            }
        }
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.checks.iter().flat_map(|checked| checked.findings())
    }

    /// Returns the checks that could not run, each with the reason.
    pub(crate) fn not_run(&self) -> impl Iterator<Item = (&'static str, &NotRun)> {
        self.checks.iter().filter_map(|Checked { check, result }| match result {
            CheckResult::NotRun { why } if !why.is_of_cluster() => Some((*check, why)),
            _ => None,
        })
    }

    /// Returns the checks for which this cluster has nothing to look at.
    pub(crate) fn inapplicable(&self) -> Vec<&'static str> {
        let checks = self.checks.iter().filter(|checked| match &checked.result {
            CheckResult::NotRun { why } => why.is_of_cluster(),
            _ => false,
        });
        checks.map(|checked| checked.check).collect()
    }
}

impl Checked {
    pub(crate) fn findings(&self) -> &[Finding] {
        match &self.result {
            CheckResult::Failed { findings } => findings,
            _ => &[],
        }
    }
}
