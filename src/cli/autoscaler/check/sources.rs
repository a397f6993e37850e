//! Reads what an autoscaler knows: from files, as the tools of its provider print them, or from the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use http::StatusCode;
use kube::Client;
use serde_json::Value;

use crate::cli::autoscaler::error::AutoscalerError;
use crate::cli::autoscaler::forms::Form;
use crate::cli::autoscaler::tags::Tags;
use crate::cli::message::print_notes;
use crate::inspect::lists;
use crate::inspect::overlays::overlay::{KIND, NodeOverlay, OVERLAYS};
use crate::manifest::{self, Exclude, Files, Inputs, Limits, ReadError};

/// The group of Cluster API's objects.
const CLUSTER_API: &str = "/apis/cluster.x-k8s.io";

/// The objects of Cluster API that are node groups; a MachineSet only if nothing owns it.
const MACHINES: [(&str, &str); 3] =
    [("MachineDeployment", "machinedeployments"), ("MachinePool", "machinepools"), ("MachineSet", "machinesets")];

/// What a file contains that is meant as one of these, or as a Cluster with a topology.
const MACHINE_TEXTS: [&str; 4] = ["cluster.x-k8s.io", "MachineDeployment", "MachinePool", "MachineSet"];

/// The kind of Gardener's objects with worker pools.
const SHOOT: &str = "Shoot";

/// The tags, labels or annotations of a node group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs {
    /// What has them, such as `MachineDeployment default/workers`.
    pub(crate) object: String,
    pub(crate) pairs: BTreeMap<String, String>,
}

/// Reads the NodeOverlays in a file or folder, a folder as those of the rules.
pub(crate) fn overlays(path: &Path, rules: &Inputs) -> Result<Vec<NodeOverlay>, AutoscalerError> {
    let overlays: Vec<_> = objects(path, rules, &[KIND])?.into_iter().filter(|object| object["kind"] == KIND).collect();
    let mut names = BTreeSet::new();
    // Such as those of two clusters, of which one would hide the other.
    if let Some(twice) =
        overlays.iter().filter_map(|it| it["metadata"]["name"].as_str()).find(|name| !names.insert(*name))
    {
        let fix = if path.is_dir() { "name one folder, or skip the other with --exclude" } else { "remove one" };
        let why = format!("{KIND} {twice} is in it twice: {fix}");
        return Err(unreadable(&path.display().to_string(), &why));
    }
    let decoded = overlays.into_iter().map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let odd = |error: serde_json::Error| unreadable(&format!("{}: {KIND} {name}", path.display()), &error);
        serde_json::from_value(object).map_err(odd)
    });
    decoded.collect()
}

/// Lists the NodeOverlays of the cluster.
pub(crate) async fn cluster_overlays(client: &Client) -> Result<Vec<NodeOverlay>, AutoscalerError> {
    let listed = lists::all(&lists::requests(client), OVERLAYS).await;
    listed.map_err(|error| match error.code() {
        Some(StatusCode::NOT_FOUND) => AutoscalerError::Check(
            "the cluster serves no NodeOverlay of karpenter.sh/v1alpha1: install Karpenter's \
             CustomResourceDefinitions"
                .to_owned(),
        ),
        _ => AutoscalerError::Check(format!("cannot list nodeoverlays: {error}")),
    })
}

/// Reads what a file says of a group; for Cluster API and Gardener, also a folder, as those of the rules.
pub(crate) fn pairs(form: Form, path: &Path, rules: &Inputs, group: Option<&str>) -> Result<Pairs, AutoscalerError> {
    let name = path.display().to_string();
    let Form::Tags(tags) = form else {
        let pairs = match form {
            Form::Gardener => worker(&objects(path, rules, &[SHOOT])?, group),
            _ => machines(&objects(path, rules, &MACHINE_TEXTS)?, group),
        };
        return pairs.map_err(|why| unreadable(&name, &why));
    };
    let value = value(path)?;
    let pairs = match tags {
        Tags::Aws => aws_tags(&value, group),
        Tags::Azure => scale_set(&value, group).and_then(|set| texts(set.get("tags").unwrap_or(set))),
        Tags::Gke => pool(&value, group).and_then(pool_labels),
    };
    let pairs = pairs.map_err(|why| unreadable(&name, &why))?;
    Ok(Pairs { object: group.map_or(name, str::to_owned), pairs })
}

