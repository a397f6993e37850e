//! What the operating system reports, as the rollout bench reads it.

#[allow(dead_code)] // that one reads more
#[path = "../rollout/machine.rs"]
mod shared;

pub use shared::{cores, cpu_model, load_average, memory_gib, memory_mib};
