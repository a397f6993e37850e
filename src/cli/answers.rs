//! The commands that answer questions about a cluster: `top`, `node`, `resource`, `pod` and `why`.

mod node;
mod pod;
mod resource;
mod top;
mod view;
mod why;

use std::process::ExitCode;

use kube::Client;
use serde::Serialize;
use thiserror::Error;

use super::args::ClusterArgs;
use super::diff::API_VERSION;
use super::diff::label_filter::LabelFilter;
use super::inventory::read::ReadError;
use super::inventory::{Inventory, read};
use super::output::{has_colour, print};
use super::table::{self, Row};
use crate::cluster::client::ConnectError;
pub(super) use node::Args as NodeArgs;
pub(super) use pod::Args as PodArgs;
pub(super) use resource::Args as ResourceArgs;
pub(super) use top::Args as TopArgs;
pub(super) use why::Args as WhyArgs;

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// No cluster can be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The cluster cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The node, pod or resource does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The answer cannot be printed.
    #[error("{0}")]
    Output(String),
}

/// Selects the cluster and the nodes, and the output.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Label selector of the nodes that count, as in kubectl: k=v, k!=v, k in (a,b), k notin (a,b), k and !k,
    /// separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: LabelFilter,
    /// Output format
    ///
    /// json and yaml are an object with apiVersion and kind.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// More columns, and nothing shortened
    Wide,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
    /// The names only, one per line
    Name,
}

/// An answer, which can be printed in every format.
trait Answer: Serialize {
    const KIND: &'static str;

    /// Returns the headings and lines of a table.
    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>);

    /// Returns the names of what the answer lists, as kubectl takes them.
    fn names(&self) -> Vec<String>;

    /// Returns sentences below the table, without a period.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The output for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, A> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    answer: &'a A,
    /// What could not be read.
    notes: &'a [String],
}

impl Common {
    async fn connect(&self) -> Result<Client, AnswerError> {
        Ok(self.cluster.connect().await?.client)
    }

    async fn read_from(&self, client: &Client) -> Result<Inventory, AnswerError> {
        Ok(read::inventory(client, &self.selector).await?)
    }

    async fn read(&self) -> Result<Inventory, AnswerError> {
        self.read_from(&self.connect().await?).await
    }

    /// Prints an answer: data to standard output, and what it lacks to standard error.
    fn print<A: Answer>(&self, answer: &A, gaps: &[String]) -> Result<(), AnswerError> {
        let failed = |error: &dyn std::error::Error| AnswerError::Output(format!("cannot print the answer: {error}"));
        let document = Document { api_version: API_VERSION, kind: A::KIND, answer, notes: gaps };
        let text = match self.output {
            Some(Output::Json) => serde_json::to_string_pretty(&document).map_err(|error| failed(&error))? + "\n",
            Some(Output::Yaml) => serde_saphyr::to_string(&document).map_err(|error| failed(&error))?,
            Some(Output::Name) => answer.names().into_iter().map(|name| name + "\n").collect(),
            None | Some(Output::Wide) => {
                let (headings, rows) = answer.table(self.output.is_some());
                let table = match rows.is_empty() {
                    true => String::new(),
                    false => table::render(&headings, &rows, has_colour(&std::io::stdout())),
                };
                let remarks = answer.remarks().into_iter().map(|remark| format!("{remark}.\n"));
                remarks.fold(table, |text, remark| text + &remark)
            }
        };
        for gap in gaps {
            eprintln!("note: {gap}");
        }
        print(&text).map_err(|error| failed(&error))
    }
}

/// Returns the exit code of a command that fails with 1.
fn exit_code(result: Result<(), AnswerError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `top`.
pub(super) async fn top(args: TopArgs) -> ExitCode {
    exit_code(top::run(args).await)
}

/// Runs `node`.
pub(super) async fn node(args: NodeArgs) -> ExitCode {
    exit_code(node::run(args).await)
}

/// Runs `resource`.
pub(super) async fn resource(args: ResourceArgs) -> ExitCode {
    exit_code(resource::run(args).await)
}

/// Runs `pod`.
pub(super) async fn pod(args: PodArgs) -> ExitCode {
    exit_code(pod::run(args).await)
}

/// Runs `why`.
pub(super) async fn why(args: WhyArgs) -> ExitCode {
    why::run(args).await
}
