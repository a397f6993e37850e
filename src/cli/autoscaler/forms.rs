//! The forms in which autoscalers read the values of a group.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::error::AutoscalerError;
use super::group::Group;
use super::render::{self, Format};
use super::tags::Tags;
use crate::model::count::{NAMED, few};
use crate::model::quantity::Quantity;

/// The annotations by which Cluster Autoscaler knows one resource of a MachineDeployment, MachineSet or MachinePool: of
/// a GPU, but it takes any name (`clusterapi_utils.go`).
pub(super) const GPU_TYPE: &str = "capacity.cluster-autoscaler.kubernetes.io/gpu-type";
pub(super) const GPU_COUNT: &str = "capacity.cluster-autoscaler.kubernetes.io/gpu-count";

/// An autoscaler that must know the values of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Cluster Autoscaler, by tags or labels.
    Tags(Tags),
    /// Cluster Autoscaler, by annotations of Cluster API's objects.
    ClusterApi,
    /// Gardener's, by the configuration of a worker pool.
    Gardener,
}

/// The values of a group in a form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expressed {
    /// Keys and values: tags, labels or annotations; for Gardener resources and quantities.
    pub(super) pairs: BTreeMap<String, String>,
    /// A sentence for each resource that the form cannot express.
    pub(super) unexpressed: Vec<String>,
}

impl Form {
    /// Returns the values in this form.
    pub(super) fn express(self, values: &BTreeMap<String, Quantity>) -> Expressed {
        match self {
            Self::Tags(tags) => {
                let mut expressed = Expressed::default();
                for (resource, quantity) in values {
                    match tags.key(resource) {
                        Ok(key) => drop(expressed.pairs.insert(key, quantity.to_string())),
                        Err(why) => expressed.unexpressed.push(format!("{resource} cannot be expressed: {why}")),
                    }
                }
                expressed
            }
            Self::ClusterApi => annotations(values),
            Self::Gardener => Expressed { pairs: texts(values), unexpressed: Vec::new() },
        }
    }

    /// Returns the format that the autoscaler's tools take.
    pub(super) fn default_format(self) -> Format {
        match self {
            Self::Tags(_) | Self::ClusterApi => Format::Text,
            Self::Gardener => Format::Yaml,
        }
    }

    /// Renders the values of a group.
    ///
    /// # Errors
    /// If the form has not this format, or needs the name of the group.
    pub(super) fn render(self, group: &Group, name: Option<&str>, format: Format) -> Result<String, AutoscalerError> {
        let Expressed { pairs, .. } = self.express(&group.values);
        match (self, format) {
            (Self::Gardener, Format::Text) => {
                Err(AutoscalerError::Arguments("--for gardener has no format text: use -o yaml or json".to_owned()))
            }
            (_, Format::Text) => Ok(pairs.iter().map(|(key, value)| format!("{key}={value}\n")).collect()),
            (Self::Tags(Tags::Aws), _) => {
                let name = needed(name, "the tags of an Auto Scaling group contain its name: give it with --group")?;
                let tags: Vec<_> = pairs.iter().map(|(key, value)| AwsTag::new(name, key, value)).collect();
                render::value(&tags, format)
            }
            (Self::Tags(_), _) => render::value(&pairs, format),
            (Self::ClusterApi, _) => {
                let mut objects = json!({"infrastructureTemplate": {"status": {"capacity": texts(&group.values)}}});
                if !pairs.is_empty() {
                    objects["machineDeployment"] = json!({"metadata": {"annotations": pairs}});
                }
                render::value(&objects, format)
            }
            (Self::Gardener, _) => {
                let name = needed(name, "a Shoot names its worker pools: give the name with --group")?;
                render::value(&worker(name, &pairs), format)
            }
        }
    }
}

fn needed<'n>(name: Option<&'n str>, why: &str) -> Result<&'n str, AutoscalerError> {
    name.ok_or_else(|| AutoscalerError::Arguments(why.to_owned()))
}

fn texts(values: &BTreeMap<String, Quantity>) -> BTreeMap<String, String> {
    values.iter().map(|(name, quantity)| (name.clone(), quantity.to_string())).collect()
}

fn annotations(values: &BTreeMap<String, Quantity>) -> Expressed {
    let mut only = values.iter();
    match (only.next(), only.next()) {
        (None, _) => Expressed::default(),
        (Some((resource, quantity)), None) => {
            // It must be digits alone: 800Gi is an error.
            let count = quantity.whole().unwrap_or_default().to_string();
            let pairs = [(GPU_TYPE.to_owned(), resource.clone()), (GPU_COUNT.to_owned(), count)];
            Expressed { pairs: pairs.into(), unexpressed: Vec::new() }
        }
        (Some(_), Some(_)) => {
            let names = few(&values.keys().collect::<Vec<_>>(), NAMED, ", ");
            let why = format!(
                "{} resources cannot be expressed by annotations of Cluster API, which hold one ({names}): set \
                 status.capacity of the infrastructure template, which -o yaml prints",
                values.len()
            );
            Expressed { pairs: BTreeMap::new(), unexpressed: vec![why] }
        }
    }
}

