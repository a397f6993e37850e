//! Validates manifests without a cluster: reports all problems together, each with its location.
//!
//! ```text
//! Document ─▶ schema, cel: what the CRD rejects ───────────────┐
//!     │       metadata: what every object's name has to be ────┤
//!     ├─▶ cross_checks, overlaps: what no single rule shows ───┼─▶ Report ─▶ text, JSON, annotations
//!     ├─▶ resource_refs: what pods request, no rule declares ──┤
//!     └─▶ workload, namespace_limits: what cannot work ────────┘
//! ```
//!
//! The checks of a single rule are those of the CRD itself, evaluated from [`api::crd`].

mod amounts;
mod cel;
mod code;
mod cross_checks;
mod diagnostic;
mod dropped_nulls;
mod hints;
mod metadata;
mod namespace_limits;
mod overlaps;
mod placeholder;
mod pods;
mod providers;
mod render;
mod report;
mod resource_refs;
mod schema;
mod shape;
mod violation;
mod workload;

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub use code::Code;
pub use diagnostic::{Diagnostic, Severity};
pub use providers::External;
pub use render::Format;
pub use report::{NO_RULES, Report};

use crate::manifest::{Document, Files, Path, ReadError, Step};
use crate::model::api::{self, NodeExtendedResource};
use crate::model::spelling;
use crate::planner::rules::Rule;
use cel::CelEnv;
use cross_checks::CrossChecks;
use schema::Schema;
use violation::Violation;

/// Validates documents one by one. Cloning it saves compiling the CRD's validation again.
#[derive(Clone, Debug)]
pub struct Validator {
    cel: CelEnv,
    crd: Arc<CustomResourceDefinition>,
    /// The schema of each version.
    versions: Arc<[(String, Schema)]>,
    cross_checks: CrossChecks,
    report: Report,
}

impl Validator {
    /// Compiles the CRD's validation.
    ///
    /// # Errors
    /// If it cannot be compiled, which would be a bug.
    pub fn new() -> Result<Self, String> {
        let cel = CelEnv::new()?;
        let crd = api::crd();
        let mut versions = Vec::new();
        for version in &crd.spec.versions {
            let props = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = Schema::new(props.ok_or("the CRD has no schema")?, &cel)?;
            // The API server accepts these fields in any object; no CRD has them.
            let schema = schema
                .with_property("apiVersion", Schema::text())
                .with_property("kind", Schema::text())
                .with_property("metadata", metadata::schema(&cel)?);
            versions.push((version.name.clone(), schema));
        }
        Ok(Self {
            cel,
            crd: Arc::new(crd),
            versions: versions.into(),
            cross_checks: CrossChecks::default(),
            report: Report::default(),
        })
    }

