//! Checks manifests without a cluster: every problem at once, each with the place that it stands at.
//!
//! ```text
//! Document ─▶ schema, cel: what the CRD refuses ───────────────┐
//!     │       metadata: what every object's name has to be ────┤
//!     ├─▶ across: what no single rule shows ───────────────────┼─▶ Report ─▶ text, JSON, annotations
//!     └─▶ requests: what pods want and no rule declares ───────┘
//! ```
//!
//! The checks of a single rule are those of the CRD itself, evaluated from [`api::crd`].

mod across;
mod cel;
mod finding;
mod metadata;
mod problem;
mod render;
mod report;
mod requests;
mod schema;
mod spelling;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub use problem::{Problem, Severity};
pub use render::Format;
pub use report::Report;

use crate::manifest::{Document, Path, Unreadable};
use crate::model::api::{self, NodeExtendedResource};
use crate::planner::rules::Rule;
use across::Across;
use cel::Library;
use finding::{Finding, UNKNOWN};
use schema::Schema;

/// Checks one document after the other.
#[derive(Debug)]
pub struct Validator {
    library: Library,
    crd: CustomResourceDefinition,
    /// The schema of each version.
    versions: Vec<(String, Schema)>,
    across: Across,
    report: Report,
}

impl Validator {
    /// Compiles the CRD's validation.
    ///
    /// # Errors
    /// Where it cannot be compiled, which is a mistake in the program.
    pub fn new() -> Result<Self, String> {
        let library = Library::new()?;
        let crd = api::crd();
        let mut versions = Vec::new();
        for version in &crd.spec.versions {
            let props =
                version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = Schema::new(props.ok_or("the CRD has no schema")?, &library)?;
            // The server knows these of any object, and no CRD says them.
            let schema = schema
                .with_property("apiVersion", Schema::text())
                .with_property("kind", Schema::text())
                .with_property("metadata", metadata::schema(&library)?);
            versions.push((version.name.clone(), schema));
        }
        Ok(Self { library, crd, versions, across: Across::default(), report: Report::default() })
    }

    /// Takes what could be read, and what could not.
    pub fn take(&mut self, read: Result<Document, Unreadable>) {
        match read {
            Ok(document) => self.document(&document),
            Err(unreadable) => self.unreadable(unreadable),
        }
    }

    /// What all of it comes to. `files` is how many there were.
    #[must_use]
    pub fn finish(mut self, files: usize) -> Report {
        self.across.finish(&mut self.report);
        self.report.files = files;
        self.report
    }

    /// The rules, each with no regard to the others; and what the checks of single ones have found. Where
    /// the report has errors, not all rules are there.
    #[must_use]
    pub fn into_rules(mut self, files: usize) -> (Vec<Rule>, Report) {
        self.across.check_names(&mut self.report);
        self.across.check_nameless(&mut self.report);
        self.report.files = files;
        (self.across.into_rules(), self.report)
    }

    fn unreadable(&mut self, Unreadable { spot, reason }: Unreadable) {
        self.report.add(Problem::new(Severity::Unreadable, "unreadable", reason, spot));
    }

    fn document(&mut self, document: &Document) {
        let version = document.api_version();
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let names = &self.crd.spec.names;
        if group != self.crd.spec.group {
            if document.kind() == names.kind {
                self.foreign(document);
            }
            self.across.requests(document);
            return;
        }
        if document.kind() != names.kind {
            let reason = format!("{group} has no kind {:?}: write {}", document.kind(), names.kind);
            let spot = document.spot(&Path::of(["kind"]));
            return self.unreadable(Unreadable { spot, reason });
        }
        self.report.rules += 1;
        let Some(place) = self.versions.iter().position(|(known, _)| known == version) else {
            let known: Vec<_> =
                self.versions.iter().map(|(known, _)| format!("{group}/{known}")).collect();
            let reason =
                format!("{group} has no version {version:?}: write {}", known.join(" or "));
            let spot = document.spot(&Path::of(["apiVersion"]));
            return self.unreadable(Unreadable { spot, reason });
        };
        self.rule(document, place);
    }

    /// A kind of ours in another group, which is skipped like all that is not ours; but not silently.
    fn foreign(&mut self, document: &Document) {
        let names = &self.crd.spec.names;
        let message = format!("{} of {}: not checked", names.kind, document.api_version());
        let spot = document.spot(&Path::of(["apiVersion"]));
        let hint = format!("write {}/{}", self.crd.spec.group, api::VERSION);
        let problem = Problem::new(Severity::Warning, "api-version", message, spot);
        self.report.add(problem.of(document, &Path::of(["apiVersion"])).hint(hint));
    }

    fn rule(&mut self, document: &Document, place: usize) {
        let (_, schema) = &self.versions[place];
        let mut findings = schema.check(&document.value, &self.library);
        // The server drops the status of what is created, whatever is in it.
        let status = Path::of(["status"]);
        findings.retain(|finding| finding.rule == UNKNOWN || !status.leads_to(&finding.path));
        findings.extend(metadata::check(&document.value));
        let rule = if findings.is_empty() { self.compile(document, &mut findings) } else { None };
        let found = findings.into_iter().map(|finding| Problem::found(finding, document));
        let mut problems: Vec<_> = found.collect();
        problems.sort_by_cached_key(|problem| problem.spot.start());
        problems.into_iter().for_each(|problem| self.report.add(problem));
        self.across.rule(document, rule);
    }

    /// What the controller would make of it: it trusts no server.
    fn compile(&self, document: &Document, findings: &mut Vec<Finding>) -> Option<Rule> {
        let mut value = without_nulls(&document.value);
        if let Value::Object(fields) = &mut value {
            fields.remove("status");
        }
        let object = serde_json::from_value::<NodeExtendedResource>(value);
        let rule = object
            .map_err(|error| error.to_string())
            .and_then(|object| Rule::new(&object).map_err(|error| error.to_string()));
        let refused = |error| {
            let message =
                format!("the controller refuses it, though the API server does not: {error}");
            Finding::new(&Path::of(["spec"]), "controller", message)
        };
        rule.map_err(|error| findings.push(refused(error))).ok()
    }
}

/// The server drops them, except where a field may be null.
fn without_nulls(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let fields = fields.iter().filter(|(_, value)| !value.is_null());
    fields.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
}
