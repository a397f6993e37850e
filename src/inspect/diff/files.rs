//! Nodes and pods in files: the output of `kubectl get -o json` or `-o yaml`.
//!
//! JSON is decoded while it is read, object by object and without unused fields, so that a list of any length takes
//! little memory. YAML must be held in full, and has the limits of [`manifest`].

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

use super::held::NodePods;
use crate::manifest::{self, Limits, SourceLocation};
use crate::model::label::excerpt;
use crate::model::node::ApiNode;
use crate::model::pod::object::PodObject;
use without_logs::WithoutLogs;

mod without_logs;

/// How much of a file is read to distinguish JSON from YAML.
const SNIFF_BYTES: u64 = 4096;
/// How a file begins that gzip has compressed.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The most that is read of what is compressed, in bytes: a few kilobytes can become terabytes.
const MAX_DECOMPRESSED: u64 = 4 << 30;
/// The size of the read buffer.
const BUFFER: usize = 64 * 1024;

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The name of the file, as given.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The content of the file is invalid.
    #[error("{place}: {reason}")]
    Content {
        /// The name of the file, with line and column if known.
        place: String,
        /// What is invalid.
        reason: String,
    },
}

/// An object that is decoded without unused fields.
pub trait Trimmed: DeserializeOwned {
    /// The expected kind.
    const KIND: &'static str;
    /// The command that prints such a list.
    const COMMAND: &'static str;
    /// Whether an empty list is an answer: a namespace may have no pod, but a cluster has a node.
    const MAY_BE_NONE: bool;

    /// Returns the kind of the object. Items of a list may have none.
    fn kind(&self) -> Option<&str>;
}

impl Trimmed for ApiNode {
    const KIND: &'static str = "Node";
    const COMMAND: &'static str = "kubectl get nodes -o json --show-managed-fields";
    const MAY_BE_NONE: bool = false;

    fn kind(&self) -> Option<&str> {
        self.kind()
    }
}

impl Trimmed for PodObject {
    const KIND: &'static str = "Pod";
    const COMMAND: &'static str = "kubectl get pods -A -o json";
    const MAY_BE_NONE: bool = true;

    fn kind(&self) -> Option<&str> {
        self.pod.kind()
    }
}

/// Handles an object, or returns what is invalid.
type Take<'t, T> = &'t mut dyn FnMut(T) -> Result<(), String>;

/// What a file holds beside the objects that are handled.
#[derive(Default)]
struct Beside {
    has_empty_list: bool,
    /// The kind of the first list of another kind.
    other: Option<String>,
}

/// Reads the objects of one kind from a file (`-`: standard input), and skips other kinds. `take` receives each object
/// as it is read; its error is reported with the location.
///
/// # Errors
/// If the file cannot be read, `take` fails, or the file has no such object, and no empty list that is an answer.
pub fn read<T: Trimmed>(path: &Path, take: &mut dyn FnMut(T) -> Result<(), String>) -> Result<(), FileError> {
    if path.as_os_str() == "-" {
        return read_from("<stdin>", io::stdin().lock(), take);
    }
    let name = path.display().to_string();
    if path.is_dir() {
        let reason = format!(
            "is a folder: name the files in it that contain {}s, such as {}",
            T::KIND.to_lowercase(),
            path.join("*.json").display()
        );
        return Err(content(name, reason));
    }
    match File::open(path) {
        Ok(file) => read_from(&name, file, take),
        Err(source) => Err(FileError::Read { name, source }),
    }
}

fn read_from<T: Trimmed>(name: &str, mut source: impl Read, take: Take<'_, T>) -> Result<(), FileError> {
    let head = sniff(name, &mut source)?;
    match head.starts_with(GZIP) {
        true => read_compressed(name, Cursor::new(head).chain(source), MAX_DECOMPRESSED, take),
        false => read_text(name, head, source, take),
    }
}

fn read_compressed<T: Trimmed>(name: &str, source: impl Read, most: u64, take: Take<'_, T>) -> Result<(), FileError> {
    // One byte beyond the limit shows that the text is longer.
    let mut text = MultiGzDecoder::new(source).take(most + 1);
    let head = sniff(name, &mut text)?;
    let read = read_text(name, head, &mut text, take);
    match text.limit() {
        0 => Err(content(name.to_owned(), format!("more than {} MiB when decompressed", most >> 20))),
        _ => read,
    }
}

