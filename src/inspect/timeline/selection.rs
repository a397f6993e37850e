//! Which labels of a node rules depend on, and which rules do not select it now.

use super::entry::{Entry, Source, When};
use super::field_owners::Owner;
use super::records::{NodeRecord, RuleObject};
use crate::model::node::Fact;

/// Returns the labels and annotations of a node that a field manager owns and that rules depend on.
pub(super) fn owned(owner: Owner<'_>, record: &NodeRecord, rules: &[RuleObject]) -> Vec<String> {
    let metadata = &record.object.metadata;
    let labels = owner.names(&["f:metadata", "f:labels"]).filter_map(|key| {
        let value = metadata.labels.as_ref().and_then(|labels| labels.get(key));
        let depends = depending(rules, |rule| depends_on_label(rule, key))?;
        Some(format!("label {key}={}{depends}", value.map(String::as_str).unwrap_or_default()))
    });
    // Its value may be a secret.
    let annotations = owner.names(&["f:metadata", "f:annotations"]).filter_map(|key| {
        let depends = depending(rules, |rule| {
            let fact = rule.rule.as_ref().and_then(|rule| rule.quantity.fact());
            matches!(fact, Some(Fact::Annotation(fact)) if **fact == *key)
        })?;
        Some(format!("annotation {key}{depends}"))
    });
    labels.chain(annotations).collect()
}

fn depends_on_label(object: &RuleObject, key: &str) -> bool {
    let Some(rule) = &object.rule else { return false };
    let is_fact = matches!(rule.quantity.fact(), Some(Fact::Label(fact)) if **fact == *key);
    is_fact || rule.selection.requirements().iter().any(|requirement| requirement.key() == key)
}

/// Returns the names of the rules that depend on something, if there are any.
fn depending(rules: &[RuleObject], depends: impl Fn(&RuleObject) -> bool) -> Option<String> {
    let names: Vec<_> = rules.iter().filter(|rule| depends(rule)).map(|rule| &*rule.name).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!(" (rule {name})")),
        names => Some(format!(" (rules {})", names.join(", "))),
    }
}

/// Returns an entry for each rule that does not select the node, which an edit or a label may have excluded.
pub(super) fn entries(record: &NodeRecord, rules: &[RuleObject]) -> Vec<Entry> {
    let excluding = rules.iter().filter_map(|object| {
        let why = object.rule.as_ref()?.selection.mismatch(&record.node)?;
        Some(Entry {
            when: When::Now,
            source: Source::Selection,
            nodes: Vec::new(),
            rule: Some(object.name.to_string()),
            who: None,
            is_warning: false,
            what: format!("does not select the node: {why}"),
            owns: Vec::new(),
        })
    });
    excluding.collect()
}
