use std::path::Path;

use node_resource_advertiser::model::api::NodeExtendedResource;
use node_resource_advertiser::planner::rules::Rule;
use serde_json::Value;

#[test]
fn examples_are_commented_and_rules_among_them_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut rules = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Those for GitOps tools are tested by themselves.
        if path.is_dir() {
            continue;
        }
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
    assert!(rules >= 4, "{rules}");
}
