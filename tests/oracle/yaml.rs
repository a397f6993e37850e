//! Small YAML documents in every style, which must mean the same as in go-yaml, with which kubectl reads them.

use harness::oracle::ask;
use node_resource_advertiser::manifest::{self, Limits};
use serde_json::{Value, json};

use super::{manifest_value, report};

/// A field below the head of an object.
const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\n";

/// Texts in each style, whose second line has the indentation `@`.
const SCALARS: [&str; 12] = [
    "one\n@two",
    "'one\n@two'",
    "\"one\n@two\"",
    "\"one\\\n@two\"",
    "'one\n\n@two'",
    "\"one \n@ two \"",
    "'{\n@\"a\": 1\n@}'",
    "|\n@one\n@two\n",
    ">-\n@one\n@two\n",
    "|2\n@one\n@two\n",
    "&a 'one\n@two'",
    "!!str \"one\n@two\"",
];

/// Where a text stands, in place of `$`.
const PLACES: [&str; 5] = [
    "data: $\nend: 1\n",
    "data:\n  x: $\n  y: 1\n",
    "data:\n- $\n- b\n",
    "data: {x: $, y: 1}\n",
    "data:\n  x:\n  - y: $\n",
];

/// Pieces of which every short text is made, each in a place of its own.
const PIECES: [&str; 25] = [
    "a", "b: ", " ", "\n", "\n  ", "\t", "#", "- ", "? ", ":", "[", "]", "{", "}", ",", "'", "\"", "|", ">", "&a",
    "*a", "!a", "\u{a0}", "\u{feff}", "\r",
];

/// Where a short text stands, in place of `$`, and of how many pieces it is.
const SHORT: [(&str, usize); 5] =
    [("x: $\n", 4), ("x: [$]\n", 3), ("x: [a$, b]\n", 3), ("x: {a: $}\n", 3), ("x:\n  - $\n  - b\n", 3)];

/// How many short texts are rejected that kubectl reads: odd ones, such as a header of a text at the margin, an anchor that
/// a colon follows at once, a tag with a comma, or a colon before a bracket.
const READ_BY_KUBECTL_ONLY: usize = 3_425;

