//! `history`: who changed what on a node, or of a rule or a resource on all nodes, and when, as far as the cluster still
//! knows.

use std::collections::BTreeSet;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use tokio::time::sleep;

use super::answer::{Answer, AnswerError, Shown, names_kind, strip_kind};
use super::screen::Screen;
use crate::cli::age::age;
use crate::cli::duration::parse_duration;
use crate::cli::message::print_notes;
use crate::cli::table::{Cell, GAP, Row};
use crate::cli::wrap::wrapped;
use crate::cluster::clock;
use crate::inspect::timeline::entry::{Entry, Source, When, seconds};
use crate::inspect::timeline::read::{self, Material};
use crate::inspect::timeline::records::Records;
use crate::inspect::timeline::scope::Scope;
use crate::inspect::timeline::timeline;
use crate::model::count::{few, plural};
use crate::model::label::printable;

/// How many resources or fields, and how many nodes, a table names.
const NAMED: usize = 9;
const NAMED_NODES: usize = 3;
/// How many entries a table has, the newest.
const MOST: usize = 100;
/// The width of a time, and of the longest usual age, so that lines break where they did a moment ago.
const TIME_WIDTH: usize = "2026-01-01T00:00:00Z".len();
const AGE_WIDTH: usize = "9m59s".len();
/// The pause between two reads.
const INTERVAL: Duration = Duration::from_secs(5);

/// Show who changed a node, a rule or a resource, and when
///
/// Of a node: its ledger, managedFields, conditions, taints and Events, and the same of the rules that select it or that
/// its ledger or an Event on it names. With --rule or --resource, what is about these, on that node or on all nodes. Labels
/// count if a rule depends on them, and the Leases say which process led. The newest is last.
///
/// Kubernetes keeps no history of objects: Events expire after
/// an hour, unless the API server is configured otherwise, managedFields have one time per field manager, that of its
/// last write to anything that it owns, and what was overwritten leaves no other trace. The log of the controller has
/// every change that it made.
#[derive(Debug, clap::Args)]
#[command(after_help = super::answer::help(
    "Examples:
  # Who changed node-1 within the last half hour
  node-resource-advertiser history node-1 --since 30m

  # What happened to one rule, on all nodes
  node-resource-advertiser history ner/dongle

  # Who wrote a resource on node-1, and what happens to it from now on
  node-resource-advertiser history node-1 --resource example.com/dongle -w",
))]
#[group(id = "subject", required = true, multiple = true, args = ["name", "rule", "resource"])]
pub(crate) struct Args {
    /// Name of the node, node/NAME, or ner/NAME for a rule
    name: Option<String>,
    /// Show what is about this rule
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Show what is about this resource
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// Show what happened in this time before now, such as 30m; what has no time is always shown
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    /// Read again every five seconds, and print what is new
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Serialize)]
struct History {
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    entries: Vec<EntryView>,
    #[serde(skip)]
    now: Timestamp,
    /// Whether another answer stands above it.
    #[serde(skip)]
    continues: bool,
}