/// Finds the group among Cluster API's objects of the cluster.
pub(crate) async fn cluster_machines(client: &Client, group: Option<&str>) -> Result<Pairs, AutoscalerError> {
    let requests = lists::requests(client);
    let api: Value = requests
        .send(http::Request::get(CLUSTER_API).body(Vec::new()).map_err(kube::core::request::Error::BuildRequest))
        .await
        .map_err(|error| match error.code() {
            Some(StatusCode::NOT_FOUND) => AutoscalerError::Check(
                "the cluster does not serve cluster.x-k8s.io: give the management cluster of Cluster API".to_owned(),
            ),
            _ => AutoscalerError::Check(format!("cannot get the versions of cluster.x-k8s.io: {error}")),
        })?;
    let version = api["preferredVersion"]["version"].as_str().unwrap_or("v1beta1");
    let mut objects = Vec::new();
    for (kind, plural) in MACHINES {
        match lists::all::<Value>(&requests, &format!("{CLUSTER_API}/{version}/{plural}")).await {
            Ok(listed) => objects.extend(listed.into_iter().map(|mut object| {
                // Items of a list have no kind.
                object["kind"] = Value::from(kind);
                object
            })),
            // MachinePools are optional.
            Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => {}
            Err(error) => return Err(AutoscalerError::Check(format!("cannot list {plural}: {error}"))),
        }
    }
    machines(&objects, group).map_err(AutoscalerError::Check)
}

fn unreadable(place: &str, why: &dyn std::fmt::Display) -> AutoscalerError {
    AutoscalerError::Check(format!("{place}: {why}"))
}

/// Reads the Kubernetes objects in a file or folder, a folder as those of the rules. In a folder, a note names the unreadable
/// files that contain none of these texts, without which they hold nothing to compare.
fn objects(path: &Path, rules: &Inputs, texts: &[&str]) -> Result<Vec<Value>, AutoscalerError> {
    let inputs = Inputs { paths: vec![path.to_owned()], ..rules.clone() };
    // What is skipped among the rules may be what to compare with.
    let inputs = match path.is_dir() && !rules.exclude.matches(path) {
        true => inputs,
        false => Inputs { exclude: Exclude::default(), ..inputs },
    };
    let (mut objects, mut fatal, mut skipped) = (Vec::new(), None, None);
    let mut others = Vec::<String>::new();
    let advice = if path.is_dir() { ": correct it, or skip it with --exclude" } else { "" };
    let files = manifest::read(&inputs, &Limits::default(), &mut |document| match document {
        _ if fatal.is_some() => {}
        Ok(document) => objects.push(document.value),
        // A file may have as many errors as lines: its text is searched once.
        Err(error) if others.last().is_some_and(|last| last == error.location.file()) => {}
        Err(error) if path.is_dir() && holds_nothing(&error, texts) => {
            error.add_file(&mut others);
            skipped.get_or_insert_with(|| located(&error, advice));
        }
        Err(error) => fatal = Some(located(&error, advice)),
    });
    // A comparison with nothing would find everything missing.
    let error = fatal.or(skipped.or_else(|| nothing_read(path, &files)).filter(|_| objects.is_empty()));
    if let Some(error) = error {
        return Err(error);
    }
    print_notes(&Files { incomparable: others, ..files }.notes());
    Ok(objects)
}

/// Returns why there is nothing to compare with in a path of which something is not read.
fn nothing_read(path: &Path, files: &Files) -> Option<AutoscalerError> {
    let why = match files.names.is_empty() {
        true if files.folders.is_empty() => "no file of it is read: --exclude skips them, or other tools read them",
        true => "it has only subfolders: read them with -R, or name one",
        false if files.notes().is_empty() => return None,
        false => "it holds no Kubernetes object that is read: see `validate`",
    };
    Some(unreadable(&path.display().to_string(), &why))
}

/// Returns whether something unreadable has a text, and that contains none of these.
fn holds_nothing(error: &ReadError, texts: &[&str]) -> bool {
    // In UTF-16, letters have zeros between them.
    let text = error.location.file_text().replace('\0', "");
    match text.is_empty() {
        // Such as a link that leads nowhere.
        true => !error.may_hold_rules && !Path::new(error.location.file()).exists(),
        false => !texts.iter().any(|name| text.contains(name)),
    }
}

fn located(error: &ReadError, advice: &str) -> AutoscalerError {
    let place = match error.location.start() {
        Some((line, column)) => format!("{}:{line}:{column}", error.location.file()),
        None => error.location.file().to_owned(),
    };
    unreadable(&place, &format!("{}{advice}", error.reason))
}