/// Fields that are one special case each.
const FIELDS: [&str; 327] = [
    "x: \"a\"#c\n",
    "x: 'a'#c\n",
    "x: a#c\n",
    "x: a #c\n",
    "x: [a]#c\n",
    "x: {a: b}#c\n",
    "x: \"a\" b\n",
    "x: \"a\\/b\"\n",
    "x: \"a\\\\/b\"\n",
    "x: 'a\\/b'\n",
    "x: \"a\\'b\"\n",
    "x: \"\\x41\\u0042\\U00000043\\t\\n\\e\\0\"\n",
    "x: \"\\q\"\n",
    "x: \"\\_\\N\\L\\P\"\n",
    "# a\u{85}x: 1\ny: 2\n",
    "# a\u{2028}x: 1\ny: 2\n",
    "# a\u{2029}x: 1\ny: 2\n",
    "x: 1 # a\u{85}y: 2\n",
    "x: a\u{85}y: b\n",
    "x:\ty\n",
    "x: a\tb\n",
    "x: a\t\n",
    "x: \"a\tb\"\n",
    "\tx: a\n",
    "x:\n\ty: a\n",
    "x: |\n  \ta\n",
    "x: |2\n  \ta\n",
    "x: >-\n    \tz\n",
    "x: |\n  a\n  \tb\n",
    "x: | # c 1\n  \ta\n",
    "x: |\n\n  \ta\n",
    "x: |\n \n  a\n",
    "x: |+\n\n\t\n",
    "x: a\r\t",
    "x: a\t\r\t",
    "x: 'a'\r\t\n",
    "x: [a]\r\t\n",
    "x: a\r\t\ry: b\n",
    "x: a\r\tb\n",
    "x: a\r# c\r\t\n",
    "x:\r  y: a\r\t\r  z: b\n",
    "x:\r- a\r- b\r",
    "x: |\r  \ta\r",
    "x: |\r\r  \ta\r",
    "x: a\r\n\t\r\n",
    "x: {a\r: b}\r",
    "x: [a, # c\r  b]\r",
    "x: \"a\"#c\ry: b\r",
    "x: |\r  a\r\r  b\r",
    "x: 'a\r  b'\r",
    "x: |\n\n\ny: a\n",
    "x: &m:\n  y: a\n",
    "x: &a%\n",
    "x: [&a b]\n",
    "x: {&a b: c}\n",
    "x: b\n\t\n c\n",
    "x: b\n \t\n c\n",
    "x: b\n\n \n\t \n c\n",
    "x: [b\n\t\n c]\n",
    "x: {a: b\n\n\t\n c}\n",
    "x:\n  y: b\n  \t\n   c\n",
    "x:\n  y: b\n   \t\n   c\n",
    "x:\n- b\n\t\n  c\n",
    "x: |#\0\n  a\n",
    "x: >#\u{1}",
    "x: \"a\"#\u{7f}\n",
    "x: {a: b}#\u{80}\n",
    "x: a #\u{fffe}\n",
    "x: |#\u{1f600}\n  a\n",
    "x: [a, !b]\n",
    "x: [a, !b ]\n",
    "x: [!b , a]\n",
    "x: {a: !b, c: d}\n",
    "x: {a: !b , c: d}\n",
    "x: {!b a: c}\n",
    "x: [!!str]\n",
    "x: [!]\n",
    "x: [! a]\n",
    "x: [!<b>]\n",
    "x: [!<b> ]\n",
    "x: [!<b>, a]\n",
    "x: !b#c\n",
    "x: !b #c\n",
    "x: [!b# c]\n",
    "x:\n- !b\n- !!str\n",
    "x: !b(c)'; d\n",
    "x: &a\u{a0}b\n",
    "x: [&a\u{a0}, b]\n",
    "x: {&a\u{3000} b: c}\n",
    "x: &a\u{feff}\n",
    "x: [&a\u{feff}, b]\n",
    "x: !a\u{a0}b\n",
    "x: [!a\u{2003} , b]\n",
    "x: &a\u{a0}\n",
    "x: \u{a0}a\n",
    "x: [\u{a0}a, \u{3000}]\n",
    "x: 'a'\u{a0}\n",
    "x: [a\n\t\n]\n",
    "x: [a\n\t\n , b]\n",
    "x: {a: b\n\t\n}\n",
    "x: {a\n\t\n}\n",
    "x: {a\n\t: b}\n",
    "x: {a: b\n\t# c\n}\n",
    "x: [[a\n\t\n]]\n",
    "x: [[a]\n\t\n]\n",
    "x: ['a'\n\t\n]\n",
    "x: [a #c\n\t\n]\n",
    "x:\n- |\n  a\n# b > c\n- |\n  \tb\n",
    "x:\n- a\n# b > c\n- >\n  \tb\n",
    "x: # >5\n  |\n    \tb\n",
    "x: !<b> |\n  \tb\n",
    "x: # > c\n  |2\n  \tb\n",
    "x: &a[b]\n",
    "x: [&a[b]]\n",
    "x: &a{b: c}\n",
    "x: [&a{b: c}]\n",
    "x: {&a: b}\n",
    "x: {&a : b}\n",
    "# c\n\u{feff}x: a\n",
    "x: a # c \u{feff} d\ny: b\n",
    "# \u{feff}\nx: a\n",
    "x: [a, # \u{feff}\n  b]\n",
    "x: [a, \u{feff}b]\n",
    "x: # \u{feff}\n  y: a\n",
    "x: a\n# \u{feff}\n",
    "x: | # \u{feff}\n  a\n",
    "\u{feff}x: a\n",
    "x: a\n\u{feff}y: b\n",
    "x: 'a\n\tb'\n",
    "x: [a,\n\tb]\n",
    "x: \u{feff}a\n",
    "\u{feff}x: a\n",
    "x: |\n  a",
    "x: |+\n  a\n\n",
    "x: |-\n  a\n\n",
    "x: >\n  a\n  b\n\n   c\n",
    "x: |1\n a\n",
    "x: |\n\n\n  a\n",
    "x: |\n   a\n  b\n",
    "x: > # c\n  a\n",
    "x: |x\n  a\n",
    "x: *a\n",
    "x: &a 1\ny: *a\n",
    "x: &a {b: 1}\ny: {<<: *a, c: 2}\n",
    "x: &a\n  b: 1\ny: *a\n",
    "<<: {x: 1}\nx: 2\n",
    "x: &a {b: 1}\ny: {! <<: *a, c: 2}\n",
    "x: &a {b: 1}\n! \"<<\": *a\n",
    "x: &a {b: 1}\n!!merge <<: *a\n",
    "x: &a {b: 1}\n!!merge '<<': *a\n",
    "x: &a {b: 1}\n!!str <<: *a\n",
    "x: &a {b: 1}\n\"<<\": *a\n",
    "x: &a {b: 1}\n!z <<: *a\n",
    "x: !!int \"4\"\n",
    "x: !!str 4\n",
    "x: !foo 4\n",
    "x: ! 4\n",
    "x: [a, b,]\n",
    "x: [a,, b]\n",
    "x: {a, b}\n",
    "x: {a: , b: }\n",
    "x: {a:1}\n",
    "x: {a:, b: 1}\n",
    "x: [a ? b]\n",
    "x: {a: why?\tthus}\n",
    "x: [a? ]\n",
    "x: [:a]\n",
    "x: [a, :b]\n",
    "x: [a,:b]\n",
    "x: {a: :b}\n",
    "x: {a :b}\n",
    "x: [a :b]\n",
    "x: [a :]\n",
    "x: {a, :b: c}\n",
    "x: {\"a\" :b}\n",
    "x: {\"a\":b}\n",
    "x: {a::b}\n",
    "x: {a: b:c}\n",
    "x: [a::b, c:]\n",
    "x: [::]\n",
    "x: {a: ::1}\n",
    "x: [http://a:80]\n",
    "x: [a?b]\n",
    "x: [a?]\n",
    "x: [a?, b]\n",
    "x: {a: b?}\n",
    "x: [?a]\n",
    "x: [a ?b]\n",
    "x: [a?:b]\n",
    "x: {a?: b}\n",
    "x: {a? : b}\n",
    "x: why? thus\n",
    "x: {a:}\n",
    "x: {a:[b]}\n",
    "x: {\"a\":, b: 1}\n",
    "x: {a\n  b: c}\n",
    "x: {\"a\n  b\": c}\n",
    "x: {? a\n  b : c}\n",
    "x: {a: b, c\n  : d}\n",
    "x: {a:\n  b, c: d}\n",
    "x: {a\n  b, c: d}\n",
    "x: {\"a\":1}\n",
    "x: {a: b: c}\n",
    "x: [a: b, c]\n",
    "x: [? a : b]\n",
    "? x\n: y\n",
    "? [x]\n: y\n",
    "x: a: b\n",
    "x: 'a: b'\n",
    "x: - a\n",
    "x:\n- a\n",
    "x:\n -a\n",
    "x: -\n",
    "x: @a\n",
    "x: `a\n",
    "x: %a\n",
    "x: a%b\n",
    "x: a\ny\n",
    "x: a\n y\n",
    "x: 'it''s'\n",
    "x: 'it's'\n",
    "x: \"a\n",
    "x: [a\n",
    "x: a\n  y: b\n",
    "x: a\n y: b\nz: c\n",
    "x:\n    y: a\n  z: b\n",
    "x: a\nx: b\n",
    "1: a\nyes: b\n1.5: c\n",
    "x: 0x1F\ny: 010\nz: 1_000\nw: 0o17\n",
    "x: a\n\t\ny: b\n",
    "x:\n  y: a\n\t\n  z: b\n",
    "x:\n  y: a\n \t\n  z: b\n",
    "x:\n  y: a\n  \t\n  z: b\n",
    "x:\n  y: a\n   \t\n  z: b\n",
    "x:\n- a\n\t\n- b\n",
    "x:\n- a\n \t\n- b\n",
    "x:\n  - a\n  \t\n  - b\n",
    "x:\n  - y: a\n    \t\n    z: b\n",
    "x:\n  - y: a\n     \t\n    z: b\n",
    "x:\n  - y: a\n  \t \n    z: b\n",
    "x: a\n \t\ny: b\n",
    "x: a\n\n\t\ny: b\n",
    "x: a # c\n\t\ny: b\n",
    "x: a # c\n \t\ny: b\n",
    "x: a\n\t# c\ny: b\n",
    "x: a\n \t# c\ny: b\n",
    "x: a\t# c\ny: b\n",
    "x: a # c\td\ny: b\n",
    "x: 'a'\n\t\ny: b\n",
    "x: 'a'\n \t# c\ny: b\n",
    "x: 'a'\t\ny: b\n",
    "x: 'a'\t# c\ny: b\n",
    "x: [a]\n\t\ny: b\n",
    "x: [a]\t\ny: b\n",
    "x: [a,\n\t\n b]\ny: c\n",
    "x: [\ta\t,\tb\t]\n",
    "x: {\ta\t:\tb\t}\n",
    "x: &a\tb\ny: *a\t\nz: c\n",
    "x: &a b\ny: *a\n\t\nz: c\n",
    "x: !!str\tb\n",
    "x:\t\n  y: b\n",
    "x:\n\t\n  y: b\n",
    "x:\n\t# c\n  y: b\n",
    "x:\t# c\n  y: b\n",
    "x:\t\n- a\n",
    "x:\ny: a\n\t",
    "x: a\n\t",
    "x: 'a'\n\t",
    "x: 'a'\n\t# c\n",
    "x:\n-\ta\n",
    "x:\n- \ta\n",
    "x:\n-\ta: b\n",
    "x:\n-\t'a'\n",
    "x:\n-\t[a]\n",
    "x:\n-\t{a: b}\n",
    "x:\n-\t- a\n",
    "x:\n-\t\n  a: b\n",
    "x:\n-\t# c\n  a: b\n",
    "x:\n- &a\tb\n",
    "x:\n- a\t\n- b\n",
    "x:\n- a:\tb\n",
    "?\tx\n:\ty\n",
    "?\tx\n: y\n",
    "? x\n:\ty\n",
    "? x\t\n: y\n",
    "x: |\n  a\n\t\ny: b\n",
    "x: |\n  a\n \t\ny: b\n",
    "x: |\n  a\n  \t\ny: b\n",
    "x: |\n  a\n\n\t# c\ny: b\n",
    "x: |\n  a\n# c\n\t\ny: b\n",
    "x: |\t\n  a\ny: b\n",
    "x: >-\t# c\n  a\ny: b\n",
    "x: a\n  \tb\ny: c\n",
    "x: a\n\tb\ny: c\n",
    "x: \"a\n\t\n b\"\ny: c\n",
    "\t\nx: a\n",
    " \t\nx: a\n",
    "\t# c\nx: a\n",
    "x: \"\\ud83d\\ude00\"\n",
    "x: \"\\uD83D\"\n",
    "x: \"\\ue000 \\\\ud83d \\u00e4\"\n",
    "x: '\\ud83d\\ude00'\n",
    "x: &a.b 1\n",
    "x: &a.b 1\ny: *a.b\n",
    "x: &\u{e4} 1\ny: 1\n",
    "x: [&a.b 1]\n",
    "x: &&a b\n",
    "x: [&&a, b]\n",
    "x: {y: &&a b}\n",
    "x: & b\n",
    "x: &!a b\n",
    "x: &*a b\n",
    "x: &a &b c\n",
    "x: !&a b\n",
    "x: &a 1\ny: **a\n",
    "x: &a-b_C9 1\ny: *a-b_C9\n",
    "x: a &a.b\ny: '&a.b' # &a.b\nz: \"&a.b\"\n",
    "x: |\n  &a.b\ny: >\n  &a.b c\n",
    "x: [a, &a b, c &d.e]\n",
    "x: &a {b: c}\ny: &d.e {b: c}\n",
    "x: !!binary aGVsbG8=\n",
    "x: !!binary '@@'\n",
    "x: !!binary |\n  aGVs\n  bG8=\n",
    "x: !!binary ''\n",
    "x: !!binary aGVsbG8\n",
    "x: !!int 1.0\n",
    "x: !!int 1_0\n",
];

