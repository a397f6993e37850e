//! Random values of the chart, as its schema allows them: helm renders them or names what is wrong with them, and the
//! API server accepts each object that is rendered.
//!
//! Method: choose values by values.schema.json, with texts that are often wrong; render with helm, and apply each
//! object with a dry run. `SEED` repeats a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use fastrand::Rng;
use harness::helm::{NAMESPACE, RELEASE, chart, helm};
use harness::{Cluster, project_file};
use regex::Regex;
use serde_json::{Map, Value, json};

/// Renderings to create.
const COMBINATIONS: u32 = 200;

/// The message of `fail` in a template: it begins with the path of a value.
const REASON: &str = r"execution error at \([^)]*\): [a-z][A-Za-z]*(\.[A-Za-z]+)*(: |, | is )";

/// Texts of all kinds that values have, and texts that nearly are.
const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "0",
    "1",
    "01",
    "-",
    "a-b",
    "a.b",
    "a..b",
    "a_b",
    "b c",
    "ä",
    "1e3",
    "0x1",
    "true",
    "null",
    "~",
    "{{ . }}",
    "'",
    "\"",
    "#",
    "a: b",
    "example.com/a",
    "example.com/*",
    "example.com/",
    "example.com/a/b",
    "platform",
    "advertising",
    "node-resource-advertiser",
    "a-name-that-is-longer-than-any-label-may-be-in-kubernetes-since-it-has-more-than-63",
    "0s",
    "1s",
    "15s",
    "30s",
    "1m",
    "1m30s",
    "24h",
    "25h",
    "99999h",
    "1d",
    "500ms",
    "10%",
    "0%",
    "100%",
    "101%",
    "50%",
    "200%",
    "64Mi",
    "1Gi",
    "100m",
    "0.5",
    "1e99",
    "1n",
    "5E",
    "8Ei",
    "lots",
    "info",
    "warning",
    "verbose",
    "info,kube=debug",
    "kube",
    "https://runbooks.example.com/#a",
    "registry.example.com",
    "registry.example.com:5000",
    "registry.example.com/mirror",
    "https://r/",
    "a/b",
    "a/b:1.0",
    "[::1]:5000",
    "v1.2.3",
    "none",
    "cpu",
    "memory",
    "cpus",
    "Job",
    "job",
    "team",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "system-cluster-critical",
    "workload-high",
    "--log-level=debug",
    "/etc/ssl/certs",
    "../a",
    "HTTPS_PROXY",
];

/// Chooses values for a schema.
struct Generator<'a> {
    schema: &'a Value,
    patterns: BTreeMap<String, Regex>,
    random: Rng,
}

impl Generator<'_> {
    fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        self.random.choice(among).expect("there is something to choose from")
    }

    fn matches(&mut self, schema: &Value, text: &str) -> bool {
        let length = |name: &str| schema[name].as_u64().map(|length| usize::try_from(length).unwrap());
        let count = text.chars().count();
        let fits = length("minLength").is_none_or(|least| count >= least)
            && length("maxLength").is_none_or(|most| count <= most);
        let Some(pattern) = schema["pattern"].as_str() else { return fits };
        let regex = self.patterns.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).unwrap());
        fits && regex.is_match(text)
    }

    fn text(&mut self, schema: &Value, path: &str) -> String {
        let texts: Vec<_> = TEXTS.iter().filter(|text| self.matches(schema, text)).collect();
        assert!(!texts.is_empty(), "{path}: no text matches {schema}");
        (**self.pick(&texts)).to_owned()
    }

    fn number(&mut self, schema: &Value) -> i64 {
        let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
        let most = schema["maximum"].as_i64().unwrap_or(i64::MAX);
        let near = least.saturating_add(self.random.i64(0..50)).min(most);
        *self.pick(&[least, most, near])
    }

    /// Chooses a value at a path, which is for messages.
    fn value(&mut self, schema: &Value, path: &str) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            let whole = self.schema;
            return self.value(&whole["definitions"][name.trim_start_matches("#/definitions/")], path);
        }
        if let Some(choices) = schema["enum"].as_array().or(schema["examples"].as_array()) {
            return self.pick(choices).clone();
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        let kinds: Vec<_> = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        let kind = *self.pick(&kinds);
        match kind {
            "boolean" => json!(self.random.bool()),
            "integer" => json!(self.number(schema)),
            "number" => json!(self.random.f64()),
            "string" => json!(self.text(schema, path)),
            "array" => self.array(schema, path),
            "object" => self.object(schema, path),
            kind => panic!("{path}: unknown type {kind}"),
        }
    }

    fn array(&mut self, schema: &Value, path: &str) -> Value {
        let item = format!("{path}[]");
        if let Some(first) = schema["items"].as_array() {
            let first: Vec<_> = first.iter().map(|schema| self.value(schema, &item)).collect();
            let more: Vec<_> =
                (0..self.random.u8(0..2)).map(|_| self.value(&schema["additionalItems"], &item)).collect();
            return Value::from([first, more].concat());
        }
        let least = u8::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
        let mut values: Vec<Value> = Vec::new();
        for _ in 0..self.random.u8(least..least + 3) {
            let value = self.value(&schema["items"], &item);
            if schema["uniqueItems"] != true || !values.contains(&value) {
                values.push(value);
            }
        }
        Value::from(values)
    }

    fn object(&mut self, schema: &Value, path: &str) -> Value {
        let mut fields = Map::new();
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
        // Of a list's items; those of a map have defaults.
        let required = |name: &str| path.ends_with("[]") && required.iter().any(|required| *required == name);
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if required(name) || self.random.u8(0..4) == 0 {
                fields.insert(name.clone(), self.value(schema, &format!("{path}.{name}")));
            }
        }
        for (names, schema) in schema["patternProperties"].as_object().into_iter().flatten() {
            for _ in 0..self.random.u8(0..3) {
                let name = self.text(&json!({ "pattern": names }), path);
                fields.insert(name, self.value(schema, path));
            }
        }
        let free = schema["properties"].is_null() && schema["patternProperties"].is_null();
        assert!(!free, "{path}: a schema of any object needs examples");
        Value::from(fields)
    }
}

