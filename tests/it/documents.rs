//! The commands in the documentation: each is run by a test, is a golden output, or says why it is not.

use std::collections::BTreeSet;

use harness::documents::{self, Marker};

/// The names of tests that run blocks: in `tests/e2e` and `tests/cluster`.
const RUNNERS: [&str; 3] = ["quick-start", "cluster", "release"];

#[test]
fn every_documented_command_is_run_or_has_a_reason() {
    let blocks = documents::blocks(&documents::pages().unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for block in &blocks {
        let place = format!("{}:{}", block.page, block.line);
        match &block.marker {
            Marker::Missing => wrong.push(format!("{place}: no comment says which test runs it")),
            Marker::NotRun(reason) if reason.len() < 10 => {
                wrong.push(format!("{place}: the reason {reason:?} is too short"));
            }
            Marker::NotRun(_) => {}
            Marker::Runs(name) => match RUNNERS.iter().find(|runner| *runner == name) {
                Some(runner) => drop(used.insert(*runner)),
                None => wrong.push(format!("{place}: there is no test {name}")),
            },
            Marker::Golden(file) => {
                let golden = crate::read(file);
                let golden = golden.rsplit_once("[exit ").map_or(&*golden, |(text, _)| text);
                if golden.trim_end() != block.text.trim_end() {
                    wrong.push(format!("{place}: it is not the text of {file}"));
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(used, RUNNERS.into_iter().collect(), "every runner has commands to run");
}