/// The byte order mark, behind which go-yaml loses its place. It is an error in a field.
const MARK: char = '\u{feff}';

/// Fields that are read otherwise. YAML has no such escape, and go-yaml reads it. Keys with a colon that nobody means are
/// errors.
const KNOWN: [&str; 6] =
    ["x: \"a\\'b\"\n", "x: {a:, b: 1}\n", "x: {a:}\n", "x: [?a]\n", "x: [a :]\n", "x: [a::b, c:]\n"];

fn documents() -> Vec<String> {
    let mut documents = Vec::new();
    for (place, scalar) in PLACES.iter().flat_map(|place| SCALARS.iter().map(move |scalar| (place, scalar))) {
        for indentation in ["", " ", "    ", "\t"] {
            documents.push(HEAD.to_owned() + &place.replace('$', &scalar.replace('@', indentation)));
        }
    }
    documents.extend(FIELDS.iter().map(|field| format!("{HEAD}{field}")));
    documents.extend(FIELDS.iter().map(|field| format!("{HEAD}{}", field.replace('\n', "\r\n"))));
    let whole =
        ["{apiVersion: v1, kind: A}", "{\"apiVersion\": \"v\\/1\", kind: A}", "%YAML 1.1\napiVersion: v1\nkind: A\n"];
    documents.extend(whole.map(str::to_owned));
    documents
}

