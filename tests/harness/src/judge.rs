//! Judges every node patch of the program by the simulator's checks of I1 to I4 (and I5, as far as one patch can violate
//! it), which random worlds use too. The API server's audit log has the objects.
//!
//! ```text
//! audit log ─▶ history: versions of nodes, states of rules, terms of leaders, lists of pods ─▶ NodeWrite::check
//! ```
//!
//! The log does not show what a process has seen, so whatever it may have seen counts in its favor. Writes by other
//! clients are context. Not judged are
//! - what the program wrote to a node first after the API server or etcd was killed, unless the node's version before
//!   that is known: the write of a killed server has no entry in the log;
//! - rules whose quantity an annotation or a native resource decides: the checks read labels only;
//! - whether a condition is right at that moment.

mod history;
mod story;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use jiff::Timestamp;
use serde_json::Value;

use crate::ControlPlane;
use crate::audit::AuditLog;
use history::History;

/// Where the rules are.
pub(crate) const RULES: &str = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";

/// A supervisor would restart a controller that panics, and hide it from the test.
const PANIC: &str = "panicked at";

/// What happens on one control plane while one test uses it.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) log: AuditLog,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    eras: Vec<Era>,
    excuses: Vec<Excuse>,
}

/// A time in which the versions of objects increase, and the log has every write.
#[derive(Debug)]
struct Era {
    since: Timestamp,
    /// The length of the log at its begin.
    from: u64,
    /// All nodes soon after its begin.
    nodes: Vec<Value>,
    /// All rules then, if they were served.
    rules: Option<Vec<Value>>,
}

/// A violation that a test expects.
#[derive(Clone, Debug)]
struct Excuse {
    violation: &'static str,
    reason: &'static str,
}

impl Judge {
    pub(crate) fn new(log: AuditLog) -> Self {
        let state = State { eras: vec![Era::beginning(0)], excuses: Vec::new() };
        Self { log, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything, before another test uses the control plane.
    fn begin(&self) {
        *self.state() = State { eras: vec![Era::beginning(self.log.length())], excuses: Vec::new() };
    }

    fn excuse(&self, violation: &'static str, reason: &'static str) {
        self.state().excuses.push(Excuse { violation, reason });
    }

    /// Returns the violations, as a story.
    fn verdict(&self) -> Result<()> {
        let state = self.state();
        let mut history = History::default();
        for (number, era) in state.eras.iter().enumerate() {
            let to = state.eras.get(number + 1).map_or_else(|| self.log.length(), |next| next.from);
            history.begin(era);
            history.read(&self.log.lines(era.from, to)?);
        }
        let mut violations = history.violations();
        for Excuse { violation, reason } in &state.excuses {
            let before = violations.len();
            violations.retain(|story| !story.contains(violation));
            if before == violations.len() {
                violations.push(format!("an excuse is not needed: {violation} ({reason})"));
            }
        }
        match violations.first() {
            None => Ok(()),
            Some(first) => bail!("{} violations of invariants; the first is\n{first}", violations.len()),
        }
    }
}

impl Era {
    fn beginning(from: u64) -> Self {
        Self { since: Timestamp::now(), from, nodes: Vec::new(), rules: None }
    }
}

/// Panics because of a violation, or prints it if the test fails anyway.
#[allow(clippy::panic)] // for tests, which panic on failure
pub(crate) fn announce(verdict: Result<()>) {
    match verdict {
        Err(violation) if std::thread::panicking() => eprintln!("{violation:#}"),
        Err(violation) => panic!("{violation:#}"),
        Ok(()) => {}
    }
}

impl ControlPlane {
    /// Checks what the program has done so far: that each of its node patches keeps the invariants, and that it has not
    /// panicked.
    ///
    /// # Errors
    /// Returns the story of the first violation.
    pub(crate) fn judge(&self) -> Result<()> {
        let Some(judge) = &self.judge else { return Ok(()) };
        for file in std::fs::read_dir(self.logs())? {
            let path = file?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("controller-"))
                && let Ok(log) = std::fs::read_to_string(&path)
                && let Some(at) = log.find(PANIC)
            {
                bail!("the program has panicked: {}", log.get(at..).unwrap_or_default());
            }
        }
        judge.verdict()
    }

    /// Begins another test's history, with what is stored now.
    pub(crate) fn begin_history(&self) -> Result<()> {
        if let Some(judge) = &self.judge {
            judge.begin();
        }
        self.resume_history()
    }

    /// Accepts the violations that contain this text, because of `reason`. There must be one.
    pub fn excuse(&self, violation: &'static str, reason: &'static str) {
        if let Some(judge) = &self.judge {
            judge.excuse(violation, reason);
        }
    }

    /// What follows may not continue what was before: a server has been killed.
    pub(crate) fn interrupt_history(&self) {
        if let Some(judge) = &self.judge {
            let era = Era::beginning(judge.log.length());
            judge.state().eras.push(era);
        }
    }

    /// Takes in what is stored, once the API server is ready.
    pub(crate) fn resume_history(&self) -> Result<()> {
        let Some(judge) = &self.judge else { return Ok(()) };
        let list = |path| -> Result<Vec<Value>> {
            let mut list: Value = serde_json::from_str(&self.get(path)?)?;
            let (version, items) = (list["apiVersion"].take(), list["items"].take());
            let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List"));
            // The items of a list have neither.
            let items = serde_json::from_value::<Vec<Value>>(items)?.into_iter().map(|mut item| {
                (item["apiVersion"], item["kind"]) = (version.clone(), kind.into());
                item
            });
            Ok(items.collect())
        };
        // Without the CRD there is no such path.
        let (nodes, rules) = (list("/api/v1/nodes")?, list(RULES).ok());
        if let Some(era) = judge.state().eras.last_mut() {
            (era.nodes, era.rules) = (nodes, rules);
        }
        Ok(())
    }

    /// Returns the audit log since the test began.
    pub(crate) fn log_of_this_test(&self) -> Result<String> {
        let log = self.audit_log()?;
        let from = self.judge.as_ref().and_then(|judge| judge.state().eras.first().map(|era| era.from));
        log.lines(from.unwrap_or_default(), log.length())
    }

    pub(crate) fn audit_log(&self) -> Result<&AuditLog> {
        match &self.judge {
            Some(judge) => Ok(&judge.log),
            None => bail!("this control plane has no audit log"),
        }
    }
}
