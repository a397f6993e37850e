//! Golden runs of `guard`, in `tests/offline/guard/`; docs/slots.md describes the policies.

use std::path::PathBuf;

use crate::golden;

#[test]
fn guard_prints_the_golden_output() {
    golden::check(&golden_runs(), 4);
}

/// The golden runs, all of which a test compares.
pub fn golden_runs() -> Vec<PathBuf> {
    golden::runs(&[golden::folder("guard")])
}
