//! Files, folders and standard input to documents.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::{Document, Limits, ReadError};
use super::path::Path as ValuePath;
use super::source::{Source, SourceLocation, Span};
use super::{split, yaml};

/// The extensions that are read in a folder, which are those that kubectl reads.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// Reads files, folders with all that is below them, and standard input (`-`), and hands over each
/// document, or what is unreadable, in the order in which they stand. What is hidden (`.git`) is
/// left out, and a file that is named twice is read once. Gives how many files there were.
pub fn read(
    paths: &[PathBuf],
    limits: &Limits,
    take: &mut dyn FnMut(Result<Document, ReadError>),
) -> usize {
    let mut reader = Reader { limits, take, left: limits.total, seen: HashSet::new(), files: 0 };
    for path in paths {
        if path.as_os_str() == "-" {
            reader.file("<stdin>", Ok(io::stdin().lock()));
        } else {
            reader.path(path, true, 0);
        }
    }
    reader.files
}

/// Reads one text, as [`read`] does a file of that name.
pub fn read_text(
    name: &str,
    text: String,
    limits: &Limits,
    take: &mut dyn FnMut(Result<Document, ReadError>),
) {
    let source = Arc::new(Source::new(name, text));
    for raw_document in split::split(source.text()) {
        match raw_document.and_then(|raw_document| yaml::read(&raw_document, limits)) {
            Ok(None) => {}
            Ok(Some((value, locations))) => {
                for document in Document::flatten(&source, value, locations) {
                    take(document.checked());
                }
            }
            Err(parse_error) => take(Err(ReadError {
                location: SourceLocation::within(&source, parse_error.span),
                reason: parse_error.reason,
            })),
        }
    }
}

impl Document {
    /// Whatever it is, it has to be an object.
    fn checked(self) -> Result<Self, ReadError> {
        let missing = match (self.api_version().is_empty(), self.kind().is_empty()) {
            (false, false) => return Ok(self),
            (true, true) => "apiVersion and kind, as text",
            (true, false) => "apiVersion, as text",
            (false, true) => "kind, as text",
        };
        let reason = format!("not a Kubernetes object: it needs {missing}");
        Err(ReadError { location: self.location(&ValuePath::default()), reason })
    }
}

struct Reader<'t> {
    limits: &'t Limits,
    take: &'t mut dyn FnMut(Result<Document, ReadError>),
    /// How many bytes may still be read.
    left: u64,
    seen: HashSet<PathBuf>,
    files: usize,
}

impl Reader<'_> {
    fn path(&mut self, path: &Path, named: bool, depth: usize) {
        let name = path.display().to_string();
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(&name, cannot("read", &error)),
        };
        if metadata.is_dir() {
            return self.folder(path, &name, depth);
        }
        // A pipe or a device in a folder would be waited for; one that is named is meant.
        if !named && !metadata.is_file() {
            return;
        }
        if metadata.is_file() && !self.seen.insert(path.canonicalize().unwrap_or(path.to_owned())) {
            return;
        }
        self.file(&name, File::open(path));
    }

    fn folder(&mut self, path: &Path, name: &str, depth: usize) {
        if depth > self.limits.depth {
            return self.refuse(name, "too many folders are within each other".to_owned());
        }
        let entries = fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.refuse(name, cannot("list", &error)),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        let before = self.files;
        for entry in entries {
            let path = entry.path();
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // A link to a folder can lead back to where it is.
            let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let manifest = path.extension().is_some_and(|extension| {
                EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
            });
            if !hidden && (folder || manifest && !path.is_dir()) {
                self.path(&path, false, depth + 1);
            }
        }
        if depth == 0 && self.files == before {
            self.refuse(name, "there is no .yaml, .yml or .json file in this folder".to_owned());
        }
    }

    fn file(&mut self, name: &str, file: io::Result<impl Read>) {
        self.files += 1;
        let most = self.limits.file.min(self.left);
        let mut bytes = Vec::new();
        // One byte more than there may be tells that there are more.
        match file.and_then(|file| file.take(most + 1).read_to_end(&mut bytes)) {
            Ok(read) if read as u64 <= most => self.left -= read as u64,
            Ok(_) if most < self.limits.file => {
                let total = self.limits.total >> 20;
                return self.unreadable(
                    name,
                    format!("the files have more than {total} MiB together: read them in parts"),
                );
            }
            Ok(_) => {
                let most = self.limits.file >> 20;
                return self.unreadable(
                    name,
                    format!("the file is larger than {most} MiB, the most that is read: split it"),
                );
            }
            Err(error) => return self.unreadable(name, cannot("read", &error)),
        }
        match String::from_utf8(bytes) {
            Ok(text) => read_text(name, text, self.limits, self.take),
            Err(error) => self.not_text(name, error),
        }
    }

    /// Tells where a file stops being text: the lines before that are shown as they are.
    fn not_text(&mut self, name: &str, error: std::string::FromUtf8Error) {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let reason = match bytes.as_slice() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                "the file is UTF-16: save it as UTF-8".to_owned()
            }
            _ => {
                let byte = bytes.get(at).copied().unwrap_or_default();
                format!("the byte 0x{byte:02x} here is not UTF-8: save the file as UTF-8")
            }
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = Arc::new(Source::new(name, text));
        let location = SourceLocation::within(
            &source,
            Span::new(at..at + char::REPLACEMENT_CHARACTER.len_utf8()),
        );
        (self.take)(Err(ReadError { location, reason }));
    }

    /// A path that is no file.
    fn refuse(&mut self, name: &str, reason: String) {
        self.files += 1;
        self.unreadable(name, reason);
    }

    fn unreadable(&mut self, name: &str, reason: String) {
        (self.take)(Err(ReadError { location: SourceLocation::file_alone(name), reason }));
    }
}

fn cannot(what: &str, error: &io::Error) -> String {
    format!("cannot {what} it: {error}")
}