/// A tag, as `aws autoscaling create-or-update-tags` takes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AwsTag<'t> {
    resource_id: &'t str,
    resource_type: &'static str,
    key: &'t str,
    value: &'t str,
    /// Instances do not need it.
    propagate_at_launch: bool,
}

impl<'t> AwsTag<'t> {
    fn new(group: &'t str, key: &'t str, value: &'t str) -> Self {
        Self { resource_id: group, resource_type: "auto-scaling-group", key, value, propagate_at_launch: false }
    }
}

/// Returns a part of a Shoot.
fn worker(name: &str, capacity: &BTreeMap<String, String>) -> Value {
    let config = json!({"nodeTemplate": {"virtualCapacity": capacity}});
    json!({"spec": {"provider": {"workers": [{"name": name, "providerConfig": config}]}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONGLE: &[(&str, &str)] = &[("example.com/dongle", "4")];
    const TWO: &[(&str, &str)] = &[("example.com/disk", "800Gi"), ("example.com/usb_key", "1k")];

    fn group(values: &[(&str, &str)]) -> Group {
        let values = values.iter().map(|(name, quantity)| ((*name).to_owned(), quantity.parse().unwrap()));
        Group { values: values.collect(), ..Group::default() }
    }

    fn rendered(form: Form, values: &[(&str, &str)], format: Format) -> String {
        form.render(&group(values), Some("workers"), format).unwrap()
    }

    fn json_of(form: Form, values: &[(&str, &str)]) -> Value {
        serde_json::from_str(&rendered(form, values, Format::Json)).unwrap()
    }

    #[test]
    fn aws_tags_are_those_of_the_aws_command() {
        let form = Form::Tags(Tags::Aws);
        let prefix = "k8s.io/cluster-autoscaler/node-template/resources";
        let text = format!("{prefix}/example.com/disk=800Gi\n{prefix}/example.com/usb_key=1k\n");
        assert_eq!(rendered(form, TWO, Format::Text), text);
        let tag = json!([{
            "ResourceId": "workers", "ResourceType": "auto-scaling-group", "PropagateAtLaunch": false,
            "Key": format!("{prefix}/example.com/dongle"), "Value": "4",
        }]);
        assert_eq!(json_of(form, DONGLE), tag);
        let error = form.render(&group(DONGLE), None, Format::Json).unwrap_err();
        assert!(error.to_string().contains("give it with --group"), "{error}");
        assert!(form.render(&group(DONGLE), None, Format::Text).is_ok());
    }

    #[test]
    fn azure_tags_and_gke_labels_are_maps() {
        let azure = Form::Tags(Tags::Azure);
        let key = "k8s.io_cluster-autoscaler_node-template_resources_example.com_disk";
        assert_eq!(json_of(azure, TWO), json!({ key: "800Gi" }));
        let unexpressed = azure.express(&group(TWO).values).unexpressed;
        assert!(
            unexpressed.len() == 1 && unexpressed[0].starts_with("example.com/usb_key cannot be"),
            "{unexpressed:?}"
        );
        let gke = "clusterautoscaler-nodetemplate-resources-example.com/dongle";
        assert_eq!(json_of(Form::Tags(Tags::Gke), DONGLE), json!({ gke: "4" }));
        assert_eq!(rendered(Form::Tags(Tags::Gke), DONGLE, Format::Yaml), format!("{gke}: \"4\"\n"));
    }

    #[test]
    fn cluster_api_has_annotations_for_one_resource_in_digits() {
        let expressed = Form::ClusterApi.express(&group(&[("example.com/disk", "800Gi")]).values);
        let pairs = [(GPU_TYPE, "example.com/disk"), (GPU_COUNT, "858993459200")];
        assert_eq!(expressed.pairs, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let one = json!({
            "machineDeployment": {"metadata": {"annotations": {GPU_TYPE: "example.com/dongle", GPU_COUNT: "4"}}},
            "infrastructureTemplate": {"status": {"capacity": {"example.com/dongle": "4"}}},
        });
        assert_eq!(json_of(Form::ClusterApi, DONGLE), one);

        let two = Form::ClusterApi.express(&group(TWO).values);
        assert!(
            two.pairs.is_empty() && two.unexpressed[0].contains("hold one (example.com/disk, example.com/usb_key)")
        );
        let capacity = json!({"example.com/disk": "800Gi", "example.com/usb_key": "1k"});
        assert_eq!(
            json_of(Form::ClusterApi, TWO),
            json!({"infrastructureTemplate": {"status": {"capacity": capacity}}})
        );
        assert_eq!(Form::ClusterApi.express(&BTreeMap::new()), Expressed::default());
    }

    #[test]
    fn gardener_has_a_part_of_a_shoot() {
        let config = json!({"nodeTemplate": {"virtualCapacity": {"example.com/dongle": "4"}}});
        let expected = json!({"spec": {"provider": {"workers": [{"name": "workers", "providerConfig": config}]}}});
        assert_eq!(json_of(Form::Gardener, DONGLE), expected);
        assert!(Form::Gardener.render(&group(DONGLE), None, Format::Text).is_err());
        let nameless = Form::Gardener.render(&group(DONGLE), None, Format::Yaml).unwrap_err().to_string();
        assert!(nameless.contains("--group"), "{nameless}");
    }
}
