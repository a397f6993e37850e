use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Value, json};

use super::*;
use crate::model::api;

fn violations(schema: Value, value: &Value) -> Vec<String> {
    let cel = CelEnv::new().unwrap();
    let props: JSONSchemaProps = serde_json::from_value(schema).unwrap();
    let schema = Schema::new(&props, &cel).unwrap();
    let violations = schema.check(value, &cel).into_iter();
    violations.map(|violation| format!("{} {} {}", violation.code, violation.path, violation.message)).collect()
}

#[test]
fn schema_applies_every_supported_keyword() {
    let spec = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    for (schema, value, says) in [
        (json!({"type": "string"}), json!(true), "type a must be of type string"),
        (json!({"type": "integer"}), json!(4.5), "type a must be of type integer"),
        (json!({"type": "array"}), json!({}), "type a must be of type array"),
        (json!({"x-kubernetes-int-or-string": true}), json!(4.5), "type a must be of type integer,string"),
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_648_i64), "format a "),
        (json!({"type": "integer", "format": "int32"}), json!(-2_147_483_649_i64), "format a "),
        (json!({"type": "integer", "minimum": 1.0}), json!(0), "minimum a should be greater than or equal to 1"),
        (json!({"type": "integer", "maximum": 1.0}), json!(2), "maximum a "),
        (json!({"type": "string", "minLength": 1}), json!(""), "min-length a "),
        (json!({"type": "string", "maxLength": 2}), json!("äöü"), "max-length a Too long"),
        (json!({"type": "string", "pattern": "^a$"}), json!("b"), "pattern a should match '^a$'"),
        (
            json!({"type": "string", "enum": ["x"]}),
            json!("y"),
            "enum a Unsupported value: \"y\": supported values: \"x\"",
        ),
        (
            json!({"type": "object", "additionalProperties": {}, "enum": [{"b": "x"}]}),
            json!({"b": "y"}),
            "enum a Unsupported value: {\"b\":\"y\"}: supported values: {\"b\":\"x\"}",
        ),
        (json!({"type": "array", "minItems": 1}), json!([]), "min-items a should have at least 1 items"),
        (json!({"type": "array", "maxItems": 1}), json!([1, 2]), "max-items a "),
        (
            json!({"type": "object", "additionalProperties": {}, "maxProperties": 1}),
            json!({"b": 1, "c": 2}),
            "max-properties a ",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set"}),
            json!(["x", "x"]),
            "duplicate-item a[1] Duplicate value: \"x\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            json!([{"k": 1}, {"k": 1}]),
            "duplicate-item a[1] ",
        ),
        (json!({"type": "object", "required": ["b"]}), json!({}), "required a.b Required value"),
        (
            json!({"type": "object", "properties": {"b": {}}}),
            json!({"c": 1}),
            "unknown-field a.c unknown field \"a.c\"",
        ),
        (json!({"type": "array", "items": {"type": "string"}}), json!([1]), "type a[0] "),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"b": {}}}}),
            json!([{"c": 1}]),
            "unknown-field a[0].c ",
        ),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), json!({"x/y": 1}), "type a[x/y] "),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'x'", "message": "no x"}]}),
            json!("y"),
            "crd-rule a no x",
        ),
    ] {
        let found = violations(spec(schema.clone()), &json!({"a": value}));
        assert_eq!(found.len(), 1, "{schema}: {found:?}");
        assert!(found[0].starts_with(says), "{schema}: {found:?}");
    }
}

#[test]
fn schema_prunes_nulls_and_applies_defaults() {
    let schema = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "integer"},
        "b": {"type": "integer", "default": 4, "x-kubernetes-validations": [{"rule": "self == 4"}]},
        "c": {"type": "integer", "nullable": true},
    }});
    assert_eq!(violations(schema.clone(), &json!({"a": 1, "b": null, "c": null})), [""; 0]);
    assert_eq!(violations(schema.clone(), &json!({"a": 1})), [""; 0]);
    let found = violations(schema.clone(), &json!({"a": null}));
    assert_eq!(found, ["required a Required value: missing, or null"]);
    assert_eq!(violations(schema, &json!({"a": 1, "b": 5})), ["crd-rule b failed"]);
}

#[test]
fn schema_preserve_unknown_fields_accepts_anything() {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(violations(schema, &json!({"a": {"b": null}})), [""; 0]);
}

#[test]
fn schema_rule_is_skipped_after_a_problem_below_it() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "more"}]});
    assert_eq!(violations(schema.clone(), &json!({"a": "x"})).len(), 1);
    let unanswered = violations(schema, &json!({}));
    assert!(unanswered[0].contains("cannot be evaluated"), "{unanswered:?}");
}

/// Whatever the CRD says must be honoured here too.
#[test]
fn schema_supports_every_keyword_of_the_crd() {
    const KNOWN: [&str; 26] = [
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "",
    ];
    // Of number formats only int32 is narrower than what JSON holds; date-time is only in what the
    // server or the controller writes.
    const FORMATS: [&str; 3] = ["int32", "int64", "date-time"];
    fn walk(schema: &Value) {
        for (keyword, value) in schema.as_object().unwrap() {
            assert!(KNOWN.contains(&keyword.as_str()), "{keyword} is not honoured");
            match keyword.as_str() {
                "properties" => value.as_object().unwrap().values().for_each(walk),
                "items" | "additionalProperties" => walk(value),
                "format" => assert!(FORMATS.contains(&value.as_str().unwrap()), "{value}"),
                "x-kubernetes-validations" => {
                    for rule in value.as_array().unwrap() {
                        let mut keys: Vec<_> = rule.as_object().unwrap().keys().collect();
                        // Such a rule is asked of each entry alone.
                        let all = rule["rule"].as_str().unwrap().starts_with("self.all(key, ");
                        keys.retain(|key| !(all && *key == "messageExpression"));
                        assert_eq!(keys, ["message", "rule"], "{rule}");
                        assert!(!rule["rule"].as_str().unwrap().contains("oldSelf"), "{rule}");
                    }
                }
                _ => {}
            }
        }
    }
    for version in api::crd().spec.versions {
        walk(&serde_json::to_value(version.schema.unwrap().open_api_v3_schema).unwrap());
    }
}
