//! The question before values are withdrawn that the user has not named one by one.

use std::io::{self, BufRead, IsTerminal as _, Write};

use super::nodes::PrunePlan;
use crate::model::count::plural;

/// The answer that confirms.
const YES: &str = "yes";

/// Returns whether there is a terminal to ask on.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal whether to go on.
///
/// # Errors
/// If the terminal cannot be read.
pub(super) fn ask(question: &str) -> io::Result<bool> {
    let mut input = io::stdin().lock();
    is_confirmed(question, &mut input, &mut io::stderr().lock())
}

/// Returns the question about a plan.
pub(super) fn question(plan: &PrunePlan) -> String {
    let changes: usize = plan.planned.iter().map(|planned| planned.changes().len()).sum();
    let nodes = plan.planned.len();
    format!("this makes {} on {nodes} of {}", plural(changes, "change", "changes"), plural(plan.nodes, "node", "nodes"))
}

fn is_confirmed(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<bool> {
    write!(output, "{question}. Type {YES} to continue: ")?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(answer.trim() == YES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_confirms() {
        for (typed, expected) in [("yes\n", true), (" yes \n", true), ("y\n", false), ("no\n", false), ("", false)] {
            let mut output = Vec::new();
            assert_eq!(is_confirmed("this makes 2 changes", &mut typed.as_bytes(), &mut output).unwrap(), expected);
            let output = String::from_utf8(output).unwrap();
            assert_eq!(output, "this makes 2 changes. Type yes to continue: ", "{typed:?}");
        }
    }
}
