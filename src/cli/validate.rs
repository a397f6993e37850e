//! `validate`: checks manifests without a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use super::error::Error;
use super::output::{has_colour, print};
use crate::manifest::{self, Limits};
use crate::validate::{Format, Severity, Validator};

#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 0 where there are no errors, 1 where there are, and 2 where \
                        something cannot be read.")]
pub(super) struct Args {
    /// YAML or JSON files, folders with such files, or - for standard input. Other kinds are
    /// skipped, except that pod templates and quotas are compared with what the rules declare.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How problems are told: with the text underlined, as one JSON object, or as annotations of
    /// GitHub Actions.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Github,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut validator = Validator::new().map_err(Error::Validation)?;
    let files =
        manifest::read(&args.files, &Limits::default(), &mut |document| validator.take(document));
    let report = validator.finish(files);
    print(&report.render(args.output.format()))?;
    Ok(match (report.count(Severity::Unreadable), report.count(Severity::Error)) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(1),
        _ => ExitCode::from(2),
    })
}

impl Output {
    fn format(self) -> Format {
        match self {
            Self::Text => Format::Text { colour: has_colour(&std::io::stdout()) },
            Self::Json => Format::Json,
            Self::Github => Format::Github,
        }
    }
}
