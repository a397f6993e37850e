//! Who else provides resources, by the same files.

use std::str::FromStr;

use serde_json::Value;

use crate::manifest::{Document, Path, SourceLocation};
use crate::model::resource_name::is_extended;

/// Something other than a rule that provides a resource.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) kind: ProviderKind,
    pub(super) name: String,
    pub(super) resource: String,
    pub(super) location: SourceLocation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderKind {
    /// Dynamic Resource Allocation, for nodes that do not advertise the resource.
    DeviceClass,
    /// Node Feature Discovery, which writes it to nodes.
    NodeFeatureRule,
}

/// Returns the resources that a document provides.
pub(super) fn providers(document: &Document) -> Vec<Provider> {
    let provider = |kind, resource: &str, path: &Path| Provider {
        kind,
        name: document.name().to_owned(),
        resource: resource.to_owned(),
        location: document.location(path),
    };
    match (document.group(), document.kind()) {
        ("resource.k8s.io", "DeviceClass") => {
            let path = Path::from_keys(["spec", "extendedResourceName"]);
            let resource = document.at(&path).and_then(Value::as_str);
            resource.map(|resource| provider(ProviderKind::DeviceClass, resource, &path)).into_iter().collect()
        }
        ("nfd.k8s-sigs.io", "NodeFeatureRule") => {
            let rules = Path::from_keys(["spec", "rules"]);
            let items = document.at(&rules).and_then(Value::as_array).into_iter().flatten().enumerate();
            let resources = items.flat_map(|(index, rule)| {
                let path = rules.item(index).key("extendedResources");
                let resources = rule.get("extendedResources").and_then(Value::as_object).into_iter().flatten();
                resources.map(move |(name, _)| (name, path.key(name)))
            });
            let provided = resources.map(|(name, path)| provider(ProviderKind::NodeFeatureRule, name, &path));
            provided.collect()
        }
        _ => Vec::new(),
    }
}

/// Resources that come from elsewhere: a name, or every name of a domain, `example.com/*`.
#[derive(Clone, Debug)]
pub struct External {
    domain: String,
    /// `None` for every name of the domain.
    name: Option<String>,
}

impl FromStr for External {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (domain, name) = text.split_once('/').unwrap_or((text, ""));
        let name = (name != "*").then(|| name.to_owned());
        let example = format!("{domain}/{}", name.as_deref().unwrap_or("x"));
        if !is_extended(&example) {
            return Err("write a resource, such as example.com/dongle, or all of a domain: example.com/*".to_owned());
        }
        Ok(Self { domain: domain.to_owned(), name })
    }
}

impl External {
    pub(super) fn includes(&self, resource: &str) -> bool {
        let parts = resource.split_once('/');
        parts.is_some_and(|(domain, name)| {
            domain == self.domain && self.name.as_deref().is_none_or(|known| known == name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_includes_a_name_or_a_domain() {
        for (external, resource, includes) in [
            ("example.com/dongle", "example.com/dongle", true),
            ("example.com/dongle", "example.com/dongles", false),
            ("example.com/*", "example.com/dongle", true),
            ("example.com/*", "sub.example.com/dongle", false),
        ] {
            assert_eq!(external.parse::<External>().unwrap().includes(resource), includes, "{external} {resource}");
        }
        for wrong in ["", "dongle", "*", "*/*", "example.com/", "example.com/a/b", "Example.com/*", "example.com/d*"] {
            assert!(wrong.parse::<External>().is_err(), "{wrong}");
        }
    }
}
