//! Hints for words that are probably misspelled.

use super::resource_name::without_ignored_prefix;

/// Returns the known word that `word` was probably meant to be.
#[must_use]
pub fn closest<'t>(word: &str, known: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
    const LONGEST: usize = 100;
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let most = (word.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|known| (strsim::damerau_levenshtein(&word, &known.to_lowercase()), known));
    distances.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// Returns the known resource that `name` was probably meant to be: the domain and the rest are compared separately,
/// since a long domain would make all its names similar. Names that differ in their numbers only belong to one family,
/// such as `mig-1g.5gb` and `mig-2g.10gb`, `ttyUSB0` and `ttyUSB1`: each is meant as it is. A prefix of keys of quotas, such as
/// `limits.`, is no part of a name.
#[must_use]
pub fn closest_resource<'t>(name: &str, known: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
    let Some((domain, rest)) = name.split_once('/') else {
        return without_domain(name, known);
    };
    let is_close = |one: &str, other: &str| one == other || closest(one, [other]).is_some();
    let unprefixed = name.strip_prefix("requests.").or_else(|| without_ignored_prefix(name));
    let alike = known.into_iter().filter(|known| {
        let is_prefixed = unprefixed == Some(*known);
        is_prefixed
            || known.split_once('/').is_some_and(|(known_domain, known_rest)| {
                is_close(domain, known_domain) && is_close(rest, known_rest) && !is_of_one_family(rest, known_rest)
            })
    });
    alike.min_by_key(|known| (unprefixed != Some(*known), strsim::damerau_levenshtein(name, known)))
}

/// Returns the only known resource with this name in some domain.
fn without_domain<'t>(name: &str, known: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
    let mut found = known.into_iter().filter(|known| known.split_once('/').is_some_and(|(_, rest)| rest == name));
    found.next().filter(|_| found.next().is_none())
}

/// Returns the node that `name` was probably meant to be. Names of nodes resemble each other by design, so that only a slip
/// counts that does not make one of them another: a letter too many, one too few, two in the wrong order, and a domain
/// that one of them lacks.
#[must_use]
pub fn node_with_a_slip<'t>(name: &str, nodes: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
    let host = |name: &str| name.split('.').next().unwrap_or_default().len();
    let lacks_domain = |node: &str| {
        let (short, long) = if name.len() < node.len() { (name, node) } else { (node, name) };
        short.len() == host(long) && long.starts_with(short) && short != long
    };
    let alike = nodes.into_iter().filter(|node| lacks_domain(node) || is_slip(name.as_bytes(), node.as_bytes()));
    alike.min_by_key(|node| (!lacks_domain(node), *node))
}

/// Returns whether a letter is too many or too few, or two are in the wrong order, in a word that is long enough:
/// `pool-l` and `pool-xl` are two names. Numbers are meant as they are, and so is a letter after one.
fn is_slip(one: &[u8], other: &[u8]) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let at = short.iter().zip(long).take_while(|(short, long)| short == long).count();
    if long.len() - short.len() > 1 || !is_in_word(long, at) {
        return false;
    }
    match (&short[at..], &long[at..]) {
        ([first, second, rest @ ..], [second_of_long, first_of_long, rest_of_long @ ..])
            if short.len() == long.len() =>
        {
            first.is_ascii_alphabetic() && (first, second, rest) == (first_of_long, second_of_long, rest_of_long)
        }
        (rest, [_, rest_of_long @ ..]) => rest == rest_of_long,
        _ => false,
    }
}

/// Returns whether a name has a letter here, in a word of at least five letters, and one that is missing.
fn is_in_word(name: &[u8], at: usize) -> bool {
    const SHORTEST: usize = 5;
    let is_letter = |byte: &&u8| byte.is_ascii_alphabetic();
    let Some((before, after)) = name.split_at_checked(at) else { return false };
    let (before, after) = (before.iter().rev().take_while(is_letter), after.iter().take_while(is_letter));
    let after = after.count();
    after > 0 && before.count() + after > SHORTEST
}

