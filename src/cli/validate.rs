//! `validate`: checks manifests without a cluster.

use std::path::PathBuf;

use super::end::{Failure, Verdict};
use super::error::Error;
use super::message::print_message;
use super::output::{has_colour, print};
use crate::manifest::{self, Exclude, Glob, Inputs, Limits};
use crate::validate::{External, Format, NO_RULES, Severity, Validator};

/// Validate manifests without a cluster, as the API server would
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// YAML or JSON files, folders with such files, or - for standard input
    ///
    /// Objects of other kinds are skipped, except that extended resources in pods, quotas and LimitRanges are checked
    /// and compared with what the rules declare. In folders, files without a Kubernetes object and patches of kustomizations are skipped.
    #[arg(required_unless_present = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Same as FILE, as in kubectl
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Read subfolders too; by default, as with kubectl apply, only the files directly in a folder are read
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Files and folders to skip: a name or, if it contains a slash, a path; can be repeated
    ///
    /// `*` and `?` do not match a slash; `**` does.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<Glob>,
    /// Resource that no rule declares because something else provides it, such as a device plugin; can be repeated
    ///
    /// `example.com/*` stands for all resources of the domain.
    #[arg(long, value_name = "RESOURCE")]
    external: Vec<External>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// Problems with the source underlined
    Text,
    /// One JSON object
    Json,
    /// Annotations for GitHub Actions
    Github,
    /// A code quality report for GitLab
    Gitlab,
    /// JUnit XML
    Junit,
}

const AFTER_HELP: &str = "\
Exits with 0 if there are no errors, 1 if there are errors, and 2 if something cannot be read or no rule is found.

Examples:
  # Validate a folder and its subfolders
  node-resource-advertiser validate -R rules/

  # Validate what a chart renders
  helm template CHART | node-resource-advertiser validate -

  # Annotate a pull request on GitHub, and fail on warnings
  node-resource-advertiser validate --strict -o github rules/";

pub(super) fn run(args: &Args) -> Result<Verdict, Failure> {
    let mut validator =
        Validator::new().map_err(Error::Validation)?.strict(args.strict).external(args.external.clone());
    let inputs = Inputs {
        paths: [args.files.as_slice(), &args.filename].concat(),
        recursive: args.recursive,
        exclude: Exclude::from(args.exclude.clone()),
    };
    let files = manifest::read(&inputs, &Limits::default(), &mut |document| validator.take(document));
    let report = validator.finish(files);
    print(&report.render(args.output.format()))?;
    if report.count(Severity::Unreadable) > 0 {
        return Ok(Verdict::Unread);
    }
    if report.has_no_rules() {
        print_message(format_args!("error: {NO_RULES}"));
        return Ok(Verdict::Unread);
    }
    Ok(if report.count(Severity::Error) > 0 { Verdict::Found } else { Verdict::Fine })
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
