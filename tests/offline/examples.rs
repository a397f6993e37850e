use std::path::{Path, PathBuf};

use node_resource_advertiser::model::api::NodeExtendedResource;
use node_resource_advertiser::planner::rules::Rule;
use serde_json::Value;

#[test]
fn examples_are_commented_and_rules_among_them_valid() {
    let mut rules = 0;
    for path in manifests(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{}: it says nothing of what it is for", path.display());
        for document in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            if object["kind"] != "NodeExtendedResource" {
                continue;
            }
            let object: NodeExtendedResource = serde_json::from_value(object).unwrap();
            Rule::new(&object).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            rules += 1;
        }
    }
    assert!(rules >= 6, "{rules}");
}

/// Returns the files in a folder and those within it, except for GitOps tools, which have tests of their own.
fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            found.push(path);
        } else if !path.ends_with("gitops") {
            found.extend(manifests(&path));
        }
    }
    found
}
