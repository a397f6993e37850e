//! The commands in the documentation: found, run, and compared with the output that is shown.
//!
//! Every block of commands says in a comment above it what happens to it in the tests:
//!
//! ```text
//! <!-- runs: NAME -->           a test of that name runs it, in order with the page's other such blocks
//! <!-- golden: FILE -->         it is the text of this golden file, which a test compares with the program
//! <!-- not run: REASON -->      nothing here can run it
//! ```
//!
//! In a block of `console`, what follows a line with `$ ` is its output. It is compared word by word;
//! ages are equal, and `…` stands for any text. Such a command may fail, if its output is shown. A
//! command of a block of `sh` must succeed. A pipe that ends in grep may find nothing.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{Cluster, Output, control_plane_program, program, project_file, tool};

/// A page's block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The page, below the project's folder.
    pub page: String,
    /// The line that the block begins in, from 1.
    pub line: usize,
    /// What the tests do with it.
    pub marker: Marker,
    /// The text between the fences.
    pub text: String,
    is_console: bool,
}

/// What the tests do with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// The test of this name runs it.
    Runs(String),
    /// It equals this file.
    Golden(String),
    /// It is not run, for this reason.
    NotRun(String),
    /// There is no comment, which is a mistake.
    Missing,
}

/// A command, and its output where the page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What bash runs.
    pub command: String,
    /// What it prints.
    pub output: Option<String>,
}

/// Where commands run.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The working directory.
    pub folder: PathBuf,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// Words of the pages that stand for a name, and the name: `NODE`, `node-1`.
    pub words: Vec<(&'static str, String)>,
    /// Shell variables that a page sets, and the value that they have here.
    pub variables: BTreeMap<&'static str, String>,
}

/// Returns the blocks of `sh` and `console` of pages.
///
/// # Errors
/// Where a page cannot be read.
pub fn blocks(pages: &[PathBuf]) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let root = project_file("");
    for page in pages {
        let text =
            fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = page.strip_prefix(&root).unwrap_or(page).display().to_string();
        blocks.extend(blocks_of(&name, &text));
    }
    Ok(blocks)
}

/// Returns the pages with commands for users: the README, the pages in `docs/`, and every README
/// of the chart and the examples.
///
/// # Errors
/// Where a folder cannot be read.
pub fn pages() -> Result<Vec<PathBuf>> {
    fn visit(folder: &Path, all: bool, pages: &mut Vec<PathBuf>) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let is_page = path.extension().is_some_and(|end| end == "md");
            let is_readme = path.file_name().is_some_and(|name| name == "README.md");
            if path.is_dir() {
                visit(&path, all, pages)?;
            } else if is_readme || (all && is_page) {
                pages.push(path);
            }
        }
        Ok(())
    }
    let mut pages = vec![project_file("README.md")];
    visit(&project_file("docs"), true, &mut pages)?;
    for folder in ["charts", "examples"] {
        visit(&project_file(folder), false, &mut pages)?;
    }
    pages.sort();
    Ok(pages)
}

/// Returns the commands of a chart's notes, which stand indented; but not those that undo the installation.
#[must_use]
pub fn notes_blocks(notes: &str) -> Vec<Block> {
    let paragraphs = notes.split("\n\n").filter(|paragraph| {
        let command = paragraph.trim_start_matches('\n');
        command.starts_with("  ")
            && !["helm uninstall", "kubectl delete"].iter().any(|undo| command.contains(undo))
    });
    let block = |(number, paragraph): (usize, &str)| Block {
        page: "NOTES.txt, paragraph".to_owned(),
        line: number + 1,
        marker: Marker::Runs("release".to_owned()),
        text: paragraph
            .lines()
            .flat_map(|line| [line.strip_prefix("  ").unwrap_or(line), "\n"])
            .collect(),
        is_console: false,
    };
    paragraphs.enumerate().map(block).collect()
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut marker = Marker::Missing;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(comment) = line.trim().strip_prefix("<!-- ") {
            marker = marker_of(comment.trim_end_matches("-->").trim());
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            let inside: Vec<_> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != "```")
                .collect();
            if matches!(language, "sh" | "console") {
                blocks.push(Block {
                    page: page.to_owned(),
                    line: number + 1,
                    marker: std::mem::replace(&mut marker, Marker::Missing),
                    text: inside.iter().flat_map(|line| [*line, "\n"]).collect(),
                    is_console: language == "console",
                });
            }
        } else if !line.trim().is_empty() {
            marker = Marker::Missing;
        }
    }
    blocks
}

fn marker_of(comment: &str) -> Marker {
    match comment.split_once(": ") {
        Some(("runs", name)) => Marker::Runs(name.to_owned()),
        Some(("golden", file)) => Marker::Golden(file.to_owned()),
        Some(("not run", reason)) => Marker::NotRun(reason.to_owned()),
        _ => Marker::Missing,
    }
}

impl Block {
    /// Returns the commands, in order.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        if self.is_console {
            return console_steps(&self.text);
        }
        // One script would stop at the first failure without telling which command it was.
        let mut steps: Vec<Step> = Vec::new();
        let mut open = String::new();
        let mut end_of_input: Option<String> = None;
        for line in self.text.lines() {
            open += line;
            open.push('\n');
            if end_of_input.is_none() {
                end_of_input = end_of_here_document(line);
            }
            let is_open = match &end_of_input {
                Some(word) => line.trim() != word,
                None => line.ends_with('\\'),
            };
            if !is_open && !open.trim().is_empty() {
                end_of_input = None;
                steps.push(Step { command: std::mem::take(&mut open), output: None });
            }
        }
        if !open.trim().is_empty() {
            // It does not end: bash says so.
            steps.push(Step { command: open, output: None });
        }
        steps
    }
}

