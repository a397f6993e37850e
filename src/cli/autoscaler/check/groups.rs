//! Compares the tags, labels or annotations of a node group.

use super::sources::Pairs;
use crate::cli::autoscaler::forms::{Form, GPU_COUNT, GPU_TYPE};
use crate::cli::autoscaler::group::Group;
use crate::inspect::overlays::difference::{Comparison, Difference};
use crate::model::quantity::Quantity;
use crate::model::resource_name::is_extended;

/// Compares what an autoscaler should know of a group with what it knows.
pub(crate) fn compare(form: Form, group: &Group, found: &Pairs) -> Comparison {
    let expected = form.express(&group.values).pairs;
    let mut comparison = Comparison { compared: expected.len(), ..Comparison::default() };
    for (key, value) in &expected {
        let present = found.pairs.get(key);
        if !present.is_some_and(|present| is_same(key, value, present)) {
            let difference = Difference::of_field(&found.object, key, Some(value.clone()), present.cloned());
            comparison.differences.push(difference);
        }
    }
    for (key, value) in found.pairs.iter().filter(|(key, _)| !expected.contains_key(*key)) {
        let resource = match form {
            Form::Tags(tags) => tags.resource(key),
            Form::ClusterApi => (key == GPU_TYPE).then(|| value.clone()),
            Form::Gardener => Some(key.clone()),
        };
        let Some(resource) = resource.filter(|resource| is_extended(resource)) else { continue };
        if group.declared.contains(&resource) {
            if !(form == Form::ClusterApi && group.values.contains_key(&resource)) {
                let difference = Difference::of_field(&found.object, key, None, Some(value.clone()));
                comparison.differences.push(difference);
            }
        } else {
            comparison.notes.push(format!("{} has {key}={value}, and no rule declares {resource}", found.object));
        }
    }
    comparison
}

fn is_same(key: &str, expected: &str, found: &str) -> bool {
    match key {
        GPU_TYPE => expected == found,
        // Cluster Autoscaler accepts digits alone.
        GPU_COUNT => found.parse::<i64>().is_ok_and(|count| expected.parse() == Ok(count)),
        _ => found.parse::<Quantity>().is_ok_and(|quantity| expected.parse() == Ok(quantity)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::autoscaler::tags::Tags;

    const DONGLE: &str = "k8s.io/cluster-autoscaler/node-template/resources/example.com/dongle";
    const KEY: &str = "k8s.io/cluster-autoscaler/node-template/resources/example.com/key";

    fn group(values: &[(&str, &str)]) -> Group {
        let values = values.iter().map(|(name, quantity)| ((*name).to_owned(), quantity.parse().unwrap()));
        let declared = vec!["example.com/dongle".to_owned(), "example.com/key".to_owned()];
        Group { values: values.collect(), declared, ..Group::default() }
    }

    /// The differences and the notes.
    fn compared(form: Form, values: &[(&str, &str)], found: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let pairs = found.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let comparison = compare(form, &group(values), &Pairs { object: "workers".to_owned(), pairs });
        (comparison.differences.into_iter().map(|it| it.message).collect(), comparison.notes)
    }

    #[test]
    fn tags_are_compared_as_quantities() {
        let aws = |found: &[(&str, &str)]| compared(Form::Tags(Tags::Aws), &[("example.com/dongle", "4k")], found);
        for same in ["4k", "4000", "4e3"] {
            assert_eq!(aws(&[(DONGLE, same), ("Name", "workers")]), (vec![], vec![]), "{same}");
        }
        let differs = |found: &str| vec![format!("{DONGLE}: expected 4k, found {found}")];
        assert_eq!(aws(&[(DONGLE, "4")]).0, differs("4"));
        assert_eq!(aws(&[(DONGLE, "four")]).0, differs("four"));
        assert_eq!(aws(&[]).0, differs("nothing"));
        let left = aws(&[(DONGLE, "4k"), (KEY, "1")]);
        assert_eq!(left, (vec![format!("{KEY}: expected nothing, found 1")], vec![]));
        let plugin = "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu";
        let note = format!("workers has {plugin}=1, and no rule declares nvidia.com/gpu");
        assert_eq!(aws(&[(DONGLE, "4k"), (plugin, "1")]), (vec![], vec![note]));
        let storage = "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage";
        assert_eq!(aws(&[(DONGLE, "4k"), (storage, "1Gi")]), (vec![], vec![]));
    }

    #[test]
    fn annotations_are_compared_as_cluster_autoscaler_reads_them() {
        let api = |found: &[(&str, &str)]| compared(Form::ClusterApi, &[("example.com/dongle", "1k")], found).0;
        assert_eq!(api(&[(GPU_TYPE, "example.com/dongle"), (GPU_COUNT, "1000")]), [""; 0]);
        let count = format!("{GPU_COUNT}: expected 1000, found 1k");
        assert_eq!(api(&[(GPU_TYPE, "example.com/dongle"), (GPU_COUNT, "1k")]), [count]);
        assert_eq!(api(&[(GPU_TYPE, "nvidia.com/gpu"), (GPU_COUNT, "1000")]).len(), 1);
        let none = compared(Form::ClusterApi, &[], &[(GPU_TYPE, "example.com/dongle"), (GPU_COUNT, "1")]).0;
        assert_eq!(none, [format!("{GPU_TYPE}: expected nothing, found example.com/dongle")]);
    }

    #[test]
    fn virtual_capacity_is_compared() {
        let gardener = |found: &[(&str, &str)]| compared(Form::Gardener, &[("example.com/dongle", "4")], found);
        assert_eq!(gardener(&[("example.com/dongle", "4")]), (vec![], vec![]));
        assert_eq!(gardener(&[("example.com/key", "4")]).0.len(), 2);
    }
}
