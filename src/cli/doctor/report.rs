//! What all checks have found.

use anstyle::AnsiColor;
use serde::Serialize;

use super::checks;
use super::finding::{Finding, NotRun, Severity};
use super::snapshot::Snapshot;
use crate::cli::answers::answer::Answer;
use crate::cli::end::Verdict;
use crate::cli::table::{Cell, Row};
use crate::model::count::plural;

/// How many objects a line names, and how many problems of one check a table shows, without `-o wide`.
const NAMED: usize = 2;
const LINES: usize = 10;

/// What all checks have found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    errors: usize,
    warnings: usize,
    checks: Vec<Checked>,
    /// Why something could not be read.
    #[serde(skip)]
    unread: Vec<NotRun>,
}

/// What one check has found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    check: &'static str,
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
    pub(super) fn new(snapshot: &Snapshot) -> Self {
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
        let failed = self.checks.iter().filter(|checked| !checked.findings().is_empty());
        let failed: Vec<_> = failed.map(|checked| checked.check).collect();
        for checked in &mut self.checks {
            if let CheckResult::Failed { findings } = &mut checked.result {
                findings.retain(|finding| finding.found_by.is_none_or(|by| !failed.contains(&by)));
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
    fn not_run(&self) -> impl Iterator<Item = (&'static str, &NotRun)> {
        self.checks.iter().filter_map(|Checked { check, result }| match result {
            CheckResult::NotRun { why } if !why.is_of_cluster() => Some((*check, why)),
            _ => None,
        })
    }

    /// Returns the checks for which this cluster has nothing to look at.
    fn inapplicable(&self) -> Vec<&'static str> {
        let checks = self.checks.iter().filter(|checked| match &checked.result {
            CheckResult::NotRun { why } => why.is_of_cluster(),
            _ => false,
        });
        checks.map(|checked| checked.check).collect()
    }

    /// Returns why checks could not run, with their names.
    fn reasons(&self) -> Vec<(&NotRun, Vec<&'static str>)> {
        let mut reasons = Vec::<(&NotRun, Vec<_>)>::new();
        for (check, why) in self.not_run() {
            match reasons.iter_mut().find(|(other, _)| *other == why) {
                Some((_, checks)) => checks.push(check),
                None => reasons.push((why, vec![check])),
            }
        }
        reasons
    }

    /// Returns sentences about the checks that could not run, and all that could not be read, without a period.
    pub(super) fn notes(&self) -> Vec<String> {
        let reasons = self.reasons();
        // Those checks lack this too.
        let others = self.unread.iter().filter(|why| !why.is_of_cluster());
        let others = others.filter(|why| reasons.iter().all(|(other, _)| other != why));
        let others: Vec<_> = others.map(ToString::to_string).collect();
        let named = reasons.into_iter().map(|(why, checks)| format!("not checked: {}: {why}", checks.join(", ")));
        named.chain(others).collect()
    }

    /// Returns how the command ends. `is_strict` counts warnings as problems.
    pub(super) fn verdict(&self, is_strict: bool) -> Verdict {
        let has_failed = self.unread.iter().any(|why| matches!(why, NotRun::Failed(_)));
        let is_incomplete = self.unread.iter().any(|why| !why.is_of_cluster());
        match (self.errors, self.warnings) {
            (1.., _) => Verdict::Found,
            (0, 1..) if is_strict => Verdict::Found,
            _ if has_failed => Verdict::Unread,
            _ if is_incomplete => Verdict::Incomplete,
            _ => Verdict::Fine,
        }
    }
}

impl Checked {
    fn findings(&self) -> &[Finding] {
        match &self.result {
            CheckResult::Failed { findings } => findings,
            _ => &[],
        }
    }
}

impl Answer for Report {
    const KIND: &'static str = "Diagnosis";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let most = |short| if is_wide { usize::MAX } else { short };
        let mut rows = Vec::new();
        for checked in self.checks.iter().filter(|checked| !checked.findings().is_empty()) {
            rows.push(Row::new([checked.check.into()]));
            for finding in checked.findings().iter().take(most(LINES)) {
                let colour = match finding.severity {
                    Severity::Error => AnsiColor::Red,
                    Severity::Warning => AnsiColor::Yellow,
                };
                let severity = Cell::styled(finding.severity.word(), colour.on_default());
                let objects = finding.objects(NAMED);
                rows.push(Row::below(1, [objects.into(), severity, finding.problem.as_str().into()]));
                rows.push(Row::below(2, ["fix".into(), "".into(), finding.fix.as_str().into()]));
                let others = finding.objects.iter().skip(NAMED).filter(|_| is_wide);
                rows.extend(others.map(|object| Row::below(2, [object.to_string().into()])));
            }
            let more = checked.findings().len().saturating_sub(most(LINES));
            if more > 0 {
                let text = format!("and {}: -o wide shows all", plural(more, "more problem", "more problems"));
                rows.push(Row::below(1, [text.into()]));
            }
        }
        (vec!["CHECK AND OBJECT", "SEVERITY", "PROBLEM"], rows)
    }

    fn names(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|checked| !checked.findings().is_empty());
        failed.map(|checked| checked.check.to_owned()).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let (not_run, inapplicable) = (self.not_run().count(), self.inapplicable());
        let ran = self.checks.len() - not_run - inapplicable.len();
        let failed = self.checks.iter().filter(|checked| !checked.findings().is_empty()).count();
        let passed = format!("{} passed", plural(ran - failed, "check", "checks"));
        let counts = [(self.errors, "error", "errors"), (self.warnings, "warning", "warnings")];
        let counts = counts.iter().filter(|(count, ..)| *count > 0);
        let found = counts.map(|(count, one, many)| plural(*count, one, many)).collect::<Vec<_>>().join(" and ");
        let could_not_run = (not_run > 0).then(|| format!(", {not_run} could not run"));
        let nothing_to_see = match &inapplicable[..] {
            [] => String::new(),
            checks => format!("; this cluster has nothing to look at for {}", checks.join(", ")),
        };
        // Nothing is fine of which nothing was seen.
        let found = match (failed, not_run) {
            (0, 0) => "No problems found: ".to_owned(),
            (0, _) => String::new(),
            _ => format!("{found}: "),
        };
        vec![format!("{found}{passed}{}{nothing_to_see}", could_not_run.unwrap_or_default())]
    }
}
