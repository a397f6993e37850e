//! The quantities that `validate` and the controller accept, compared with
//! Kubernetes. The end-to-end test `crd_accepts_every_whole_quantity` compares the API server.

use std::collections::BTreeSet;

use harness::{oracle, quantities};
use node_resource_advertiser::manifest::{Files, Limits, read_text};
use node_resource_advertiser::model::api::NodeExtendedResource;
use node_resource_advertiser::planner::rules::Rule;
use node_resource_advertiser::validate::Validator;
use serde_json::{Value, json};

fn object(index: usize, quantity: &str) -> Value {
    json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": format!("rule-{index}")},
        "spec": {
            "resourceName": format!("example.com/r{index}"), "quantity": quantity,
            "nodeNames": ["node-1"],
        },
    })
}

/// Returns the indexes of the texts that `validate` accepts.
fn validated(texts: &[String]) -> BTreeSet<usize> {
    let mut accepted: BTreeSet<usize> = (0..texts.len()).collect();
    // A report keeps at most 10,000 problems.
    for (start, texts) in (0..).step_by(5000).zip(texts.chunks(5000)) {
        let objects = (start..).zip(texts).map(|(index, text)| object(index, text).to_string());
        let text = objects.collect::<Vec<_>>().join("\n---\n");
        let mut validator = Validator::new().unwrap();
        read_text("quantities", text, &Limits::default(), &mut |read| validator.take(read));
        for problem in validator.finish(Files::default()).diagnostics {
            assert_eq!(problem.path, "spec.quantity", "{problem:?}");
            let (_, name) = problem.object.unwrap();
            accepted.remove(&name.strip_prefix("rule-").unwrap().parse().unwrap());
        }
    }
    accepted
}

#[test]
fn validate_and_rules_accept_every_whole_quantity() {
    let mut texts = quantities::notations();
    texts.extend(quantities::multiples());
    let by_validate = validated(&texts);
    let mut differences = Vec::new();
    let mut whole_count = 0;
    for (index, (text, whole)) in texts.iter().zip(oracle::whole_quantities(&texts)).enumerate() {
        whole_count += usize::from(whole);
        let rule: NodeExtendedResource = serde_json::from_value(object(index, text)).unwrap();
        let verdicts = [by_validate.contains(&index), Rule::new(&rule).is_ok()];
        if verdicts != [whole, whole] {
            differences.push(format!("{text:?}: whole {whole}, validate and rule {verdicts:?}"));
        }
    }
    super::report(&differences, texts.len());
    println!("{} quantities, {whole_count} of them whole: no difference", texts.len());
    assert!(texts.len() > 100_000 && whole_count > 50_000, "{whole_count} of {}", texts.len());
}