/// Returns the word that ends the here-document that a line begins.
fn end_of_here_document(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<").filter(|(_, rest)| !rest.starts_with('<'))?;
    let word = rest.trim_start_matches('-').split_whitespace().next()?;
    Some(word.trim_matches(['\'', '"']).to_owned())
}

fn console_steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
            (Some(command), ..) => steps.push(Step { command: command.to_owned(), output: None }),
            (None, Some(more), Some(Step { command, output: None })) => {
                *command += "\n";
                *command += more;
            }
            (None, _, Some(Step { output, .. })) => {
                let output = output.get_or_insert_default();
                *output += line;
                output.push('\n');
            }
            (None, _, None) => {}
        }
    }
    steps
}

impl Shell {
    /// Returns a shell for the administrator of a cluster, who has kubectl, helm and the program at hand.
    ///
    /// # Errors
    /// Where one of them has not been built.
    pub fn new(
        cluster: &Cluster,
        folder: &Path,
        variables: BTreeMap<&'static str, String>,
    ) -> Result<Self> {
        let programs = [control_plane_program("kubectl")?, tool("helm")?, program()?];
        let mut path: Vec<_> = programs.iter().filter_map(|program| program.parent()).collect();
        let system = env::var_os("PATH").unwrap_or_default();
        let system: Vec<_> = env::split_paths(&system).collect();
        path.extend(system.iter().map(PathBuf::as_path));
        let control_plane = &cluster.control_plane;
        let text = |path: OsString| path.to_string_lossy().into_owned();
        let environment = vec![
            ("PATH".to_owned(), text(env::join_paths(path)?)),
            ("KUBECONFIG".to_owned(), text(control_plane.kubeconfig().into_os_string())),
            ("KUBECACHEDIR".to_owned(), text(control_plane.dir().join("kubectl-cache").into())),
        ];
        let words = [("NODE", "node-1"), ("NAME", "dongle")];
        let words = words.map(|(word, name)| (word, name.to_owned())).to_vec();
        Ok(Self { folder: folder.to_owned(), environment, words, variables })
    }

    /// Runs blocks in order, as one user would: variables that a block sets are there in the next.
    ///
    /// # Errors
    /// At the first command that fails, or prints something else than the page shows.
    pub fn run(&self, blocks: &[Block]) -> Result<usize> {
        let mut settings = String::new();
        let mut count = 0;
        for block in blocks {
            for step in block.steps() {
                let place = || format!("{}:{}: {}", block.page, block.line, step.command.trim());
                if let Some(name) = assigned(&step.command) {
                    settings += &step.command;
                    settings.push('\n');
                    if let Some(value) = self.variables.get(name) {
                        settings += &format!("{name}={value}\n");
                    }
                    continue;
                }
                let output = self.run_command(&settings, &step.command).with_context(place)?;
                check(&step, &output).with_context(place)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn run_command(&self, settings: &str, command: &str) -> Result<Output> {
        let mut command = command.to_owned();
        if command.contains("| grep ") {
            // grep may find nothing; what is before it must succeed.
            command = format!("set +e\n{command}\nstatus=${{PIPESTATUS[0]}}\nexit $status");
        }
        for (word, name) in &self.words {
            command = replace_word(&command, word, name);
        }
        let mut bash = Command::new("bash");
        // On a terminal both streams are one, in the order of their lines.
        bash.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{settings}{command}")])
            .current_dir(&self.folder)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        Output::run(&mut bash, None)
    }
}

/// Returns the variable that a line sets, if that is all that it does.
fn assigned(command: &str) -> Option<&str> {
    let (name, value) = command.trim().split_once('=')?;
    let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    (is_name && !value.contains(' ')).then_some(name)
}

fn replace_word(text: &str, word: &str, name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        result += before;
        let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        result += if whole { name } else { word };
        rest = after;
    }
    result + rest
}

fn check(step: &Step, output: &Output) -> Result<()> {
    let Output { stdout, stderr, code } = output;
    let Some(expected) = &step.output else {
        if *code != 0 {
            bail!("ended with {code}\n{stdout}{stderr}");
        }
        return Ok(());
    };
    let printed = format!("{stdout}{stderr}");
    let lines = |text: &str| text.lines().map(words).filter(|l| !l.is_empty()).collect::<Vec<_>>();
    let (expected, printed) = (lines(expected), lines(&printed));
    let alike = expected.len() == printed.len()
        && expected.iter().zip(&printed).all(|(expected, line)| matches(expected, line));
    if !alike {
        bail!(
            "prints something else than the page shows (code {code})\n--- the page\n{}\n--- the command\n{}",
            expected.join("\n"),
            printed.join("\n")
        );
    }
    Ok(())
}

/// A line with single spaces, in which every age is the same.
fn words(line: &str) -> String {
    let is_age = |word: &str| {
        word.len() > 1
            && word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || matches!(c, 's' | 'm' | 'h' | 'd'))
            && word.ends_with(['s', 'm', 'h', 'd'])
    };
    let words = line.split_whitespace().map(|word| if is_age(word) { "<age>" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a line has the parts between `…` in this order, and begins and ends with the outer ones.
fn matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut ends_open = false;
    for part in parts {
        let Some(at) = (if part.is_empty() { Some(0) } else { rest.rfind(part) }) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        ends_open = part.is_empty();
    }
    ends_open || rest.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that fails panics
mod tests;
