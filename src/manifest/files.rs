//! Reads documents from files, folders and standard input.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use kube::Resource as _;
use serde_json::Value;

use super::document::{Document, Limits, ReadError};
use super::inputs::{Files, Inputs};
use super::path::Path as ValuePath;
use super::source::{ParseError, Source, SourceLocation, Span};
use super::split;
use super::yaml::{self, Parsed};
use super::{json, kustomize};
use crate::model::api::NodeExtendedResource;
use crate::model::label::printable;

/// The extensions of files that are read in a folder, like in kubectl.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// Files of tools, which cannot be applied to a cluster; in folders they are skipped by name.
const TOOL_FILES: [&str; 5] = ["kustomization.yaml", "kustomization.yml", "chart.yaml", "values.yaml", "values.yml"];

/// Reads files, folders and standard input (`-`), and passes on each document or read error, in order. Hidden files and
/// folders (`.git`) are excluded, and a file that is given twice is read once.
///
/// In folders, documents that are not Kubernetes objects are skipped, since repositories hold much other YAML. A file
/// that is given by name must hold objects.
pub fn read(inputs: &Inputs, limits: &Limits, take: &mut dyn FnMut(Result<Document, ReadError>)) -> Files {
    let mut reader = Reader {
        inputs,
        limits,
        take,
        left: limits.total,
        named: inputs.paths.iter().filter_map(|path| path.canonicalize().ok()).collect(),
        patches: kustomize::patches(inputs, limits),
        seen: HashSet::new(),
        files: Files::default(),
    };
    let mut stdin = Some(io::stdin().lock());
    for path in &inputs.paths {
        if path.as_os_str() == "-" {
            if let Some(stdin) = stdin.take() {
                reader.file("<stdin>", Origin::Stream, Ok(stdin));
            }
        } else {
            reader.path(path, true, 0);
        }
    }
    reader.files
}

/// Reads one text, like [`read`] reads a file of that name.
pub fn read_text(name: &str, text: String, limits: &Limits, take: &mut dyn FnMut(Result<Document, ReadError>)) {
    documents(name, text, limits, &mut |document| take(document.and_then(Document::checked)));
}

/// Reads one text, and passes each document, which need not be a Kubernetes object.
pub fn read_values(name: &str, text: String, limits: &Limits, take: &mut dyn FnMut(Result<Document, ReadError>)) {
    documents(name, text, limits, take);
}

/// Returns the documents of a text, of any content.
fn documents(name: &str, text: String, limits: &Limits, take: &mut dyn FnMut(Result<Document, ReadError>)) {
    let source = Arc::new(Source::new(name, text));
    let error = |ParseError { span, reason }, may_hold_rules| {
        Err(ReadError { location: SourceLocation::within(&source, span), reason, may_hold_rules })
    };
    for raw_document in split::split(source.text()) {
        let raw_document = match raw_document {
            Ok(raw_document) => raw_document,
            Err(parse_error) => {
                let may_hold_rules = source.text().get(parse_error.span.range()).is_some_and(mentions_rules);
                take(error(parse_error, may_hold_rules));
                continue;
            }
        };
        let read = if raw_document.is_json { json::read } else { yaml::read };
        let parsed = match read(&raw_document, limits) {
            Ok(None) => continue,
            Ok(Some(parsed)) => parsed,
            Err(parse_error) => {
                take(error(parse_error, has_field_of_rules(raw_document.text)));
                continue;
            }
        };
        let Parsed { value, locations, repeated } = parsed;
        let mut repeated = RepeatedKeys::new(repeated);
        for document in Document::flatten(&source, value, locations) {
            match repeated.of(&document) {
                Some(parse_error) => take(error(parse_error, true)),
                None => take(Ok(document)),
            }
        }
        repeated.outside().into_iter().for_each(|parse_error| take(error(parse_error, true)));
    }
}