#[derive(Debug, Serialize)]
struct EntryView {
    /// In RFC 3339, in UTC; absent for what is so now, and for what happened at an unknown time.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    source: Source,
    /// The nodes that it is about, in a history of several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    /// The rule that it is about; absent if it is about nodes or a Lease.
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

pub(crate) async fn run(args: Args) -> Result<(), AnswerError> {
    let scope = args.scope();
    let client = args.shown.connect().await?;
    // Before the first possible time there is nothing.
    let start = args.since.map(|since| clock::now().checked_sub(since).unwrap_or(Timestamp::MIN));
    let Material { records, gaps } = read::material(&client, &scope).await?;
    let mut printed = timeline(&scope, &records, start, clock::now());
    if !args.watch {
        return args.shown.print(&History::new(&scope, &records, printed), &gaps);
    }
    let mut printer = args.shown.printer(Screen::Append);
    let mut is_open = printer.show(&History::new(&scope, &records, printed.clone()), &gaps)?;
    let mut failure = None;
    while is_open {
        sleep(INTERVAL).await;
        let failed = match read::material(&client, &scope).await {
            Ok(Material { records, gaps }) => {
                let now = timeline(&scope, &records, start, clock::now());
                let new: Vec<_> = now.iter().filter(|entry| !printed.contains(entry)).cloned().collect();
                printed = now;
                if !new.is_empty() {
                    let history = History { continues: true, ..History::new(&scope, &records, new) };
                    is_open = printer.show(&history, &gaps)?;
                }
                None
            }
            Err(error) => Some(format!("{error}; it is tried again every five seconds")),
        };
        if failed != failure {
            print_notes(failed.as_slice());
            failure = failed;
        }
    }
    Ok(())
}

impl Args {
    fn scope(&self) -> Scope {
        let name = self.name.as_deref();
        let kind_and_name = name.and_then(|name| name.split_once('/'));
        let rule = kind_and_name.filter(|(kind, _)| {
            let kind = kind.split_once('.').map_or(*kind, |(kind, _)| kind);
            names_kind(kind, "nodeextendedresource", "ner")
        });
        let node = name.filter(|_| rule.is_none()).map(|name| strip_kind(name, "node", "no").to_owned());
        let rule = rule.map(|(_, name)| name.to_owned()).or_else(|| self.rule.clone());
        Scope { node, rule, resource: self.resource.clone() }
    }
}

impl History {
    fn new(scope: &Scope, records: &Records, entries: Vec<Entry>) -> Self {
        let Scope { node, rule, resource } = scope.clone();
        let uid = records.nodes.first().filter(|_| node.is_some()).map(|record| record.node.uid.to_string());
        let entries = entries.into_iter().map(EntryView::new).collect();
        Self { node, uid, rule, resource, entries, now: clock::now(), continues: false }
    }
}

impl EntryView {
    fn new(entry: Entry) -> Self {
        let Entry { when, source, nodes, rule, who, is_warning, what, owns } = entry;
        let time = match when {
            When::At(time) => Some(time.to_string()),
            When::Unknown | When::Now => None,
        };
        Self { time, source, nodes, rule, who, warning: is_warning, what, owns, when }
    }

    fn what(&self, is_wide: bool) -> String {
        let most = |few: usize, all: usize| if is_wide { all } else { few };
        let nodes = few(&self.nodes, most(NAMED_NODES, self.nodes.len()), ", ");
        let nodes = if nodes.is_empty() { nodes } else { format!("{nodes}: ") };
        let rule = self.rule.as_ref().map(|rule| format!("rule {rule}: ")).unwrap_or_default();
        let owns = few(&self.owns, most(NAMED, self.owns.len()), ", ");
        let owns = if owns.is_empty() { owns } else { format!("; owns {owns}") };
        format!("{nodes}{rule}{}{owns}", self.what)
    }

    /// Returns the time and the age.
    fn times(&self, now: Timestamp) -> [String; 2] {
        match self.when {
            When::Unknown => ["<unknown>".to_owned(), String::new()],
            When::At(time) => [seconds(time), age(now, time)],
            When::Now => ["now".to_owned(), String::new()],
        }
    }

    /// Returns the cell of a text.
    fn cell(&self, text: &str) -> Cell {
        let style = if self.warning { AnsiColor::Yellow.on_default() } else { Style::new() };
        Cell::styled(text, style)
    }

    fn wide_row(&self, now: Timestamp) -> Row {
        let [time, age] = self.times(now).map(Cell::from);
        let who = self.who.as_deref().unwrap_or("<unknown>");
        Row::new([time, age, self.source.as_str().into(), who.into(), self.cell(&self.what(true))])
    }

    /// Returns lines that fit a terminal, where no age has more characters than this.
    fn rows(&self, now: Timestamp, age_width: usize) -> Vec<Row> {
        let indent = " ".repeat(TIME_WIDTH + age_width + 2 * GAP.len());
        // Without the domain of a reporting controller.
        let who = self.who.as_deref().map(|who| format!("{}: ", who.rsplit('/').next().unwrap_or(who)));
        let text = format!("{}{}", who.unwrap_or_default(), self.what(false));
        let lines = wrapped(&printable(&text), &indent);
        let [time, age] = self.times(now);
        let times = [[format!("{time:TIME_WIDTH$}"), format!("{age:age_width$}")]]
            .into_iter()
            .chain(std::iter::repeat_with(Default::default));
        let rows = lines
            .iter()
            .zip(times)
            .map(|(line, [time, age])| Row::new([time.into(), age.into(), self.cell(line.trim_start())]));
        rows.collect()
    }
}

impl Answer for History {
    const KIND: &'static str = "NodeHistory";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let most = if is_wide { self.entries.len() } else { MOST };
        let newest = self.entries.iter().skip(self.entries.len().saturating_sub(most));
        if is_wide {
            let rows = newest.map(|entry| entry.wide_row(self.now)).collect();
            return (vec!["TIME", "AGE", "SOURCE", "WHO", "WHAT"], rows);
        }
        let ages = newest.clone().map(|entry| entry.times(self.now)[1].chars().count());
        let age_width = ages.chain([AGE_WIDTH]).max().unwrap_or_default();
        let older = self.entries.len().saturating_sub(MOST);
        let older = (older > 0).then(|| plural(older, "older entry is", "older entries are"));
        let older = older.map(|older| Row::new(["…".into(), "".into(), format!("{older} not shown: -o wide").into()]));
        let rows = older.into_iter().chain(newest.flat_map(|entry| entry.rows(self.now, age_width))).collect();
        (vec!["TIME", "AGE", "WHO AND WHAT"], rows)
    }

