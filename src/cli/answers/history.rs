//! `history`: who changed what on a node, and when, as far as the cluster still knows.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::answer::{Answer, AnswerError, Shown};
use crate::cli::age::age;
use crate::cli::duration::parse_duration;
use crate::cli::table::{Cell, Row};
use crate::cli::timeline::entry::{Entry, Source, When, seconds};
use crate::cli::timeline::read::{self, Material};
use crate::cli::timeline::timeline;
use crate::cluster::clock;
use crate::model::count::few;

/// How many resources or fields a table names. A rule has nine fields.
const NAMED: usize = 9;

/// Show who changed the extended resources of a node, and when
///
/// The ledger, managedFields, conditions, taints and Events of the node, and the same of the rules that select it or
/// that its ledger or an Event on it names, in one order, the newest last. Kubernetes keeps no history of objects: Events expire after
/// an hour, unless the API server is configured otherwise, managedFields have one time per field manager, that of its
/// last write to anything that it owns, and what was overwritten leaves no other trace. The log of the controller has
/// every change that it made.
#[derive(Debug, clap::Args)]
#[command(after_help = super::answer::help(
    "Examples:
  # Who changed node-1 within the last half hour
  node-resource-advertiser history node-1 --since 30m",
))]
pub(in crate::cli) struct Args {
    /// Name of the node
    name: String,
    /// Show what happened in this time before now, such as 30m; what has no time is always shown
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Serialize)]
struct History {
    node: String,
    uid: String,
    entries: Vec<EntryView>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
struct EntryView {
    /// In RFC 3339, in UTC; absent for what is so now, and for what happened at an unknown time.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    source: Source,
    /// The rule that it is about; absent if it is about the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<String>,
    warning: bool,
    what: String,
    /// The resources, parts of a node or fields of a rule that the field manager owns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owns: Vec<String>,
    #[serde(skip)]
    when: When,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "must be a duration, such as 30m or 1h30m".to_owned())
}

pub(super) async fn run(args: Args) -> Result<(), AnswerError> {
    let client = args.shown.connect().await?;
    let Material { node, records, gaps } = read::material(&client, &args.name).await?;
    let now = clock::now();
    // Before the first possible time there is nothing.
    let start = args.since.map(|since| now.checked_sub(since).unwrap_or(Timestamp::MIN));
    let entries = timeline(&node, &records, start).into_iter().map(EntryView::new).collect();
    let history = History { node: node.name.to_string(), uid: node.uid.to_string(), entries, now };
    args.shown.print(&history, &gaps)
}

impl EntryView {
    fn new(entry: Entry) -> Self {
        let Entry { when, source, rule, who, is_warning, what, owns } = entry;
        let time = match when {
            When::At(time) => Some(time.to_string()),
            When::Unknown | When::Now => None,
        };
        Self { time, source, rule, who, warning: is_warning, what, owns, when }
    }

    fn row(&self, now: Timestamp, is_wide: bool) -> Row {
        let (time, age) = match self.when {
            When::Unknown => ("<unknown>".to_owned(), "<unknown>".to_owned()),
            When::At(time) => (seconds(time), age(now, time)),
            When::Now => ("now".to_owned(), String::new()),
        };
        let who = self.who.as_deref().unwrap_or("<unknown>");
        let subject = self.rule.as_ref().map(|rule| format!("rule {rule}: ")).unwrap_or_default();
        let style = if self.warning { AnsiColor::Yellow.on_default() } else { Style::new() };
        let most = if is_wide { self.owns.len() } else { NAMED };
        let owns = if self.owns.is_empty() { String::new() } else { format!("; owns {}", few(&self.owns, most, ", ")) };
        let what = Cell::styled(format!("{subject}{}{owns}", self.what), style);
        Row::new([time.into(), age.into(), self.source.as_str().into(), who.into(), what])
    }
}

impl Answer for History {
    const KIND: &'static str = "NodeHistory";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let rows = self.entries.iter().map(|entry| entry.row(self.now, is_wide)).collect();
        (vec!["TIME", "AGE", "SOURCE", "WHO", "WHAT"], rows)
    }

    fn names(&self) -> Vec<String> {
        let mut rules: Vec<_> = self.entries.iter().filter_map(|entry| entry.rule.clone()).collect();
        rules.sort();
        rules.dedup();
        rules
    }

    fn remarks(&self) -> Vec<String> {
        let limits = "Older changes may be missing: Events expire, and managedFields have only the last write of each \
                      field manager";
        vec![limits.to_owned()]
    }
}