impl Document {
    /// Returns an error unless the document is a Kubernetes object that kubectl reads.
    fn checked(self) -> Result<Self, ReadError> {
        let reason = match (self.api_version().is_empty(), self.kind().is_empty()) {
            (false, false) if self.is_nested_list() => {
                "a List in a List: kubectl reads lists one level deep; put these items into the outer List"
            }
            (false, false) => return Ok(self),
            _ if self.value.is_array() => "an array is no Kubernetes object: put its objects into the items of a List",
            (true, true) => "not a Kubernetes object: it needs apiVersion and kind, as text",
            (true, false) => "not a Kubernetes object: it needs apiVersion, as text",
            (false, true) => "not a Kubernetes object: it needs kind, as text",
        };
        let reason = reason.to_owned();
        let may_hold_rules = self.may_be_rules();
        Err(ReadError { location: self.location(&ValuePath::default()), reason, may_hold_rules })
    }

    /// Returns whether the document is meant as a rule.
    fn is_rule(&self) -> bool {
        is_rule(&self.value)
    }

    /// Returns whether it may be meant as rules without being an object: it names them anywhere, as an array does and an
    /// event of a watch, or it has a field that only rules have.
    fn may_be_rules(&self) -> bool {
        mentions_rules(&self.value.to_string()) || self.value.pointer("/spec/resourceName").is_some()
    }

    /// Returns whether the document is something other than a Kubernetes object. A rule without one of the two fields
    /// is a rule with a mistake, and so is an array of rules. Values of a chart may name rules deeper.
    fn is_something_else(&self) -> bool {
        let is_list = self.value.as_array().is_some_and(|items| items.iter().any(is_rule));
        (self.api_version().is_empty() || self.kind().is_empty()) && !self.is_rule() && !is_list
    }
}

/// The keys of one text that repeat earlier ones. In objects of others, the last key counts, as in kubectl; in a rule, one
/// of the two is a mistake.
struct RepeatedKeys {
    /// By their place in the text.
    keys: Vec<ParseError>,
    /// Whether each is in an object.
    inside: Vec<bool>,
}

impl RepeatedKeys {
    fn new(mut keys: Vec<ParseError>) -> Self {
        keys.sort_by_key(|key| key.span.start);
        let inside = vec![false; keys.len()];
        Self { keys, inside }
    }

    /// Returns the first repeated key of a document if it is an error there.
    fn of(&mut self, document: &Document) -> Option<ParseError> {
        let span = document.span();
        let [first, end] = [span.start, span.end].map(|at| self.keys.partition_point(|key| key.span.start < at));
        self.inside.get_mut(first..end)?.fill(true);
        self.keys.get(first..end)?.first().filter(|_| document.is_rule()).cloned()
    }

    /// Returns the first repeated key of a List outside of its items, some of which may be lost.
    fn outside(self) -> Option<ParseError> {
        self.keys.into_iter().zip(self.inside).find(|(_, inside)| !inside).map(|(key, _)| key)
    }
}

/// Where a text comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A file in a folder, which may hold anything.
    Folder,
    /// A file that is given by name, maybe by a pattern of the shell.
    Named,
    /// Standard input, or a pipe. Somebody made its text for this command, so that all of it counts.
    Stream,
}

struct Reader<'t> {
    inputs: &'t Inputs,
    limits: &'t Limits,
    take: &'t mut dyn FnMut(Result<Document, ReadError>),
    /// The number of bytes that may still be read.
    left: u64,
    /// The files and folders given by name, with links resolved.
    named: HashSet<PathBuf>,
    /// The files that kustomizations list as patches, with links resolved.
    patches: HashSet<PathBuf>,
    /// The files and folders read so far, with links resolved.
    seen: HashSet<PathBuf>,
    files: Files,
}