/// Reads a file of YAML or JSON of any content.
fn value(path: &Path) -> Result<Value, AutoscalerError> {
    let name = path.display().to_string();
    let most = Limits::default().file;
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().take(most + 1).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text)),
    };
    read.map_err(|error| unreadable(&name, &format!("cannot read it: {error}")))?;
    if text.len() as u64 > most {
        return Err(unreadable(&name, &format!("it has more than {} MiB", most >> 20)));
    }
    if text.trim_start().starts_with(['{', '[']) {
        return serde_json::from_str(&text).map_err(|error| unreadable(&name, &error));
    }
    serde_saphyr::from_str(&text).map_err(|error| {
        // The other lines quote the text.
        let message = error.to_string();
        let line = message.lines().next().unwrap_or_default();
        unreadable(&name, &line.strip_prefix("error: ").unwrap_or(line))
    })
}

/// Returns a map of texts; what is absent is empty.
fn texts(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let Value::Object(map) = value else {
        return if value.is_null() { Ok(BTreeMap::new()) } else { Err("it is no map of keys and values".to_owned()) };
    };
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Number(number) => Ok((key.clone(), number.to_string())),
        Value::Null => Ok((key.clone(), String::new())),
        _ => Err(format!("the value of {key:?} is no text")),
    };
    map.iter().map(text).collect()
}

/// Reads what `aws autoscaling describe-tags`, `describe-auto-scaling-groups` or `aws eks describe-nodegroup` prints, or a
/// map.
fn aws_tags(value: &Value, group: Option<&str>) -> Result<BTreeMap<String, String>, String> {
    if let Some(nodegroup) = value.get("nodegroup") {
        // Its name is not that of its Auto Scaling group, of which it may have several.
        return texts(&nodegroup["tags"]);
    }
    let groups = value.get("AutoScalingGroups").and_then(Value::as_array);
    let tags = match groups {
        Some(groups) => {
            let named = |it: &&Value| group.is_none_or(|group| it["AutoScalingGroupName"] == group);
            let found = only(groups.iter().filter(named), "Auto Scaling group", group)?;
            found["Tags"].as_array().into_iter().flatten().collect::<Vec<_>>()
        }
        None => match value.get("Tags").unwrap_or(value) {
            Value::Array(tags) => tags.iter().collect(),
            map => return texts(map),
        },
    };
    let mut pairs = BTreeMap::new();
    let mut owner = group;
    for tag in tags {
        let [key, value] = [&tag["Key"], &tag["Value"]].map(Value::as_str);
        let (Some(key), Some(value)) = (key, value) else {
            return Err("a tag has no Key or Value".to_owned());
        };
        let of = tag["ResourceId"].as_str();
        if group.is_none() && owner.is_some() && of.is_some() && owner != of {
            return Err("it has tags of several groups: name one with --group".to_owned());
        }
        owner = owner.or(of);
        if group.is_none() || of.is_none() || of == group {
            pairs.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(pairs)
}

/// A group that is looked for, by name if one is given.
struct Wanted<'t> {
    kind: &'static str,
    name: Option<&'t str>,
    has_case: bool,
}

impl Wanted<'_> {
    fn is(&self, name: &Value) -> bool {
        let Some(wanted) = self.name else { return true };
        name.as_str().is_some_and(|name| name == wanted || !self.has_case && name.eq_ignore_ascii_case(wanted))
    }

    /// Returns what is given alone, if it is wanted. Tags or labels alone, without the part that has them, have no name.
    fn alone<'v>(&self, value: &'v Value, part: &str) -> Result<&'v Value, String> {
        let name = value.get(part).and_then(|_| value["name"].as_str());
        match (name, self.name) {
            (Some(name), Some(wanted)) if !self.is(&value["name"]) => {
                Err(format!("there is no {} {wanted}: it is {name}", self.kind))
            }
            _ => Ok(value),
        }
    }

    fn among<'v>(&self, values: &'v [Value]) -> Result<&'v Value, String> {
        only(values.iter().filter(|value| self.is(&value["name"])), self.kind, self.name)
    }
}

/// Returns the scale set in what `az vmss show` or `list` prints.
fn scale_set<'t>(value: &'t Value, group: Option<&str>) -> Result<&'t Value, String> {
    let wanted = Wanted { kind: "scale set", name: group, has_case: false };
    value.as_array().map_or_else(|| wanted.alone(value, "tags"), |sets| wanted.among(sets))
}

/// Returns the node pool in what `gcloud container node-pools describe` or `list`, or `clusters describe` prints.
fn pool<'t>(value: &'t Value, group: Option<&str>) -> Result<&'t Value, String> {
    let wanted = Wanted { kind: "node pool", name: group, has_case: true };
    let pools = value.get("nodePools").unwrap_or(value).as_array();
    pools.map_or_else(|| wanted.alone(value, "config"), |pools| wanted.among(pools))
}

