//! Completion for kubectl: it runs `kubectl_complete-ner` with the words after `kubectl ner`, the last of which is to be
//! completed, and reads one candidate per line, with help after a tab, and then a directive of cobra (kubectl 1.26 and
//! later).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Debug;
use std::time::Duration;

use clap::{Arg, Command, FromArgMatches as _};
use clap_complete::engine;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use super::answers::answer::names_kind;
use super::args::ClusterArgs;
use super::error::Error;
use super::output::print;
use super::plugin;
use crate::inspect::inventory::{read, workloads};
use crate::model::api::NodeExtendedResource;

/// The longest wait for the cluster: a person does not wait longer for a completion.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The names that one request lists, and the most that are offered.
const PAGE: u32 = 1000;
const MAX_NAMES: usize = 500;

/// Complete the last word, for kubectl
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The words after the plugin's name
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<OsString>,
}

/// What the shell does with the candidates.
#[derive(Clone, Copy)]
enum Directive {
    /// It completes names of files if there are none.
    Files = 0,
    /// It completes nothing else.
    NoFiles = 4,
}

pub(super) async fn run(mut args: Args, command: Command) -> Result<(), Error> {
    let command = plugin::without_controller(command);
    split_value(&mut args.words);
    put_command_first(&command, &mut args.words);
    let word = args.words.last().and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    if let Some(subject) = Subject::of(command.clone(), &args.words) {
        // A completion must not print errors between what is typed.
        let names = tokio::time::timeout(TIMEOUT, subject.names(&word)).await.ok().flatten().unwrap_or_default();
        let names = names.into_iter().filter(|name| name.starts_with(&word)).map(|name| (name, None));
        return print(&text(names, Directive::NoFiles));
    }
    let directive = if takes_file(&command, &args.words) { Directive::Files } else { Directive::NoFiles };
    let candidates = candidates(command, args.words);
    print(&text(candidates, directive))
}

/// Separates the value that is typed after `--option=`: kubectl's shells put what is before it in front of candidates.
fn split_value(words: &mut Vec<OsString>) {
    let last = words.last().and_then(|word| word.to_str()).filter(|word| word.starts_with("--"));
    if let Some((option, value)) = last.and_then(|word| word.split_once('=')) {
        let [option, value] = [option, value].map(OsString::from);
        words.pop();
        words.extend([option, value]);
    }
}

/// Puts the command before options that belong to it: `top`, which a plugin runs, if there is none. The last word is yet to
/// be completed.
fn put_command_first(command: &Command, words: &mut Vec<OsString>) {
    if words.len() > 1 && words.first().is_some_and(|first| first.to_string_lossy().starts_with('-')) {
        let last = words.pop();
        words.insert(0, OsString::new());
        *words = plugin::command_first(command, std::mem::take(words), Some("top"));
        words.remove(0);
        words.extend(last);
    }
}

