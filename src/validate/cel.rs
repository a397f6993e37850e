//! The CRD's CEL rules (`x-kubernetes-validations`), evaluated as the API server does.

mod list;
mod pattern;
mod quantity;

use std::collections::HashMap;
use std::sync::Arc;

use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use serde_json::Value;

use super::code::Code;

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    /// The expression in the CRD.
    pub(super) expression: String,
    /// The code of its diagnostics.
    pub(super) code: Code,
    /// The message if it does not hold.
    pub(super) message: String,
    /// What gives the message of a rule of a map that each entry must meet: it names an entry that does not.
    message_expression: Option<Program>,
}

impl Rule {
    /// Returns whether each entry of a map must meet the rule.
    pub(super) fn is_of_each_entry(&self) -> bool {
        self.message_expression.is_some()
    }
}

/// The CEL environment of the API server: the standard library, and the extensions that the CRD uses. A rule that uses
/// another extension cannot be evaluated, which a test would show.
#[derive(Clone)]
pub(super) struct CelEnv(Arc<Env>);

impl CelEnv {
    /// # Errors
    /// If two functions have the same name, which a test would show.
    pub(super) fn new() -> Result<Self, String> {
        let mut env = Env::stdlib();
        let added = env
            .add_extension(cel::extensions::strings)
            .and_then(|()| env.add_extension(pattern::extension))
            .and_then(|()| env.add_extension(quantity::extension))
            .and_then(|()| env.add_extension(list::extension));
        added.map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(env)))
    }

    /// Compiles a rule.
    ///
    /// # Errors
    /// If it is not valid CEL.
    pub(super) fn compile(&self, rule: &ValidationRule, code: impl Fn(&str) -> Code) -> Result<Rule, String> {
        let compile =
            |expression: &String| self.0.compile(expression).map_err(|error| format!("{expression}: {error}"));
        let message = rule.message.as_deref().unwrap_or("failed");
        Ok(Rule {
            program: compile(&rule.rule)?,
            expression: rule.rule.clone(),
            code: code(message),
            message: message.to_owned(),
            message_expression: rule.message_expression.as_ref().map(compile).transpose()?,
        })
    }

    /// Returns the message for a value that breaks a rule.
    pub(super) fn message(&self, rule: &Rule, value: &Value) -> String {
        let message = rule.message_expression.as_ref().map(|program| self.execute(program, value));
        match message {
            Some(Ok(CelValue::String(message))) => message.to_string(),
            _ => rule.message.clone(),
        }
    }

    /// Returns whether a rule holds for a value.
    ///
    /// # Errors
    /// If it cannot be evaluated: the value does not have the type of the rule.
    pub(super) fn evaluate(&self, rule: &Rule, value: &Value) -> Result<bool, String> {
        match self.execute(&rule.program, value) {
            Ok(CelValue::Bool(evaluate)) => Ok(evaluate),
            Ok(other) => Err(format!("the rule gives {other:?}, which is no truth value")),
            Err(error) => Err(describe(&error)),
        }
    }

    fn execute(&self, program: &Program, value: &Value) -> Result<CelValue, ExecutionError> {
        let mut context = Context::with_env(Arc::clone(&self.0));
        context.add_variable_from_value("self", from_json(value));
        program.execute(&context)
    }
}

impl std::fmt::Debug for CelEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

fn describe(error: &ExecutionError) -> String {
    format!("the rule cannot be evaluated: {error}")
}

/// Converts integers to `int`, including those that serde would make a `uint`.
fn from_json(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => CelValue::Int(whole),
            None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(from_json).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), from_json(value))).collect::<HashMap<_, _>>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluate(expression: &str, value: &Value) -> Result<bool, String> {
        let cel = CelEnv::new().unwrap();
        cel.evaluate(&compiled(&cel, expression).unwrap(), value)
    }

    fn compiled(cel: &CelEnv, expression: &str) -> Result<Rule, String> {
        let rule = ValidationRule { rule: expression.to_owned(), ..ValidationRule::default() };
        cel.compile(&rule, |_| Code::CrdRule)
    }

    #[test]
    fn cel_supports_every_function_of_the_crd() {
        for (expression, value) in [
            ("type(self) == int && self >= 1", json!(4)),
            ("type(self) != int && self.matches('^[0-9]+$')", json!("4")),
            ("has(self.a) != has(self.b)", json!({"a": {}})),
            ("self.split('/').size() == 2 && self.split('/')[1] == 'b'", json!("a/b")),
            ("self.indexOf('/') <= 253", json!("a")),
            ("self.all(key, key.startsWith('a'))", json!({"a/b": "x", "ab": "y"})),
            ("self.all(item, item in ['a', 'b'])", json!(["a", "b"])),
            ("self.size() == 3", json!("äöü")),
            ("quantity(self).isGreaterThan(quantity('1'))", json!("1500m")),
            ("['1', '2'].exists(n, quantity(self).sub(3).compareTo(quantity(n)) == 0)", json!("5")),
            ("int(quantity(self).asApproximateFloat()) == 1", json!("1500m")),
            ("self.map(item, item.size()).sum() == 3", json!(["a", "bc"])),
            ("self.map(item, item.size()).sum() == 0", json!([])),
            ("self.all(key, [self[key]].all(item, type(item) == int || item == '4'))", json!({"a": 4, "b": "4"})),
            ("self.filter(key, !(self[key] < 4))[0] + ': \\'-\\'' == 'b: \\'-\\''", json!({"a": 3, "b": 4})),
            ("!(self.operator in ['In']) || has(self.values)", json!({"operator": "Exists"})),
        ] {
            assert_eq!(evaluate(expression, &value), Ok(true), "{expression}");
        }
        assert_eq!(evaluate("self > 4", &json!(4)), Ok(false));
    }

    #[test]
    fn cel_reports_expressions_it_cannot_evaluate() {
        for (expression, value) in [
            ("self.a == 1", json!({})),
            ("self >= 1", json!("x")),
            ("quantity(self).sub(1) == quantity('1')", json!("x")),
            ("self.matches('(')", json!("x")),
            ("self.sum() == 1", json!(["x"])),
            ("1", json!(1)),
        ] {
            assert!(evaluate(expression, &value).is_err(), "{expression}");
        }
        assert!(compiled(&CelEnv::new().unwrap(), "self >").is_err());
    }
}