    /// Treats warnings as errors.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.report.strict = strict;
        self
    }

    /// Expects these resources from something other than rules.
    #[must_use]
    pub fn external(mut self, external: Vec<External>) -> Self {
        self.cross_checks.external = external;
        self
    }

    /// Adds a document or a read error.
    pub fn take(&mut self, read: Result<Document, ReadError>) {
        match read {
            Ok(document) => self.document(&document),
            Err(unreadable) => self.unreadable(unreadable),
        }
    }

    /// Returns the report.
    #[must_use]
    pub fn finish(mut self, files: Files) -> Report {
        self.cross_checks.finish(&mut self.report);
        self.report.omit();
        self.report.files = files;
        self.report
    }

    /// Returns the rules, and the report of the checks of single rules. If the report has errors, some rules are
    /// missing.
    #[must_use]
    pub fn into_rules(mut self, files: Files) -> (Vec<Rule>, Report) {
        self.cross_checks.check_names(&mut self.report);
        self.cross_checks.check_nameless(&mut self.report);
        self.report.omit();
        self.report.files = files;
        (self.cross_checks.into_rules(), self.report)
    }

    fn unreadable(&mut self, ReadError { location, reason, .. }: ReadError) {
        // Each hint searches the whole file.
        let few = self.report.count(Severity::Unreadable) < HINTED;
        let hint = if few { hints::unreadable(&location) } else { None };
        let diagnostic = Diagnostic::new(Severity::Unreadable, Code::Unreadable, reason, location);
        self.report.add(Diagnostic { hint, ..diagnostic });
    }

    fn document(&mut self, document: &Document) {
        let version = document.api_version();
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let names = &self.crd.spec.names;
        if group != self.crd.spec.group {
            if document.kind() == names.kind {
                return self.unknown(document, Code::UnknownGroup, "apiVersion");
            }
            return self.cross_checks.other(document);
        }
        if document.kind() != names.kind {
            return self.unknown(document, Code::UnknownKind, "kind");
        }
        let Some(place) = self.versions.iter().position(|(known, _)| known == version) else {
            return self.unknown(document, Code::UnknownVersion, "apiVersion");
        };
        self.report.rules += 1;
        self.rule(document, place);
    }

    /// Reports an object that is meant as a rule but that no cluster accepts.
    fn unknown(&mut self, document: &Document, code: Code, field: &str) {
        self.report.rules += 1;
        let (kind, version) = (document.kind(), document.api_version());
        let message = format!("no matches for kind {kind:?} in version {version:?}");
        let path = Path::from_keys([field]);
        let (group, known) = (&self.crd.spec.group, &self.crd.spec.names.kind);
        let hint = match code {
            Code::UnknownKind => format!("write {known}"),
            _ => format!("write {group}/{}", api::VERSION),
        };
        let location = document.location(&path);
        let diagnostic = Diagnostic::new(Severity::Error, code, message, location);
        self.report.add(diagnostic.of(document, &path).hint(hint));
    }

    fn rule(&mut self, document: &Document, place: usize) {
        let (_, schema) = &self.versions[place];
        let mut violations = schema.check(&document.value, &self.cel);
        // The API server drops the status of a created object.
        let status = Path::from_keys(["status"]);
        violations.retain(|violation| violation.code == Code::UnknownField || !status.leads_to(&violation.path));
        violations.extend(metadata::check(&document.value));
        dropped_nulls::check(&document.value, &mut violations);
        drop_knock_on(&mut violations);
        let rule = if violations.is_empty() { self.compile(document, &mut violations) } else { None };
        for violation in &mut violations {
            let value = document.at(&violation.path);
            let hint = match violation.code {
                Code::QuantitySyntax => value.and_then(Value::as_str).and_then(hints::quantity),
                Code::Type => hints::of_type(value),
                _ => None,
            };
            violation.hint = violation.placeholder(value).or(hint).or(violation.hint.take());
        }
        let found = violations.into_iter().map(|violation| Diagnostic::found(violation, document));
        let mut diagnostics: Vec<_> = found.chain(hints::numbers(document)).collect();
        diagnostics.extend(rule.as_ref().and_then(|rule| hints::selector(rule, document)));
        diagnostics.sort_by_cached_key(|diagnostic| diagnostic.location.start());
        diagnostics.into_iter().for_each(|diagnostic| self.report.add(diagnostic));
        self.cross_checks.rule(document, rule);
    }

    /// Compiles a rule like the controller, which does not trust the API server's validation.
    fn compile(&self, document: &Document, violations: &mut Vec<Violation>) -> Option<Rule> {
        let mut value = without_nulls(&document.value);
        if let Value::Object(fields) = &mut value {
            fields.remove("status");
        }
        let object = serde_json::from_value::<NodeExtendedResource>(value);
        let rule = object
            .map_err(|error| error.to_string())
            .and_then(|object| Rule::new(&object).map_err(|error| error.to_string()));
        let refused = |error| {
            let message = format!("the controller rejects it, although the API server accepts it: {error}");
            Violation::new(&Path::from_keys(["spec"]), Code::Controller, message)
        };
        rule.map_err(|error| violations.push(refused(error))).ok()
    }
}

/// Drops the report of a missing node selection if a misspelled field was probably meant as one, and that of an empty
/// selector with unknown fields, which are probably labels.
fn drop_knock_on(violations: &mut Vec<Violation>) {
    const CHOICES: [&str; 3] = ["nodeSelector", "nodeNames", "allNodes"];
    let spec = Path::from_keys(["spec"]);
    let misspelled = violations.iter().any(|violation| match violation.path.steps() {
        [_, Step::Key(field)] if violation.code == Code::UnknownField => {
            spec.leads_to(&violation.path) && spelling::closest(field, CHOICES).is_some()
        }
        _ => false,
    });
    violations.retain(|violation| !misspelled || violation.code != Code::NodeChoice);
    let selector = spec.key("nodeSelector");
    let mut has_labels = false;
    for violation in violations.iter_mut().filter(|violation| violation.code == Code::UnknownField) {
        if let [_, _, Step::Key(label)] = violation.path.steps()
            && selector.leads_to(&violation.path)
            && spelling::closest(label, ["matchLabels", "matchExpressions"]).is_none()
        {
            has_labels = true;
            violation.hint = Some("if it is a label, write it below matchLabels".to_owned());
        }
    }
    violations.retain(|violation| !has_labels || violation.code != Code::SelectorEmpty);
}

/// The number of unreadable locations that are searched for a hint.
const HINTED: usize = 20;

/// Removes nulls like the API server does, except in nullable fields.
fn without_nulls(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let fields = fields.iter().filter(|(_, value)| !value.is_null());
    fields.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
}
