//! Checks across objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::Resource as _;
use serde_json::Value;

use super::code::Code;
use super::diagnostic::{Diagnostic, Severity};
use super::overlaps::{Candidate, LabelTests, PrecedenceGroup};
use super::pods::{Pod, pods};
use super::providers::{External, Provider, ProviderKind, providers};
use super::report::Report;
use super::workload::{LimitMissing, Problem};
use super::{namespace_limits, resource_refs, workload};
use crate::manifest::{Document, Path, SourceLocation};
use crate::model::api::NodeExtendedResource;
use crate::model::quantity::Quantity;
use crate::model::resource_name::is_extended;
use crate::model::spelling::closest_resource;
use crate::planner::overlap::Overlap;
use crate::planner::rules::Rule;
use crate::planner::selector::Selection;

/// What is kept of each object until all are read.
#[derive(Clone, Debug, Default)]
pub(super) struct CrossChecks {
    rules: Vec<DeclaredRule>,
    requests: Vec<ResourceRef>,
    /// Problems of single pods, quotas and LimitRanges.
    workloads: Vec<Problem>,
    /// The limits that LimitRanges supply to containers that have none, each with its namespace, by resource.
    limit_ranges: HashMap<String, Vec<(String, Quantity)>>,
    /// By resource.
    providers: BTreeMap<String, Vec<Provider>>,
    /// Resources that come from elsewhere.
    pub(super) external: Vec<External>,
}

/// A rule in a file.
#[derive(Clone, Debug)]
struct DeclaredRule {
    name: String,
    /// Also set for an invalid rule, as what was meant.
    resource: String,
    /// `None` if it is invalid.
    rule: Option<Rule>,
    /// The nodes on which it may declare something.
    selection: Option<Selection>,
    tests: LabelTests,
    name_location: SourceLocation,
    resource_location: SourceLocation,
    quantity_location: SourceLocation,
}

/// A resource that a pod template, a quota or a LimitRange names; once per object.
#[derive(Clone, Debug)]
struct ResourceRef {
    resource: String,
    /// The quantity that one pod requests; 0 in the others.
    amount: Quantity,
    kind: String,
    name: String,
    path: Path,
    location: SourceLocation,
}

impl CrossChecks {
    pub(super) fn rule(&mut self, document: &Document, rule: Option<Rule>) {
        let resource = document.value.pointer("/spec/resourceName").and_then(Value::as_str);
        let selection = rule.as_ref().map(Rule::declares_on);
        self.rules.push(DeclaredRule {
            name: document.name().to_owned(),
            resource: resource.unwrap_or_default().to_owned(),
            rule,
            tests: selection.as_ref().map(LabelTests::of).unwrap_or_default(),
            selection,
            name_location: document.location(&Path::from_keys(["metadata", "name"])),
            resource_location: document.location(&Path::from_keys(["spec", "resourceName"])),
            quantity_location: document.location(&Path::from_keys(["spec", "quantity"])),
        });
    }

    /// Adds an object that is no rule.
    pub(super) fn other(&mut self, document: &Document) {
        let pods = pods(document);
        self.workloads.extend(workload::check(document, &pods));
        let limits = namespace_limits::check(document).into_iter();
        self.workloads.extend(limits.map(|diagnostic| Problem { diagnostic, limit_missing: None }));
        let namespace = workload::namespace(document);
        for (resource, limit) in namespace_limits::default_limits(document) {
            self.limit_ranges.entry(resource).or_default().push((namespace.to_owned(), limit));
        }
        for provider in providers(document) {
            self.providers.entry(provider.resource.clone()).or_default().push(provider);
        }
        self.requests(document, &pods);
    }

