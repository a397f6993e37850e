//! The words of the pages: phrases that do not return, and numbers that stand on one page.

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

/// Facts with a number, in the spellings that pages have used, and the page of each: the others link to it.
const FACTS: [(&[&str], &str); 14] = [
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
];

/// The pages with their prose on one line: without code and generated parts.
fn pages() -> Vec<(String, String)> {
    let root = harness::project_file("");
    let paths = documents::pages().unwrap().into_iter();
    let pages =
        paths.map(|path| (path.strip_prefix(&root).unwrap().display().to_string(), std::fs::read_to_string(&path)));
    let is_written = |name: &str| name.starts_with("docs/") || name.starts_with("charts/") || !name.contains('/');
    let written = pages.filter(|(name, _)| is_written(name) && name != "docs/api.md");
    written.map(|(name, text)| (name, prose(&text.unwrap()))).collect()
}

/// Returns a text without fenced code and without what is between `made by` and `end of`, in single spaces.
fn prose(text: &str) -> String {
    let mut is_left_out = false;
    let mut words = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") || line.contains(": made by ") || line.starts_with("<!-- end of ") {
            is_left_out = !is_left_out;
        } else if !is_left_out && !line.starts_with("<!-- ") {
            words.extend(line.split_whitespace());
        }
    }
    words.join(" ")
}

/// Whether a text has these words, and not only the beginning or the end of longer ones.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(start, _)| {
        let [before, after] = [text[..start].chars().next_back(), text[start + words.len()..].chars().next()];
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[test]
fn prose_has_no_retired_phrase() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let text = text.to_lowercase();
        let phrases = RETIRED.iter().filter(|(phrase, _)| has_words(&text, phrase));
        found.extend(phrases.map(|(phrase, instead)| format!("{page}: {phrase:?}: {instead}")));
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn number_of_a_fact_stands_on_its_page_alone() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (spellings, home) in FACTS {
        let having = |text: &str| spellings.iter().any(|spelling| text.contains(spelling));
        for (page, text) in &pages {
            if having(text) != (page == home) {
                wrong.push(format!("{page}: {spellings:?} of {home}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "state it on its page, and link to it");
}
