//! Random worlds: the reconciler that ships, several times over, on a model of the API server, beside all who write to
//! nodes and rules, with faults at every request and every watch.
//!
//! ```text
//!  actors ──▶ ┌────────────┐ ─▶ streams (lag, break, relist) ─▶ ┌───────────────────┐
//!             │ API server │                                    │ reconciler, 1 to 3 │
//!   checks ◀─ └────────────┘ ◀─ network (lost, late, rejected) ─ └───────────────────┘
//! ```
//!
//! Every choice comes from a seed. A run that breaks an invariant is shortened, and printed as a story.

mod actors;
mod calm;
mod checks;
mod choices;
mod confinement;
mod events;
mod gitops;
mod network;
mod notes;
mod pods;
mod process;
mod queue;
mod reports;
mod responses;
mod run;
mod service;
mod steps;
mod story;
mod stream;
mod world;

use simulator::Seeds;

/// As many as unoptimized code gets through within a minute: the same ones in every run, and others.
const SEEDS: u64 = 400;
const VARIED_SEEDS: u64 = 100;

/// For `make check`.
#[test]
fn twenty_random_worlds_keep_the_invariants() {
    run::check(Seeds::only(0..20));
}

#[test]
fn random_worlds_keep_the_invariants() {
    let tally = run::check(Seeds::new(0..SEEDS, VARIED_SEEDS));
    run::check_all_happened(&tally);
}

/// Requests wait for two seconds before they are processed, for five minutes.
#[test]
fn overload_does_not_move_leadership() {
    for seed in 0..20 {
        assert_eq!(steps::changes_of_leadership_under_overload(seed), 0, "seed {seed}");
    }
}

/// `make simulate`
#[test]
#[ignore = "runs SEEDS worlds"]
fn many_random_worlds_keep_the_invariants() {
    let number = |name, default| std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SEED", 0), number("SEEDS", 10_000));
    let tally = run::check(Seeds::only(first..first + count));
    if count >= SEEDS {
        run::check_all_happened(&tally);
    }
}
