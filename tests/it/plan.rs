//! Golden runs of `plan`, in a folder below `tests/it/plan/` each.

use std::fs;

use crate::golden;

#[test]
fn golden_runs() {
    let folders = fs::read_dir(golden::folder("plan")).unwrap();
    let folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
    golden::check(&folders, 20);
}
