//! The CRD's CEL rules (`x-kubernetes-validations`), evaluated as the API server does.

mod list;
mod pattern;
mod quantity;

use std::collections::HashMap;
use std::sync::Arc;

use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
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
    pub(super) fn compile(&self, expression: &str, message: &str, code: Code) -> Result<Rule, String> {
        let program = self.0.compile(expression).map_err(|error| format!("{expression}: {error}"))?;
        Ok(Rule { program, expression: expression.to_owned(), message: message.to_owned(), code })
    }

    /// Returns whether a rule holds for a value.
    ///
    /// # Errors
    /// If it cannot be evaluated: the value does not have the type of the rule.
    pub(super) fn evaluate(&self, rule: &Rule, value: &Value) -> Result<bool, String> {
        let mut context = Context::with_env(Arc::clone(&self.0));
        context.add_variable_from_value("self", from_json(value));
        match rule.program.execute(&context) {
            Ok(CelValue::Bool(evaluate)) => Ok(evaluate),
            Ok(other) => Err(format!("the rule gives {other:?}, which is no truth value")),
            Err(error) => Err(describe(&error)),
        }
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
        cel.evaluate(&cel.compile(expression, "", Code::CrdRule).unwrap(), value)
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
        assert!(CelEnv::new().unwrap().compile("self >", "", Code::CrdRule).is_err());
    }
}
