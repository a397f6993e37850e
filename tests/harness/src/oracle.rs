//! What Kubernetes' own parsers return, from `tests/controlplane/oracle`.

// For tests, which fail with a panic.
#![allow(clippy::expect_used)]

use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::control_plane_program;

/// A running oracle, for one input at a time.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the oracle.
    ///
    /// # Panics
    /// Panics if it is not built.
    #[must_use]
    pub fn start(mode: &str) -> Self {
        let mut child = spawn(mode);
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, stdin, stdout }
    }

    /// Returns the oracle's result for one input.
    ///
    /// # Panics
    /// Panics if it fails.
    pub fn ask(&mut self, input: &str) -> Value {
        let mut line = Value::from(input).to_string();
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).expect("the oracle reads");
        line.clear();
        self.stdout.read_line(&mut line).expect("the oracle writes");
        serde_json::from_str(&line).expect("a result is JSON")
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The oracle may have ended already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn spawn(mode: &str) -> Child {
    Command::new(control_plane_program("oracle").expect("the oracle is built"))
        .arg(mode)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the oracle starts")
}

/// Returns the oracle's result for each input.
///
/// # Panics
/// Panics if the oracle is not built, or fails.
#[must_use]
pub fn ask(mode: &str, inputs: &[String]) -> Vec<Value> {
    let mut child = spawn(mode);
    let mut stdin = BufWriter::new(child.stdin.take().expect("stdin is piped"));
    let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    // Writing needs its own thread, because the pipes cannot hold all the data.
    let results: Vec<Value> = thread::scope(|scope| {
        scope.spawn(move || {
            for input in inputs {
                serde_json::to_writer(&mut stdin, input).expect("the oracle reads");
                stdin.write_all(b"\n").expect("the oracle reads");
            }
            stdin.flush().expect("the oracle reads");
        });
        let lines = stdout.lines().map(|line| line.expect("the oracle writes"));
        lines.map(|line| serde_json::from_str(&line).expect("a result is JSON")).collect()
    });
    assert!(child.wait().expect("the oracle ends").success());
    assert_eq!(results.len(), inputs.len());
    results
}

/// Returns, for each text, whether Kubernetes reads it as a whole number from 1 to 9223372036854775.
///
/// # Panics
/// Panics if the oracle is not built, or fails.
#[must_use]
pub fn whole_quantities(texts: &[String]) -> Vec<bool> {
    let whole = |result: Value| {
        let number = result["value"].as_str()?;
        let (units, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = fraction.bytes().all(|digit| digit == b'0');
        Some(whole && (1..=i64::MAX / 1000).contains(&units.parse::<i64>().ok()?))
    };
    ask("quantity", texts).into_iter().map(|result| whole(result).unwrap_or(false)).collect()
}
