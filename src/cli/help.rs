//! Help: commands in groups, and lines of at most 80 columns. clap wraps help with a feature that needs another library.

use anstream::adapter::strip_str;
use clap::Command;
use clap::builder::Styles;
use clap::error::ErrorKind;

use super::permissions;
use super::wrap::{WIDTH, lines};

/// The commands by what people want of them. All others come last.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Questions", &["top", "node", "resource", "pod", "why", "history"]),
    ("Checks", &["doctor", "validate", "plan"]),
    ("Changes", &["adopt", "autoscaler", "guard", "prune"]),
    ("Controller", &["run", "crd"]),
];

/// Below these lines, commands are shown as they are typed.
const EXAMPLES: &str = "Examples:";

/// Returns the command with its subcommands in groups, and their permissions.
pub(super) fn grouped(command: Command) -> Command {
    let command = permissions::described(command);
    let header = *Styles::styled().get_header();
    let heading = |title: &str| format!("{header}{title}:{header:#}\n");
    let is_shown = |command: &&Command| !command.is_hide_set();
    let find = |name: &&str| command.get_subcommands().filter(is_shown).find(|command| command.get_name() == *name);
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let mut text = String::new();
    for (title, names) in GROUPS {
        let lines: String = names.iter().filter_map(find).map(line).collect();
        text += &format!("{}{lines}\n", heading(title));
    }
    let others = command.get_subcommands().filter(is_shown).filter(|command| !grouped(command.get_name()));
    let others: String = others.map(line).collect();
    let help = line(&Command::new("help").about("Print this message or the help of the given subcommand"));
    let options = heading("Options");
    let usage = "{about-with-newline}\n{usage-heading} {usage}\n\n";
    let template = format!("{usage}{text}{}{others}{help}\n{options}{{options}}{{after-help}}", heading("Other"));
    command.help_template(template)
}

fn line(command: &Command) -> String {
    let literal = *Styles::styled().get_literal();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    format!("  {literal}{:<13}{literal:#}{about}\n", command.get_name())
}

/// Prints what ends the parsing of arguments: help, or an error. Exits.
pub(super) fn exit(error: &clap::Error) -> ! {
    if error.kind() == ErrorKind::DisplayHelp {
        anstream::print!("{}", within_width(&error.render().ansi().to_string()));
        std::process::exit(0);
    }
    error.exit()
}

/// Wraps lines that are too long, below the column where their text begins.
fn within_width(help: &str) -> String {
    let mut is_example = false;
    let mut text = String::new();
    for line in help.lines() {
        is_example |= line == EXAMPLES;
        if is_example || width(line) <= WIDTH {
            text += line;
        } else {
            // After the option or the command that it explains.
            let start = line.rfind("  ").map(|at| at + 2).unwrap_or_default();
            let (before, about) = line.split_at(start);
            let indent = " ".repeat(width(before));
            text += before;
            text += &lines(about, WIDTH.saturating_sub(indent.len())).join(&format!("\n{indent}"));
        }
        text.push('\n');
    }
    text
}

fn width(line: &str) -> usize {
    strip_str(line).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn help_has_each_command_in_one_group() {
        let command = grouped(Cli::command());
        let help = command.clone().render_help().to_string();
        let is_shown = |command: &&Command| !command.is_hide_set();
        for command in command.get_subcommands().filter(is_shown) {
            let lines = help.lines().filter(|line| line.trim_start().starts_with(&format!("{} ", command.get_name())));
            assert_eq!(lines.count(), 1, "{}: {help}", command.get_name());
        }
        for (title, names) in GROUPS {
            let group = help.split_once(&format!("{title}:\n")).unwrap().1;
            let shown = group.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
            assert_eq!(shown.collect::<Vec<_>>(), names, "{title}");
        }
    }

    #[test]
    fn help_has_lines_of_80_columns() {
        let mut command = grouped(Cli::command());
        command.build();
        let helps = command.get_subcommands().map(|command| command.clone().render_long_help().ansi().to_string());
        let short = command.get_subcommands().map(|command| command.clone().render_help().ansi().to_string());
        let root = command.clone().render_long_help().ansi().to_string();
        for help in helps.chain(short).chain([root]) {
            let text = within_width(&help);
            let lines = text.lines().take_while(|line| *line != EXAMPLES);
            // A word may be longer: `[env: NRA_LEADER_ELECT_RESOURCE_NAMESPACE=]`.
            let long: Vec<_> = lines.filter(|line| width(line) > WIDTH && line.trim().contains(' ')).collect();
            assert!(long.is_empty(), "{long:#?}\n{text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(&help), "no word is lost");
        }
    }

    #[test]
    fn long_lines_go_on_below_their_text() {
        let text = format!("  \u{1b}[1m-a\u{1b}[0m, --all  {}\n", "word ".repeat(20).trim());
        let lines = within_width(&text);
        let lines: Vec<_> = lines.lines().map(|line| strip_str(line).to_string()).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  -a, --all  word") && lines[1].starts_with(&format!("{}word", " ".repeat(13))));
    }
}
