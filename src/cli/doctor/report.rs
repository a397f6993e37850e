//! How a report is printed, and how the command ends.

use anstyle::AnsiColor;

use crate::cli::answers::answer::Answer;
use crate::cli::end::Verdict;
use crate::cli::table::{Cell, Row};
use crate::inspect::doctor::finding::{NotRun, Severity};
use crate::inspect::doctor::report::Report;
use crate::model::count::plural;

/// How many objects a line names, and how many problems of one check a table shows, without `-o wide`.
const NAMED: usize = 2;
const LINES: usize = 10;

impl Report {
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
            (0, 0) if self.unread.iter().all(NotRun::is_of_cluster) => "No problems found: ".to_owned(),
            (0, _) => String::new(),
            _ => format!("{found}: "),
        };
        vec![format!("{found}{passed}{}{nothing_to_see}", could_not_run.unwrap_or_default())]
    }
}
