//! The program under its names as a plugin: `kubectl ner` runs `kubectl-ner`, and `kubectl extended-resources` runs
//! `kubectl-extended_resources`.
//!
//! A plugin shows commands in its help as they are typed, and without a command it runs `top`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Command, Parser};

/// The prefix of the names under which kubectl runs the program to complete words.
const COMPLETER: &str = "kubectl_complete-";

const NAME: &str = env!("CARGO_PKG_NAME");
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
    let Some(typed) = args.first().and_then(|program| typed(program)) else {
        return T::try_parse_from(args);
    };
    // Once in a process, since clap keeps names for its whole life.
    let command = named(T::command(), typed.leak());
    match parse_as(command.clone(), args.clone()) {
        // An option of `top`, or nothing.
        Err(error) if is_without_command(&error, &args) => {
            let is_command = |arg: &OsString| command.get_subcommands().any(|command| *command.get_name() == **arg);
            let has_command = args.iter().skip(1).any(is_command);
            let mut args = args;
            args.insert(1, DEFAULT.into());
            // An option before a command is to blame, and not the command. It may also be the value of an option of `top`.
            parse_as(command, args).map_err(|of_default| if has_command { error } else { of_default })
        }
        result => result,
    }
}

fn parse_as<T: Parser>(mut command: Command, args: Vec<OsString>) -> Result<T, clap::Error> {
    let mut matches = command.try_get_matches_from_mut(args)?;
    if matches.subcommand_name() == Some(CONTROLLER) {
        let problem = format!(
            "{CONTROLLER} is the controller, which a plugin of kubectl does not start: it would write beside the one that \
             runs in the cluster, with your permissions. To start it anyway, use {NAME} {CONTROLLER}"
        );
        return Err(command.error(ErrorKind::InvalidSubcommand, problem));
    }
    T::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn stem(program: &OsStr) -> Option<&str> {
    Path::new(program).file_stem()?.to_str()
}

/// Returns how kubectl calls this program, if it does.
fn typed(program: &OsStr) -> Option<String> {
    let plugin = stem(program)?.strip_prefix("kubectl-")?;
    Some(format!("kubectl {}", plugin.replace('_', "-")))
}

/// Returns how this program is called: `kubectl ner` as a plugin.
pub(super) fn program() -> String {
    std::env::args_os().next().and_then(|program| typed(&program)).unwrap_or_else(|| NAME.to_owned())
}

/// Returns the command without what a plugin rejects.
pub(super) fn without_controller(command: Command) -> Command {
    command.mut_subcommand(CONTROLLER, |controller| controller.hide(true))
}

/// Returns the command with this name in its usage and its examples.
fn named(command: Command, typed: &'static str) -> Command {
    let command = without_controller(command).name(typed).bin_name(typed);
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

/// Returns whether a plugin got options only.
fn is_without_command(error: &clap::Error, args: &[OsString]) -> bool {
    let is_option = |arg: &OsString| arg.to_string_lossy().starts_with('-');
    match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        ErrorKind::UnknownArgument => args.get(1).is_some_and(is_option),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
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
    fn option_before_the_command_of_a_plugin_is_the_error() {
        for (args, wrong) in [
            (&["kubectl-ner", "--context", "x", "why", "p"][..], "--context"),
            (&["kubectl-ner", "--context", "x", "--bogus"], "--bogus"),
        ] {
            let error = parsed(args).unwrap_err().to_string();
            assert!(error.contains(&format!("unexpected argument '{wrong}'")), "{error}");
        }
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
