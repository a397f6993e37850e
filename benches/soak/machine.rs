//! Data from the operating system, shared with the rollout bench.

#[allow(dead_code)] // the rollout bench uses more
#[path = "../rollout/machine.rs"]
mod shared;

pub use shared::{cores, cpu_model, load_average, memory_gib, memory_mib};
