//! Archives that have the same bytes for the same files.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};

/// A file in an archive.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// The path in the archive.
    pub path: &'a str,
    /// Whether it is a program.
    pub is_executable: bool,
    /// The content.
    pub bytes: &'a [u8],
}

impl<'a> File<'a> {
    /// A file that is not a program.
    #[must_use]
    pub fn plain(path: &'a str, bytes: &'a [u8]) -> Self {
        Self { path, is_executable: false, bytes }
    }

    /// A program.
    #[must_use]
    pub fn program(path: &'a str, bytes: &'a [u8]) -> Self {
        Self { path, is_executable: true, bytes }
    }
}

/// Reads a file. Returns its name and content.
///
/// # Errors
/// If it cannot be read, or its name is not UTF-8.
pub fn read(path: &Path) -> Result<(String, Vec<u8>)> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} is not the path of a file", path.display()))?;
    Ok((name.to_owned(), bytes))
}

/// Archives files in the given order, owned by root, with one timestamp in seconds since 1970.
///
/// # Errors
/// If a path is too long for the format.
pub fn tar<'a>(files: impl IntoIterator<Item = File<'a>>, created: u64) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for File { path, is_executable, bytes } in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(if is_executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(created);
        tar.append_data(&mut header, path, bytes).with_context(|| format!("cannot archive {path}"))?;
    }
    tar.into_inner().context("cannot end an archive")
}

/// Compresses without a name and a timestamp.
///
/// # Errors
/// Never in practice: everything is in memory.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).context("cannot compress an archive")
}
