//! Lists of names in messages.

use crate::model::count::digits;

/// How many names a message has.
const MOST: usize = 5;

/// Returns the first few names, and the number of the others.
pub(super) fn few<T: AsRef<str>>(names: &[T], separator: &str) -> String {
    let more = names.len().saturating_sub(MOST);
    let shown = names.iter().take(MOST).map(AsRef::as_ref).collect::<Vec<_>>().join(separator);
    if more > 0 { format!("{shown} and {} more", digits(more)) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_names_of_many_are_listed() {
        let names: Vec<_> = (1..2_000).map(|number| number.to_string()).collect();
        assert_eq!(few(&names, ", "), "1, 2, 3, 4, 5 and 1,994 more");
        assert_eq!(few(&names[..5], "; "), "1; 2; 3; 4; 5");
        assert_eq!(few(&names[..0], ", "), "");
    }
}
