use std::sync::Arc;

use serde_json::json;

use super::super::path::Path;
use super::super::source::{Source, SourceLocation};
use super::*;

fn read_all(text: &str, limits: &Limits) -> Result<Option<Parsed>, ParseError> {
    read(&RawDocument { text, offset: 0, lines_before: 0, is_json: false }, limits)
}

fn value(text: &str) -> Value {
    read_all(text, &Limits::default()).unwrap().map_or(Value::Null, |parsed| parsed.value)
}

fn reason(text: &str) -> String {
    read_all(text, &Limits::default()).unwrap_err().reason
}

/// What is underlined for a path, and at which line and column.
fn shown(text: &str, path: &Path) -> (String, (usize, usize)) {
    let Parsed { locations, .. } = read_all(text, &Limits::default()).unwrap().unwrap();
    let source = Arc::new(Source::new("a.yaml", text.to_owned()));
    let location = SourceLocation::within(&source, locations.shown(path, &source));
    (location.text().to_owned(), location.start().unwrap())
}

#[test]
fn yaml_merged_field_keeps_its_source_location() {
    let text = "a: &a {x: 1, z: 2}\nb:\n  <<: *a\n  z: 3\n";
    assert_eq!(value(text), json!({"a": {"x": 1, "z": 2}, "b": {"x": 1, "z": 3}}));
    assert_eq!(shown(text, &Path::from_keys(["b", "x"])), ("1".to_owned(), (1, 11)));
    assert_eq!(shown(text, &Path::from_keys(["b", "z"])), ("3".to_owned(), (4, 6)));
    // The first of several wins, and what comes later replaces what stands before.
    assert_eq!(value("{<<: [{x: 1}, {x: 2, z: 3}]}"), json!({"x": 1, "z": 3}));
    assert_eq!(value("{x: 5, <<: {x: 1}}"), json!({"x": 1}));
    assert_eq!(value("{\"<<\": {x: 1}}"), json!({"<<": {"x": 1}}));
    assert!(reason("<<: [1]").contains("a map, or a list of maps"));
}

#[test]
fn yaml_keys_that_kubectl_reads_otherwise_are_errors() {
    for (text, says) in [
        ("x: {a:, b: 1}", "the colon after this key needs a space"),
        ("x: {a:}", "the colon after this key needs a space"),
        ("x: {a\n  b: 1}", "a key and its colon have to be in one line"),
        ("x: {a\n  : 1}", "a key and its colon have to be in one line"),
        ("x: {\"a\n  b\": 1}", "a key and its colon have to be in one line"),
        ("x: [a, :b]", "a colon before a word between brackets"),
        ("x: {a: :b}", "a colon before a word between brackets"),
        ("x: [a :]", "the colon after this key needs a space"),
        ("x: [a ? b]", "a question mark between brackets"),
        ("x: {a: why?\tthus}", "a question mark between brackets"),
        ("x: {a: {b: c?\n    d}}", "a question mark between brackets"),
        ("x: {a: http://b/?c=d}", "a question mark between brackets"),
        ("{\n  // one\n  \"a\": 1\n}", "JSON has no comments"),
    ] {
        assert!(reason(text).contains(says), "{text}: {}", reason(text));
    }
    for text in ["x: {\"a\":1}", "x: {a: , b: 1}", "x: {? a\n  b : c}", "x: {a\n  b, c: d}", "x: {a:1}"]
        .into_iter()
        .chain(["x: why? thus", "x: [\"a ? b\"]", "x: [a]\ny: b ? c", "x:\n- {a: b}\n- c ? d"])
    {
        assert_ne!(value(text), Value::Null, "{text}");
    }
}

#[test]
fn yaml_alias_has_the_location_of_its_anchor() {
    let text = "a: &a 0\nb: [1, *a]\n";
    assert_eq!(value(text), json!({"a": 0, "b": [1, 0]}));
    assert_eq!(shown(text, &Path::from_keys(["b"]).item(1)), ("0".to_owned(), (1, 7)));
    assert!(reason("a: *b").contains("anchor"));
}

#[test]
fn yaml_last_of_repeated_keys_counts_and_all_are_returned() {
    for (text, expected) in [
        ("a: 1\nb: 2\na: 3", "the key \"a\" is given twice: it is in line 1 already"),
        ("{1: a, \"1\": b}", "the key \"1\" is given twice: it is in line 1 already"),
    ] {
        let parsed = read_all(text, &Limits::default()).unwrap().unwrap();
        let reasons: Vec<_> = parsed.repeated.iter().map(|repeated| repeated.reason.as_str()).collect();
        assert_eq!(reasons, [expected], "{text}");
    }
    assert_eq!(value("a: 1\nb: 2\na: 3"), json!({"a": 3, "b": 2}));
}

