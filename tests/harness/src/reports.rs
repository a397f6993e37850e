//! Reads the reports of `validate` as CI systems do.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use roxmltree::{Document, Node};

/// A test case of a JUnit report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The file that it is about.
    pub file: String,
    /// The attribute `message` of a failure or an error.
    pub message: Option<String>,
    /// The text of its result; empty for a case that passes.
    pub text: String,
}

/// Returns the test cases of a JUnit report.
///
/// # Errors
/// If it is not XML, or its counts are wrong.
pub fn junit(xml: &str) -> anyhow::Result<Vec<Case>> {
    let document = Document::parse(xml)?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let cases: Vec<_> = cases.map(case).collect::<anyhow::Result<_>>()?;
    let count = document.root_element().attribute("tests").context("a number of tests")?;
    ensure!(count.parse() == Ok(cases.len()), "{count} tests, and {} cases", cases.len());
    Ok(cases)
}

fn case(case: Node<'_, '_>) -> anyhow::Result<Case> {
    let file = case.attribute("classname").context("a case without a class")?.to_owned();
    let result = case.children().find(Node::is_element);
    let message = result.and_then(|result| result.attribute("message")).map(str::to_owned);
    let text = result.and_then(|result| result.text()).unwrap_or_default().to_owned();
    Ok(Case { file, message, text })
}

/// A workflow command of GitHub Actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// `error`, `warning` or `notice`.
    pub command: String,
    /// Such as `file` and `line`.
    pub properties: BTreeMap<String, String>,
    /// The text.
    pub message: String,
}

/// Returns the workflow commands in an output, and the lines that are none: GitHub's `ActionCommand.TryParseV2`.
///
/// # Errors
/// If a command has a property without a value.
pub fn annotations(output: &str) -> anyhow::Result<(Vec<Annotation>, Vec<&str>)> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    // The runner reads lines like .NET, for which a lone \r ends one too.
    for line in output.split(['\r', '\n']).filter(|line| !line.is_empty()) {
        match line.strip_prefix("::").and_then(|rest| rest.split_once("::")) {
            Some((command, message)) => found.push(annotation(command, message)?),
            None => others.push(line),
        }
    }
    Ok((found, others))
}

fn annotation(command: &str, message: &str) -> anyhow::Result<Annotation> {
    let (command, properties) = command.split_once(' ').unwrap_or((command, ""));
    let properties = properties.split(',').filter(|property| !property.is_empty()).map(|property| {
        let (name, value) = property.split_once('=').with_context(|| format!("{property:?} has no value"))?;
        Ok((name.to_owned(), unescaped(&value.replace("%3A", ":").replace("%2C", ","))))
    });
    let properties = properties.collect::<anyhow::Result<_>>()?;
    Ok(Annotation { command: command.to_owned(), properties, message: unescaped(message) })
}

fn unescaped(text: &str) -> String {
    text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
}
