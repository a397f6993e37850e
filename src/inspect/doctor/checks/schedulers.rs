//! Schedulers that do not count a resource, so that kubelets reject the pods.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::inspect::doctor::finding::{Finding, NotRun, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, known};

const KIND: &str = "KubeSchedulerConfiguration";

/// The fields of a KubeSchedulerConfiguration that decide what a scheduler counts.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    kind: String,
    profiles: Vec<Profile>,
    extenders: Vec<Extender>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Profile {
    plugin_config: Vec<PluginConfig>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PluginConfig {
    name: String,
    args: serde_json::Value,
}

/// The arguments of NodeResourcesFit.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fit {
    ignored_resources: Vec<String>,
    /// Domains.
    ignored_resource_groups: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Extender {
    managed_resources: Vec<ManagedResource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ManagedResource {
    name: String,
    ignored_by_scheduler: bool,
}

/// Finds declared resources that a scheduler ignores.
pub(super) fn ignored(snapshot: &Snapshot) -> Outcome {
    let rules = snapshot.installed()?;
    let declared: BTreeSet<_> = rules.all.iter().filter_map(|rule| rule.resource.as_deref()).collect();
    let mut findings = Vec::new();
    let mut was_read = false;
    for config in known(&snapshot.schedulers)? {
        let object = || vec![config.config_map.clone()];
        let configuration = match serde_saphyr::from_str::<Configuration>(&config.text) {
            // Something else that mentions one.
            Ok(configuration) if configuration.kind != KIND => continue,
            Ok(configuration) => configuration,
            Err(error) => {
                let first = error.to_string().lines().next().unwrap_or_default().to_owned();
                let problem = format!("it mentions {KIND}, and cannot be read as one: {first}");
                findings.push(Finding::warning(object(), problem, "correct it, if a scheduler reads it"));
                continue;
            }
        };
        was_read = true;
        for ignored in configuration.ignored() {
            let field = ignored.field;
            let resources: Vec<_> = declared.iter().copied().filter(|resource| ignored.contains(resource)).collect();
            if !resources.is_empty() {
                let problem = format!(
                    "a scheduler with this configuration does not count {}, because of {field}: it places too many \
                     pods on a node, and the kubelet rejects them",
                    resources.join(", ")
                );
                let fix = format!("remove it from {field}, unless an extender of that scheduler counts it");
                findings.push(Finding::error(object(), problem, fix));
            }
        }
    }
    if !was_read && findings.is_empty() {
        let why = format!("no ConfigMap in kube-system has a {KIND}, and a file on a node cannot be read");
        return Err(NotRun::Unavailable(why));
    }
    Ok(findings)
}

/// What a field makes a scheduler ignore.
struct Ignored {
    field: &'static str,
    names: BTreeSet<String>,
    /// Whether the names are domains.
    are_domains: bool,
}

impl Ignored {
    fn contains(&self, resource: &str) -> bool {
        let name = if self.are_domains { resource.split('/').next().unwrap_or_default() } else { resource };
        self.names.contains(name)
    }
}

impl Configuration {
    fn ignored(&self) -> [Ignored; 3] {
        let plugins = self.profiles.iter().flat_map(|profile| &profile.plugin_config);
        let fit = plugins.filter(|plugin| plugin.name == "NodeResourcesFit");
        // Arguments of another form keep the scheduler from starting.
        let fit: Vec<Fit> = fit.filter_map(|plugin| Fit::deserialize(&plugin.args).ok()).collect();
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        let managed = managed.filter(|managed| managed.ignored_by_scheduler);
        [
            Ignored {
                field: "ignoredResources of NodeResourcesFit",
                names: fit.iter().flat_map(|fit| fit.ignored_resources.clone()).collect(),
                are_domains: false,
            },
            Ignored {
                field: "ignoredResourceGroups of NodeResourcesFit",
                names: fit.iter().flat_map(|fit| fit.ignored_resource_groups.clone()).collect(),
                are_domains: true,
            },
            Ignored {
                field: "managedResources of an extender",
                names: managed.map(|managed| managed.name.clone()).collect(),
                are_domains: false,
            },
        ]
    }
}
