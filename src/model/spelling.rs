//! Hints for words that are probably misspelled.

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
}
