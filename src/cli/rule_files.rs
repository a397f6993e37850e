//! Rules in files, for commands that need them valid.

use std::path::PathBuf;

use super::error::Error;
use super::message::print_notes;
use super::output::has_colour;
use crate::manifest::{self, Document, Exclude, Glob, Inputs, Limits, ReadError};
use crate::planner::rules::Rule;
use crate::validate::{Format, Severity, Validator};

/// The files of a command that needs rules from files.
#[derive(Debug, clap::Args)]
pub(super) struct RuleFiles {
    /// YAML or JSON files with rules, folders with such files, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Read subfolders of the folders in -f too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Files and folders to skip in -f: a name or, if it contains a slash, a path; can be repeated
    ///
    /// `*` and `?` do not match a slash; `**` does.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<Glob>,
}

impl RuleFiles {
    pub(super) fn inputs(&self) -> Inputs {
        Inputs { paths: self.paths.clone(), recursive: self.recursive, exclude: self.exclude() }
    }

    pub(super) fn exclude(&self) -> Exclude {
        Exclude::from(self.exclude.clone())
    }
}

/// Reads and validates rules, and reports problems, as `validate` does. A note counts the unreadable files of others.
///
/// # Errors
/// If something that may hold rules cannot be read, a rule has an error, or there is none.
pub(super) fn read(inputs: &Inputs) -> Result<Vec<Rule>, Error> {
    read_beside(inputs, &mut |_| {})
}

/// Does the same, and passes each document.
///
/// # Errors
/// As in [`read`].
pub(super) fn read_beside(inputs: &Inputs, see: &mut dyn FnMut(&Document)) -> Result<Vec<Rule>, Error> {
    let mut validator = Validator::new().map_err(Error::Validation)?;
    let mut others = UnreadableOthers::default();
    let mut files = manifest::read(inputs, &Limits::default(), &mut |document| match document {
        Err(error) if !error.may_hold_rules => others.add(error),
        document => {
            if let Ok(document) = &document {
                others.is_beside = true;
                others.errors.clear();
                see(document);
            }
            validator.take(document);
        }
    });
    let is_alone = !others.errors.is_empty();
    match is_alone {
        // The notes about what is skipped would hide that nothing is left.
        true => others.errors.into_iter().for_each(|error| validator.take(Err(error))),
        false => files.unreadable = others.files,
    }
    let (rules, report) = validator.into_rules(files);
    if report.diagnostics.is_empty() {
        print_notes(&report.files.notes());
    } else {
        let colour = has_colour(&std::io::stderr());
        eprint!("{}", report.render(Format::Text { colour }));
    }
    if report.count(Severity::Error) > 0 {
        return Err(Error::InvalidRules);
    }
    if is_alone {
        return Err(Error::NothingReadable);
    }
    if report.count(Severity::Unreadable) > 0 {
        return Err(Error::UnreadableFiles);
    }
    if rules.is_empty() {
        return Err(Error::NoRules);
    }
    Ok(rules)
}

/// What cannot be read and mentions no rule.
#[derive(Default)]
struct UnreadableOthers {
    files: Vec<String>,
    /// Whether something else has been read.
    is_beside: bool,
    /// Kept only while nothing else has been read, since they hold the texts.
    errors: Vec<ReadError>,
}

impl UnreadableOthers {
    fn add(&mut self, error: ReadError) {
        error.add_file(&mut self.files);
        if !self.is_beside {
            self.errors.push(error);
        }
    }
}
