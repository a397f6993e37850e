//! Golden runs of `plan`, in a folder below `tests/it/plan/` each.

use std::fs;

use crate::golden;

#[test]
fn plan_prints_the_golden_output() {
    let folders = fs::read_dir(golden::folder("plan")).unwrap();
    let folders: Vec<_> = folders.map(|entry| entry.unwrap().path()).collect();
    golden::check(&folders, 20);
}
