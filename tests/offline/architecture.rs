//! The invariants in `docs/architecture.md`: each names tests that exist.

use std::fs;
use std::path::Path;

use crate::read;

/// The text of all Rust files in a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn invariants_name_tests_that_exist() {
    let mut text = String::new();
    for folder in ["src", "tests"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut text);
    }
    // Tests in a module of their file are indented.
    let text = text.replace("\n    ", "\n");
    let page = read("docs/architecture.md");
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| I")).collect();
    for (place, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, _, tests, _] = cells[..] else { panic!("not four columns: {row}") };
        assert_eq!(name, format!("I{}", place + 1));
        let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{name} names no test");
        for test in tests {
            let attributes = ["#[test]\n", "#[tokio::test(start_paused = true)]\nasync "];
            let mut there = attributes.iter().map(|attribute| text.contains(&format!("{attribute}fn {test}(")));
            assert!(there.any(|is_there| is_there), "{name}: there is no test {test}");
        }
    }
    assert_eq!(rows.len(), 10);
}