/// Returns whether two names differ as those of one family do: in their numbers, by a part at an end, or in words that are
/// so short that another letter makes another word, such as `gpu` and `npu`.
fn is_of_one_family(one: &str, other: &str) -> bool {
    const SHORTEST: usize = 5;
    let letters = |name: &str| name.replace(|char: char| char.is_ascii_digit(), "");
    if one == other || letters(one) == letters(other) {
        return one != other;
    }
    let separates = |char: char| !char.is_ascii_alphanumeric();
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    if long.strip_prefix(short).is_some_and(|rest| rest.starts_with(separates))
        || long.strip_suffix(short).is_some_and(|rest| rest.ends_with(separates))
    {
        return true;
    }
    let words = |name: &str| {
        let words = name.split(|char: char| !char.is_ascii_alphabetic()).map(str::to_lowercase);
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>()
    };
    let sorted = |word: &str| {
        let mut letters: Vec<_> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let (one, other) = (words(one), words(other));
    let mut differing = one.iter().zip(&other).filter(|(one, other)| one != other).peekable();
    let is_plural = |one: &str, other: &str| one.strip_suffix('s') == Some(other);
    let is_short = |(one, other): (&String, &String)| {
        let is_meant = sorted(one) == sorted(other) || is_plural(one, other) || is_plural(other, one);
        one.len().max(other.len()) < SHORTEST && !is_meant
    };
    one.len() == other.len() && differing.peek().is_some() && differing.all(is_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestion_is_given_only_for_a_similar_word() {
        let fields = ["quantity", "priority", "nodeNames", "nodeSelector"];
        for (word, close) in [
            ("quantities", Some("quantity")),
            ("nodenames", Some("nodeNames")),
            ("nodeSelectors", Some("nodeSelector")),
            ("prioritys", Some("priority")),
            ("replicas", None),
            ("q", None),
            ("", None),
        ] {
            assert_eq!(closest(word, fields), close, "{word}");
        }
        assert_eq!(closest(&"x".repeat(1 << 20), fields), None);
    }

    /// Names of other nodes of a cluster are no misspellings.
    #[test]
    fn node_is_suggested_only_for_a_slip() {
        let nodes = [
            "edge-dublin",
            "edge-munich",
            "worker-d",
            "gke-a-5f3c1d2e-l22k",
            "pool-xl",
            "worker-ii",
            "ip-10-0-1-24.ec2.internal",
            "n1",
            "node-21",
            "workera1",
            "rack-western.example.com",
            "rack-western.a.example.com",
            "rack-westen",
        ];
        for (name, meant) in [
            ("edge-munch", Some("edge-munich")),
            ("edge-munnich", Some("edge-munich")),
            ("edge-mnuich", Some("edge-munich")),
            ("edeg-munich", None),
            ("edge-munichs", Some("edge-munich")),
            ("edge-munich.example.com", Some("edge-munich")),
            ("ip-10-0-1-24", Some("ip-10-0-1-24.ec2.internal")),
            ("rack-western", Some("rack-western.a.example.com")),
            ("worker1a", None),
            ("edge-berlin", None),
            ("edge-munich-2", None),
            ("worker-b", None),
            ("pool-l", None),
            ("worker-i", None),
            ("worker-", None),
            ("worker-dd", None),
            ("node-21b", None),
            ("nde-21", None),
            ("gke-a-5f3c1d2e-w22t", None),
            ("ip-10-0-1-24.us.internal", None),
            ("ip-10-0-1-2", None),
            ("node-12", None),
            ("node-2", None),
            ("node-211", None),
            ("n", None),
            ("", None),
        ] {
            assert_eq!(node_with_a_slip(name, nodes), meant, "{name}");
        }
        assert_eq!(node_with_a_slip("worker-d", ["worker-d"]), None);
    }

    #[test]
    fn resource_of_the_same_domain_is_suggested_only_for_a_similar_name() {
        let known = [
            "example.com/dongle",
            "example.com/fpga",
            "example.org/dongle",
            "nvidia.com/mig-1g.5gb",
            "example.com/ttyUSB0",
        ];
        for (name, close) in [
            ("example.com/dongel", Some("example.com/dongle")),
            ("exmaple.com/dongles", Some("example.com/dongle")),
            ("example.com/key", None),
            ("nvidia.com/mig-2g.10gb", None),
            ("nvida.com/mig-1g.5gb", Some("nvidia.com/mig-1g.5gb")),
            ("example.com/ttyUSB1", None),
            ("example.com/tyUSB1", Some("example.com/ttyUSB0")),
            ("nvidia.com/mig-1g.5gb.me", None),
            ("example.com/npga", None),
            ("example.com/fgpa", Some("example.com/fpga")),
            ("example.com/dongle-a", None),
            ("example.com/my-dongle", None),
            ("example.com/Dongle", Some("example.com/dongle")),
            ("example.com/fpgas", Some("example.com/fpga")),
            ("nvidia.com/mig_1g.5gb", Some("nvidia.com/mig-1g.5gb")),
            ("example.com/dongles", Some("example.com/dongle")),
            ("example.com/gpu", None),
            ("limits.example.com/dongle", Some("example.com/dongle")),
            ("request.example.com/dongle", Some("example.com/dongle")),
            ("limits.example.com/license", None),
            ("example.com/license", None),
            ("dongle", None),
            ("fpga", Some("example.com/fpga")),
            ("/", None),
        ] {
            assert_eq!(closest_resource(name, known), close, "{name}");
        }
    }
}
