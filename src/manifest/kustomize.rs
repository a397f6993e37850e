//! The files that a kustomization lists as patches: partial objects, which cannot be applied on their own.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::Limits;
use super::inputs::Inputs;
use super::{json, split, yaml};

/// The names of a kustomization file.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The fields of a kustomization that list patches: as paths, as texts, or as objects with a path.
const PATCHES: [&str; 3] = ["patches", "patchesStrategicMerge", "patchesJson6902"];

/// Returns the patches that kustomizations list in the folders that are read, with links resolved. Unreadable files are
/// skipped here and reported when the file itself is read.
pub(super) fn patches(inputs: &Inputs, limits: &Limits) -> HashSet<PathBuf> {
    let mut listed = Listed::default();
    for folder in inputs.paths.iter().filter(|path| path.is_dir()) {
        visit(folder, inputs, limits, 0, &mut listed);
    }
    // A patch of one kustomization may be a resource of another.
    listed.patches.difference(&listed.resources).cloned().collect()
}

/// The files that kustomizations list.
#[derive(Default)]
struct Listed {
    patches: HashSet<PathBuf>,
    resources: HashSet<PathBuf>,
}

fn visit(folder: &Path, inputs: &Inputs, limits: &Limits, depth: usize, listed: &mut Listed) {
    if depth > limits.depth || inputs.exclude.matches(folder) {
        return;
    }
    for path in NAMES.map(|name| folder.join(name)) {
        if !path.is_file() || inputs.exclude.matches(&path) {
            continue;
        }
        for kustomization in read(&path, limits) {
            let files = |list| {
                let paths = paths(&kustomization, list);
                paths.into_iter().filter_map(|path| folder.join(path).canonicalize().ok())
            };
            listed.patches.extend(PATCHES.into_iter().flat_map(files));
            listed.resources.extend(files("resources"));
        }
    }
    if !inputs.recursive {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // As when files are read, links to folders are not followed.
        if !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&entry.path(), inputs, limits, depth + 1, listed);
        }
    }
}

/// Returns the documents of a kustomization, usually one.
fn read(path: &Path, limits: &Limits) -> Vec<Value> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(limits.file).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let documents = split::split(&text).into_iter().flatten();
    let documents = documents.filter_map(|document| {
        let read = if document.is_json { json::read } else { yaml::read };
        read(&document, limits).ok().flatten()
    });
    documents.map(|parsed| parsed.value).collect()
}

/// Returns the paths that a kustomization lists, relative to its folder.
fn paths<'t>(kustomization: &'t Value, list: &str) -> Vec<&'t str> {
    let items = kustomization.get(list).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().or_else(|| item.get("path")?.as_str())).collect()
}