    /// Adds the resources that an object names; the pods of one object may be different.
    fn requests(&mut self, document: &Document, pods: &[Pod<'_>]) {
        let mut seen = HashMap::new();
        let mut add = |resource: String, amount: Quantity, path: Path| {
            let place = *seen.entry(resource.clone()).or_insert(self.requests.len());
            match self.requests.get_mut(place) {
                Some(known) => known.amount = known.amount.max(amount),
                None => self.requests.push(ResourceRef {
                    amount,
                    resource,
                    kind: document.kind().to_owned(),
                    name: document.name().to_owned(),
                    location: document.key_location(&path),
                    path,
                }),
            }
        };
        for (resource, path) in
            resource_refs::of_quota(document).into_iter().chain(namespace_limits::references(document))
        {
            add(resource, Quantity::default(), path);
        }
        for pod in pods {
            let amounts = workload::requests(pod);
            for (resource, path) in resource_refs::of_pod(pod) {
                let amount = amounts.get(&resource);
                add(resource, amount, path);
            }
        }
    }

    pub(super) fn into_rules(self) -> Vec<Rule> {
        self.rules.into_iter().filter_map(|declared| declared.rule).collect()
    }

    pub(super) fn finish(&mut self, report: &mut Report) {
        for problem in std::mem::take(&mut self.workloads) {
            self.completed(problem).into_iter().for_each(|diagnostic| report.add(diagnostic));
        }
        self.check_names(report);
        self.check_overlaps(report);
        self.check_providers(report);
        self.check_requests(report);
    }

    /// Returns the problem that is left after a LimitRange of the same namespace has set the limit of a Pod. An omitted
    /// namespace may be any: kubectl fills it in.
    fn completed(&self, problem: Problem) -> Option<Diagnostic> {
        let Problem { diagnostic, limit_missing: Some(LimitMissing { namespace, resource, request }) } = problem else {
            return Some(problem.diagnostic);
        };
        let is_same = |other: &str| other == namespace || other.is_empty() || namespace.is_empty();
        let limits = self.limit_ranges.get(&resource).into_iter().flatten();
        let limits: Vec<_> = limits.filter(|(namespace, _)| is_same(namespace)).map(|(_, limit)| *limit).collect();
        let Some(limit) = limits.first() else { return Some(diagnostic) };
        let message = format!(
            "Invalid value: \"{request}\": must be equal to {resource} limit of {limit}, which a LimitRange supplies"
        );
        let hint = Some("give the limit alone: the request defaults to it".to_owned());
        let unequal = Diagnostic { code: Code::PodRequestsLimits, message, hint, ..diagnostic };
        (!limits.contains(&request)).then_some(unequal)
    }

    /// Reports rules for resources that something else in the files provides.
    fn check_providers(&self, report: &mut Report) {
        let conflicts = self.rules.iter().flat_map(|rule| {
            let providers = self.providers.get(&rule.resource).into_iter().flatten();
            providers.map(move |provider| (rule, provider))
        });
        for (rule, Provider { kind, name, resource, location }) in conflicts {
            let (severity, code, message, hint) = match kind {
                ProviderKind::DeviceClass => (
                    Severity::Error,
                    Code::DeviceClass,
                    format!(
                        "DeviceClass {name} maps {resource} too: where a node has the value, the scheduler does not ask \
                         DRA, and pods get no device"
                    ),
                    "delete the rule, or rename its resource",
                ),
                ProviderKind::NodeFeatureRule => (
                    Severity::Warning,
                    Code::NodeFeatureRule,
                    format!(
                        "NodeFeatureRule {name} writes {resource} too: where both apply, the two contend for the value"
                    ),
                    "delete the rule, or the resource in the NodeFeatureRule",
                ),
            };
            let diagnostic = Diagnostic::new(severity, code, message, rule.resource_location.clone());
            report.add(diagnostic.at(rule, "spec.resourceName").hint(hint).related(location.clone(), "here"));
        }
    }

    pub(super) fn check_names(&self, report: &mut Report) {
        let mut first = HashMap::<&str, &DeclaredRule>::new();
        for rule in self.rules.iter().filter(|rule| !rule.name.is_empty()) {
            let Some(before) = first.get(rule.name.as_str()) else {
                first.insert(&rule.name, rule);
                continue;
            };
            let message = format!("another rule in these files is already named {:?}", rule.name);
            report.add(
                Diagnostic::new(Severity::Error, Code::DuplicateName, message, rule.name_location.clone())
                    .at(rule, "metadata.name")
                    .hint("the rule applied last replaces the other: give them different names")
                    .related(before.name_location.clone(), "first here"),
            );
        }
    }

    /// Only `kubectl create` accepts objects with a generated name; applying files does not.
    pub(super) fn check_nameless(&self, report: &mut Report) {
        for rule in self.rules.iter().filter(|rule| rule.name.is_empty() && rule.rule.is_some()) {
            let message = "Required value: a rule with generateName can only be created, not applied";
            let diagnostic = Diagnostic::new(Severity::Error, Code::GenerateName, message, rule.name_location.clone());
            report.add(diagnostic.at(rule, "metadata.name").hint("set metadata.name"));
        }
    }

    /// Reports one problem per rule, with the first rule that it conflicts with.
    fn check_overlaps(&self, report: &mut Report) {
        let mut groups = BTreeMap::<(&str, i32), PrecedenceGroup>::new();
        for (place, declared) in self.rules.iter().enumerate() {
            let DeclaredRule { name, rule: Some(rule), selection: Some(selection), tests, .. } = declared else {
                continue;
            };
            let candidate = Candidate { name, quantity: &rule.quantity, selection, tests };
            let peers = groups.entry((rule.resource.as_str(), rule.priority)).or_default();
            if let Some((other, overlap)) = peers.conflict(candidate)
                && let Some(other) = self.rules.get(other)
            {
                report.add(overlapping(declared, other, rule, overlap));
            }
            peers.add(candidate, place);
        }
    }

    /// Only if there is a rule: files with only pods do not show what is declared.
    fn check_requests(&self, report: &mut Report) {
        let declared: BTreeSet<&str> =
            self.rules.iter().map(|rule| rule.resource.as_str()).filter(|name| !name.is_empty()).collect();
        if declared.is_empty() {
            return;
        }
        let largest = self.largest_quantities();
        // Of a resource that is also elsewhere, a node may have more than a rule declares.
        for request in self.requests.iter().filter(|request| !self.is_elsewhere(&request.resource)) {
            let resource = request.resource.as_str();
            if declared.contains(resource) {
                let most = largest.get(resource).copied().flatten();
                if let Some(most) = most.filter(|most| request.amount > *most) {
                    report.add(request.unsatisfiable(most));
                }
                continue;
            }
            let message = format!("no rule in these files declares {resource}");
            let unprefixed = resource.strip_prefix("limits.").filter(|name| is_extended(name));
            let close = unprefixed.or_else(|| closest_resource(resource, declared.iter().copied()));
            let hint = match close {
                Some(close) => format!("did you mean {close}?"),
                None => format!(
                    "declare it with a rule; or, if a device plugin or DRA provides it, use --external {resource}"
                ),
            };
            report.add(request.warning(Code::UndeclaredResource, message, hint));
        }
    }

    /// Returns whether something other than a rule provides a resource.
    fn is_elsewhere(&self, resource: &str) -> bool {
        self.providers.contains_key(resource) || self.external.iter().any(|external| external.includes(resource))
    }

    /// Returns the largest declared quantity of each resource; `None` if an invalid rule may declare more.
    fn largest_quantities(&self) -> HashMap<&str, Option<Quantity>> {
        let mut largest = HashMap::<&str, Option<Quantity>>::new();
        for declared in &self.rules {
            let quantity = declared.rule.as_ref().map(|rule| rule.quantity.most());
            let both = |known: &mut Option<Quantity>| {
                *known = known.zip(quantity).map(|(one, other)| one.max(other));
            };
            largest.entry(&declared.resource).and_modify(both).or_insert(quantity);
        }
        largest
    }
}

impl ResourceRef {
    /// Reports a pod that requests more than any node can have, which stays pending.
    fn unsatisfiable(&self, most: Quantity) -> Diagnostic {
        let Self { resource, amount, .. } = self;
        let message = format!(
            "a pod requests {amount} of {resource} in all, and no rule in these files declares more than {most}"
        );
        let hint = "no node can run it: request less, or declare more".to_owned();
        self.warning(Code::UnsatisfiableRequest, message, hint)
    }

