//! Golden runs of `autoscaler`, in `tests/offline/autoscaler/`; docs/autoscalers.md and docs/karpenter.md show some.

use std::path::PathBuf;

use crate::golden;

#[test]
fn autoscaler_prints_the_golden_output() {
    golden::check(&golden_runs(), 30);
}

/// The golden runs, all of which a test compares.
pub fn golden_runs() -> Vec<PathBuf> {
    golden::runs(&[golden::folder("autoscaler")])
}
