//! The bounds of a schema on one value, without its children.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use regex::Regex;
use serde_json::Value;

use crate::manifest::Path;
use crate::model::label::{excerpt, excerpt_of_json};
use crate::model::spelling::closest;
use crate::validate::code::Code;
use crate::validate::violation::Violation;

#[derive(Debug, Default)]
pub(super) struct Bounds {
    choices: Vec<Value>,
    format: String,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: usize,
    max_length: Option<usize>,
    pattern: Option<Regex>,
    min_items: usize,
    max_items: Option<usize>,
    max_properties: Option<usize>,
    list_type: String,
    list_keys: Vec<String>,
}

impl Bounds {
    pub(super) fn new(props: &JSONSchemaProps) -> Result<Self, String> {
        let count = |bound: Option<i64>| bound.and_then(|bound| usize::try_from(bound).ok());
        Ok(Self {
            choices: props.enum_.iter().flatten().map(|choice| choice.0.clone()).collect(),
            format: props.format.clone().unwrap_or_default(),
            minimum: props.minimum,
            maximum: props.maximum,
            min_length: count(props.min_length).unwrap_or_default(),
            max_length: count(props.max_length),
            pattern: props.pattern.as_deref().map(pattern).transpose()?,
            min_items: count(props.min_items).unwrap_or_default(),
            max_items: count(props.max_items),
            max_properties: count(props.max_properties),
            list_type: props.x_kubernetes_list_type.clone().unwrap_or_default(),
            list_keys: props.x_kubernetes_list_map_keys.clone().unwrap_or_default(),
        })
    }

    pub(super) fn check(&self, value: &Value, path: &Path, violations: &mut Vec<Violation>) {
        let mut found = |code, message: String| violations.push(Violation::new(path, code, message));
        match value {
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                // One error for one number: a bound says more than the format.
                if let Some(least) = self.minimum.filter(|least| number < *least) {
                    found(Code::Minimum, format!("should be greater than or equal to {least}"));
                } else if let Some(most) = self.maximum.filter(|most| number > *most) {
                    found(Code::Maximum, format!("should be less than or equal to {most}"));
                } else if self.format == "int32" && !(-2f64.powi(31)..2f64.powi(31)).contains(&number) {
                    found(Code::Format, "must be of type int32: from -2147483648 to 2147483647".to_owned());
                }
            }
            Value::String(text) => {
                let length = text.chars().count();
                if length < self.min_length {
                    found(
                        Code::MinLength,
                        format!("should be at least {} characters long, and has {length}", self.min_length),
                    );
                }
                if let Some(most) = self.max_length.filter(|most| length > *most) {
                    found(
                        Code::MaxLength,
                        format!("Too long: may not be more than {most} characters, and has {length}"),
                    );
                }
                if let Some(pattern) = self.pattern.as_ref().filter(|known| !known.is_match(text)) {
                    found(Code::Pattern, format!("should match '{pattern}'"));
                }
            }
            Value::Array(items) => {
                let length = items.len();
                if length < self.min_items {
                    found(Code::MinItems, format!("should have at least {} items, and has {length}", self.min_items));
                }
                if let Some(most) = self.max_items.filter(|most| length > *most) {
                    found(Code::MaxItems, format!("Too many: must have at most {most} items, and has {length}"));
                }
                self.check_distinct(items, path, violations);
            }
            Value::Object(fields) => {
                let length = fields.len();
                if let Some(most) = self.max_properties.filter(|most| length > *most) {
                    found(Code::MaxProperties, format!("Too many: must have at most {most} items, and has {length}"));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.check_choice(value, path, violations);
    }

    fn check_choice(&self, value: &Value, path: &Path, violations: &mut Vec<Violation>) {
        if self.choices.is_empty() || self.choices.contains(value) {
            return;
        }
        let choices: Vec<_> = self.choices.iter().map(Value::to_string).collect();
        let shown = match value {
            Value::String(text) => format!("\"{}\"", excerpt(text)),
            other => excerpt_of_json(&other.to_string()),
        };
        let message = format!("Unsupported value: {shown}: supported values: {}", choices.join(", "));
        let words = self.choices.iter().filter_map(Value::as_str);
        let close = value.as_str().and_then(|text| closest(text, words));
        let hint = close.map(|close| format!("did you mean {close}?"));
        violations.push(Violation::new(path, Code::Enum, message).hint(hint));
    }

    fn check_distinct(&self, items: &[Value], path: &Path, violations: &mut Vec<Violation>) {
        let identity = |item: &Value| match self.list_type.as_str() {
            "set" => Some(item.to_string()),
            "map" => {
                let keys = self.list_keys.iter().map(|key| item.get(key));
                serde_json::to_string(&keys.collect::<Vec<_>>()).ok()
            }
            _ => None,
        };
        let mut seen = std::collections::HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let Some(identity) = identity(item) else { return };
            if !seen.insert(identity.clone()) {
                let message = format!("Duplicate value: {}", excerpt_json(&identity));
                let hint = "each item may appear only once: remove one".to_owned();
                violations.push(Violation::new(&path.item(index), Code::DuplicateItem, message).hint(Some(hint)));
            }
        }
    }
}

/// Shortens a JSON text, which has its own quotes.
fn excerpt_json(text: &str) -> String {
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Compiles a pattern like the API server does.
fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("pattern {text:?}: {error}"))
}
