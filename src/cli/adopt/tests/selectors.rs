//! What selects the nodes of a group.

use serde_json::{Value, json};

use super::{adopt, dongles, node, rules, snapshot};

/// Returns the selections of the rules for nodes with these labels. The second item is whether a node has the resource.
fn selections(nodes: &[(Value, bool)]) -> (Vec<String>, String) {
    let nodes = nodes.iter().enumerate().map(|(at, (labels, has))| {
        let name = format!("node-{at}");
        match has {
            true => dongles(&name, labels.clone(), "4"),
            false => node(&name, labels.clone(), "k3s", json!({})),
        }
    });
    let yaml = adopt(&snapshot(&nodes.collect::<Vec<_>>(), &[])).yaml;
    let texts = rules(&yaml).into_iter().map(|rule| {
        let spec = yaml.split("---\n").find(|text| text.contains(&format!("name: {}\n", rule.name))).unwrap();
        let (_, selection) = spec.split_once("quantity: 4\n").unwrap();
        let selection = selection.split("  conflictPolicy").next().unwrap();
        selection.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    (texts.collect(), yaml.replace("\n# ", " "))
}

fn assert_selected(nodes: &[(Value, bool)], selectors: &[&str], comment: &str) {
    let (found, yaml) = selections(nodes);
    assert_eq!(found, selectors, "{yaml}");
    assert!(yaml.contains(comment), "{yaml}\nlacks {comment}");
}

#[test]
fn one_label_is_preferred_to_values_and_values_to_two_labels() {
    let exact = "selects exactly the nodes with this value. Nodes that get such labels later get it too.";
    assert_selected(
        &[
            (json!({"disk": "ssd", "zone": "x", "pool": "a"}), true),
            (json!({"disk": "ssd", "zone": "x", "pool": "b"}), true),
            (json!({"disk": "hdd", "zone": "x", "pool": "c"}), false),
        ],
        &["nodeSelector: matchLabels: disk: ssd"],
        exact,
    );
    assert_selected(
        &[
            (json!({"disk": "ssd", "zone": "x", "pool": "a"}), true),
            (json!({"disk": "ssd", "zone": "x", "pool": "b"}), true),
            (json!({"disk": "ssd", "zone": "y", "pool": "c"}), false),
            (json!({"disk": "hdd", "zone": "x", "pool": "c"}), false),
        ],
        &["nodeSelector: matchExpressions: - {key: pool, operator: In, values: [a, b]}"],
        exact,
    );
    assert_selected(
        &[
            (json!({"disk": "ssd", "zone": "x"}), true),
            (json!({"disk": "ssd", "zone": "x"}), true),
            (json!({"disk": "ssd", "zone": "y"}), false),
            (json!({"disk": "hdd", "zone": "x"}), false),
        ],
        &["nodeSelector: matchLabels: disk: ssd zone: x"],
        "disk=ssd and zone=x selects exactly",
    );
}

#[test]
fn label_that_explains_is_preferred_to_one_in_common_by_coincidence() {
    let zone = "topology.kubernetes.io/zone";
    assert_selected(
        &[
            (json!({zone: "x", "pool": "a", "example.com/dongle": "true"}), true),
            (json!({zone: "x", "pool": "a", "example.com/dongle": "true"}), true),
            (json!({zone: "y", "pool": "b"}), false),
        ],
        &["nodeSelector: matchLabels: example.com/dongle: \"true\""],
        "",
    );
    assert_selected(
        &[
            (json!({zone: "x", "pool": "a"}), true),
            (json!({zone: "x", "pool": "b"}), true),
            (json!({zone: "y"}), false),
        ],
        &["nodeSelector: matchExpressions: - {key: pool, operator: In, values: [a, b]}"],
        "",
    );
    assert_selected(
        &[(json!({zone: "x"}), true), (json!({zone: "x"}), true), (json!({zone: "y"}), false)],
        &["nodeSelector: matchLabels: topology.kubernetes.io/zone: x"],
        "in common by coincidence: check them",
    );
    // What a single node has is no evidence, and neither is a label that each node has with another value.
    let by_name = "nodeNames: - node-0";
    assert_selected(&[(json!({zone: "x"}), true), (json!({zone: "y"}), false)], &[by_name], "New nodes do not get it");
    let foreign = json!({"other.org/tier": "edge"});
    assert_selected(
        &[(foreign.clone(), true), (json!({}), false), (json!({}), false)],
        &[by_name],
        "By name, because no label that distinguishes",
    );
    let two = [(foreign.clone(), true), (foreign, true), (json!({}), false)];
    assert_selected(&two, &["nodeSelector: matchLabels: other.org/tier: edge"], "");
    assert_selected(
        &[(json!({"asset": "7"}), true), (json!({"asset": "8"}), false)],
        &[by_name],
        "no label that distinguishes",
    );
}

#[test]
fn nodes_without_a_selector_of_their_own_are_named_and_the_closest_label_too() {
    assert_selected(
        &[(json!({"disk": "ssd"}), true), (json!({"disk": "ssd"}), true), (json!({"disk": "ssd"}), false)],
        &["nodeNames: - node-0 - node-1"],
        "disk=ssd also selects node-2.",
    );
    assert_selected(
        &[
            (json!({"pool": "a"}), true),
            (json!({"pool": "a"}), true),
            (json!({"pool": "b"}), true),
            (json!({"pool": "b"}), false),
        ],
        &["nodeSelector: matchLabels: pool: a", "nodeNames: - node-2"],
        "Of the nodes with this value, pool=a selects these, and no other node.",
    );
    let all = &[(json!({"env": "lab"}), true), (json!({"env": "lab"}), true)];
    assert_selected(all, &["nodeNames: - node-0 - node-1"], "write allNodes: true in place of nodeNames");
    let all = &[(json!({"pool": "lab"}), true), (json!({"pool": "lab"}), true)];
    assert_selected(all, &["nodeSelector: matchLabels: pool: lab"], "");
}

/// The CRD allows 64 values of one label.
#[test]
fn label_with_too_many_values_selects_no_nodes() {
    for (values, start) in [(64, "nodeSelector: "), (65, "nodeNames: ")] {
        let pool = |number: usize| json!({"pool": format!("p{number}")});
        let nodes: Vec<_> = (0..=values).map(|number| (pool(number), number < values)).collect();
        let (found, yaml) = selections(&nodes);
        assert!(found.len() == 1 && found[0].starts_with(start), "{values}: {yaml}");
    }
}
