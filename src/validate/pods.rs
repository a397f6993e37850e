//! The pods that a document describes.

use serde_json::{Map, Value};

use crate::manifest::{Document, Path};

/// A pod: in a Pod, in a template of pods, or in an object of a kind that is not part of Kubernetes.
pub(super) struct Pod<'t> {
    pub(super) spec: &'t Value,
    pub(super) path: Path,
    pub(super) origin: Origin,
    pub(super) containers: Vec<Container<'t>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A Pod, which a LimitRange may complete.
    Pod,
    /// A template in a kind of Kubernetes, whose own validation covers it.
    Template,
    /// A kind that is unknown here: what its controller makes of it is a guess.
    Unknown,
}

/// A container, or what a controller makes one of.
pub(super) struct Container<'t> {
    pub(super) value: &'t Value,
    pub(super) path: Path,
    pub(super) is_init: bool,
    /// Whether it is complete. Without an image, it is part of a patch, and the patched object may have the missing
    /// fields.
    pub(super) is_whole: bool,
}

/// Returns the pods of a document.
pub(super) fn pods(document: &Document) -> Vec<Pod<'_>> {
    let (group, kind) = (document.group(), document.kind());
    if let Some(keys) = pod_spec(group, kind) {
        let spec = document.value.pointer(&format!("/{}", keys.join("/")));
        let origin = if kind == "Pod" { Origin::Pod } else { Origin::Template };
        let path = Path::from_keys(keys.iter().copied());
        return spec.map(|spec| Pod::new(spec, path, origin)).into_iter().collect();
    }
    // Kyverno's policies have patterns in the shape of pods.
    if group.ends_with("kyverno.io") {
        return Vec::new();
    }
    let mut search = Search { at: Vec::new(), found: Vec::new() };
    for (field, value) in document.value.as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()) {
            search.child(Place::Key(field), value);
        }
    }
    search.found
}

/// Returns the path of the pod spec in a kind. The same kind in another group is a different kind.
pub(super) fn pod_spec(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod") => Some(&["spec"]),
        ("", "PodTemplate") => Some(&["template", "spec"]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("", "ReplicationController")
        | ("batch", "Job") => Some(&["spec", "template", "spec"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

impl<'t> Pod<'t> {
    fn new(spec: &'t Value, path: Path, origin: Origin) -> Self {
        let mut containers = Vec::new();
        for list in ["initContainers", "containers"] {
            let items = spec.get(list).and_then(Value::as_array);
            for (index, value) in items.into_iter().flatten().enumerate() {
                let path = path.key(list).item(index);
                let is_whole = has_image(value);
                containers.push(Container { value, path, is_init: list == "initContainers", is_whole });
            }
        }
        Self { spec, path, origin, containers }
    }

    /// A container without a pod around it, such as a step of a workflow.
    fn of_container(value: &'t Value, path: Path) -> Self {
        let container = Container { value, path: path.clone(), is_init: false, is_whole: true };
        Self { spec: &Value::Null, path, origin: Origin::Unknown, containers: vec![container] }
    }
}

fn has_image(container: &Value) -> bool {
    container.get("image").and_then(Value::as_str).is_some_and(|image| !image.is_empty())
}

/// A search for what looks like pods in an object of an unknown kind.
struct Search<'t> {
    /// Where the search is. Paths own their keys, and a document may have 500,000 values.
    at: Vec<Place<'t>>,
    found: Vec<Pod<'t>>,
}

#[derive(Clone, Copy)]
enum Place<'t> {
    Key(&'t str),
    Item(usize),
}

impl<'t> Search<'t> {
    fn child(&mut self, place: Place<'t>, value: &'t Value) {
        self.at.push(place);
        match value {
            Value::Object(fields) if is_pod_spec(fields) => {
                self.found.push(Pod::new(value, self.path(), Origin::Unknown));
            }
            Value::Object(_) if is_container(place, value) => {
                self.found.push(Pod::of_container(value, self.path()));
            }
            Value::Object(fields) => fields.iter().for_each(|(key, value)| self.child(Place::Key(key), value)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, value)| self.child(Place::Item(index), value));
            }
            _ => {}
        }
        self.at.pop();
    }

    fn path(&self) -> Path {
        self.at.iter().fold(Path::default(), |path, place| match place {
            Place::Key(key) => path.key(key),
            Place::Item(index) => path.item(*index),
        })
    }
}

fn is_pod_spec(fields: &Map<String, Value>) -> bool {
    fields.get("containers").and_then(Value::as_array).is_some_and(|containers| containers.iter().any(has_image))
}

/// Returns whether a map looks like a container: it has an image and resources, or it is the `domain` of a virtual
/// machine of KubeVirt.
fn is_container(place: Place<'_>, value: &Value) -> bool {
    let has_amounts = ["limits", "requests"].iter().any(|map| {
        let amounts = value.get("resources").and_then(|resources| resources.get(map));
        amounts.is_some_and(Value::is_object)
    });
    match place {
        Place::Key("domain") => has_amounts || value.get("devices").is_some_and(Value::is_object),
        _ => has_image(value) && has_amounts,
    }
}