/// Returns how a file begins.
fn sniff(name: &str, source: &mut impl Read) -> Result<Vec<u8>, FileError> {
    let mut head = Vec::new();
    let failed = |source| FileError::Read { name: name.to_owned(), source };
    source.take(SNIFF_BYTES).read_to_end(&mut head).map_err(failed)?;
    Ok(head)
}

/// Reads what begins with `head`.
fn read_text<T: Trimmed>(name: &str, mut head: Vec<u8>, source: impl Read, take: Take<'_, T>) -> Result<(), FileError> {
    let mut count = 0;
    let mut take = |object: T| {
        count += 1;
        take(object)
    };
    if let Some(encoding) = wide_encoding(&head) {
        let reason = format!(
            "the file is {encoding}: save it as UTF-8 \
             (in PowerShell: {} | Out-File -Encoding utf8 FILE)",
            T::COMMAND
        );
        return Err(content(name.to_owned(), reason));
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    if is_described(text) {
        let reason = format!("this is what kubectl describe prints for people: use {}", T::COMMAND);
        return Err(content(name.to_owned(), reason));
    }
    let mut beside = Beside::default();
    if text.trim_ascii_start().starts_with(b"{") || text.trim_ascii_start().starts_with(b"[") {
        let rest = BufReader::with_capacity(BUFFER, Cursor::new(text.to_vec()).chain(source));
        json(name, BufReader::with_capacity(BUFFER, WithoutLogs::new(rest)), &mut take, &mut beside)?;
    } else {
        let limits = Limits::default();
        // One byte beyond the limit shows that the file is longer.
        let left = (limits.file + 1).saturating_sub(head.len() as u64);
        let read = source.take(left).read_to_end(&mut head);
        read.map_err(|source| FileError::Read { name: name.to_owned(), source })?;
        yaml(name, head, &limits, &mut take, &mut beside)?;
    }
    if count == 0 && !(T::MAY_BE_NONE && beside.has_empty_list) {
        let other = beside.other.map(|kind| format!(", but {} {}", article(&kind), excerpt(&kind))).unwrap_or_default();
        return Err(content(name.to_owned(), format!("no {} found{other}", T::KIND)));
    }
    Ok(())
}

/// Returns the encoding of a text in which an ASCII character is not one byte: by its byte order mark, or by zeros next
/// to the first character.
fn wide_encoding(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [1..=255, 0, 0, 0, ..] | [0, 0, 0, 1..=255, ..] => Some("UTF-32"),
        [1..=255, 0, 1..=255, 0, ..] | [0, 1..=255, 0, 1..=255, ..] => Some("UTF-16"),
        _ => None,
    }
}

/// Returns whether a text begins like what `kubectl describe` prints of a node or a pod.
fn is_described(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.trim_start().lines();
    let is_named = lines.next().is_some_and(|line| line.starts_with("Name:  "));
    is_named && lines.next().is_some_and(|line| line.starts_with("Roles:  ") || line.starts_with("Namespace:  "))
}

/// Returns the article of a kind.
fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

fn content(place: String, reason: String) -> FileError {
    FileError::Content { place, reason }
}

fn yaml<T: Trimmed>(
    name: &str,
    bytes: Vec<u8>,
    limits: &Limits,
    take: Take<'_, T>,
    beside: &mut Beside,
) -> Result<(), FileError> {
    if bytes.len() as u64 > limits.file {
        let most = limits.file >> 20;
        let reason = format!("more than {most} MiB of YAML: use JSON, which can have any size ({})", T::COMMAND);
        return Err(content(name.to_owned(), reason));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| content(name.to_owned(), format!("not text: {}", error.utf8_error())))?;
    let mut result = Ok(());
    manifest::read_values(name, text, limits, &mut |document| {
        if result.is_err() {
            return;
        }
        result = match document {
            Err(unreadable) => Err(content(place(&unreadable.location), unreadable.reason)),
            Ok(document) => {
                let location = document.location(&manifest::Path::default());
                let read = ListOrObject { take: &mut *take, beside: &mut *beside }.deserialize(document.value);
                read.map_err(|error| content(place(&location), error.to_string()))
            }
        };
    });
    result
}

/// `file:line:column`
pub(super) fn place(location: &SourceLocation) -> String {
    match location.start() {
        Some((line, column)) => format!("{}:{line}:{column}", location.file()),
        None => location.file().to_owned(),
    }
}

