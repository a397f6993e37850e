//! Field and label selectors.

use serde_json::Value;

use crate::failure::Failure;

/// The objects of a kind to list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    fields: Vec<Requirement>,
    labels: Vec<Requirement>,
    namespace: Option<String>,
}

/// `key=value` or `key!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses `fieldSelector` and `labelSelector` with `=`, `==` and `!=`.
    ///
    /// # Errors
    /// Returns an error for other operators.
    pub fn parse(fields: &str, labels: &str) -> Result<Self, Failure> {
        Ok(Self { fields: parse(fields)?, labels: parse(labels)?, namespace: None })
    }

    /// Restricts the selection to one namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Returns whether the server must read an object to decide whether it is selected. With a key or an index by node,
    /// it skips other objects.
    pub(crate) fn is_read(&self, object: &Value, has_index: bool) -> bool {
        let metadata = &object["metadata"];
        let in_namespace = self.namespace.as_ref().is_none_or(|name| metadata["namespace"] == name.as_str());
        let is_key = self.namespace.is_some() || metadata["namespace"].is_null();
        let mut equal = self.fields.iter().filter(|field| field.equal);
        let may_match = equal.all(|Requirement { key, value, .. }| match key.as_str() {
            "metadata.name" if is_key => metadata["name"] == value.as_str(),
            "spec.nodeName" if has_index => object["spec"]["nodeName"].as_str().unwrap_or_default() == value,
            _ => true,
        });
        in_namespace && may_match
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let in_namespace = self.namespace.as_ref().is_none_or(|name| metadata["namespace"] == name.as_str());
        let by_field = self.fields.iter().all(|Requirement { key, value, equal }| {
            let found = key.split('.').fold(object, |at, part| &at[part]);
            (text(found) == *value) == *equal
        });
        let by_label = self
            .labels
            .iter()
            .all(|Requirement { key, value, equal }| (metadata["labels"][key] == value.as_str()) == *equal);
        in_namespace && by_field && by_label
    }
}

fn parse(text: &str) -> Result<Vec<Requirement>, Failure> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parts = parts.map(|part| {
        let (key, value, equal) = if let Some((key, value)) = part.split_once("!=") {
            (key, value, false)
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            (key, value, true)
        } else {
            let message = format!("invalid selector: '{text}'; can't understand '{part}'");
            return Err(Failure::bad_request(message));
        };
        Ok(Requirement { key: key.trim().to_owned(), value: value.trim().to_owned(), equal })
    });
    parts.collect()
}
