//! What each version has left in a cluster, as this version reads it.

use std::fs;
use std::path::Path;

use node_resource_advertiser::model::ledger::{ANNOTATION, Ledger};
use serde_json::{Value, json};

use crate::program;

/// Returns the name of each version, and its objects.
fn versions() -> Vec<(String, Vec<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata/versions");
    let versions = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(path.join("objects.json")).unwrap();
        let mut list: Value = serde_json::from_str(&text).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_value(list["items"].take()).unwrap())
    });
    versions.collect()
}

#[test]
fn ledgers_of_every_version_are_written_as_they_were_read() {
    for (version, objects) in versions() {
        let ledgers = objects.iter().filter_map(|object| object["metadata"]["annotations"][ANNOTATION].as_str());
        let (valid, invalid): (Vec<_>, Vec<_>) = ledgers.partition(|text| Ledger::parse(Some(text)).is_ok());
        assert_eq!(invalid, ["not JSON"], "{version}");
        assert!(valid.len() > 5, "{version}: {valid:?}");
        for text in valid {
            assert_eq!(Ledger::parse(Some(text)).unwrap().to_annotation().as_deref(), Some(text), "{version}");
        }
    }
}

#[test]
fn objects_of_every_version_are_planned_without_a_change() {
    for (version, objects) in versions() {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("versions").join(&version);
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, kind: &str| {
            // Of the invalid rule nothing is planned: it stops `plan`.
            let is_planned = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] != "stalled";
            let items: Vec<_> = objects.iter().filter(is_planned).collect();
            assert!(!items.is_empty(), "{version} has left no {kind}");
            let path = folder.join(name).to_str().unwrap().to_owned();
            fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
            path
        };
        let rules = file("rules.json", "NodeExtendedResource");
        let (nodes, pods) = (file("nodes.json", "Node"), file("pods.json", "Pod"));
        let output = program(&["plan", "-f", &rules, "--nodes", &nodes, "--pods", &pods]);
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(output.status.code(), Some(0), "{version}: {stdout}{stderr}");
        assert!(stdout.contains("No changes"), "{version}: {stdout}{stderr}");
    }
}