#[test]
fn yaml_documents_match_kubectl() {
    let documents = documents();
    let mut mismatches = Vec::new();
    let (mut read, mut rejected) = (0, 0);
    for (document, theirs) in documents.iter().zip(ask("yaml", &documents)) {
        let theirs = object(&theirs);
        let ours = manifest_value("a.yaml", document);
        *(if theirs.is_some() { &mut read } else { &mut rejected }) += 1;
        let field = document.strip_prefix(HEAD).unwrap_or_default().replace("\r\n", "\n");
        let is_known = KNOWN.contains(&field.as_str()) || field.contains(MARK) && ours.is_none() && theirs.is_some();
        if (ours == theirs) == is_known {
            let [ours, theirs] = [ours, theirs].map(|value| value.unwrap_or(json!("rejected")).to_string());
            mismatches.push(format!("{document:?}\n  go-yaml:  {theirs}\n  manifest: {ours}"));
        }
    }
    report(&mismatches, documents.len());
    assert!(read > 200 && rejected > 50, "{read} {rejected}");
}

/// Returns the object that go-yaml reads. What is no object is an error of its own.
fn object(theirs: &Value) -> Option<Value> {
    let value = theirs["error"].is_null().then(|| theirs["json"].clone());
    value.filter(|value| value["apiVersion"].is_string() && value["kind"].is_string())
}

