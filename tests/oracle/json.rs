//! JSON documents, of which some are no YAML, and which must mean the same as in kubectl.

use serde_json::{Value, json};

use super::{kubectl_objects, manifest_value, report};

/// The rest of an object, after its head.
const FIELDS: [&str; 24] = [
    r#""x": 1}"#,
    "\"x\"\n : 1}",
    "\"x\"\n:\n[\n1\n,\n2\n]\n}\n",
    "\"x\": \"\u{7f}\u{9f}\u{fffe}\u{85}\u{2028}\u{feff}\"}",
    r#""x": "\ud83d"}"#,
    r#""x": "\ud83d\ude00\ud83dx\ude00 \ud83d\ud83d\ude00"}"#,
    r#""x": "\"\\\/\b\f\n\r\t\u00e4\u0000"}"#,
    r#""x": "\q"}"#,
    r#""x": 1e400}"#,
    r#""x": [1.0, 1e3, -0, 0.10, 9223372036854775807, 1e21, 1E-7]}"#,
    r#""x": [-9223372036854775808, -9223372036854775809, 123456789012345678901234567890, 1e308]}"#,
    r#""x": 1, "x": 2}"#,
    r#""x": {"<<": {"a": 1}}}"#,
    r#""x": null, "y": {}, "z": []}"#,
    r#""": 1, "true": 2}"#,
    "\"x\": \"a\tb\"}",
    "\"x\": \"a\u{1}b\"}",
    r#""x": 1,}"#,
    r#""x": 01}"#,
    r#""x": yes}"#,
    "x: 1}",
    "\"x\": 1}\n# c\n",
    "\"x\": 1}\n---\n",
    r#""x": [1"#,
];

const HEAD: &str = r#"{"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a", "labels": {"l": "b"}}, "#;

fn documents() -> Vec<String> {
    let mut documents: Vec<_> = FIELDS.iter().map(|fields| format!("{HEAD}{fields}")).collect();
    documents.extend(["\n\t ", "\u{feff}"].map(|before| format!("{before}{HEAD}\"x\": \"\\ud83d\"}}")));
    // Only a file that begins with a brace is JSON.
    documents.extend(["---\n", "# c\n"].map(|before| format!("{before}{HEAD}\"x\"\n: 1}}")));
    documents.push(format!("{HEAD}\"{}\": \"{}\"}}", "k".repeat(2000), "v".repeat(70_000)));
    documents
}

fn only(mut objects: Vec<Value>) -> Value {
    assert_eq!(objects.len(), 1);
    objects.remove(0)
}

#[test]
fn json_documents_match_kubectl() {
    let documents = documents();
    let mut mismatches = Vec::new();
    let mut rejected = 0;
    for document in &documents {
        let (ours, theirs) = (manifest_value("a.json", document), kubectl_objects(document).map(only));
        rejected += usize::from(theirs.is_none());
        if ours != theirs {
            let [ours, theirs] = [ours, theirs].map(|value| value.unwrap_or(json!("rejected")).to_string());
            mismatches.push(format!("{document:?}\n  kubectl:  {theirs}\n  manifest: {ours}"));
        }
    }
    report(&mismatches, documents.len());
    assert!((4..documents.len() / 2).contains(&rejected), "{rejected}");
}
