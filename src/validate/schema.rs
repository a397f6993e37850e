//! The CRD's structural schema, evaluated as the API server does it: nulls are dropped, defaults
//! filled in, then every bound is checked and every CEL rule asked.
//!
//! The server stops early where a bound is broken; here every problem is told at once, so that a rule
//! that cannot be evaluated because of another problem below it is passed over.

mod bounds;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use super::cel::{Library, Rule};
use super::finding::{Finding, UNKNOWN};
use super::spelling::closest;
use crate::manifest::Path;

/// A schema, ready to be asked.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`; empty for any.
    kind: String,
    int_or_string: bool,
    nullable: bool,
    default: Option<Value>,
    description: String,
    properties: BTreeMap<String, Self>,
    additional: Option<Box<Self>>,
    /// Whether keys that the schema does not know are kept.
    open: bool,
    required: Vec<String>,
    items: Option<Box<Self>>,
    bounds: bounds::Bounds,
    rules: Vec<Rule>,
}

/// The keyword of CEL rules.
const VALIDATIONS: &str = "x-kubernetes-validations";

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Where a rule is not CEL, or a pattern no regular expression.
    pub(super) fn new(props: &JSONSchemaProps, library: &Library) -> Result<Self, String> {
        let nested = |props: &JSONSchemaProps| Self::new(props, library).map(Box::new);
        let properties = props.properties.iter().flatten();
        let rules = props.x_kubernetes_validations.iter().flatten();
        Ok(Self {
            kind: props.type_.clone().unwrap_or_default(),
            int_or_string: props.x_kubernetes_int_or_string.unwrap_or_default(),
            nullable: props.nullable.unwrap_or_default(),
            default: props.default.as_ref().map(|default| default.0.clone()),
            description: props.description.clone().unwrap_or_default(),
            properties: properties
                .map(|(name, props)| Ok((name.clone(), Self::new(props, library)?)))
                .collect::<Result<_, String>>()?,
            additional: match &props.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(props)) => Some(nested(props)?),
                _ => None,
            },
            open: props.x_kubernetes_preserve_unknown_fields.unwrap_or_default()
                || matches!(props.additional_properties, Some(JSONSchemaPropsOrBool::Bool(true))),
            required: props.required.clone().unwrap_or_default(),
            items: match &props.items {
                Some(JSONSchemaPropsOrArray::Schema(props)) => Some(nested(props)?),
                _ => None,
            },
            bounds: bounds::Bounds::new(props)?,
            rules: rules
                .map(|rule| {
                    library.compile(&rule.rule, rule.message.as_deref().unwrap_or("failed"))
                })
                .collect::<Result<_, String>>()?,
        })
    }

    /// Any text.
    pub(super) fn text() -> Self {
        Self { kind: "string".to_owned(), ..Self::default() }
    }

    /// Adds a property, whatever stood there.
    pub(super) fn with_property(mut self, name: &str, schema: Self) -> Self {
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// A property's schema.
    pub(super) fn property_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.properties.get_mut(name)
    }

    /// Takes whatever is there.
    pub(super) fn take_anything(&mut self) {
        *self = Self { open: true, ..Self::default() };
    }

    /// Everything that `value` breaks, in the order of its fields.
    pub(super) fn check(&self, value: &Value, library: &Library) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut value = value.clone();
        self.unknown(&value, &Path::default(), &mut findings);
        self.drop_nulls(&mut value);
        self.fill_in(&mut value);
        self.visit(&value, &Path::default(), library, &mut findings);
        findings
    }

    fn below(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(self.additional.as_deref())
    }

    /// What the server would drop, and refuses where it validates strictly, as kubectl has it do.
    fn unknown(&self, value: &Value, path: &Path, findings: &mut Vec<Finding>) {
        match value {
            Value::Object(fields) if self.kind == "object" => {
                for (key, value) in fields {
                    let path = path.key(key);
                    match self.below(key) {
                        Some(schema) => schema.unknown(value, &path, findings),
                        None if self.open => {}
                        None => {
                            let known = self.properties.keys().map(String::as_str);
                            let finding =
                                Finding::new(&path, UNKNOWN, format!("unknown field \"{path}\""));
                            let hint = closest(key, known.clone()).map_or_else(
                                || listing("the fields here are", known),
                                |close| Some(format!("did you mean {close}?")),
                            );
                            findings.push(finding.hint(hint).at_key());
                        }
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.unknown(item, &path.item(index), findings);
                    }
                }
            }
            _ => {}
        }
    }

    fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, value| {
                    let schema = self.below(key);
                    let dropped =
                        schema.is_some_and(|schema| !schema.nullable && schema.default.is_none());
                    !(value.is_null() && dropped)
                });
                for (key, value) in fields {
                    if let Some(schema) = self.below(key) {
                        schema.drop_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    if let Some(schema) = &self.items {
                        schema.drop_nulls(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn fill_in(&self, value: &mut Value) {
        let absent = |schema: &Self, value: Option<&Value>| match value {
            None => true,
            Some(value) => value.is_null() && !schema.nullable,
        };
        match value {
            Value::Object(fields) => {
                for (key, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && absent(schema, fields.get(key))
                    {
                        fields.insert(key.clone(), default.clone());
                    }
                }
                for (key, value) in fields {
                    if let Some(schema) = self.below(key) {
                        schema.fill_in(value);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    if let Some(schema) = &self.items {
                        schema.fill_in(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn visit(&self, value: &Value, path: &Path, library: &Library, findings: &mut Vec<Finding>) {
        let before = findings.len();
        if let Some(finding) = self.wrong_type(value, path) {
            findings.push(finding);
            return;
        }
        if value.is_null() {
            return;
        }
        self.bounds.check(value, path, findings);
        // The server, too, asks no rule of a text or list that is too long for it.
        let too_much = findings.len() > before;
        match value {
            Value::Object(fields) => {
                for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
                    let hint = self.properties.get(name).and_then(|schema| schema.summary(name));
                    let finding = Finding::new(
                        &path.key(name),
                        "required",
                        "Required value: missing, or null",
                    );
                    findings.push(finding.hint(hint));
                }
                for (key, value) in fields {
                    if let Some(schema) = self.below(key) {
                        schema.visit(value, &path.key(key), library, findings);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.visit(item, &path.item(index), library, findings);
                    }
                }
            }
            _ => {}
        }
        if !too_much {
            self.ask(value, path, library, findings, before);
        }
    }

    /// Asks the rules of this value. `before` is how many findings there were before it.
    fn ask(
        &self,
        value: &Value,
        path: &Path,
        library: &Library,
        findings: &mut Vec<Finding>,
        before: usize,
    ) {
        for rule in &self.rules {
            let message = match library.holds(rule, value) {
                Ok(true) => continue,
                Ok(false) => rule.message.clone(),
                Err(_) if findings.len() > before => continue,
                Err(error) => error,
            };
            findings.push(Finding::new(path, VALIDATIONS, message).expression(&rule.expression));
        }
    }

    fn wrong_type(&self, value: &Value, path: &Path) -> Option<Finding> {
        let found = match value {
            Value::Null if self.nullable || self.kind.is_empty() && !self.int_or_string => {
                return None;
            }
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_i64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let (fits, wanted) = if self.int_or_string {
            (matches!(found, "integer" | "string"), "integer,string")
        } else {
            let number = self.kind == "number" && found == "integer";
            (self.kind.is_empty() || self.kind == found || number, self.kind.as_str())
        };
        if fits {
            return None;
        }
        let hint = match value {
            Value::Bool(_) | Value::Number(_) if self.kind == "string" => {
                Some("put it in quotes: YAML takes it for something other than text".to_owned())
            }
            Value::Number(_) if self.int_or_string => {
                Some("write a whole number, or put it in quotes".to_owned())
            }
            _ => None,
        };
        let message = format!("must be of type {wanted}, and is of type {found}");
        Some(Finding::new(path, "type", message).hint(hint))
    }

    /// What a missing field is for, by the first sentence of its description.
    fn summary(&self, name: &str) -> Option<String> {
        let sentence = self.description.split(". ").next().filter(|text| !text.is_empty())?;
        Some(format!("{name}: {}", sentence.trim_end_matches('.')))
    }
}

fn listing<'t>(what: &str, known: impl Iterator<Item = &'t str>) -> Option<String> {
    let known: Vec<_> = known.collect();
    (!known.is_empty()).then(|| format!("{what} {}", known.join(", ")))
}

#[cfg(test)]
mod tests;