/// Renders values, which are in a file, and returns the objects, or the message of a template that rejects the values.
fn render(cluster: &Cluster, values: &Value) -> Result<Vec<Value>, String> {
    let file = cluster.control_plane.dir().join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let chart = chart();
    let kinds = ["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"];
    let fixed =
        ["template", RELEASE, chart.to_str().unwrap(), "--namespace", NAMESPACE, "--values", file.to_str().unwrap()];
    let output = helm(cluster, &[&fixed[..], &kinds].concat());
    if output.code != 0 {
        return Err(output.stderr);
    }
    let documents = output.stdout.split("\n---\n").filter(|text| text.contains("\nkind: "));
    Ok(documents.map(|text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect())
}

/// Applies an object as Helm does, on the server, with a dry run. Returns why the API server rejects it.
fn rejection(cluster: &Cluster, plurals: &BTreeMap<String, String>, object: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let group = if version.contains('/') { format!("apis/{version}") } else { format!("api/{version}") };
    let plural = &plurals[&kind];
    let namespace = text(&object["metadata"]["namespace"]);
    let namespace = if namespace.is_empty() { namespace } else { format!("/namespaces/{namespace}") };
    let name = text(&object["metadata"]["name"]);
    let path = format!("/{group}{namespace}/{plural}/{name}?dryRun=All&fieldManager=helm&fieldValidation=Strict");
    let (code, body) =
        cluster.control_plane.send("PATCH", &path, "application/apply-patch+yaml", &object.to_string()).unwrap();
    (!matches!(code, 200 | 201)).then(|| format!("{kind}: {code}: {body}"))
}

/// Returns the plural of each kind that the API server serves.
fn plurals(cluster: &Cluster) -> BTreeMap<String, String> {
    let lines = cluster.kubectl(&["api-resources", "--no-headers"]);
    let words = lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.map(|words| (words[words.len() - 1].to_owned(), words[0].to_owned())).collect()
}

#[test]
fn random_values_render_what_the_api_server_accepts_or_are_rejected_with_a_reason() {
    let cluster = Cluster::shared_without_crd();
    let crds = project_file("target/tools/crds");
    cluster.kubectl(&["apply", "--server-side", "-f", crds.to_str().unwrap()]);
    cluster.wait_crds();
    for namespace in [NAMESPACE, "platform"] {
        cluster.kubectl(&["create", "namespace", namespace]);
    }
    let schema: Value = serde_json::from_str(&fs::read_to_string(chart().join("values.schema.json")).unwrap()).unwrap();
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    let mut generator = Generator { schema: &schema, patterns: BTreeMap::new(), random: Rng::with_seed(seed) };
    let (plurals, reason) = (plurals(&cluster), Regex::new(REASON).unwrap());
    let (mut rendered, mut rejected, mut wrong) = (0, 0, String::new());
    while rendered < COMBINATIONS {
        let mut values = generator.value(&schema, "");
        // No test creates the namespaces of other texts.
        for path in
            ["/namespaceOverride", "/serviceMonitor/namespace", "/prometheusRule/namespace", "/dashboard/namespace"]
        {
            if let Some(namespace) = values.pointer_mut(path) {
                *namespace = json!("platform");
            }
        }
        // This API server serves IPv4 only.
        if let Some(service) = values.pointer_mut("/service").and_then(Value::as_object_mut) {
            service.retain(|_, value| *value != "RequireDualStack" && !value.to_string().contains("IPv6"));
        }
        match render(&cluster, &values) {
            Ok(objects) => {
                rendered += 1;
                for rejection in objects.iter().filter_map(|object| rejection(&cluster, &plurals, object)) {
                    writeln!(wrong, "{values}\n  {rejection}").unwrap();
                }
            }
            Err(message) if reason.is_match(&message) => rejected += 1,
            Err(message) => writeln!(wrong, "{values}\n  {message}").unwrap(),
        }
        assert!(wrong.len() < 20_000, "SEED={seed}: {wrong}");
    }
    eprintln!("SEED={seed}: {rendered} combinations rendered, {rejected} rejected");
    assert!(wrong.is_empty(), "SEED={seed}: {wrong}");
}