impl Reader<'_> {
    fn path(&mut self, path: &Path, named: bool, depth: usize) {
        if self.inputs.exclude.matches(path) {
            return;
        }
        let name = printable(&path.display().to_string()).into_owned();
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                // Nothing is where such a link leads, or in a cycle of links.
                let is_empty = error.kind() != io::ErrorKind::PermissionDenied && path.is_symlink();
                let may_hold_rules = named || !is_empty;
                self.files.names.push(name.clone());
                return self.unreadable(&name, cannot("read", &error), may_hold_rules);
            }
        };
        let place = path.canonicalize().unwrap_or(path.to_owned());
        // Also if a folder that contains it comes first.
        let named = named || self.named.contains(&place);
        let is_patch = !named && self.patches.contains(&place);
        // A pipe that is given twice holds two texts.
        if (metadata.is_file() || metadata.is_dir()) && !self.seen.insert(place) {
            return;
        }
        if metadata.is_dir() {
            return self.folder(path, &name, depth);
        }
        // Reading a pipe or a device would block, so only those given by name are read.
        if !named && !metadata.is_file() {
            return;
        }
        if !named && is_tool_file(path) {
            return self.skip(&name);
        }
        if is_patch {
            return self.files.patches.push(name);
        }
        let origin = match named {
            false => Origin::Folder,
            true if metadata.is_file() => Origin::Named,
            true => Origin::Stream,
        };
        self.file(&name, origin, File::open(path));
    }

    fn folder(&mut self, path: &Path, name: &str, depth: usize) {
        if depth > self.limits.depth {
            return self.reject(name, "folders are nested too deeply".to_owned());
        }
        let entries = fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.reject(name, cannot("list", &error)),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut found = false;
        for entry in entries {
            let path = entry.path();
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // A link to a folder can lead to a loop.
            let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let manifest = path
                .extension()
                .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)));
            if hidden {
                continue;
            }
            if folder && !self.inputs.recursive {
                found = true;
                self.unread_folder(&path);
            } else if folder || manifest && !path.is_dir() {
                found = true;
                self.path(&path, false, depth + 1);
            }
        }
        if depth == 0 && !found {
            self.reject(name, "there is no .yaml, .yml or .json file in this folder".to_owned());
        }
    }

    /// Records a folder that is not read, unless it is given by name too.
    fn unread_folder(&mut self, path: &Path) {
        let named = path.canonicalize().is_ok_and(|place| self.named.contains(&place));
        if !named && !self.inputs.exclude.matches(path) {
            let name = printable(&path.display().to_string()).into_owned();
            self.files.folders.push(name);
        }
    }

    fn file(&mut self, name: &str, origin: Origin, file: io::Result<impl Read>) {
        self.files.names.push(name.to_owned());
        let mut file = match file {
            Ok(file) => file,
            Err(error) => return self.unreadable(name, cannot("read", &error), true),
        };
        let most = self.limits.file.min(self.left);
        let mut bytes = Vec::new();
        // One byte beyond the limit shows that the file is longer.
        match file.by_ref().take(most + 1).read_to_end(&mut bytes) {
            Ok(read) if read as u64 <= most => self.left -= read as u64,
            Ok(_) => return self.too_large(name, origin, bytes.as_slice().chain(file)),
            Err(error) => return self.unreadable(name, cannot("read", &error), true),
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.text(name, text, origin),
            Err(error) => {
                let text = lossy(error.as_bytes());
                match origin != Origin::Folder || may_hold_objects(&text) {
                    // What is compressed, for one, may hold anything.
                    true => self.not_text(name, error, origin != Origin::Folder || mentions_rules(&text)),
                    false => self.skip(name),
                }
            }
        }
    }

    fn too_large(&mut self, name: &str, origin: Origin, text: impl Read) {
        // A stream may have no end.
        let meaning = if origin == Origin::Stream { Meaning::Rules } else { meaning(text) };
        if meaning == Meaning::Other && origin == Origin::Folder {
            return self.skip(name);
        }
        let Limits { file, total, .. } = self.limits;
        let reason = match self.left < *file {
            true => format!("the files have more than {} MiB together: read them in parts", total >> 20),
            false => format!("the file is larger than {} MiB, the most that is read: split it", file >> 20),
        };
        self.unreadable(name, reason, meaning == Meaning::Rules);
    }

    fn text(&mut self, name: &str, text: String, origin: Origin) {
        let (take, skipped) = (&mut *self.take, &mut self.files.skipped);
        let (length, mut is_kept) = (text.len() as u64, false);
        let (in_folder, is_stream) = (origin == Origin::Folder, origin == Origin::Stream);
        // Both are determined once per file: they search the whole text, and there may be as many errors as lines.
        let mut has_rules = is_stream.then_some(true);
        let mut of_source = |error: ReadError| {
            let has_rules = *has_rules.get_or_insert_with(|| has_rules_beside(error.location.file_text(), origin));
            ReadError { may_hold_rules: has_rules || error.may_hold_rules, ..error }
        };
        // What can be read has been searched.
        let no_object = |error: ReadError| ReadError { may_hold_rules: is_stream || error.may_hold_rules, ..error };
        let mut meant = (!in_folder).then_some(true);
        documents(name, text, self.limits, &mut |document| match document {
            Err(error) if meant.is_none() && !may_hold_objects(error.location.file_text()) => {
                meant = Some(false);
                // Without the text, which need not be kept.
                skipped.push(SourceLocation::file_alone(name));
            }
            Err(_) if meant == Some(false) => {}
            Err(error) => {
                (meant, is_kept) = (Some(true), true);
                take(Err(of_source(error)));
            }
            Ok(document) if in_folder && document.is_something_else() => {
                is_kept = true;
                skipped.push(document.location(&ValuePath::default()));
            }
            Ok(document) => {
                is_kept = true;
                take(document.checked().map_err(no_object));
            }
        });
        if !is_kept {
            self.left += length;
        }
    }

    /// Reports where a file stops being text; the lines before are shown.
    fn not_text(&mut self, name: &str, error: std::string::FromUtf8Error, may_hold_rules: bool) {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let reason = match bytes.as_slice() {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "the file is UTF-32: save it as UTF-8".to_owned(),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the file is UTF-16: save it as UTF-8".to_owned(),
            _ => {
                let byte = bytes.get(at).copied().unwrap_or_default();
                format!("the byte 0x{byte:02x} here is not UTF-8: save the file as UTF-8")
            }
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Arc::new(Source::new(name, text));
        let location = SourceLocation::within(&source, Span::new(at..at + char::REPLACEMENT_CHARACTER.len_utf8()));
        (self.take)(Err(ReadError { location, reason, may_hold_rules }));
    }

    /// Skips a file in a folder without Kubernetes objects.
    fn skip(&mut self, name: &str) {
        self.files.skipped.push(SourceLocation::file_alone(name));
    }

    /// Reports a path that cannot be read.
    fn reject(&mut self, name: &str, reason: String) {
        self.files.names.push(name.to_owned());
        self.unreadable(name, reason, true);
    }

    fn unreadable(&mut self, name: &str, reason: String, may_hold_rules: bool) {
        (self.take)(Err(ReadError { location: SourceLocation::file_alone(name), reason, may_hold_rules }));
    }
}

