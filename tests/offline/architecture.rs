//! The invariants in `docs/architecture.md`: each names tests that exist.

use std::collections::BTreeSet;
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

/// The names of all tests that are neither ignored, nor left out on some platform, nor empty.
fn tests_that_run(text: &str) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    let mut attributes = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            attributes.push(line);
            continue;
        }
        let named =
            line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ").and_then(|rest| rest.split_once('('));
        let is_test = attributes.iter().any(|attribute| attribute.contains("test]") || attribute.contains("::test("));
        let always = !attributes.iter().any(|attribute| attribute.contains("ignore") || attribute.contains("cfg"));
        let is_empty = line.ends_with("{}") || lines.peek() == Some(&"}");
        if let Some((name, _)) = named.filter(|_| is_test && always && !is_empty) {
            tests.insert(name);
        }
        attributes.clear();
    }
    tests
}

#[test]
fn test_that_is_ignored_or_empty_does_not_count() {
    let text = "#[test]\nfn a() {\n    b();\n}\n#[ignore = \"slow\"]\n#[test]\nfn c() {\n    b();\n}\n#[test]\n#[ignore]\nfn d() {\n    \
        b();\n}\n#[test]\nfn e() {\n}\nmod f {\n    #[tokio::test(start_paused = true)]\n    async fn g() {\n        b();\n    }\n}\n\
        fn h() {\n    b();\n}\n#[test]\n#[cfg(unix)]\nfn i() {\n    b();\n}\n";
    assert_eq!(tests_that_run(text), BTreeSet::from(["a", "g"]));
}

#[test]
fn invariants_name_tests_that_run() {
    let mut text = String::new();
    for folder in ["src", "tests"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut text);
    }
    let tests = tests_that_run(&text);
    let page = read("docs/architecture.md");
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| I")).collect();
    for (place, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, _, named, _] = cells[..] else { panic!("not four columns: {row}") };
        assert_eq!(name, format!("I{}", place + 1));
        let named: Vec<_> = named.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{name} names no test");
        for test in named {
            assert!(tests.contains(test), "{name}: there is no test {test} that always runs");
        }
    }
    assert_eq!(rows.len(), 10);
}
