//! Runs the commands of blocks in a shell.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Block, comparison};
use crate::{Cluster, Output, control_plane_program, program, tool};

/// Returns the first failure in a pipe, except for a grep at its end that finds nothing.
const MAY_FIND_NOTHING: &str = r#"codes=("${PIPESTATUS[@]}")
last=$((${#codes[@]} - 1))
if ((codes[last] == 1)); then codes[last]=0; fi
for code in "${codes[@]}"; do if ((code)); then exit "$code"; fi; done"#;

/// A shell that runs commands.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The working directory.
    pub folder: PathBuf,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// Placeholders in the pages, and the names that replace them: `NODE`, `node-1`.
    pub words: Vec<(&'static str, String)>,
    /// Shell variables that a page sets, and their values in the test.
    pub variables: BTreeMap<&'static str, String>,
}

impl Shell {
    /// Returns a shell for a cluster's administrator, with kubectl, helm and the program in its PATH.
    ///
    /// # Errors
    /// Returns an error if one of them has not been built.
    pub fn new(cluster: &Cluster, folder: &Path, variables: BTreeMap<&'static str, String>) -> Result<Self> {
        let programs = [control_plane_program("kubectl")?, tool("helm")?, program()?];
        let mut shell = Self::without_cluster(folder, &programs)?;
        let control_plane = &cluster.control_plane;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        shell.environment.extend([
            ("KUBECONFIG".to_owned(), text(control_plane.kubeconfig())),
            ("KUBECACHEDIR".to_owned(), text(control_plane.dir().join("kubectl-cache"))),
        ]);
        let words = [("NODE", "node-1"), ("NAME", "dongle")];
        shell.words = words.map(|(word, name)| (word, name.to_owned())).to_vec();
        Ok(Self { variables, ..shell })
    }

    /// Returns a shell with the folders of these programs first in its PATH.
    ///
    /// # Errors
    /// Returns an error if the name of a folder contains a colon.
    pub fn without_cluster(folder: &Path, programs: &[PathBuf]) -> Result<Self> {
        let system = env::var_os("PATH").unwrap_or_default();
        let path = programs.iter().filter_map(|program| program.parent()).map(Path::to_owned);
        let path = env::join_paths(path.chain(env::split_paths(&system)))?;
        Ok(Self {
            folder: folder.to_owned(),
            environment: vec![("PATH".to_owned(), path.to_string_lossy().into_owned())],
            words: vec![],
            variables: BTreeMap::new(),
        })
    }

    /// Runs blocks in order, like one user: variables that a block sets remain set in the next.
    ///
    /// # Errors
    /// Returns an error at the first command that fails, or prints other output than the page shows.
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
                comparison::check(&step, &output).with_context(place)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn run_command(&self, settings: &str, command: &str) -> Result<Output> {
        let mut command = command.to_owned();
        if command.contains("| grep ") {
            // A grep at the end may find nothing; the commands before it must succeed.
            command = format!("set +e\n{command}\n{MAY_FIND_NOTHING}");
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

/// Returns the variable that a line sets, if it does nothing else.
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