/// Such as in a table by the value of a label.
#[test]
fn yaml_key_that_is_a_number_is_what_kubectl_makes_of_it() {
    // Each as `kubectl create --dry-run=client -o json` prints it.
    for (text, key) in [
        ("010", "8"),
        ("1_000", "1000"),
        ("1000000", "1000000"),
        ("1.30", "1.3"),
        ("4.0", "4"),
        ("1e3", "1000"),
        ("1e6", "1e+06"),
        ("12e34", "1.2e+35"),
        ("1234567.0", "1.234567e+06"),
        ("1.23456789", "1.2345679"),
        ("-.5", "-0.5"),
        ("0.00001", "1e-05"),
        ("1e300", ".inf"),
        ("\"1e6\"", "1e6"),
        ("yes", "true"),
    ] {
        assert_eq!(value(&format!("{text}: a")), json!({ key: "a" }), "{text}");
    }
}

#[test]
fn yaml_keys_must_be_text() {
    assert_eq!(value("{1: a, yes: b, 1.5: c}"), json!({"1": "a", "true": "b", "1.5": "c"}));
    assert!(reason("{~: 1}").starts_with("a key must be text"));
    assert!(reason("{[a]: 1}").starts_with("a key must be text"));
}

#[test]
fn yaml_shown_location_is_within_one_line() {
    let text = "a:\n  b: |\n    long\n    text\n  c: [1,\n      2]\n  d:\n  e: {f: 1}\n  g:\n    - h: i\n      j: k\n";
    for (path, shows, at) in [
        (Path::from_keys(["a"]), "a", (1, 1)),
        (Path::from_keys(["a", "b"]), "b", (2, 3)),
        (Path::from_keys(["a", "c"]), "c", (5, 3)),
        (Path::from_keys(["a", "c"]).item(1), "2", (6, 7)),
        (Path::from_keys(["a", "d"]), "d", (7, 3)),
        (Path::from_keys(["a", "e"]), "{f: 1}", (8, 6)),
        (Path::from_keys(["a", "g"]).item(0), "h: i", (10, 7)),
        // What is not there is shown by what it should be in.
        (Path::from_keys(["a", "x", "y"]), "a", (1, 1)),
        (Path::from_keys(["a", "g"]).item(9), "g", (9, 3)),
        (Path::from_keys(["x"]), "a:", (1, 1)),
        (Path::default(), "a:", (1, 1)),
    ] {
        assert_eq!(shown(text, &path), (shows.to_owned(), at), "{path}");
    }
}

#[test]
fn yaml_aliases_count_toward_size_and_depth_limits() {
    let limits = Limits { values: 20, depth: 5, ..Limits::default() };
    let refused = |text: &str| read_all(text, &limits).err().map(|parse_error| parse_error.reason);
    let fits = "a: &a [1, 2]\nb: [*a, *a]\n";
    assert_eq!(refused(fits), None);
    let too_many = "a: &a [1, 2]\nb: [*a, *a, *a, *a]\n";
    assert!(refused(too_many).unwrap().starts_with("the document has more than 20 values"));
    let long = format!("a: &a {}\nb: [*a, *a]\n", "x".repeat(400));
    assert!(refused(&long).unwrap().starts_with("the document has more than 20 values"));
    let deep = "a: &a [[[1]]]\nb: [[*a]]\n";
    assert_eq!(refused(deep).unwrap(), "maps and lists are nested more than 5 deep here");
    assert_eq!(refused("[[[[[1]]]]]"), None);
    assert!(refused("[[[[[[1]]]]]]").unwrap().contains("more than 5 deep"));
}

#[test]
fn yaml_empty_document_has_no_value() {
    for text in ["", "# only a comment\n", "~", "\n\n"] {
        assert_eq!(read_all(text, &Limits::default()).unwrap().map(|parsed| parsed.value), None);
    }
    assert!(reason("a: 1\n...\nb: 2\n").contains("needs a line of ---"));
}

#[test]
fn yaml_is_read_as_in_kubectl_where_yaml_1_2_differs() {
    assert_eq!(value("a: 'b\nc'\nd: \"{\n}\"\n"), json!({"a": "b c", "d": "{ }"}));
    assert_eq!(value("a: \"b\"#c: ü\nd: [e]#f\n"), json!({"a": "b", "d": ["e"]}));
    assert_eq!(value("a: b # c\u{85}d: e\u{2028}f: g\n"), json!({"a": "b", "d": "e", "f": "g"}));
    assert_eq!(shown("a: 'b'#c\nd: 5\n", &Path::from_keys(["d"])), ("5".to_owned(), (2, 4)));
    assert!(reason("a: \"b\\/c\"").contains("write / alone"));
    assert_eq!(value("a: \"b\\\\/c\"\nd: 'e\\/f'"), json!({"a": "b\\/c", "d": "e\\/f"}));
    let many = "- 'a'#b\n".repeat(GLUED_COMMENTS);
    assert_eq!(value(&many), json!(vec!["a"; GLUED_COMMENTS]));
    assert!(reason(&(many + "- 'a'#b\n")).contains("a comment needs a space before it"));
}

