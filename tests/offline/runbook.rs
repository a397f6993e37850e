//! The runbook searches the log for texts that the program logs.

use std::fs;
use std::path::Path;

use crate::read;

/// The text of all files in a folder of the source, without tests.
fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            source(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// `grep` with a text that nothing logs finds nothing, and does not fail.
#[test]
fn runbook_searches_for_texts_that_the_program_logs() {
    let mut text = String::new();
    source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut text);
    // A literal may continue on the next line.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\ ", "");
    let runbook = read("docs/runbook.md");
    let mut count = 0;
    for line in runbook.lines().filter(|line| line.contains("logs ") && line.contains("| grep")) {
        let searches = line.split("| grep").nth(1).unwrap().replace(" -i ", " ");
        for search in searches.split(" -e ").map(|search| search.trim().trim_matches('\'')) {
            count += usize::from(!search.is_empty());
            // The API server's word.
            assert!(search == "forbidden" || text.contains(search), "nothing logs {search:?}: {line}");
        }
    }
    assert!(count > 3, "{count} searches");
}
