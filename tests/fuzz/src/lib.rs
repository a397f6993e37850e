//! Fuzz targets: each is a function that panics if bytes from outside break a guarantee of the program.
//!
//! ```text
//! corpus/<target>/ ─┬─▶ inputs: by seeds ───────────────▶ Target::check    `cargo test`
//!                   └─▶ libFuzzer: guided by coverage ───▶ Target::check    `make fuzz`
//! ```
//!
//! Add an input that finds a fault to the corpus, under a name that describes the fault. `hack/fuzz.sh` explains how to
//! reproduce it.

// For tests, which fail with a panic.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod inputs;
mod ledger;
mod limits;
mod manifest;
mod names;
mod nodes;
mod planner;
mod protobuf;
mod quantity;
mod responses;
mod yaml;

use simulator::seeds::{self, Budget};

/// Code that accepts bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name, which is also that of the corpus, without `-oracle`.
    pub name: &'static str,
    check: fn(&[u8]),
    /// Whether its inputs are read as text, or drawn from by a generator.
    is_text: bool,
}

/// The targets without dependencies.
pub const ALONE: [Target; 6] = [
    Target { name: "ledger", check: ledger::check, is_text: true },
    Target { name: "manifest", check: manifest::check, is_text: true },
    Target { name: "planner", check: planner::check, is_text: false },
    // No text, but random inputs would hardly ever be messages, unlike changed ones of the corpus.
    Target { name: "protobuf", check: protobuf::check, is_text: true },
    Target { name: "quantity", check: quantity::check, is_text: true },
    Target { name: "response", check: responses::check, is_text: true },
];

/// The targets that compare with Kubernetes' own parsers (`tests/controlplane/oracle`).
pub const WITH_ORACLE: [Target; 3] = [
    Target { name: "manifest-oracle", check: yaml::compare, is_text: true },
    Target { name: "names-oracle", check: names::check, is_text: true },
    Target { name: "quantity-oracle", check: quantity::compare, is_text: true },
];

impl Target {
    /// Returns the target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        ALONE.into_iter().chain(WITH_ORACLE).find(|target| target.name == name)
    }

    /// Checks one input.
    ///
    /// # Panics
    /// Panics if the input breaks a guarantee, and prints the input.
    pub fn check(self, bytes: &[u8]) {
        let _printed = OnPanic { name: self.name, bytes };
        (self.check)(bytes);
    }
}

/// Checks the corpus of a target, then this number of inputs more, a fifth of which vary from run to run, and then others
/// while there is time left.
///
/// # Panics
/// Panics if an input breaks a guarantee, or if the target or its corpus does not exist.
pub fn check_inputs(target: &str, least: usize) {
    let target = Target::named(target).expect("a target of this name");
    let corpus = inputs::corpus(target.name.trim_end_matches("-oracle"));
    corpus.iter().for_each(|bytes| target.check(bytes));
    let (budget, mut checked) = (Budget::from_env(), 0);
    for (count, rng) in seeds::random(1, least) {
        let mut inputs = inputs::random(rng, &corpus, target.is_text);
        inputs.by_ref().take(count).for_each(|bytes| target.check(&bytes));
        checked += count;
        if checked >= least {
            for bytes in inputs.take_while(|_| budget.is_left()) {
                target.check(&bytes);
                checked += 1;
            }
        }
    }
    println!("{}: {} inputs of the corpus, {checked} others", target.name, corpus.len());
}

/// Checks the corpus of a target, then this number of other inputs, the same in every run: for a target whose last
/// differences only `make fuzz` may find.
///
/// # Panics
/// Panics if an input breaks a guarantee, or if the target or its corpus does not exist.
pub fn check_same_inputs(target: &str, count: usize) {
    let target = Target::named(target).expect("a target of this name");
    let corpus = inputs::corpus(target.name.trim_end_matches("-oracle"));
    corpus.iter().for_each(|bytes| target.check(bytes));
    let inputs = inputs::random(fastrand::Rng::with_seed(1), &corpus, target.is_text);
    inputs.take(count).for_each(|bytes| target.check(&bytes));
    println!("{}: {} inputs of the corpus, {count} others", target.name, corpus.len());
}

/// Prints the input of a check that panics.
struct OnPanic<'a> {
    name: &'static str,
    bytes: &'a [u8],
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fails with the input b\"{}\"", self.name, self.bytes.escape_ascii());
        }
    }
}