/// Returns whether a value is meant as a rule.
fn is_rule(value: &Value) -> bool {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    text("kind") == NodeExtendedResource::kind(&()) || text("apiVersion").contains(&*NodeExtendedResource::group(&()))
}

/// Returns whether an unreadable file may be meant as Kubernetes objects: it contains a field of any object, or a field
/// of rules, which identifies a rule with a mistake.
fn may_hold_objects(text: &str) -> bool {
    text.contains("apiVersion") || mentions_rules(text)
}

/// Returns whether a text names the kind or the group of rules.
fn mentions_rules(text: &str) -> bool {
    text.contains(&*NodeExtendedResource::group(&())) || text.contains(&*NodeExtendedResource::kind(&()))
}

/// Returns whether the file of something unreadable holds rules too, or, if it is given by name, may be their template.
fn has_rules_beside(text: &str, origin: Origin) -> bool {
    let has_key = |key: &str| text.contains(&format!("{key}:")) || text.contains(&format!("\"{key}\""));
    let has_fields = || has_key("resourceName") && (has_key("quantity") || has_key("quantityFrom"));
    has_kind(text) || origin == Origin::Named && has_fields()
}

/// Returns whether a text that cannot be read has the kind or the group of rules where a rule has it. Templates of
/// others name the group elsewhere, such as in a ClusterRole.
fn has_field_of_rules(text: &str) -> bool {
    has_kind(text) || has_field(text, "apiVersion", &NodeExtendedResource::group(&()))
}

