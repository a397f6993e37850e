//! Finds the commands in the documentation, runs them, and compares their output with the page.
//!
//! A comment above each block of commands specifies how the tests handle it:
//!
//! ```text
//! <!-- runs: NAME -->           a test of that name runs it, in order with the page's other such blocks
//! <!-- golden: FILE -->         it is the text of this golden file, which a test compares with the program
//! <!-- not run: REASON -->      nothing here can run it
//! ```
//!
//! A block of commands has the language `sh` or `console`, or none, and is fenced or indented. Other
//! blocks have another language, such as `text`.
//!
//! A command must exit with 0, or with the code in a trailing comment: `# exit 1`. In a `console` block,
//! the lines after a line with `$ ` are its output. It is compared word by word; all ages in the columns
//! AGE and LAST SEEN are equal, all words that are times are, and `…` matches any text. A grep at the end of a pipe may find nothing.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub use shell::Shell;

use crate::project_file;

/// Compares a command's output and exit code with the page.
mod comparison;
/// Runs the commands.
mod shell;

/// A page's block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The page, below the project's folder.
    pub page: String,
    /// The line that the block begins in, from 1.
    pub line: usize,
    /// How the tests handle the block.
    pub marker: Marker,
    /// The text, without fences and indentation.
    pub text: String,
    is_console: bool,
}

/// How the tests handle a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// The test of this name runs it.
    Runs(String),
    /// It equals this file.
    Golden(String),
    /// It is not run, for this reason.
    NotRun(String),
    /// The comment is missing, which is an error.
    Missing,
}

/// A command, and its output if the page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The command for bash.
    pub command: String,
    /// The expected output.
    pub output: Option<String>,
    /// The expected exit code.
    pub code: i32,
}

/// Returns the blocks of commands of pages.
///
/// # Errors
/// Returns an error if a page cannot be read.
pub fn blocks(pages: &[PathBuf]) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let root = project_file("");
    for page in pages {
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = page.strip_prefix(&root).unwrap_or(page).display().to_string();
        blocks.extend(blocks_of(&name, &text));
    }
    Ok(blocks)
}

/// Returns the blocks of pages that the test of this name runs.
///
/// # Errors
/// Returns an error if a page cannot be read.
pub fn blocks_run_by(name: &str, pages: &[PathBuf]) -> Result<Vec<Block>> {
    let marker = Marker::Runs(name.to_owned());
    Ok(blocks(pages)?.into_iter().filter(|block| block.marker == marker).collect())
}

/// Returns the project's pages: every Markdown file, except build output.
///
/// # Errors
/// Returns an error if a folder cannot be read.
pub fn pages() -> Result<Vec<PathBuf>> {
    fn visit(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            // A symbolic link may lead anywhere, even to a parent folder.
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    visit(&path, pages)?;
                }
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
        Ok(())
    }
    let mut pages = Vec::new();
    visit(&project_file(""), &mut pages)?;
    pages.sort();
    Ok(pages)
}

/// Returns the indented commands of a chart's notes, except those that undo the installation.
#[must_use]
pub fn notes_blocks(notes: &str) -> Vec<Block> {
    let paragraphs = notes.split("\n\n").filter(|paragraph| {
        let command = paragraph.trim_start_matches('\n');
        command.starts_with("  ") && !["helm uninstall", "kubectl delete"].iter().any(|undo| command.contains(undo))
    });
    let block = |(number, paragraph): (usize, &str)| Block {
        page: "NOTES.txt, paragraph".to_owned(),
        line: number + 1,
        marker: Marker::Runs("release".to_owned()),
        text: paragraph.lines().flat_map(|line| [line.strip_prefix("  ").unwrap_or(line), "\n"]).collect(),
        is_console: false,
    };
    paragraphs.enumerate().map(block).collect()
}

/// Returns the blocks of commands of a page's text.
#[must_use]
pub fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut blocks = Vec::new();
    // A comment is the marker of the next block.
    let mut marker = Marker::Missing;
    let mut comment = String::new();
    // The marker of the open block of commands.
    let mut open: Option<Block> = None;
    for (event, Range { start, .. }) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) => comment.clear(),
            Event::Html(html) => comment += &html,
            Event::End(TagEnd::HtmlBlock) => marker = marker_of(&comment),
            Event::Start(Tag::CodeBlock(kind)) => {
                let marker = std::mem::replace(&mut marker, Marker::Missing);
                open = has_commands(&kind).then(|| Block {
                    page: page.to_owned(),
                    line: text[..start].matches('\n').count() + 1,
                    marker,
                    text: String::new(),
                    is_console: false,
                });
            }
            Event::Text(code) if open.is_some() => {
                if let Some(block) = &mut open {
                    block.text += &code;
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some(block) = open.take() {
                    // A prompt is not shell syntax.
                    let is_console = block.text.starts_with("$ ");
                    blocks.push(Block { is_console, ..block });
                }
            }
            _ => marker = Marker::Missing,
        }
    }
    blocks
}

/// Returns whether a block of code contains commands.
fn has_commands(kind: &CodeBlockKind<'_>) -> bool {
    let CodeBlockKind::Fenced(info) = kind else { return true };
    let language = info.split([' ', ',']).next().unwrap_or_default();
    matches!(language, "" | "sh" | "bash" | "shell" | "zsh" | "console" | "shell-session")
}

fn marker_of(html: &str) -> Marker {
    let comment = html.trim().strip_prefix("<!--").and_then(|html| html.strip_suffix("-->"));
    match comment.and_then(|comment| comment.trim().split_once(": ")) {
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
        // A single script would stop at the first failure without reporting the command.
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
                steps.push(Step::new(std::mem::take(&mut open)));
            }
        }
        if !open.trim().is_empty() {
            // An unterminated command, which bash reports.
            steps.push(Step::new(open));
        }
        steps
    }
}

/// Returns the delimiter of the here-document that a line begins.
fn end_of_here_document(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<").filter(|(_, rest)| !rest.starts_with('<'))?;
    let word = rest.trim_start_matches('-').split_whitespace().next()?;
    Some(word.trim_matches(['\'', '"']).to_owned())
}

fn console_steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
            (Some(command), ..) => steps.push(Step::new(command.to_owned())),
            (None, Some(more), Some(step)) if step.output.is_none() => {
                *step = Step::new(format!("{}\n{more}", step.command));
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

impl Step {
    fn new(command: String) -> Self {
        let code = command.lines().find_map(|line| exit_comment(line)?.1.parse().ok());
        Self { command, output: None, code: code.unwrap_or(0) }
    }

    /// Returns the command without the comment that has its exit code.
    #[must_use]
    pub fn bare_command(&self) -> &str {
        exit_comment(&self.command).map_or(&*self.command, |(command, _)| command).trim()
    }
}

/// Splits a line at its comment `# exit CODE`.
fn exit_comment(line: &str) -> Option<(&str, &str)> {
    let (command, code) = line.trim_end().rsplit_once("# exit ")?;
    (command.is_empty() || command.ends_with(' ')).then_some((command, code))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that fails panics
mod tests;
