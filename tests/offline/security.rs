//! SECURITY.md: each threat has a test that tries it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::read;

/// Returns the names of all tests below a folder.
fn tests_in(folder: &Path, names: &mut BTreeSet<String>) {
    let test =
        Regex::new(r"#\[(?:tokio::)?test(?:\([^)]*\))?\]\n(?:\s*#\[[^\n]*\]\n)*\s*(?:async )?fn (\w+)\(").unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_in(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            names.extend(test.captures_iter(&text).map(|found| found[1].to_owned()));
        }
    }
}

#[test]
fn every_threat_has_a_test_that_exists() {
    let mut tests = BTreeSet::new();
    for folder in ["src", "tests/e2e", "tests/offline", "tests/release"] {
        tests_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut tests);
    }
    assert!(tests.len() > 500, "{}", tests.len());
    let page = read("SECURITY.md");
    let name = Regex::new(r"`([a-z0-9_]{12,})`").unwrap();
    let mut rows = 0;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with('|') {
            continue;
        }
        assert!(line.ends_with("| test |"), "a table without a column of tests: {line}");
        for row in std::iter::from_fn(|| lines.next_if(|line| line.starts_with('|'))).skip(1) {
            rows += 1;
            let cell = row.trim_end_matches(" |").rsplit("| ").next().unwrap();
            let named: Vec<_> = name.captures_iter(cell).map(|found| found[1].to_owned()).collect();
            assert!(!named.is_empty() || cell == "see below", "no test: {row}");
            let missing: Vec<_> = named.iter().filter(|name| !tests.contains(*name)).collect();
            assert!(missing.is_empty(), "no such test: {missing:?} in {row}");
        }
    }
    assert!(rows > 40, "{rows} rows");
}
