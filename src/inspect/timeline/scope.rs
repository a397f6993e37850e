//! What a timeline is about.

use k8s_openapi::api::core::v1::Event;

use super::records::RuleObject;
use crate::model::ledger::Ledger;

/// One node, one rule, one resource, or what several of them have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Without it, all nodes.
    pub(crate) node: Option<String>,
    /// Without it, all rules.
    pub(crate) rule: Option<String>,
    /// Without it, all resources.
    pub(crate) resource: Option<String>,
}

impl Scope {
    /// Returns whether it is about everything on one node.
    pub(super) fn is_whole_node(&self) -> bool {
        self.rule.is_none() && self.resource.is_none()
    }

    /// Returns whether it is about a rule that declares this resource, if it is known.
    pub(crate) fn has_rule(&self, name: &str, declares: Option<&str>) -> bool {
        self.rule.as_deref().is_none_or(|rule| rule == name)
            && self.resource.as_deref().is_none_or(|resource| declares == Some(resource))
    }

    /// Returns whether it is about a resource on a node with this ledger. A rule that is gone is known by ledgers.
    pub(super) fn has_resource(&self, resource: &str, ledger: &Ledger, rules: &[RuleObject]) -> bool {
        let of_rule = |name: &String| {
            let mut present = rules.iter().filter(|rule| *rule.name == **name);
            let recorded = || ledger.get(resource).is_some_and(|entry| entry.rule == *name);
            present.any(|rule| rule.resource() == Some(resource)) || recorded()
        };
        self.resource.as_deref().is_none_or(|one| one == resource) && self.rule.as_ref().is_none_or(of_rule)
    }

    /// Returns whether an Event about this rule, if it is about one, concerns it. A rule that is gone declared what its
    /// Events name.
    pub(super) fn has_event(&self, event: &Event, rule: Option<&str>, rules: &[RuleObject]) -> bool {
        if self.is_whole_node() {
            return true;
        }
        let names = |resource: &str| event.message.as_deref().is_some_and(|message| has_word(message, resource));
        let declares = rule.and_then(|name| rules.iter().find(|rule| *rule.name == *name)?.resource());
        let resource = self.resource.as_deref();
        let of_resource = resource.is_none_or(|resource| declares == Some(resource) || names(resource));
        let of_rule = self.rule.is_none() || rule == self.rule.as_deref();
        of_rule && of_resource
    }
}

/// Returns whether a text has a name that is no part of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
    text.match_indices(name).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + name.len()..]);
        // A period after the name ends the sentence.
        let after = after.strip_prefix('.').unwrap_or(after);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_in_a_message_is_no_part_of_a_longer_name() {
        for (text, has) in [
            ("Repaired example.com/a on node-1", true),
            ("example.com/a", true),
            ("of example.com/a.", true),
            ("example.com/a: 9 -> 4", true),
            ("example.com/a-b is 4", false),
            ("an.example.com/a", false),
            ("example.com/a.b", false),
            ("", false),
        ] {
            assert_eq!(has_word(text, "example.com/a"), has, "{text}");
        }
    }
}
