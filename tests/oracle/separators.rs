//! Files of several documents, which kubectl separates before it parses them.

use super::{kubectl_objects, manifest_objects, report};

/// `@` and `$` stand for objects, `^` for a byte order mark.
const FILES: [&str; 74] = [
    "@",
    "^@",
    "^^@",
    "^^^@",
    "^---\n@",
    "^^---\n@",
    "^--- # c\n@",
    "^\n---\n@",
    "# c\n^---\n@",
    "---\t\n@",
    "--- \t\n@",
    "@---\n^$",
    "@--- # ^\n$",
    "---\n@",
    "--- \n@",
    "---\r\n@",
    "---\t# c\n@",
    "--- # c\n@",
    "---#c\n@",
    "@---#c\n$",
    "---\u{a0}\n@",
    "--- \u{a0}\n@",
    "---\u{a0}# c\n@",
    "@---\u{a0}\n$",
    "---\u{c}\n@",
    "@---\u{c}\n$",
    "\u{c}\n@",
    "---\u{1}\n@",
    "--- # \u{1}\n@",
    "@--- # \u{1}\n$",
    "---\n--- # \u{1}\n@",
    "# c\n--- # \u{1}\n@",
    "\n--- # \u{1}\n@",
    "#\u{1}\n---\n@",
    "@---\n#\u{1}\n",
    "@---\n#\u{1}\n---\n$",
    "---\n\u{1}---\n@",
    "--- |\n",
    "@--- a\n$",
    "@--- {}\n$",
    "----\n@",
    "@----\n$",
    "-----\n@",
    " ---\n@",
    "@ ---\n$",
    "@---",
    "@--- #",
    "@---\n",
    "@---\n---\n---\n$",
    "---\n---\n@",
    "---   \n---\n---\n@",
    "\n---\n\n---\n@",
    "\t\n---\n@",
    "---\n\t\n@",
    "@---\n\t\n---\n$",
    "---\r---\n@",
    "...\n@",
    "# c\n... # d\n@",
    "^\n...\n---\n@",
    "^^@---\n$",
    "^@---\n# c\n---\n$",
    "@---\n^^$",
    "@---\n\r...\n",
    "---\n...\n---\n@",
    "---\n--- # c\n...\n@",
    "...a: 1\n---\n@",
    "@...\n...\n",
    "@...\n",
    "@...\n---\n$",
    "---\n# a\n...\n# b\n---\n@",
    "%YAML 1.1\n@",
    "%YAML 1.1\n---\n@",
    "@---\n%YAML 1.1\n---\n$",
    "@# c\n---\n# d\n---\n$",
];

#[test]
fn documents_of_a_file_are_separated_like_kubectl_does() {
    let object =
        |name: &str| format!("apiVersion: example.com/v1\nkind: A\nmetadata: {{name: {name}, labels: {{l: b}}}}\n");
    let mut mismatches = Vec::new();
    let mut rejected = 0;
    for file in FILES {
        let text = file.replace('^', "\u{feff}").replace('@', &object("a")).replace('$', &object("b"));
        let (ours, theirs) = (manifest_objects("a.yaml", &text), kubectl_objects(&text));
        rejected += usize::from(theirs.is_none());
        if ours != theirs {
            mismatches.push(format!("{file:?}\n  kubectl:  {theirs:?}\n  manifest: {ours:?}"));
        }
    }
    report(&mismatches, FILES.len());
    assert!(rejected > 15 && rejected < FILES.len() / 2, "{rejected}");
}
