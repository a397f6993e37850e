//! Many runs, on all cores; and the shortest story of the first that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use simulator::Seeds;

use super::choices::Choices;
use super::steps;
use super::story::Tally;

/// How many steps a run has.
const STEPS: usize = 60;
/// How long a run is shortened at most.
const MAX_SHRINK_TIME: Duration = Duration::from_secs(40);

/// What happens in any hundreds of worlds: an empty run proves nothing.
const EXPECTED: [&str; 98] = [
    "CustomResourceDefinition deleted",
    "administrator removed a value",
    "administrator removed an entry",
    "administrator removed the annotation",
    "administrator set a capacity",
    "administrator set a label",
    "administrator set a value",
    "administrator set a quantity in a label",
    "administrator set an allocatable",
    "administrator spoilt the annotation",
    "another client edited the conditions",
    "adopted",
    "advertised",
    "calm after minutes",
    "calm within a minute",
    "compaction",
    "condition false",
    "condition removed",
    "condition true",
    "device plugin changed",
    "edit beside a rejection",
    "dry run accepted",
    "dry run rejected",
    "event: adopted",
    "event: conflict",
    "event: contested",
    "event: equal priority",
    "event: held",
    "event: invalid ledger",
    "event: invalid rule",
    "event: leaving",
    "event: patch failed",
    "event: released",
    "event: repaired",
    "event: rollout stopped",
    "event: taken over",
    "event: withdrawn",
    "fault: 401",
    "fault: 403",
    "fault: 404",
    "fault: 409",
    "fault: 410",
    "fault: 413",
    "fault: 422",
    "fault: 429",
    "fault: 500",
    "fault: 503",
    "fault: 504",
    "fault: answer lost",
    "fault: applied, answered 500",
    "fault: connection refused",
    "fault: lands late",
    "fault: lost on the way",
    "fault: queued",
    "kubelet reported another allocatable",
    "kubelet reset values",
    "leadership gained",
    "leadership lost",
    "lease released",
    "list of a watch failed",
    "lowered",
    "node created",
    "node deleted",
    "patch rejected by admission",
    "patch stale",
    "pod bound",
    "pod ended",
    "policy created",
    "policy deleted",
    "process killed",
    "process paused",
    "process stopped",
    "process suspended with its clock",
    "raised",
    "released",
    "relisted",
    "repaired",
    "retries of what is rejected",
    "rule deleted",
    "rule derives its quantity",
    "rule edited",
    "rule of no or several selections",
    "rule paused",
    "rule restored",
    "rule resumed",
    "silence for ten minutes",
    "status: not ready",
    "status: quantity unknown",
    "status: ready",
    "taken over",
    "unlisted",
    "value followed its pods down beside a queue",
    "watch begins anew",
    "watch cannot list",
    "watch expired",
    "watch lags",
    "watch silent",
    "withdrawn",
];

/// What came of a run.
struct Outcome {
    violation: Option<String>,
    steps: Vec<Vec<u32>>,
    story: Vec<String>,
    tally: Tally,
}

fn run(choices: Choices, is_recorded: bool) -> Outcome {
    let recorded = choices.clone();
    let run = catch_unwind(AssertUnwindSafe(|| steps::run(choices, STEPS, is_recorded)));
    match run {
        Ok(world) => Outcome {
            violation: world.violation,
            steps: world.choices.into_steps(),
            story: world.story.lines,
            tally: world.story.tally,
        },
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            let violation = Some(format!("panic: {}", text.unwrap_or_default()));
            let steps = recorded.into_steps();
            Outcome { violation, steps, story: Vec::new(), tally: Tally::new() }
        }
    }
}

