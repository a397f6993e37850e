//! Names for rules. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// The longest name that is made, so that a number fits behind it: a name has at most 253 characters.
const LONGEST: usize = 200;

/// The names of rules, each of which is given once.
pub(super) struct Names {
    taken: BTreeSet<String>,
    /// How many resources have a name that is the same in lower case, without their domain.
    bases: BTreeMap<String, BTreeSet<String>>,
}

impl Names {
    /// Returns the names for rules of these resources, apart from those that are taken.
    pub(super) fn new<'s>(
        taken: impl IntoIterator<Item = &'s str>,
        resources: impl IntoIterator<Item = &'s str>,
    ) -> Self {
        let mut bases = BTreeMap::<_, BTreeSet<_>>::new();
        for resource in resources {
            bases.entry(base(resource)).or_default().insert(resource.to_owned());
        }
        Self { taken: taken.into_iter().map(str::to_owned).collect(), bases }
    }

    /// Returns a new name: that of the resource; with its domain, if several resources have the same one; with the
    /// quantity, if it is not the only one.
    pub(super) fn next(&mut self, resource: &str, quantity: Option<&str>) -> String {
        let base = base(resource);
        let is_shared = self.bases.get(&base).is_some_and(|resources| resources.len() > 1);
        let domain = resource.split('/').next().filter(|_| is_shared);
        let quantity = quantity.map(|quantity| format!("-{}", lower_case(quantity))).unwrap_or_default();
        let name = base + &quantity + &domain.map(|domain| format!(".{domain}")).unwrap_or_default();
        let name = name.get(..LONGEST).unwrap_or(&name).trim_end_matches(['-', '.']).to_owned();
        let mut free = name.clone();
        let mut number = 1;
        while !self.taken.insert(free.clone()) {
            number += 1;
            free = format!("{name}-{number}");
        }
        free
    }
}

/// Returns the name of a resource without its domain, as the name of an object.
fn base(resource: &str) -> String {
    lower_case(resource.rsplit('/').next().unwrap_or_default())
}

/// Returns the letters and digits of a text that starts and ends with one, in lower case, with hyphens in between.
fn lower_case(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::label::is_dns_subdomain;

    #[test]
    fn rule_names_are_those_of_resources_and_never_repeated() {
        let long = format!("{}/{}", "a".repeat(244), "b.".repeat(31) + "B");
        let resources = ["example.com/Big_dongle.x", "a.com/key", "b.com/key", &long, "c.com/taken"];
        let mut names = Names::new(["taken", "taken-2"], resources);
        for (resource, quantity, expected) in [
            ("example.com/Big_dongle.x", None, "big-dongle-x"),
            ("example.com/Big_dongle.x", None, "big-dongle-x-2"),
            ("example.com/Big_dongle.x", Some("800Gi"), "big-dongle-x-800gi"),
            ("a.com/key", None, "key.a.com"),
            ("b.com/key", Some("4"), "key-4.b.com"),
            ("c.com/taken", None, "taken-3"),
        ] {
            assert_eq!(names.next(resource, quantity), expected);
        }
        let other = format!("{}/{}", "c".repeat(244), "b.".repeat(31) + "B");
        let mut names = Names::new([], [long.as_str(), other.as_str()]);
        for resource in [&long, &long, &other] {
            let name = names.next(resource, Some("9223372036854775"));
            assert!(is_dns_subdomain(&name), "{name}");
        }
    }
}
