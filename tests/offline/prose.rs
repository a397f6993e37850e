//! The words of the pages: how many, phrases that do not return, and numbers that stand on one page. The phrases do not
//! return in the texts of the program and the charts either.

use std::path::{Path, PathBuf};

use harness::documents;

/// Phrases, and what to write instead.
const RETIRED: [(&str, &str); 14] = [
    ("says so", "name what is said"),
    ("for want of", "because you lack"),
    ("for ever", "forever"),
    ("foreign edit", "a value that another field manager changed"),
    ("the right to", "permission to"),
    ("no right to", "no permission to"),
    ("a part of a second", "a fraction of a second"),
    ("such as of", "for example of"),
    ("be it", "whether, or two sentences"),
    ("a lowering", "the controller lowers"),
    ("a hold", "held"),
    ("a contest", "a value that is undone repeatedly"),
    ("the ledgers list", "the ledgers record"),
    ("what pods request of", "the pods' requests"),
];

/// Facts with a number, in the spellings that pages have used (in any case), and the page of each: others link to it.
const FACTS: [(&[&str], &str); 25] = [
    (&["50 such patches", "50 patches", "50 per second", "50 nodes per second"], "docs/concepts.md"),
    (&["last 20 patches"], "docs/concepts.md"),
    (&["five repairs", "after five times"], "docs/concepts.md"),
    (&["only every ten seconds", "ten seconds later"], "docs/concepts.md"),
    (&["half of the rules"], "docs/values.md"),
    (&["15 seconds"], "docs/install.md"),
    (&["two thirds"], "docs/install.md"),
    (&["six times"], "docs/operations.md"),
    (&["250 lines"], "docs/plan.md"),
    (&["1,000 per rule"], "docs/adopt.md"),
    (&["10,000 downwards"], "docs/karpenter.md"),
    (&["once in 30 seconds"], "docs/quantities.md"),
    (&["32,256"], "docs/status-and-events.md"),
    (&["up to five minutes"], "docs/operations.md"),
    (&["126943"], "docs/protection.md"),
    (&["100 ms after"], "docs/protection.md"),
    (&["24 endless loops"], "docs/protection.md"),
    (&["12 of 12"], "docs/verification.md"),
    (&["0 of 3"], "docs/verification.md"),
    (&["at most ten Events"], "docs/status-and-events.md"),
    (&["496 extended resources"], "docs/status-and-events.md"),
    (&["45,000"], "docs/runbook.md"),
    (&["2 KiB, and 200"], "docs/runbook.md"),
    (&["four minutes"], "docs/install.md"),
    (&["78 characters"], "docs/autoscalers.md"),
];

/// How many words the pages may have together, and each of them: a reader's time is the cost of a page. The runbook is
/// read in parts.
const WORDS: usize = 29_000;
const WORDS_OF_A_PAGE: usize = 1_700;
const READ_IN_PARTS: &str = "docs/runbook.md";

/// The pages that are written by hand, and their texts.
fn written_pages() -> Vec<(String, String)> {
    let root = harness::project_file("");
    let paths = documents::pages().unwrap().into_iter();
    let pages =
        paths.map(|path| (path.strip_prefix(&root).unwrap().display().to_string(), std::fs::read_to_string(&path)));
    let is_written = |name: &str| name.starts_with("docs/") || name.starts_with("charts/") || !name.contains('/');
    let written = pages.filter(|(name, _)| is_written(name) && name != "docs/api.md");
    written.map(|(name, text)| (name, text.unwrap())).collect()
}

/// The pages with their prose in single spaces: without code and generated parts.
fn pages() -> Vec<(String, String)> {
    let prose = |text: &str| {
        let mut is_code = false;
        let lines = by_hand(text).filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        });
        lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    };
    written_pages().into_iter().map(|(name, text)| (name, prose(&text))).collect()
}

/// Returns the texts of the program, the CustomResourceDefinition and the charts, by file: literals and doc comments,
/// which are `--help` and descriptions too, messages, and comments of values.
fn texts() -> Vec<(String, String)> {
    let root = harness::project_file("");
    let mut texts = Vec::new();
    for folder in ["src", "crds", "charts"] {
        add_texts(&root.join(folder), &mut texts);
    }
    let below_root = |path: PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
    texts.into_iter().map(|(path, text)| (below_root(path), text)).collect()
}

/// Adds the texts of the files below a folder, except pages and tests.
fn add_texts(folder: &Path, texts: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            add_texts(&path, texts);
        } else if path.extension().is_none_or(|end| end != "md") {
            let text = std::fs::read_to_string(&path).unwrap();
            texts.push((path, words_of_file(&text)));
        }
    }
}