/// Reads consecutive objects.
fn json<T: Trimmed>(name: &str, reader: impl BufRead, take: Take<'_, T>, beside: &mut Beside) -> Result<(), FileError> {
    let mut json = serde_json::Deserializer::from_reader(reader);
    loop {
        ListOrObject { take: &mut *take, beside: &mut *beside }
            .deserialize(&mut json)
            .map_err(|error| located(name, error))?;
        match json.end() {
            Ok(()) => return Ok(()),
            Err(error) if error.is_io() => return Err(located(name, error)),
            // Another object.
            Err(_) => {}
        }
    }
}

fn located(name: &str, error: serde_json::Error) -> FileError {
    if error.is_io() {
        return FileError::Read { name: name.to_owned(), source: error.into() };
    }
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    content(format!("{name}:{line}:{column}"), reason.to_owned())
}

/// A List or an array, whose items are handled one by one; or a single object.
struct ListOrObject<'t, T> {
    take: Take<'t, T>,
    beside: &'t mut Beside,
}

impl<'de, T: Trimmed> DeserializeSeed<'de> for ListOrObject<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<(), D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de, T: Trimmed> Visitor<'de> for ListOrObject<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}, or a List of them", T::KIND)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut is_empty_list, mut is_other) = (None, false);
        // All fields except the items: for a single object, the whole object.
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" && other_list::<T>(&fields).is_some() {
                // `kubectl cluster-info dump` writes lists of every kind.
                map.next_value::<IgnoredAny>()?;
                is_other = true;
            } else if key == "items" {
                is_empty_list = Some(map.next_value_seed(Items { take: &mut *self.take })?);
            } else {
                fields.insert(key, map.next_value()?);
            }
        }
        let other = other_list::<T>(&fields);
        if let Some(is_empty) = is_empty_list {
            self.beside.has_empty_list |= is_empty;
            // kubectl writes the kind after the items.
            let error = |kind| A::Error::custom(format!("{} {kind}, but {}s are expected", article(kind), T::KIND));
            return other.map_or(Ok(()), |kind| Err(error(kind)));
        }
        if is_other {
            self.beside.other = self.beside.other.take().or(other.map(str::to_owned));
            return Ok(());
        }
        // Without a kind, as in an archive of a support tool, it is what was asked for.
        let kind = fields.get("kind").filter(|kind| *kind != "");
        if kind.map_or(fields.contains_key("metadata"), |kind| kind == T::KIND) {
            let object = T::deserialize(Value::Object(fields)).map_err(A::Error::custom)?;
            (self.take)(object).map_err(A::Error::custom)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        self.beside.has_empty_list |= Items { take: self.take }.visit_seq(items)?;
        Ok(())
    }
}

/// Returns the kind of a list, unless it is `List`, or a list of the kind, whose items have no kind of their own.
fn other_list<T: Trimmed>(fields: &Map<String, Value>) -> Option<&str> {
    let kind = fields.get("kind").and_then(Value::as_str)?;
    let item = kind.strip_suffix("List").unwrap_or(kind);
    (item != T::KIND && kind != "List").then_some(kind)
}

/// The items of a list; returns whether there are none.
struct Items<'t, T> {
    take: Take<'t, T>,
}

impl<'de, T: Trimmed> DeserializeSeed<'de> for Items<'_, T> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<bool, D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de, T: Trimmed> Visitor<'de> for Items<'_, T> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of objects of the kind {}", T::KIND)
    }

    /// `items: null` is an empty list.
    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let mut is_empty = true;
        while let Some(object) = items.next_element::<T>()? {
            is_empty = false;
            if object.kind().is_none_or(|kind| kind == T::KIND) {
                (self.take)(object).map_err(A::Error::custom)?;
            }
        }
        Ok(is_empty)
    }
}

/// The pods of each node, from files.
#[derive(Debug, Default)]
pub struct PodFiles {
    by_node: HashMap<Arc<str>, NodePods>,
}

impl PodFiles {
    /// Adds the pods in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has neither a pod nor an empty list.
    pub fn read(&mut self, path: &Path) -> Result<(), FileError> {
        read(path, &mut |pod| {
            self.add(&pod);
            Ok(())
        })
    }

    fn add(&mut self, object: &PodObject) {
        if let Some(node) = object.pod.node() {
            self.by_node.entry(node.into()).or_default().add(object);
        }
    }

    /// Returns the pods on a node.
    #[must_use]
    pub fn on(&self, node: &str) -> NodePods {
        self.by_node.get(node).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