/// Returns every text of this number of pieces.
fn short_texts(pieces: usize) -> Vec<String> {
    (0..pieces).fold(vec![String::new()], |texts, _| {
        texts.iter().flat_map(|text| PIECES.iter().map(move |piece| format!("{text}{piece}"))).collect()
    })
}

/// Whatever stands next to what: a fuzzer meets that by chance. Nothing is read that kubectl rejects, or with another value.
#[test]
fn every_short_yaml_text_matches_kubectl() {
    let of_place = |(place, pieces): &(&str, usize)| {
        short_texts(*pieces).iter().map(|text| format!("{HEAD}{}", place.replace('$', text))).collect::<Vec<_>>()
    };
    let documents: Vec<_> = SHORT.iter().flat_map(of_place).collect();
    let mut mismatches = Vec::new();
    let mut read_by_kubectl_only = 0;
    for (document, theirs) in documents.iter().zip(ask("yaml", &documents)) {
        let theirs = object(&theirs);
        let mut ours = Vec::new();
        manifest::read_text("a.yaml", document.clone(), &Limits::default(), &mut |read| ours.push(read));
        let is_right = match (ours.as_slice(), &theirs) {
            ([Ok(ours)], Some(theirs)) => ours.value == *theirs,
            ([Err(_), ..], Some(_)) => {
                read_by_kubectl_only += usize::from(!document.contains(MARK));
                true
            }
            ([Err(_), ..] | [], None) => true,
            _ => false,
        };
        if !is_right {
            mismatches.push(format!("{document:?}\n  go-yaml:  {theirs:?}\n  manifest: {ours:?}"));
        }
    }
    report(&mismatches, documents.len());
    assert_eq!(read_by_kubectl_only, READ_BY_KUBECTL_ONLY, "explain what is new, or lower the number");
}