    fn warning(&self, code: Code, message: String, hint: String) -> Diagnostic {
        let diagnostic = Diagnostic::new(Severity::Warning, code, message, self.location.clone());
        Diagnostic {
            object: Some((self.kind.clone(), self.name.clone())),
            path: self.path.to_string(),
            ..diagnostic.hint(hint)
        }
    }
}

impl Diagnostic {
    fn at(self, rule: &DeclaredRule, path: &str) -> Self {
        let object = Some((NodeExtendedResource::kind(&()).into_owned(), rule.name.clone()));
        Self { object, path: path.to_owned(), ..self }
    }
}

fn overlapping(this: &DeclaredRule, other: &DeclaredRule, rule: &Rule, overlap: Overlap) -> Diagnostic {
    let (severity, may) = match overlap {
        Overlap::Certain => (Severity::Error, ""),
        Overlap::Possible | Overlap::Never => (Severity::Warning, "may "),
    };
    let message = format!(
        "the rules {:?} and {:?} {may}select the same nodes and declare different quantities of {} with the same priority",
        other.name, this.name, rule.resource,
    );
    let quantity = |rule: &DeclaredRule| rule.rule.as_ref().map(|rule| rule.quantity.to_string()).unwrap_or_default();
    Diagnostic::new(severity, Code::EqualPriority, message, this.quantity_location.clone())
        .at(this, "spec.priority")
        .label(format!("{} by {:?}", quantity(this), this.name))
        .related(other.quantity_location.clone(), format!("{} by {:?}", quantity(other), other.name))
        .hint("the older rule wins there: give the one that should win a higher spec.priority")
}

#[cfg(test)]
mod tests {
    use crate::manifest::{self, Files, Limits};
    use crate::validate::{Code, Validator};

