//! The CRD's structural schema, evaluated like the API server does: nulls are dropped and defaults applied, then every
//! bound and every CEL rule is checked.
//!
//! The API server stops early at a violated bound; here all problems are reported together, and a rule that cannot be
//! evaluated because of another problem below it is skipped.

mod bounds;

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Value, json};

use super::cel::{CelEnv, Rule};
use super::code::Code;
use super::violation::Violation;
use crate::manifest::Path;
use crate::model::spelling::closest;

/// A compiled schema.
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
    /// Whether unknown keys are kept.
    preserve_unknown_fields: bool,
    required: Vec<String>,
    items: Option<Box<Self>>,
    bounds: bounds::Bounds,
    rules: Vec<Rule>,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If a rule is not CEL, or a pattern is not a regular expression.
    pub(super) fn new(props: &JSONSchemaProps, cel: &CelEnv) -> Result<Self, String> {
        Self::at("", props, cel)
    }

    /// Compiles the schema at a path such as `spec.nodeNames[]`.
    fn at(path: &str, props: &JSONSchemaProps, cel: &CelEnv) -> Result<Self, String> {
        let nested = |suffix: &str, props: &JSONSchemaProps| {
            Self::at(format!("{path}{suffix}").trim_start_matches('.'), props, cel)
        };
        let properties = props.properties.iter().flatten();
        let rules = props.x_kubernetes_validations.iter().flatten();
        Ok(Self {
            kind: props.type_.clone().unwrap_or_default(),
            int_or_string: props.x_kubernetes_int_or_string.unwrap_or_default(),
            nullable: props.nullable.unwrap_or_default(),
            default: props.default.as_ref().map(|default| default.0.clone()),
            description: props.description.clone().unwrap_or_default(),
            properties: properties
                .map(|(name, props)| Ok((name.clone(), nested(&format!(".{name}"), props)?)))
                .collect::<Result<_, String>>()?,
            additional: match &props.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(props)) => Some(nested(".*", props)?.into()),
                _ => None,
            },
            preserve_unknown_fields: props.x_kubernetes_preserve_unknown_fields.unwrap_or_default()
                || matches!(props.additional_properties, Some(JSONSchemaPropsOrBool::Bool(true))),
            required: props.required.clone().unwrap_or_default(),
            items: match &props.items {
                Some(JSONSchemaPropsOrArray::Schema(props)) => Some(nested("[]", props)?.into()),
                _ => None,
            },
            bounds: bounds::Bounds::new(props)?,
            rules: rules
                .map(|rule| cel.compile(rule, |message| Code::of_crd_rule(path, message)))
                .collect::<Result<_, String>>()?,
        })
    }

    /// Returns a schema that accepts any text.
    pub(super) fn text() -> Self {
        Self { kind: "string".to_owned(), ..Self::default() }
    }

    /// Adds or replaces a property.
    pub(super) fn with_property(mut self, name: &str, schema: Self) -> Self {
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Returns the schema of a property.
    pub(super) fn property_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.properties.get_mut(name)
    }

    /// Makes the schema accept any value.
    pub(super) fn allow_any(&mut self) {
        *self = Self { preserve_unknown_fields: true, ..Self::default() };
    }

    /// Returns every violation of `value`, in the order of its fields.
    pub(super) fn check(&self, value: &Value, cel: &CelEnv) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut value = value.clone();
        self.unknown(&value, &Path::default(), &mut violations);
        self.prune_nulls(&mut value);
        self.apply_defaults(&mut value);
        self.visit(&value, &Path::default(), cel, &mut violations);
        violations
    }

    fn child(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or(self.additional.as_deref())
    }

    /// Reports fields that the API server drops, and rejects with strict validation, as kubectl requests it.
    fn unknown(&self, value: &Value, path: &Path, violations: &mut Vec<Violation>) {
        match value {
            Value::Object(fields) if self.kind == "object" => {
                for (key, value) in fields {
                    let path = path.key(key);
                    match self.child(key) {
                        Some(schema) => schema.unknown(value, &path, violations),
                        None if self.preserve_unknown_fields => {}
                        None => {
                            let known = self.properties.keys().map(String::as_str);
                            let violation =
                                Violation::new(&path, Code::UnknownField, format!("unknown field \"{path}\""));
                            let hint = closest(key, known.clone()).map_or_else(
                                || listing("the fields here are", known),
                                |close| Some(format!("did you mean {close}?")),
                            );
                            violations.push(violation.hint(hint).at_key());
                        }
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.unknown(item, &path.item(index), violations);
                    }
                }
            }
            _ => {}
        }
    }

    fn prune_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, value| {
                    let schema = self.child(key);
                    let dropped = schema.is_some_and(|schema| !schema.nullable && schema.default.is_none());
                    !(value.is_null() && dropped)
                });
                for (key, value) in fields {
                    if let Some(schema) = self.child(key) {
                        schema.prune_nulls(value);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    if let Some(schema) = &self.items {
                        schema.prune_nulls(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn apply_defaults(&self, value: &mut Value) {
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
                    if let Some(schema) = self.child(key) {
                        schema.apply_defaults(value);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    if let Some(schema) = &self.items {
                        schema.apply_defaults(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn visit(&self, value: &Value, path: &Path, cel: &CelEnv, violations: &mut Vec<Violation>) {
        let before = violations.len();
        if let Some(violation) = self.wrong_type(value, path) {
            violations.push(violation);
            return;
        }
        if value.is_null() {
            return;
        }
        self.bounds.check(value, path, violations);
        // The API server does not evaluate rules on a text or list that is too long either.
        let too_much = violations.len() > before;
        match value {
            Value::Object(fields) => {
                for name in self.required.iter().filter(|name| !fields.contains_key(*name)) {
                    let hint = self.properties.get(name).and_then(|schema| schema.summary(name));
                    let violation = Violation::new(&path.key(name), Code::Required, "Required value: missing, or null");
                    violations.push(violation.hint(hint));
                }
                for (key, value) in fields {
                    if let Some(schema) = self.child(key) {
                        schema.visit(value, &path.key(key), cel, violations);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.visit(item, &path.item(index), cel, violations);
                    }
                }
            }
            _ => {}
        }
        if !too_much {
            self.ask(value, path, cel, violations, before);
        }
    }

    /// Evaluates the rules of this value. `before` is the number of earlier violations.
    fn ask(&self, value: &Value, path: &Path, cel: &CelEnv, violations: &mut Vec<Violation>, before: usize) {
        for rule in &self.rules {
            let mut ask = |value: &Value, path: &Path| {
                let message = match cel.evaluate(rule, value) {
                    Ok(true) => return,
                    Ok(false) => cel.message(rule, value),
                    Err(_) if violations.len() > before => return,
                    Err(error) => error,
                };
                violations.push(Violation::new(path, rule.code, message).expression(&rule.expression));
            };
            match value {
                // The API server names one of the entries; here each is reported, at its place.
                Value::Object(fields) if rule.is_of_each_entry() => {
                    fields.iter().for_each(|(key, value)| ask(&json!({ key: value }), &path.key(key)));
                }
                _ => ask(value, path),
            }
        }
    }

    fn wrong_type(&self, value: &Value, path: &Path) -> Option<Violation> {
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
                Some("put it in quotes: YAML does not read it as text".to_owned())
            }
            Value::Number(_) if self.int_or_string => Some("write a whole number, or put it in quotes".to_owned()),
            _ => None,
        };
        let message = format!("must be of type {wanted}, and is of type {found}");
        Some(Violation::new(path, Code::Type, message).hint(hint))
    }

    /// Describes a missing field by the first sentence of its description.
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