/// Returns whether somewhere in a text the field `kind` has the kind of rules.
fn has_kind(text: &str) -> bool {
    has_field(text, "kind", &NodeExtendedResource::kind(&()))
}

/// Returns whether somewhere in a text a field, in any capitals, begins with a value.
fn has_field(text: &str, field: &str, value: &str) -> bool {
    let mut before = text.match_indices(value).filter_map(|(at, _)| {
        let key = text.get(..at)?.trim_end_matches([' ', '\t', '"', '\'']).strip_suffix(':')?;
        Some(key.trim_end_matches([' ', '\t', '"', '\'']).as_bytes())
    });
    before.any(|key| {
        key.len().checked_sub(field.len()).is_some_and(|at| key[at..].eq_ignore_ascii_case(field.as_bytes()))
    })
}

/// What a file may be meant as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Rules,
    /// Kubernetes objects of others.
    Objects,
    Other,
}

/// Returns what a text of any length and encoding may be meant as: rules if it cannot be read to its end.
fn meaning(text: impl Read) -> Meaning {
    let names = [NodeExtendedResource::group(&()), NodeExtendedResource::kind(&()), "apiVersion".into()];
    // UTF-16 and UTF-32 have zeros between letters.
    let zeros = [0, 1, 3].map(|zeros| "\0".repeat(zeros));
    let letters = |name: &str| name.chars().map(String::from).collect::<Vec<_>>();
    let patterns = zeros.iter().flat_map(|zeros| names.iter().map(|name| letters(name).join(zeros)));
    let Ok(search) = AhoCorasick::new(patterns) else { return Meaning::Rules };
    let mut found = Meaning::Other;
    for name in search.stream_find_iter(text) {
        match name {
            Ok(name) if name.pattern().as_usize() % names.len() == names.len() - 1 => found = Meaning::Objects,
            Ok(_) | Err(_) => return Meaning::Rules,
        }
    }
    found
}

/// Returns the letters of a text of any encoding: in UTF-16 and UTF-32, they have zeros between them.
fn lossy(bytes: &[u8]) -> String {
    let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_tool_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    TOOL_FILES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn cannot(what: &str, error: &io::Error) -> String {
    format!("cannot {what} it: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<ReadError> {
        let mut errors = Vec::new();
        read_text("a.yaml", text.to_owned(), &Limits::default(), &mut |document| errors.extend(document.err()));
        errors
    }

    /// Such as the templates of this project's own chart.
    #[test]
    fn unreadable_text_may_hold_rules_only_with_a_field_of_rules() {
        for (text, may_hold_rules) in [
            ("kind: NodeExtendedResource", true),
            ("KIND : 'NodeExtendedResource'", true),
            ("apiVersion: noderesource.dev/v1alpha1", true),
            ("\"apiversion\": \"noderesource.dev/v1alpha1\"", true),
            ("rules: [{apiGroups: [noderesource.dev]}]", false),
            ("labels: {noderesource.dev/protection: 'true'}", false),
            ("name: nodeextendedresources.noderesource.dev", false),
            ("# What NodeExtendedResource key needs.", false),
        ] {
            let errors = errors(&format!("{text}\nmetadata: {{name: {{{{ .Release.Name }}}}}}\n"));
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert_eq!(errors[0].may_hold_rules, may_hold_rules, "{text}");
        }
    }

    #[test]
    fn list_in_a_list_is_an_error() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}}";
        let list = |items: &str| format!("{{apiVersion: v1, kind: List, items: [{items}]}}");
        assert_eq!(errors(&list(&format!("{pod}, {pod}"))), []);
        let nested = errors(&list(&format!("{pod}, {}", list(pod))));
        let reasons: Vec<_> = nested.iter().map(|error| &*error.reason).collect();
        let reason = "a List in a List: kubectl reads lists one level deep; put these items into the outer List";
        assert_eq!(reasons, [reason]);
    }
}
