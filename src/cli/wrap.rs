//! Text in lines for a terminal of 80 columns.

pub(super) const WIDTH: usize = 80;

/// Returns a text in lines of at most 80 columns, each after an indent. A word that is longer has a line of its own.
pub(super) fn wrapped(text: &str, indent: &str) -> Vec<String> {
    let mut lines = Vec::<String>::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_column_81() {
        let word = "x".repeat(38);
        assert_eq!(wrapped(&format!("{word} {word}"), "   "), [format!("   {word} {word}")]);
        assert_eq!(wrapped(&format!("{word} {word}y"), "   "), [format!("   {word}"), format!("   {word}y")]);
        let long = "ö".repeat(90);
        assert_eq!(wrapped(&format!("a {long} b"), " "), [" a".to_owned(), format!(" {long}"), " b".to_owned()]);
        assert!(wrapped(" ", " ").is_empty());
    }
}