/// Runs these seeds, and panics with a story where an invariant does not hold. Returns how often what happened.
pub(super) fn check(seeds: Seeds) -> Tally {
    let started = Instant::now();
    let (total, failed) = (Mutex::new(Tally::new()), Mutex::new(None));
    let done = AtomicU64::new(0);
    let number = seeds.each(|seed| {
        let outcome = run(Choices::of_seed(seed), false);
        for (what, times) in &outcome.tally {
            *total.lock().unwrap().entry(what).or_default() += times;
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(1000) {
            println!("{done} seeds, {:.0} s", started.elapsed().as_secs_f64());
        }
        let is_well = outcome.violation.is_none();
        if !is_well {
            failed.lock().unwrap().get_or_insert((seed, outcome));
        }
        is_well
    });
    if let Some((seed, outcome)) = failed.into_inner().unwrap() {
        panic!("{}", story_of(seed, outcome));
    }
    let tally = total.into_inner().unwrap();
    for (what, times) in &tally {
        println!("{times:>12}  {what}");
    }
    let time = started.elapsed().as_secs_f64();
    let sum = |prefix: &str| -> u64 {
        let matching = tally.iter().filter(|(what, _)| what.starts_with(prefix));
        matching.map(|(_, times)| times).sum()
    };
    println!(
        "{number} seeds, {} steps, {} writes, {} faults, {:.1} seeds/s: 0 violations",
        sum("steps"),
        sum("patch applied"),
        sum("fault: "),
        number as f64 / time
    );
    tally
}

/// Fails where something that happens in any hundreds of worlds has not.
pub(super) fn check_all_happened(tally: &Tally) {
    let never: Vec<_> = EXPECTED.into_iter().filter(|what| !tally.contains_key(what)).collect();
    assert!(never.is_empty(), "never, in all these worlds: {never:?}");
}

/// The shortest story that is found of what a seed leads to.
fn story_of(seed: u64, outcome: Outcome) -> String {
    let what = outcome.violation.unwrap_or_default();
    let before = outcome.steps.len();
    let steps = shrink(outcome.steps, &what);
    let recorded = run(Choices::replay(steps), true);
    format!(
        "seed {seed}: {what}\n(shortened from {before} steps)\n{}\n{}\n\
         to repeat: make simulate SEEDS=1 SEED={seed}",
        recorded.story.join("\n"),
        recorded.violation.unwrap_or_default()
    )
}

/// Leaves out what is not needed for the same invariant to be broken.
fn shrink(mut steps: Vec<Vec<u32>>, what: &str) -> Vec<Vec<u32>> {
    let label = |what: &str| what.split(':').next().unwrap_or_default().to_owned();
    let (wanted, started) = (label(what), Instant::now());
    let fails = |steps: &[Vec<u32>]| {
        let outcome = run(Choices::replay(steps.to_vec()), false);
        outcome.violation.is_some_and(|violation| label(&violation) == wanted)
    };
    loop {
        let mut is_shorter = false;
        let mut attempt = |steps: &mut Vec<Vec<u32>>, candidate: Vec<Vec<u32>>| {
            let is_better = candidate != *steps && started.elapsed() < MAX_SHRINK_TIME && fails(&candidate);
            if is_better {
                *steps = candidate;
                is_shorter = true;
            }
            is_better
        };
        // Steps first, many at once; the first is the beginning and the last the calm.
        let mut length = steps.len() / 2;
        while length > 0 {
            let mut from = 1;
            while from + length < steps.len() {
                let mut candidate = steps.clone();
                candidate.drain(from..from + length);
                if !attempt(&mut steps, candidate) {
                    from += length;
                }
            }
            length /= 2;
        }
        // Then numbers: none from here on, or 0.
        for step in 0..steps.len() {
            for place in 0..steps[step].len() {
                let mut candidate = steps.clone();
                candidate[step].truncate(place);
                if attempt(&mut steps, candidate) {
                    break;
                }
                let mut candidate = steps.clone();
                candidate[step][place] = 0;
                attempt(&mut steps, candidate);
            }
        }
        if !is_shorter {
            return steps;
        }
    }
}