    fn names(&self) -> Vec<String> {
        let rules = self.entries.iter().filter_map(|entry| entry.rule.as_ref());
        let names: BTreeSet<_> = rules.map(|rule| format!("nodeextendedresource.noderesource.dev/{rule}")).collect();
        names.into_iter().collect()
    }

    fn remarks(&self) -> Vec<String> {
        if self.continues {
            return Vec::new();
        }
        let limits = "Older changes may be missing: Events expire, and managers have one time each";
        vec![limits.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(texts: &[(&str, When, &str)]) -> History {
        let entry = |(who, when, what): &(&str, When, &str)| Entry {
            when: *when,
            source: Source::Event,
            nodes: ["n1", "n2", "n3", "n4", "n5"].map(str::to_owned).to_vec(),
            rule: Some("dongle".to_owned()),
            who: Some((*who).to_owned()),
            is_warning: false,
            what: (*what).to_owned(),
            owns: Vec::new(),
        };
        let entries = texts.iter().map(|text| EntryView::new(entry(text))).collect();
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        History { node: None, uid: None, rule: None, resource: None, entries, now, continues: false }
    }

    fn at(time: &str) -> When {
        When::At(time.parse().unwrap())
    }

    #[test]
    fn history_fits_80_columns_however_odd_its_times() {
        let long =
            "Repaired: Repaired example.com/dongle on node-1: 9 (by kubectl-patch) -> 6, as rule dongle declares";
        let history = history(&[
            ("a.example/controller", When::Unknown, long),
            ("b", at("2026-01-01T11:59:00Z"), long),
            ("c", at("2027-01-01T11:59:00Z"), long),
            ("d", When::Now, "short\nline"),
        ]);
        let expected = "\
TIME                   AGE         WHO AND WHAT
<unknown>                          controller: n1, n2, n3 and 2 more: rule
                                   dongle: Repaired: Repaired example.com/dongle
                                   on node-1: 9 (by kubectl-patch) -> 6, as rule
                                   dongle declares
2026-01-01T11:59:00Z   60s         b: n1, n2, n3 and 2 more: rule dongle:
                                   Repaired: Repaired example.com/dongle on
                                   node-1: 9 (by kubectl-patch) -> 6, as rule
                                   dongle declares
2027-01-01T11:59:00Z   <invalid>   c: n1, n2, n3 and 2 more: rule dongle:
                                   Repaired: Repaired example.com/dongle on
                                   node-1: 9 (by kubectl-patch) -> 6, as rule
                                   dongle declares
now                                d: n1, n2, n3 and 2 more: rule dongle:
                                   short\\u{a}line
Older changes may be missing: Events expire, and managers have one time each.
";
        assert_eq!(history.text(false), expected);
        assert_eq!(history.text(true).lines().count(), 6);
        assert!(history.text(true).contains("n4, n5: rule dongle: short"));
    }

    #[test]
    fn history_shows_the_newest_and_counts_the_others() {
        let texts: Vec<_> = (0..MOST + 2).map(|_| ("a", When::Now, "x")).collect();
        let history = history(&texts);
        let text = history.text(false);
        assert_eq!(text.lines().count(), 1 + MOST + 2);
        assert!(text.contains("2 older entries are not shown: -o wide\n"), "{text}");
        assert!(history.text(true).lines().count() == 1 + texts.len() + 1 && !history.text(true).contains("not shown"));
        let next = History { continues: true, ..history };
        assert!(!next.text(false).contains("Older"), "it has been said");
        assert_eq!(next.names(), ["nodeextendedresource.noderesource.dev/dongle"]);
    }
}