    /// Returns the codes of what a validator finds in a text.
    fn codes(mut validator: Validator, text: String) -> Vec<Code> {
        manifest::read_text("a.yaml", text, &Limits::default(), &mut |document| validator.take(document));
        let report = validator.finish(Files::default());
        report.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
    }

    fn rule(name: &str, quantity: u32) -> String {
        format!(
            "apiVersion: noderesource.dev/v1alpha1\nkind: NodeExtendedResource\nmetadata: {{name: {name}}}\n\
             spec: {{resourceName: example.com/dongle, quantity: {quantity}, nodeNames: [{name}]}}\n---\n"
        )
    }

    /// Returns a Pod with these fields besides its name, and with these resources.
    fn pod(metadata: &str, resources: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod{metadata}}}\nspec: {{containers: [{{name: a, image: a, \
             resources: {{{resources}}}}}]}}\n---\n"
        )
    }

    #[test]
    fn pod_may_request_what_the_largest_rule_declares() {
        for (requested, is_found) in [(8, false), (9, true)] {
            let pod = pod("", &format!("limits: {{example.com/dongle: {requested}}}"));
            let text = rule("small", 2) + &rule("large", 8) + &rule("middle", 4) + &pod;
            let expected = if is_found { vec![Code::UnsatisfiableRequest] } else { Vec::new() };
            assert_eq!(codes(Validator::new().unwrap(), text), expected, "{requested}");
        }
    }

    #[test]
    fn pod_may_request_more_than_a_rule_declares_of_what_is_elsewhere_too() {
        let text = rule("dongle", 4) + &pod("", "limits: {example.com/dongle: 6}");
        for external in ["example.com/dongle", "example.com/*"] {
            let validator = Validator::new().unwrap().external(vec![external.parse().unwrap()]);
            assert_eq!(codes(validator, text.clone()), []);
        }
        let writer = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: a}\n\
                      spec: {rules: [{name: a, extendedResources: {example.com/dongle: '8'}}]}\n";
        assert_eq!(codes(Validator::new().unwrap(), text + writer), [Code::NodeFeatureRule]);
    }

    /// kubectl fills in the namespace that one of the two omits.
    #[test]
    fn limit_range_completes_a_pod_unless_both_name_other_namespaces() {
        let limits = |metadata: &str| {
            format!(
                "apiVersion: v1\nkind: LimitRange\nmetadata: {{name: a{metadata}}}\n\
                 spec: {{limits: [{{type: Container, default: {{example.com/dongle: 1}}}}]}}\n---\n"
            )
        };
        let (none, lab, desk) = ("", ", namespace: lab", ", namespace: desk");
        for (of_pod, of_limits, found) in [
            (none, none, &[][..]),
            (none, lab, &[]),
            (lab, none, &[]),
            (lab, lab, &[]),
            (lab, desk, &[Code::PodLimitMissing]),
        ] {
            let text = rule("dongle", 4) + &limits(of_limits) + &pod(of_pod, "requests: {example.com/dongle: 1}");
            assert_eq!(codes(Validator::new().unwrap(), text), found, "{of_pod} {of_limits}");
        }
    }
}
