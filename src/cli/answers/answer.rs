//! What the answers have in common: the cluster, the nodes, and the output.

use std::time::Duration;

use kube::Client;
use serde::Serialize;
use thiserror::Error;
use tokio::time::Instant;

use super::screen::{Printed, Screen};
use crate::cli::args::ReadArgs;
use crate::cli::message::print_notes;
use crate::cli::output::{API_VERSION, has_colour, print};
use crate::cli::table::{self, Row};
use crate::cli::wrap;
use crate::cluster::client::ConnectError;
use crate::inspect::diff::label_filter::LabelFilter;
use crate::inspect::inventory::error::ReadError;
use crate::inspect::inventory::follow::Follower;
use crate::inspect::inventory::{Inventory, read};
use crate::inspect::timeline;
use crate::model::label::printable;

/// Returns what `--help` of the commands other than `why` ends with.
pub(super) fn help(examples: &str) -> String {
    let exit_codes = "Exits with 0, 1 on an error, also if the name does not exist, and 2 for wrong\narguments.";
    format!("{exit_codes}\n\n{examples}")
}

/// The shortest time between two answers to one question.
const INTERVAL: Duration = Duration::from_secs(1);

/// Why a question has no answer.
#[derive(Debug, Error)]
pub(crate) enum AnswerError {
    /// No cluster can be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The cluster cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The past of a node cannot be read.
    #[error(transparent)]
    History(#[from] timeline::read::ReadError),
    /// The node, pod or resource does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The answer cannot be printed.
    #[error("{0}")]
    Output(String),
}

/// Selects the cluster and the nodes, and the output.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Label selector of the nodes that count, as in kubectl: k=v, k!=v, k in (a,b), k notin (a,b), k and !k,
    /// separated by commas
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: LabelFilter,
    #[command(flatten)]
    shown: Shown,
}

/// Selects the cluster and the output.
#[derive(Debug, clap::Args)]
pub(crate) struct Shown {
    /// Output format
    ///
    /// json and yaml are an object with apiVersion and kind. For columns of your own or a JSONPath, give json to jq.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// Print the lines of the table only: no headings, and no sentences below
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    cluster: ReadArgs,
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

/// How an answer is given.
#[derive(Debug, clap::Args)]
pub(super) struct Repeat {
    /// Answer again each time that the answer changes, at most once per second
    ///
    /// It watches what the answer depends on, for which you need permission to watch it. On a terminal, an answer
    /// replaces the one before.
    #[arg(short, long)]
    pub(super) watch: bool,
}

/// Selects the pods that an answer shows. All pods count.
#[derive(Debug, clap::Args)]
pub(super) struct ShownPods {
    /// Show pods of this namespace only; all pods count
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show pods of all namespaces: the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

impl ShownPods {
    /// Returns the only namespace to show, if there is one.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// An answer, which can be printed in every format.
pub(crate) trait Answer: Serialize {
    const KIND: &'static str;

    /// Returns the headings and lines of a table.
    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>);

    /// Returns the names of what the answer lists, as kubectl takes them.
    fn names(&self) -> Vec<String>;

    /// Returns sentences below the table; a period is added where there is none.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the answer for people: the table, and the sentences below it. Nothing is broken in what may be copied from a
    /// wide one.
    fn text(&self, is_wide: bool) -> String {
        let (headings, rows) = self.table(is_wide);
        let table = match rows.is_empty() {
            true => String::new(),
            false => rendered(&headings, &rows, is_wide),
        };
        let lines = |remark: String| match printable(&sentence(&remark)) {
            remark if is_wide => vec![remark.into_owned()],
            remark => wrap::wrapped(&remark, ""),
        };
        self.remarks().into_iter().flat_map(lines).fold(table, |text, line| text + &line + "\n")
    }
}

/// Returns a table as wide as the terminal, or as it is.
fn rendered(headings: &[&str], rows: &[Row], is_wide: bool) -> String {
    let width = if is_wide { None } else { wrap::width() };
    table::render(headings, rows, has_colour(&std::io::stdout()), width)
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
    pub(super) async fn connect(&self) -> Result<Client, AnswerError> {
        self.shown.connect().await
    }

    pub(super) async fn read_from(&self, client: &Client) -> Result<Inventory, AnswerError> {
        Ok(read::inventory(client, &self.selector).await?)
    }

    /// Reads the same for a question about one pod, which has an answer whatever cannot be listed.
    pub(super) async fn read_around_pod(&self, client: &Client) -> Result<Inventory, AnswerError> {
        Ok(read::around_pod(client, &self.selector).await?)
    }

    /// Answers once, or each time that the answer changes.
    pub(super) async fn answer<A: Answer>(
        &self,
        repeat: &Repeat,
        answer: impl Fn(&Inventory) -> Result<A, AnswerError>,
    ) -> Result<(), AnswerError> {
        self.answer_from(&self.connect().await?, repeat, answer).await
    }

    /// Does the same with a connection that the answer needs for more.
    pub(super) async fn answer_from<A: Answer>(
        &self,
        client: &Client,
        repeat: &Repeat,
        answer: impl Fn(&Inventory) -> Result<A, AnswerError>,
    ) -> Result<(), AnswerError> {
        if !repeat.watch {
            let inventory = self.read_from(client).await?;
            return self.print(&answer(&inventory)?, &inventory.gaps);
        }
        let mut follower = self.follow(client).await?;
        let mut printer = self.printer();
        loop {
            let inventory = follower.inventory()?;
            if !printer.show(&answer(&inventory)?, &inventory.gaps)? {
                return Ok(());
            }
            next_change(&mut follower).await?;
        }
    }

    /// Lists everything, and watches it from there.
    pub(super) async fn follow(&self, client: &Client) -> Result<Follower, AnswerError> {
        Ok(Follower::start(client, self.selector.clone()).await?)
    }

    /// Returns what prints answers one after another, on a terminal in place of another.
    pub(super) fn printer(&self) -> Printer<'_> {
        self.shown.printer(Screen::of_tables())
    }

