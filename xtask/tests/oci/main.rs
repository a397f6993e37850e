//! Archives of images and charts, as registries take them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

mod chart;
mod image;

use std::collections::BTreeMap;
use std::io::Read as _;

/// A file in a tar.
struct Entry {
    bytes: Vec<u8>,
    mode: u32,
    owner: (u64, u64),
    time: u64,
}

fn unpack(bytes: &[u8]) -> BTreeMap<String, Entry> {
    let mut tar = tar::Archive::new(bytes);
    let mut files = BTreeMap::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let header = entry.header();
        assert!(header.entry_type().is_file(), "{name}");
        let (mode, time) = (header.mode().unwrap(), header.mtime().unwrap());
        let owner = (header.uid().unwrap(), header.gid().unwrap());
        assert!(files.insert(name, Entry { bytes, mode, owner, time }).is_none(), "named twice");
    }
    files
}
