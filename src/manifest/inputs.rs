//! What to read, and what was read of it.

use std::path::PathBuf;

use super::exclude::Exclude;
use super::source::SourceLocation;
use crate::model::count::plural;

/// Which files to read.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Files, folders, and `-` for standard input.
    pub paths: Vec<PathBuf>,
    /// Whether folders within folders are read too.
    pub recursive: bool,
    /// What is left out, also where it is named.
    pub exclude: Exclude,
}

/// Which files were read, and what was not.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The files, in the order in which they were read, and folders that cannot be.
    pub names: Vec<String>,
    /// What folders hold that is no Kubernetes object: a file, or a document of one.
    pub skipped: Vec<SourceLocation>,
    /// Files of folders that a kustomization lists as patches.
    pub patches: Vec<String>,
    /// Folders within folders that were not read.
    pub folders: Vec<String>,
}

impl Files {
    /// What was not read, and why, in one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let skipped = self.skipped.iter().map(SourceLocation::short).collect::<Vec<_>>();
        let notes = [
            (
                &skipped,
                "skipped that holds no Kubernetes object",
                "skipped that hold no Kubernetes object",
                "",
            ),
            (
                &self.patches,
                "skipped that a kustomization lists as a patch",
                "skipped that kustomizations list as patches",
                "",
            ),
            (&self.folders, "subfolder not read", "subfolders not read", " (read them with -R)"),
        ];
        let notes = notes.into_iter().filter(|(places, ..)| !places.is_empty());
        notes
            .map(|(places, one, many, end)| {
                format!("{}: {}{end}", plural(places.len(), one, many), listed(places))
            })
            .collect()
    }
}

/// The first few of a list.
fn listed(places: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = if places.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", places[..places.len().min(SHOWN)].join(", "))
}