#[test]
fn yaml_tab_that_kubectl_rejects_is_an_error_at_its_place() {
    let indentation = "a tab at the start of a line";
    for (text, says, at) in [
        ("x: a\n\t\ny: b\n", indentation, 5),
        ("x:\n  y: a\n  \t\n  z: b\n", indentation, 12),
        ("x: a\n\t# c\ny: b\n", indentation, 5),
        ("x: 'a'\n \t# c\ny: b\n", indentation, 8),
        ("x:\n-\ta: b\n", "a tab cannot follow -", 4),
        ("? x\n:\ty\n", "a tab cannot follow :", 5),
        ("x: b\n \n\t\n c\n", indentation, 7),
        ("x: [b\n\t\n c]\n", indentation, 6),
    ] {
        let error = read_all(text, &Limits::default()).unwrap_err();
        assert!(error.reason.contains(says), "{text:?}: {}", error.reason);
        assert_eq!(error.span, Span::new(at..at + 1), "{text:?}");
    }
    for text in [
        "x: a\n \t\ny: b\n",
        "x: 'a'\t\ny: b\n",
        "x:\n- a\n \t\n- b\n",
        "x:\n- - a\n- b\n \t\n- c\n",
        "x: b\n \t\n c\n",
    ] {
        assert!(read_all(text, &Limits::default()).is_ok(), "{text:?}");
    }
}

#[test]
fn yaml_character_that_kubectl_rejects_is_an_error_even_in_a_comment() {
    for text in ["x: |#\0\n  a\n", "x: \"a\"#\u{1}\n", "x: |#\u{80}\n"] {
        let error = read_all(text, &Limits::default()).unwrap_err();
        assert!(error.reason.contains("kubectl rejects the character U+00"), "{text:?}: {}", error.reason);
    }
    assert!(read_all("x: |#\u{85}  \u{a0}\u{10ffff}\n", &Limits::default()).is_ok());
}

/// go-yaml may drop what follows.
#[test]
fn yaml_byte_order_mark_is_read_at_the_start_only() {
    assert!(read_all("\u{feff}x: a\n", &Limits::default()).is_ok());
    for text in
        ["x: a \u{feff}\nk: b\n", "x: \u{feff}a\n", "# \u{feff}\nx: a\n", "x: '\u{feff}'\n", "x: a\n\u{feff}y: b\n"]
    {
        let error = read_all(text, &Limits::default()).unwrap_err();
        assert!(error.reason.contains("a byte order mark"), "{text:?}: {}", error.reason);
    }
}

#[test]
fn yaml_space_that_is_no_blank_is_a_part_of_an_anchor() {
    for space in ['\u{a0}', '\u{2003}', '\u{3000}'] {
        for text in [format!("x: &a{space}b\n"), format!("x: [&a{space}, b]\n"), format!("x: {{&a{space} b: c}}\n")] {
            let error = read_all(&text, &Limits::default()).unwrap_err();
            assert!(error.reason.contains("the name of an anchor"), "{text:?}: {}", error.reason);
        }
        let tagged = read_all(&format!("x: !a{space}b\n"), &Limits::default());
        assert!(tagged.is_err(), "{space:?}");
    }
}

#[test]
fn yaml_anchor_with_another_character_before_its_name_is_an_error() {
    for text in ["x: &&a b\n", "x: [&&a , b]\n", "x: &!a b\n", "x: & b\n"] {
        assert!(read_all(text, &Limits::default()).is_err(), "{text:?}");
    }
}

/// kubectl reads `[!a, b]` as a list of one.
#[test]
fn yaml_tag_without_a_space_after_it_is_an_error_at_its_place() {
    for (text, at) in [("x: [!a, b]\n", 4), ("x: {y: !a}\n", 7), ("x: [!<a>]\n", 4), ("x:\n  y: !a#b\n", 8)] {
        let error = read_all(text, &Limits::default()).unwrap_err();
        assert!(error.reason.contains("a tag up to the next space"), "{text:?}: {}", error.reason);
        assert_eq!(error.span, Span::new(at..at + 1), "{text:?}");
    }
    for text in ["x: [!a , !b c]\n", "x: {!a y: !<b> z}\n", "x: !a #b\n", "x: !a"] {
        assert!(read_all(text, &Limits::default()).is_ok(), "{text:?}");
    }
}

#[test]
fn yaml_escaped_halves_of_a_character_are_errors() {
    for text in [r#"a: "\ud83d\ude00""#, r#"a: "\\\uD83D\uDE00""#] {
        assert!(reason(text).contains("no half of a character"), "{text}");
    }
    assert_eq!(value(r#"a: "\ud7ff\\ud83d""#), json!({"a": "\u{d7ff}\\ud83d"}));
}
