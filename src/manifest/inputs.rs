//! The inputs, and what was read of them.

use std::path::PathBuf;

use super::exclude::Exclude;
use super::source::SourceLocation;
use crate::model::count::plural;

/// The files to read.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Files, folders, and `-` for standard input.
    pub paths: Vec<PathBuf>,
    /// Whether to read subfolders.
    pub recursive: bool,
    /// What to exclude, even if given by name.
    pub exclude: Exclude,
}

/// The files that were read, and what was skipped.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The files, in the order in which they were read, and folders that cannot be read.
    pub names: Vec<String>,
    /// Files and documents in folders that are not Kubernetes objects.
    pub skipped: Vec<SourceLocation>,
    /// Files in folders that a kustomization lists as patches.
    pub patches: Vec<String>,
    /// Subfolders that were not read.
    pub folders: Vec<String>,
    /// Files in folders that cannot be read and mention no rule, where a command needs the rules only.
    pub unreadable: Vec<String>,
    /// Files in folders that cannot be read and hold nothing to compare, where a command compares.
    pub incomparable: Vec<String>,
}

impl Files {
    /// Returns what was skipped and why, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let skipped = self.skipped.iter().map(SourceLocation::short).collect::<Vec<_>>();
        let notes = [
            (&skipped, "skipped that holds no Kubernetes object", "skipped that hold no Kubernetes object", ""),
            (
                &self.patches,
                "skipped that a kustomization lists as a patch",
                "skipped that kustomizations list as patches",
                "",
            ),
            (
                &self.unreadable,
                "unreadable file without rules skipped",
                "unreadable files without rules skipped",
                " (validate reports why)",
            ),
            (
                &self.incomparable,
                "unreadable file skipped that holds nothing to compare",
                "unreadable files skipped that hold nothing to compare",
                " (validate reports why)",
            ),
            (&self.folders, "subfolder not read", "subfolders not read", " (read them with -R)"),
        ];
        let notes = notes.into_iter().filter(|(places, ..)| !places.is_empty());
        notes
            .map(|(places, one, many, end)| format!("{}: {}{end}", plural(places.len(), one, many), listed(places)))
            .collect()
    }
}

/// Returns the first few items of a list.
fn listed(places: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = if places.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", places[..places.len().min(SHOWN)].join(", "))
}
