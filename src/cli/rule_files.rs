//! Rules in files, for commands that need them valid.

use std::path::PathBuf;

use super::error::Error;
use super::message::print_notes;
use super::output::has_colour;
use crate::manifest::{self, Exclude, Inputs, Limits};
use crate::planner::rules::Rule;
use crate::validate::{Format, Severity, Validator};

/// Reads and validates rules, and reports problems, as `validate` does.
///
/// # Errors
/// If something cannot be read, a rule has an error, or there is none.
pub(super) fn read(paths: &[PathBuf], recursive: bool) -> Result<Vec<Rule>, Error> {
    let mut validator = Validator::new().map_err(Error::Validation)?;
    let inputs = Inputs { paths: paths.to_vec(), recursive, exclude: Exclude::default() };
    let files = manifest::read(&inputs, &Limits::default(), &mut |document| validator.take(document));
    print_notes(&files.notes());
    let (rules, report) = validator.into_rules(files);
    if !report.diagnostics.is_empty() {
        let colour = has_colour(&std::io::stderr());
        eprint!("{}", report.render(Format::Text { colour }));
    }
    if report.count(Severity::Unreadable) + report.count(Severity::Error) > 0 {
        return Err(Error::InvalidRules);
    }
    if rules.is_empty() {
        return Err(Error::NoRules);
    }
    Ok(rules)
}
