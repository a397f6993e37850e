//! Completion for kubectl: it runs `kubectl_complete-ner` with the words after `kubectl ner`, the last of which is to be
//! completed, and reads one candidate per line, with help after a tab, and then a directive of cobra (kubectl 1.26 and
//! later).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Command, FromArgMatches as _};
use clap_complete::engine;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::args::ClusterArgs;
use super::error::Error;
use super::inventory::read;
use super::output::print;

/// The longest wait for the cluster: a person does not wait longer for a completion.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most names of pods or nodes that are listed.
const MAX_NAMES: u32 = 500;

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

pub(super) async fn run(args: Args, command: Command) -> Result<(), Error> {
    let word = args.words.last().and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    if let Some(subject) = Subject::of(command.clone(), &args.words) {
        // A completion must not print errors between what is typed.
        let names = tokio::time::timeout(TIMEOUT, subject.names(&word)).await.ok().flatten().unwrap_or_default();
        let names = names.into_iter().filter(|name| name.starts_with(&word)).map(|name| (name, None));
        return print(&text(names, Directive::NoFiles));
    }
    let candidates = candidates(command, args.words);
    let directive = if candidates.is_empty() { Directive::Files } else { Directive::NoFiles };
    print(&text(candidates, directive))
}

/// Returns subcommands, options and their values, each with its help.
fn candidates(mut command: Command, words: Vec<OsString>) -> Vec<(String, Option<String>)> {
    let place = words.len().max(1);
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
    // The shell completes paths better.
    text.filter(|(value, _)| !value.starts_with('/')).collect()
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
    Resource,
}

impl Subject {
    /// Returns the subject if the last of the words is its name.
    fn of(command: Command, words: &[OsString]) -> Option<Self> {
        let word = words.last()?.to_str()?;
        let program = OsString::from(command.get_name());
        let matches = command.try_get_matches_from(std::iter::once(&program).chain(words)).ok()?;
        let (name, matches) = matches.subcommand()?;
        let (kind, argument) = match name {
            "node" | "history" => (Kind::Node, "name"),
            "resource" => (Kind::Resource, "name"),
            "pod" | "why" => (Kind::Pod, "pod"),
            _ => return None,
        };
        let is_name = matches.get_one::<String>(argument).is_some_and(|name| name == word);
        let namespace = matches.try_get_one::<String>("namespace").ok().flatten().cloned();
        let cluster = ClusterArgs::from_arg_matches(matches).ok()?;
        is_name.then_some(Self { kind, namespace, cluster })
    }

    /// Returns the names in the cluster, if it can be asked. `word` is what is typed of one.
    async fn names(&self, word: &str) -> Option<BTreeSet<String>> {
        let client = self.cluster.connect().await.ok()?.client;
        let page = ListParams::default().limit(MAX_NAMES);
        match self.kind {
            Kind::Node => {
                let nodes = Api::<Node>::all(client).list_metadata(&page).await.ok()?;
                Some(nodes.items.iter().map(ResourceExt::name_any).collect())
            }
            Kind::Pod => pods(client, self.namespace.as_deref(), word, &page).await,
            Kind::Resource => Some(read::resource_names(&client).await),
        }
    }
}

/// Returns names of pods, in the form that is typed: with or without the namespace.
async fn pods(client: Client, namespace: Option<&str>, word: &str, page: &ListParams) -> Option<BTreeSet<String>> {
    let typed = word.split_once('/').map(|(namespace, _)| namespace.to_owned());
    let namespace = typed.clone().or_else(|| namespace.map(str::to_owned));
    let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let pods = Api::<Pod>::namespaced(client, &namespace).list_metadata(page).await.ok()?;
    let prefix = typed.map(|namespace| namespace + "/").unwrap_or_default();
    Some(pods.items.iter().map(|pod| format!("{prefix}{}", pod.name_any())).collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn commands_and_options_are_completed_with_their_help() {
        let found = candidates(Cli::command(), words(&["wh"]));
        let [(value, Some(help))] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(value, "why");
        assert!(help.starts_with("Show why a pod is Pending"), "{help}");
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
            (&["history", "no"], Some((Kind::Node, None))),
            (&["resource", "example.com/d"], Some((Kind::Resource, None))),
            (&["why", "-n", "team", "po"], Some((Kind::Pod, Some("team")))),
            (&["pod", "-n", "team"], None),
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
    fn candidates_are_lines_before_a_directive() {
        let candidates = [("a".to_owned(), Some("Help\nand more".to_owned())), ("b".to_owned(), None)];
        assert_eq!(text(candidates, Directive::NoFiles), "a\tHelp\nb\n:4\n");
        assert_eq!(text([], Directive::Files), ":0\n");
    }
}
