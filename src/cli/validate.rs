//! `validate`: checks manifests without a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use super::error::Error;
use super::output::{has_colour, print};
use crate::manifest::{self, Exclude, Glob, Inputs, Limits};
use crate::validate::{Format, NO_RULES, Severity, Validator};

#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 0 if there are no errors, 1 if there are, and 2 if something \
                        cannot be read or no rule is found.")]
pub(super) struct Args {
    /// YAML or JSON files, folders with such files, or - for standard input. Other kinds are
    /// skipped, except that pod templates and quotas are compared with what the rules declare. In
    /// folders, files that hold no Kubernetes object and patches of kustomizations are skipped.
    #[arg(required_unless_present = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The same as FILE, as kubectl has it.
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Also read folders within folders. Without it, as with kubectl apply, only the files directly
    /// in a folder are read.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Leave out files and folders: those of this name, or, with a slash in it, of this path. `*`
    /// and `?` stop at a slash, `**` does not. May be repeated.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<Glob>,
    /// Count warnings as errors.
    #[arg(long)]
    strict: bool,
    /// How problems are reported: with the text underlined, as one JSON object, as annotations of
    /// GitHub Actions, as a code quality report of GitLab, or as JUnit XML.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Github,
    Gitlab,
    Junit,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut validator = Validator::new().map_err(Error::Validation)?.strict(args.strict);
    let inputs = Inputs {
        paths: [args.files.as_slice(), &args.filename].concat(),
        recursive: args.recursive,
        exclude: Exclude::from(args.exclude.clone()),
    };
    let files =
        manifest::read(&inputs, &Limits::default(), &mut |document| validator.take(document));
    let report = validator.finish(files);
    print(&report.render(args.output.format()))?;
    if report.count(Severity::Unreadable) > 0 {
        return Ok(ExitCode::from(2));
    }
    if report.has_no_rules() {
        eprintln!("error: {NO_RULES}");
        return Ok(ExitCode::from(2));
    }
    Ok(if report.count(Severity::Error) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Output {
    fn format(self) -> Format {
        match self {
            Self::Text => Format::Text { colour: has_colour(&std::io::stdout()) },
            Self::Json => Format::Json,
            Self::Github => Format::Github,
            Self::Gitlab => Format::Gitlab,
            Self::Junit => Format::Junit,
        }
    }
}