/// Returns the words of a file in single spaces, without what begins and continues lines: `///`, `#` and `\`. Other
/// comments of Rust are for those who change it, and inline tests show nothing.
fn words_of_file(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.trim().trim_end_matches('\\'));
    let shown = lines.filter(|line| !line.starts_with("// "));
    let words = shown.map(|line| line.trim_start_matches(['/', '!', '#'])).flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the lines of a text without comments, and without what is between `made by` and `end of`.
fn by_hand(text: &str) -> impl Iterator<Item = &str> {
    let mut is_generated = false;
    text.lines().filter(move |line| {
        if line.contains(": made by ") || line.starts_with("<!-- end of ") {
            is_generated = !is_generated;
        }
        !is_generated && !line.starts_with("<!-- ")
    })
}

/// Counts the words of a text, those of commands included. What has neither a letter nor a digit is none.
fn count_words(text: &str) -> usize {
    let words = by_hand(text).flat_map(str::split_whitespace);
    words.filter(|word| word.contains(char::is_alphanumeric) && !word.starts_with("```")).count()
}

/// Whether a text has these words, and not only the beginning or the end of longer ones.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(start, _)| {
        let [before, after] = [text[..start].chars().next_back(), text[start + words.len()..].chars().next()];
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[test]
fn generated_parts_and_marks_are_no_words_written_by_hand() {
    let text = "# Two words\n<!-- not run: a reason -->\n```sh\nkubectl get -A\n```\n<!-- codes: made by X -->\n| a |\n<!-- end of \
        codes -->\n| x | 4 |\n";
    assert_eq!(count_words(text), "Two words kubectl get -A x 4".split(' ').count());
}

/// Each page is written for a reader who has a question, and what it says stands nowhere else.
#[test]
fn pages_have_few_words() {
    let counted: Vec<_> = written_pages().into_iter().map(|(page, text)| (count_words(&text), page)).collect();
    // These are about how the project is made.
    let counted = counted.iter().filter(|(_, page)| !["RELEASE.md", "STYLE.md"].contains(&page.as_str()));
    let is_long = |(words, page): &&(usize, String)| *words > WORDS_OF_A_PAGE && page != READ_IN_PARTS;
    let long: Vec<_> = counted.clone().filter(is_long).collect();
    assert!(long.is_empty(), "above {WORDS_OF_A_PAGE} words: {long:?}");
    let total: usize = counted.map(|(words, _)| words).sum();
    assert!((WORDS / 2..=WORDS).contains(&total), "{total} words, and at most {WORDS} are wanted");
}

/// Returns the retired phrases in texts, each with its file and what to write instead.
fn retired_phrases(texts: Vec<(String, String)>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in texts {
        let text = text.to_lowercase();
        let phrases = RETIRED.iter().filter(|(phrase, _)| has_words(&text, phrase));
        found.extend(phrases.map(|(phrase, instead)| format!("{file}: {phrase:?}: {instead}")));
    }
    found
}

#[test]
fn prose_has_no_retired_phrase() {
    assert_eq!(retired_phrases(pages()), [""; 0]);
}

/// Users read these more often than the pages: in `kubectl explain`, `--help` and errors.
#[test]
fn retired_phrase_is_in_no_description_help_or_message() {
    let texts = texts();
    for part in ["src/", "crds/", "/templates/", "/values.yaml"] {
        assert!(texts.iter().any(|(file, _)| file.contains(part)), "no file has {part} in its path");
    }
    assert_eq!(retired_phrases(texts), [""; 0]);
}

#[test]
fn phrase_over_lines_is_found_in_literals_and_doc_comments_alone() {
    let source = "/// You have no\n/// right to do this.\nlet a = \"for \\\n    want of\";\n// Here for ever.\n\n\
        #[cfg(test)]\nmod tests {\n    const A: &str = \"a hold\";\n}\n";
    let found = retired_phrases(vec![("file".to_owned(), words_of_file(source))]);
    let phrases: Vec<_> = found.iter().map(|text| text.split('"').nth(1).unwrap()).collect();
    assert_eq!(phrases, ["for want of", "no right to"]);
    let values = words_of_file("  # A value that stays for\n  # ever.\nkey: value\n");
    assert_eq!(values, "A value that stays for ever. key: value");
}

#[test]
fn number_of_a_fact_stands_on_its_page_alone() {
    let pages: Vec<_> = pages().into_iter().map(|(page, text)| (page, text.to_lowercase())).collect();
    let mut wrong = Vec::new();
    for (spellings, home) in FACTS {
        let having = |text: &str| spellings.iter().any(|spelling| text.contains(&spelling.to_lowercase()));
        for (page, text) in &pages {
            if having(text) != (page == home) {
                wrong.push(format!("{page}: {spellings:?} of {home}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "state it on its page, and link to it");
}
