use regex::Regex;
use serde_json::Value;

use crate::read;

fn chart(path: &str) -> String {
    read(&format!("charts/node-resource-advertiser/{path}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn chart_crd_matches_the_types() {
    let stale = chart("files/crd.yaml") != read("crds/noderesource.dev_nodeextendedresources.yaml");
    assert!(!stale, "the chart's CRD is not the one in crds/: run `make crds`");
}

#[test]
fn chart_version_matches_the_program() {
    let about = yaml(&chart("Chart.yaml"));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!([&about["version"], &about["appVersion"]], [version, version]);
    assert!(chart("README.md").contains(&format!("?ref=v{version}'")), "the README's links");
}

/// A schema that names what is not there would take a misspelt value.
#[test]
fn chart_schema_matches_the_values() {
    let schema: Value = serde_json::from_str(&chart("values.schema.json")).unwrap();
    let values = yaml(&chart("values.yaml"));
    // One that a parent chart sets, and those of a Deployment whose defaults depend on another value.
    let without_default = ["enabled", "strategy.type", "strategy.rollingUpdate"];
    let mut wrong = Vec::new();
    compare("", &schema, &values, &mut wrong);
    wrong.retain(|name| !without_default.contains(&name.trim_start_matches('.')));
    assert_eq!(wrong, [""; 0], "in one of values.yaml and values.schema.json only");
}

fn compare(path: &str, schema: &Value, values: &Value, wrong: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    // A parent chart has values there for others, too.
    let closed = schema["additionalProperties"] == false || path == ".global";
    assert!(closed, "{path}: takes misspelt names");
    let values = values.as_object().unwrap();
    let missing = values.keys().filter(|name| !properties.contains_key(*name));
    wrong.extend(missing.map(|name| format!("{path}.{name}")));
    for (name, property) in properties {
        let path = format!("{path}.{name}");
        match values.get(name) {
            Some(value) => compare(&path, property, value, wrong),
            None => wrong.push(path),
        }
    }
}

#[test]
fn chart_pods_set_every_environment_variable() {
    let output = crate::program(&["run", "--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let templates = chart("templates/_helpers.tpl");
    let of_program = help.split("[env: ").skip(1).filter_map(|rest| rest.split('=').next());
    for variable in of_program {
        assert!(templates.contains(&format!("- name: {variable}\n")), "{variable} is not set");
    }
}

/// The program's own metrics, recorded.
fn recorded_metrics() -> String {
    read("tests/testdata/metrics.txt")
}

/// An alert on a series that is never there would never fire.
#[test]
fn chart_alerts_and_dashboard_use_existing_metrics() {
    let there = recorded_metrics();
    for file in ["files/alerts.yaml", "files/dashboard.json"] {
        let text = chart(file);
        let prefix = "node_resource_advertiser_";
        let names: std::collections::BTreeSet<_> = text
            .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
            .filter(|word| word.starts_with(prefix))
            .collect();
        assert!(names.len() > 3, "{file}: {names:?}");
        for name in names {
            let is_there =
                there.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
            assert!(is_there, "{file}: {name} is not in\n{there}");
        }
    }
}

/// The same for an alert on a value that no label has.
#[test]
fn chart_alerts_and_dashboard_use_existing_label_values() {
    let there = recorded_metrics();
    let selector = Regex::new(r"(node_resource_advertiser_\w+)\{([^}]*)\}").unwrap();
    let matcher = Regex::new(r#"(\w+)(=~?)"([^"]*)""#).unwrap();
    for file in ["files/alerts.yaml", "files/dashboard.json"] {
        let text = chart(file).replace("\\\"", "\"");
        let mut matchers = 0;
        for (_, [name, labels]) in selector.captures_iter(&text).map(|found| found.extract()) {
            for (_, [label, operator, value]) in matcher.captures_iter(labels).map(|found| found.extract()) {
                // Prometheus adds these.
                if ["namespace", "job", "pod"].contains(&label) {
                    continue;
                }
                matchers += 1;
                let value = if operator == "=" { regex::escape(value) } else { value.to_owned() };
                let series = Regex::new(&format!(r#"(?m)^{name}\{{(.*,)?{label}="({value})"[,}}]"#)).unwrap();
                assert!(series.is_match(&there), "{file}: {name}{{{labels}}} selects nothing of\n{there}");
            }
        }
        assert!(matchers > 1, "{file}: {matchers}");
    }
}
