//! The program under its names as a plugin: `kubectl ner` runs `kubectl-ner`, and `kubectl extended-resources` runs
//! `kubectl-extended_resources`.
//!
//! A plugin shows commands in its help as they are typed, and without a command it runs `top`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Command, Parser};

use super::help;
use crate::inspect::program::{NAME, stem, typed};

/// The prefix of the names under which kubectl runs the program to complete words.
const COMPLETER: &str = "kubectl_complete-";

const DEFAULT: &str = "top";
const CONTROLLER: &str = "run";

/// Parses the arguments of a process, the first of which is the program's name.
///
/// # Errors
/// If the arguments are invalid, or ask for help.
pub(super) fn parse<T: Parser>(args: Vec<OsString>) -> Result<T, clap::Error> {
    if args.first().and_then(|program| stem(program)).is_some_and(|name| name.starts_with(COMPLETER)) {
        let words = args.into_iter().skip(1);
        return T::try_parse_from([NAME, "complete", "--"].map(OsString::from).into_iter().chain(words));
    }
    let typed = args.first().and_then(|program| typed(program));
    let default = typed.is_some().then_some(DEFAULT);
    // Once in a process, since clap keeps names for its whole life.
    let command = match typed {
        Some(typed) => named(T::command(), typed.leak()),
        None => help::grouped(T::command()),
    };
    let args = command_first(&command, args, default);
    let mut command = command;
    let mut matches = command.try_get_matches_from_mut(args)?;
    if default.is_some() && matches.subcommand_name() == Some(CONTROLLER) {
        let problem = format!(
            "{CONTROLLER} is the controller, which a plugin of kubectl does not start: it would write beside the one that \
             runs in the cluster, with your permissions. To start it anyway, use {NAME} {CONTROLLER}"
        );
        return Err(command.error(ErrorKind::InvalidSubcommand, problem));
    }
    T::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Moves options before a command behind it, where clap expects them. `default` is the command if there is none.
pub(super) fn command_first(command: &Command, mut args: Vec<OsString>, default: Option<&str>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(words) = args.get(at).and_then(|arg| words_of_option(command, &arg.to_string_lossy())) {
        at += words;
    }
    let is_option = |arg: &OsString| arg.to_string_lossy().starts_with('-');
    let is_help = |arg: &OsString| ["-h", "--help", "-V", "--version"].iter().any(|help| **arg == **help);
    match (args.get(at), default) {
        (Some(arg), _) if !is_option(arg) => args.get_mut(1..=at).unwrap_or_default().rotate_right(1),
        // Help of the program itself.
        (Some(arg), _) if at == 1 && is_help(arg) => {}
        (_, Some(default)) => args.insert(1.min(args.len()), default.into()),
        (_, None) => {}
    }
    args
}

/// Returns how many words an option of any command takes, with its value; `None` if it is no such option.
fn words_of_option(command: &Command, word: &str) -> Option<usize> {
    let options = command.get_arguments().chain(command.get_subcommands().flat_map(Command::get_arguments));
    let options: Vec<_> = options.collect();
    let find = |is_it: &dyn Fn(&Arg) -> bool| options.iter().find(|option| is_it(option)).copied();
    let (option, has_value) = match word.strip_prefix("--") {
        Some(long) => {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            (find(&|option| option.get_long() == Some(name))?, value.is_some())
        }
        None => {
            let mut letters = word.strip_prefix('-')?.chars();
            let short = letters.next()?;
            (find(&|option| option.get_short() == Some(short))?, letters.next().is_some())
        }
    };
    Some(if option.get_action().takes_values() && !has_value { 2 } else { 1 })
}

/// Returns the command without what a plugin rejects.
pub(super) fn without_controller(command: Command) -> Command {
    command.mut_subcommand(CONTROLLER, |controller| controller.hide(true))
}

/// Returns the command with this name in its usage and its examples.
fn named(command: Command, typed: &'static str) -> Command {
    let command = help::grouped(without_controller(command)).name(typed).bin_name(typed);
    let command = command.after_help(format!("Without a command, it runs {DEFAULT}."));
    let names: Vec<_> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| {
            let examples = command.get_after_help().map(|text| text.to_string().replace(NAME, typed));
            match examples {
                Some(examples) => command.after_help(examples),
                None => command,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::{Cli, Command as Subcommand};

    fn parsed(args: &[&str]) -> Result<Cli, clap::Error> {
        parse(args.iter().map(OsString::from).collect())
    }

    #[test]
    fn plugin_without_a_command_runs_top() {
        for args in [
            &["/usr/bin/kubectl-ner"][..],
            &["kubectl-extended_resources.exe", "-o", "wide"],
            &["kubectl-ner", "--color", "never"],
            &["kubectl-ner", "-l", "a=b", "--context", "x"],
        ] {
            let cli = parsed(args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
            assert!(matches!(cli.command, Subcommand::Top(_)), "{args:?}");
        }
        assert!(matches!(parsed(&["kubectl-ner", "node", "a"]).unwrap().command, Subcommand::Node(_)));
        assert!(matches!(parsed(&["kubectl-ner", "--context", "node"]).unwrap().command, Subcommand::Top(_)));
        for args in [&["node-resource-advertiser"][..], &["kubectl-ner", "nodes"], &["kubectl-ner", "--nonsense"]] {
            assert!(parsed(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn help_of_a_plugin_names_the_command_that_it_runs_without_one() {
        for (program, expected) in [("kubectl-ner", true), ("node-resource-advertiser", false)] {
            let help = parsed(&[program, "--help"]).unwrap_err().to_string();
            assert_eq!(help.contains("Without a command, it runs top."), expected, "{help}");
        }
    }

    #[test]
    fn completer_takes_every_word_as_it_is() {
        for words in [&[][..], &[""], &["top", "-o", ""], &["--help"], &["--", "-x"]] {
            let args = [&["/usr/bin/kubectl_complete-ner"], words].concat();
            let cli = parsed(&args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
            assert!(matches!(cli.command, Subcommand::Complete(_)), "{args:?}");
        }
    }

    #[test]
    fn plugin_does_not_start_a_controller() {
        let error = parsed(&["kubectl-ner", "run", "--bind-address", "127.0.0.1:0"]).unwrap_err().to_string();
        assert!(error.contains("use node-resource-advertiser run"), "{error}");
        assert!(matches!(parsed(&["node-resource-advertiser", "run"]).unwrap().command, Subcommand::Run(_)));
        let help = |program: &str| parsed(&[program, "--help"]).unwrap_err().to_string();
        let lists_run = |help: &str| help.lines().any(|line| line.trim_start().starts_with("run "));
        assert!(lists_run(&help("node-resource-advertiser")) && !lists_run(&help("kubectl-ner")));
    }

    #[test]
    fn options_before_a_command_are_its_options() {
        let moved = |args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            let args = command_first(&Cli::command(), args, Some("top")).into_iter();
            args.map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (args, expected) in [
            (&["ner", "--context", "x", "why", "p"][..], "ner why --context x p"),
            // A value that is a command's name as well.
            (&["ner", "--context", "node", "why", "p"], "ner why --context node p"),
            (&["ner", "--context=x", "-n", "a", "-w", "why"], "ner why --context=x -n a -w"),
            (&["ner", "-nteam", "pod", "p"], "ner pod -nteam p"),
            (&["ner", "why", "--context", "x"], "ner why --context x"),
            (&["ner", "--context", "node"], "ner top --context node"),
            (&["ner", "-o", "wide", "--help"], "ner top -o wide --help"),
            (&["ner", "--help"], "ner --help"),
            (&["ner", "--bogus", "why"], "ner top --bogus why"),
            (&["ner"], "ner top"),
            (&[], "top"),
        ] {
            assert_eq!(moved(args), expected);
        }
        let cli = parsed(&["node-resource-advertiser", "--context", "x", "prune", "--zeros"]).unwrap();
        assert!(matches!(cli.command, Subcommand::Prune(_)));
        let error = parsed(&["kubectl-ner", "--context", "x", "--bogus"]).unwrap_err().to_string();
        assert!(error.contains("unexpected argument '--bogus'"), "{error}");
    }

    #[test]
    fn help_of_a_plugin_shows_commands_as_they_are_typed() {
        for (program, typed) in [
            ("kubectl-ner", "kubectl ner"),
            ("kubectl-extended_resources", "kubectl extended-resources"),
            ("node-resource-advertiser", "node-resource-advertiser"),
        ] {
            let help = parsed(&[program, "plan", "--help"]).unwrap_err();
            assert_eq!(help.kind(), ErrorKind::DisplayHelp);
            let help = help.to_string();
            assert!(help.contains(&format!("Usage: {typed} plan")), "{help}");
            assert!(help.contains(&format!("{typed} plan -f rules/")), "{help}");
            assert_eq!(typed.starts_with("kubectl"), !help.contains("node-resource-advertiser plan"), "{help}");
            let version = parsed(&[program, "--version"]).unwrap_err().to_string();
            assert!(version.starts_with(typed), "{version}");
        }
    }
}