/// Returns the labels of a node pool, which may be given alone.
fn pool_labels(pool: &Value) -> Result<BTreeMap<String, String>, String> {
    match pool.get("config") {
        Some(config) => texts(config.get("labels").unwrap_or(&Value::Null)),
        None => texts(pool),
    }
}

/// Returns the only one. Only objects of Kubernetes have namespaces.
fn only<T>(mut found: impl Iterator<Item = T>, kind: &str, group: Option<&str>) -> Result<T, String> {
    match (found.next(), found.next(), group) {
        (Some(only), None, _) => Ok(only),
        (Some(_), Some(_), None) => Err(format!("there is more than one {kind}: name one with --group")),
        (Some(_), Some(_), Some(group)) => {
            let apart = match kind.starts_with("Machine") && !group.contains('/') {
                true => "write --group NAMESPACE/NAME",
                false => "give a file with that one alone",
            };
            Err(format!("there is more than one {kind} {group}: {apart}"))
        }
        (None, _, Some(group)) => Err(format!("there is no {kind} {group}")),
        (None, _, None) => Err(format!("there is no {kind}")),
    }
}

/// Returns annotations. kubectl rejects any that is no text.
fn annotations(metadata: &Value) -> Result<BTreeMap<String, String>, String> {
    let annotations = &metadata["annotations"];
    let mut values = annotations.as_object().into_iter().flatten();
    match values.find(|(_, value)| !value.is_string() && !value.is_null()) {
        Some((key, value)) => {
            Err(format!("the annotation {key} is {value}, and kubectl accepts only text: put it in quotes"))
        }
        None => texts(annotations),
    }
}

/// Returns the groups in the topology of Clusters, as MachineDeployments and MachinePools.
fn of_topologies(objects: &[Value]) -> Vec<Value> {
    let mut groups = Vec::new();
    for cluster in objects.iter().filter(|object| object["kind"] == "Cluster") {
        let workers = &cluster["spec"]["topology"]["workers"];
        for (list, kind) in [("machineDeployments", "MachineDeployment"), ("machinePools", "MachinePool")] {
            groups.extend(workers[list].as_array().into_iter().flatten().map(|group| {
                let mut metadata = group["metadata"].clone();
                metadata["name"] = group["name"].clone();
                metadata["namespace"] = cluster["metadata"]["namespace"].clone();
                serde_json::json!({"kind": kind, "metadata": metadata})
            }));
        }
    }
    groups
}

/// Returns the annotations of a MachineDeployment, MachinePool or MachineSet, also in the topology of a Cluster.
fn machines(objects: &[Value], group: Option<&str>) -> Result<Pairs, String> {
    let objects = [objects, &of_topologies(objects)].concat();
    let text =
        |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = |object: &Value| {
        let [namespace, name] = ["/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer));
        (format!("{namespace}/{name}"), name)
    };
    let is_group = |object: &&Value| {
        let is_kind = MACHINES.iter().any(|(kind, _)| object["kind"] == *kind);
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let is_owned = object["kind"] == "MachineSet" && owners.is_some_and(|owners| !owners.is_empty());
        let (full, name) = names(object);
        is_kind && !is_owned && group.is_none_or(|group| group == name || group == full)
    };
    let object = only(objects.iter().filter(is_group), "MachineDeployment, MachinePool or MachineSet", group)?;
    let pairs = annotations(&object["metadata"])?;
    Ok(Pairs { object: format!("{} {}", text(object, "/kind"), names(object).0.trim_start_matches('/')), pairs })
}

/// Returns the virtual capacity of a worker pool.
fn worker(objects: &[Value], group: Option<&str>) -> Result<Pairs, String> {
    let shoots = objects.iter().filter(|object| object["kind"] == SHOOT);
    let workers = shoots.filter_map(|shoot| shoot.pointer("/spec/provider/workers")?.as_array()).flatten();
    let worker =
        only(workers.filter(|worker| group.is_none_or(|group| worker["name"] == group)), "worker pool", group)?;
    let capacity = worker.pointer("/providerConfig/nodeTemplate/virtualCapacity");
    let pairs = texts(capacity.unwrap_or(&Value::Null))?;
    Ok(Pairs { object: format!("worker pool {}", worker["name"].as_str().unwrap_or_default()), pairs })
}

#[cfg(test)]
mod tests;