    /// Prints an answer: data to standard output, and what it lacks to standard error.
    pub(super) fn print<A: Answer>(&self, answer: &A, gaps: &[String]) -> Result<(), AnswerError> {
        self.shown.print(answer, gaps)
    }
}

/// Waits for a change of the cluster, and as long as answers are apart.
pub(super) async fn next_change(follower: &mut Follower) -> Result<(), AnswerError> {
    Ok(follower.change(Instant::now() + INTERVAL).await?)
}

/// Prints answers to one question, each that differs from the one before.
pub(super) struct Printer<'f> {
    format: &'f Shown,
    screen: Screen,
    last: Option<Printed>,
}

impl Printer<'_> {
    /// Prints an answer. Returns whether more can be printed.
    pub(super) fn show<A: Answer>(&mut self, answer: &A, gaps: &[String]) -> Result<bool, AnswerError> {
        let next = (self.format.render(answer, gaps)?, gaps.to_vec());
        let is_open = match self.last.as_ref() == Some(&next) {
            true => true,
            false => self.screen.show(self.last.as_ref(), &next).map_err(|error| failed(&error))?,
        };
        self.last = Some(next);
        Ok(is_open)
    }
}

impl Shown {
    pub(crate) async fn connect(&self) -> Result<Client, AnswerError> {
        Ok(self.cluster.connect().await?.client)
    }

    /// Returns what prints answers one after another.
    pub(super) fn printer(&self, tables: Screen) -> Printer<'_> {
        let screen = match self.output {
            None | Some(Output::Wide) => tables,
            Some(Output::Json) => Screen::Stream(""),
            Some(Output::Yaml) => Screen::Stream("---\n"),
            Some(Output::Name) => Screen::Append,
        };
        Printer { format: self, screen, last: None }
    }

    /// Prints an answer: data to standard output, and what it lacks to standard error.
    pub(crate) fn print<A: Answer>(&self, answer: &A, gaps: &[String]) -> Result<(), AnswerError> {
        let text = self.render(answer, gaps)?;
        print_notes(gaps);
        print(&text).map_err(|error| failed(&error))
    }

    fn render<A: Answer>(&self, answer: &A, gaps: &[String]) -> Result<String, AnswerError> {
        let document = Document { api_version: API_VERSION, kind: A::KIND, answer, notes: gaps };
        Ok(match self.output {
            Some(Output::Json) => serde_json::to_string_pretty(&document).map_err(|error| failed(&error))? + "\n",
            Some(Output::Yaml) => serde_saphyr::to_string(&document).map_err(|error| failed(&error))?,
            Some(Output::Name) => answer.names().into_iter().map(|name| name + "\n").collect(),
            None | Some(Output::Wide) => {
                let is_wide = self.output.is_some();
                // Some answers have no table.
                let table = self.no_headers.then(|| answer.table(is_wide)).filter(|(headings, _)| !headings.is_empty());
                table.map_or_else(|| answer.text(is_wide), |(_, rows)| rendered(&[], &rows, is_wide))
            }
        })
    }
}

/// Returns whether a word names a kind as kubectl takes it before a name: `pod`, `pods` or `po`.
pub(crate) fn names_kind(word: &str, kind: &str, short: &str) -> bool {
    word == kind || word == short || word.strip_suffix('s') == Some(kind)
}

/// Returns the name in TYPE/NAME, as kubectl takes it and `-o name` prints it, or all of it.
pub(super) fn strip_kind<'n>(name: &'n str, kind: &str, short: &str) -> &'n str {
    name.split_once('/').filter(|(word, _)| names_kind(word, kind, short)).map_or(name, |(_, name)| name)
}

/// Returns a sentence with what ends it.
pub(super) fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '?']) { "" } else { "." };
    format!("{text}{end}")
}

fn failed(error: &dyn std::error::Error) -> AnswerError {
    AnswerError::Output(format!("cannot print the answer: {error}"))
}