/// Returns whether the last of the words is the name of a file, according to the option before it, or the command.
fn takes_file(command: &Command, words: &[OsString]) -> bool {
    let Some(command) = words.first().and_then(|name| command.find_subcommand(name)) else { return false };
    let is_file = |arg: &Arg| arg.get_value_names().is_some_and(|names| names.iter().any(|name| *name == "FILE"));
    let before = words.iter().rev().nth(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let is_typed = |arg: &&Arg| {
        let long = arg.get_long().is_some_and(|long| before == format!("--{long}"));
        let takes_value = arg.get_action().takes_values();
        takes_value && (long || arg.get_short().is_some_and(|short| before == format!("-{short}")))
    };
    let mut arguments = command.get_arguments();
    match arguments.find(is_typed) {
        Some(option) => is_file(option),
        None => command.get_positionals().any(is_file),
    }
}

/// Returns subcommands, options and their values, each with its help.
fn candidates(mut command: Command, words: Vec<OsString>) -> Vec<(String, Option<String>)> {
    let place = words.len().max(1);
    let typed = words.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let mut words = words;
    words.insert(0, command.get_name().into());
    if place == words.len() {
        words.push(OsString::new());
    }
    let found = engine::complete(&mut command, words, place, None).unwrap_or_default();
    let shown = found.into_iter().filter(|candidate| !candidate.is_hide_set());
    let text = shown.filter_map(|candidate| {
        let help = candidate.get_help().map(ToString::to_string);
        Some((candidate.get_value().to_str()?.to_owned(), help))
    });
    // The shell completes paths better. Nobody asks for options without a dash.
    let has_dash = typed.starts_with('-');
    text.filter(|(value, _)| !value.starts_with('/') && (has_dash || !value.starts_with('-'))).collect()
}

fn text(candidates: impl IntoIterator<Item = (String, Option<String>)>, directive: Directive) -> String {
    let lines = candidates.into_iter().map(|(value, help)| {
        let help = help.as_deref().and_then(|help| help.lines().next()).map(|help| format!("\t{help}"));
        format!("{value}{}\n", help.unwrap_or_default())
    });
    lines.collect::<String>() + &format!(":{}\n", directive as u8)
}

/// The kind of a name that is completed, and where it is.
struct Subject {
    kind: Kind,
    namespace: Option<String>,
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Node,
    Pod,
    /// A pod without a node.
    WaitingPod,
    Workload(&'static workloads::Kind),
    Resource,
    Namespace,
    Rule,
    /// A node, or with `ner/` a rule.
    NodeOrRule,
    Context,
}

impl Kind {
    /// Returns what an option's value names.
    fn of_option(option: &str) -> Option<Self> {
        Some(match option {
            "-n" | "--namespace" | "--controller-namespace" | "--leader-elect-resource-namespace" => Self::Namespace,
            "--node" => Self::Node,
            "--rule" => Self::Rule,
            "--resource" => Self::Resource,
            "--context" => Self::Context,
            _ => return None,
        })
    }

    /// Returns what the argument of a command names, and the argument.
    fn of_argument(command: &str) -> Option<(Self, &'static str)> {
        Some(match command {
            "node" => (Self::Node, "name"),
            "history" => (Self::NodeOrRule, "name"),
            "resource" => (Self::Resource, "name"),
            "pod" => (Self::Pod, "pod"),
            "why" => (Self::WaitingPod, "pod"),
            _ => return None,
        })
    }

    /// Returns what a word names, which may be typed as TYPE/NAME, and the name.
    fn of_word(self, word: &str) -> (Self, &str) {
        let (typed, name) = word.split_once('/').unwrap_or_default();
        match self {
            Self::Node | Self::NodeOrRule if names_kind(typed, "node", "no") => (Self::Node, name),
            Self::NodeOrRule if names_kind(typed, "nodeextendedresource", "ner") => (Self::Rule, name),
            Self::WaitingPod => workloads::Kind::named(typed).map_or((self, word), |kind| (Self::Workload(kind), name)),
            _ => (self, word),
        }
    }
}

impl Subject {
    /// Returns the subject if the last of the words is its name, or is to become it.
    fn of(command: Command, words: &[OsString]) -> Option<Self> {
        let (word, before) = words.split_last()?;
        let word = word.to_str()?;
        let of_option = before.last().and_then(|option| Kind::of_option(option.to_str()?));
        // What is typed before says which cluster it is, whatever is missing.
        let typed = if of_option.is_some() { before.split_last()?.1 } else { words };
        let program = OsString::from(command.get_name());
        let command = command.ignore_errors(of_option.is_some());
        let matches = command.try_get_matches_from(std::iter::once(&program).chain(typed)).ok()?;
        let (name, matches) = matches.subcommand()?;
        let kind = match of_option {
            Some(kind) => kind,
            None => {
                let (kind, argument) = Kind::of_argument(name)?;
                matches.get_one::<String>(argument).filter(|name| *name == word)?;
                kind
            }
        };
        let namespace = matches.try_get_one::<String>("namespace").ok().flatten().cloned();
        let cluster = ClusterArgs::from_arg_matches(matches).ok()?;
        Some(Self { kind, namespace, cluster })
    }

    /// Returns the names in the cluster that begin as it is typed, if it can be asked.
    async fn names(&self, word: &str) -> Option<BTreeSet<String>> {
        let (kind, name) = self.kind.of_word(word);
        let typed = word.strip_suffix(name).unwrap_or_default();
        let names =
            if kind == Kind::Context { self.cluster.contexts() } else { self.names_in_cluster(kind, name).await };
        Some(names?.into_iter().map(|name| format!("{typed}{name}")).collect())
    }

    async fn names_in_cluster(&self, kind: Kind, word: &str) -> Option<BTreeSet<String>> {
        let client = self.cluster.connect().await.ok()?.client;
        let all = ListParams::default();
        match kind {
            Kind::Context => None,
            Kind::Node | Kind::NodeOrRule => names(&Api::<Node>::all(client), &all, word).await,
            Kind::Namespace => names(&Api::<Namespace>::all(client), &all, word).await,
            Kind::Rule => names(&Api::<NodeExtendedResource>::all(client), &all, word).await,
            Kind::Pod => pods(client, self.namespace.as_deref(), word, &all).await,
            Kind::WaitingPod => pods(client, self.namespace.as_deref(), word, &all.fields("spec.nodeName=")).await,
            Kind::Workload(kind) => {
                let namespace = self.namespace.as_deref().unwrap_or(client.default_namespace()).to_owned();
                names(&Api::<DynamicObject>::namespaced_with(client, &namespace, &kind.resource()), &all, word).await
            }
            Kind::Resource => Some(read::resource_names(&client).await),
        }
    }
}

/// Returns the first names that begin with a prefix, however many others there are.
async fn names<K>(api: &Api<K>, params: &ListParams, prefix: &str) -> Option<BTreeSet<String>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut names = BTreeSet::new();
    let mut params = params.clone().limit(PAGE);
    loop {
        let page = api.list_metadata(&params).await.ok()?;
        names.extend(
            page.items.into_iter().filter_map(|item| item.metadata.name).filter(|name| name.starts_with(prefix)),
        );
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() || names.len() >= MAX_NAMES {
            return Some(names);
        }
    }
}

/// Returns names of pods, in the form that is typed: with or without the namespace or `pod/`.
async fn pods(client: Client, namespace: Option<&str>, word: &str, params: &ListParams) -> Option<BTreeSet<String>> {
    let (typed, prefix) = match word.split_once('/') {
        Some((typed, prefix)) => (Some(typed), prefix),
        None => (None, word),
    };
    let namespace = typed.filter(|typed| *typed != "pod").or(namespace);
    let namespace = namespace.unwrap_or(client.default_namespace()).to_owned();
    let names = names(&Api::<Pod>::namespaced(client, &namespace), params, prefix).await?;
    let before = typed.map(|typed| format!("{typed}/")).unwrap_or_default();
    Some(names.into_iter().map(|name| format!("{before}{name}")).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use clap::CommandFactory as _;
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    use super::*;
    use crate::cli::Cli;
    use crate::cluster::client;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn commands_and_options_are_completed_with_their_help() {
        let found = candidates(Cli::command(), words(&["wh"]));
        let [(value, Some(help))] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(value, "why");
        assert!(help.starts_with("Show why pods are Pending"), "{help}");
        let all = candidates(Cli::command(), words(&[""]));
        assert!(all.iter().any(|(value, _)| value == "doctor"), "{all:?}");
        assert!(all.iter().all(|(value, _)| value != "complete" && value != "man"), "hidden: {all:?}");
        assert_eq!(candidates(Cli::command(), words(&[])).len(), all.len());
        let found = candidates(Cli::command(), words(&["top", "-o", "y"]));
        assert_eq!(found.first().map(|(value, _)| value.as_str()), Some("yaml"), "{found:?}");
        assert!(candidates(Cli::command(), words(&["plan", "-f", "/"])).is_empty(), "files are the shell's");
    }

    #[test]
    fn name_is_completed_only_where_one_is_expected() {
        for (line, expected) in [
            (&["node", ""][..], Some((Kind::Node, None))),
            (&["history", "no"], Some((Kind::NodeOrRule, None))),
            (&["top", "--context", ""], Some((Kind::Context, None))),
            (&["resource", "example.com/d"], Some((Kind::Resource, None))),
            (&["why", "-n", "team", "po"], Some((Kind::WaitingPod, Some("team")))),
            (&["pod", "-n", "team", "po"], Some((Kind::Pod, Some("team")))),
            (&["pod", "-n", "te"], Some((Kind::Namespace, None))),
            (&["prune", "--node", ""], Some((Kind::Node, None))),
            (&["prune", "--all", "--rule", "d"], Some((Kind::Rule, None))),
            (&["adopt", "--resource", ""], Some((Kind::Resource, None))),
            (&["resource", "example.com/d", ""], None),
            (&["pod", "--na"], None),
            (&["node", "a", "-o", "js"], None),
            (&["top", ""], None),
            (&["no"], None),
            (&[], None),
        ] {
            let subject = Subject::of(Cli::command(), &words(line));
            let found = subject.as_ref().map(|subject| (subject.kind, subject.namespace.as_deref()));
            assert_eq!(found, expected, "{line:?}");
        }
    }

    #[test]
    fn options_before_a_command_are_completed_as_its_options() {
        for (typed, completed) in [
            (&["-o", ""][..], &["top", "-o", ""][..]),
            (&["--context", ""], &["top", "--context", ""]),
            (&["-n", "team", "pod", "a"], &["pod", "-n", "team", "a"]),
            (&["pod", "-n", ""], &["pod", "-n", ""]),
            (&["-"], &["-"]),
        ] {
            let mut found = words(typed);
            put_command_first(&Cli::command(), &mut found);
            assert_eq!(found, words(completed), "{typed:?}");
        }
    }

    #[test]
    fn value_after_an_equals_sign_is_completed_as_if_it_were_a_word() {
        for (typed, split) in [
            (&["pod", "--namespace=te"][..], &["pod", "--namespace", "te"][..]),
            (&["prune", "--node="], &["prune", "--node", ""]),
            (&["prune", "--node=a", "--ru"], &["prune", "--node=a", "--ru"]),
            (&["top", "-l", "pool=a"], &["top", "-l", "pool=a"]),
            (&[], &[]),
        ] {
            let mut found = words(typed);
            split_value(&mut found);
            assert_eq!(found, words(split));
        }
    }

    #[test]
    fn name_is_completed_after_its_kind() {
        for (kind, word, expected) in [
            (Kind::Node, "node/a", (Kind::Node, "a")),
            (Kind::NodeOrRule, "no/", (Kind::Node, "")),
            (Kind::NodeOrRule, "ner/d", (Kind::Rule, "d")),
            (Kind::NodeOrRule, "a", (Kind::NodeOrRule, "a")),
            (Kind::Node, "ner/d", (Kind::Node, "ner/d")),
            (Kind::Resource, "example.com/d", (Kind::Resource, "example.com/d")),
            (Kind::WaitingPod, "deploy.apps/w", (Kind::Workload(workloads::Kind::named("deployment").unwrap()), "w")),
            (Kind::WaitingPod, "pod/w", (Kind::WaitingPod, "pod/w")),
            (Kind::WaitingPod, "team-a/w", (Kind::WaitingPod, "team-a/w")),
            (Kind::Pod, "job/w", (Kind::Pod, "job/w")),
        ] {
            assert_eq!(kind.of_word(word), expected, "{word}");
        }
    }

    /// Serves the metadata of 601 pods, in pages of 300.
    fn pages() -> (Api<Pod>, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&requests);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            seen.fetch_add(1, Ordering::Relaxed);
            let token = request.uri().query().and_then(|query| query.split("continue=").nth(1));
            let start = token.map_or(0, |token| token.parse::<usize>().unwrap());
            let name = |number| json!({"metadata": {"name": format!("pod-{number:03}")}});
            let items: Vec<_> = (start..601).take(300).map(name).collect();
            let more = if start + 300 < 601 { (start + 300).to_string() } else { String::new() };
            let page = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"continue": more}, "items": items});
            async move { Ok::<_, BoxError>(http::Response::new(Body::from(page.to_string().into_bytes()))) }
        });
        (Api::all(client::over(service)), requests)
    }

    #[tokio::test]
    async fn names_are_read_page_by_page_until_there_are_enough() {
        for (prefix, found, pages_read) in [("pod-600", 1, 3), ("pod-3", 100, 3), ("pod-", 600, 2), ("web", 0, 3)] {
            let (pods, requests) = pages();
            let names = names(&pods, &ListParams::default(), prefix).await.unwrap();
            assert_eq!((names.len(), requests.load(Ordering::Relaxed)), (found, pages_read), "{prefix}");
        }
    }

    #[test]
    fn files_are_completed_only_where_one_is_expected() {
        for (line, expected) in [
            (&["plan", "-f", ""][..], true),
            (&["top", "--kubeconfig", ""], true),
            (&["validate", ""], true),
            (&["top", "-l", ""], false),
            (&["prune", "--as", ""], false),
            (&["top", ""], false),
            (&[""], false),
        ] {
            assert_eq!(takes_file(&Cli::command(), &words(line)), expected, "{line:?}");
        }
        assert!(candidates(Cli::command(), words(&["resource", "example.com/dongle", ""])).is_empty());
        assert!(!candidates(Cli::command(), words(&["resource", "example.com/dongle", "--"])).is_empty());
    }

    #[test]
    fn candidates_are_lines_before_a_directive() {
        let candidates = [("a".to_owned(), Some("Help\nand more".to_owned())), ("b".to_owned(), None)];
        assert_eq!(text(candidates, Directive::NoFiles), "a\tHelp\nb\n:4\n");
        assert_eq!(text([], Directive::Files), ":0\n");
    }
}
