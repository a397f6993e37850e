//! The cpu and memory of nodes and pods, and the number of pods, counted as the scheduler counts them.

use std::fmt;
use std::ops::{Add, AddAssign};

use crate::model::quantity::Quantity;

const NANOS_PER_MILLI: i128 = 1_000_000;
const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// Amounts of cpu and memory, and a number of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compute {
    /// In thousandths.
    pub cpu: i128,
    /// In bytes.
    pub memory: i128,
    /// How many pods there are, or may be.
    pub pods: i128,
}

impl Compute {
    /// Returns amounts of no pods. Rounds up, as `Quantity.MilliValue` and `Quantity.Value` do.
    #[must_use]
    pub fn new(cpu: Quantity, memory: Quantity) -> Self {
        Self { cpu: rounded(cpu, NANOS_PER_MILLI), memory: rounded(memory, NANOS_PER_UNIT), pods: 0 }
    }

    /// Returns the same with room for a number of pods: for any, if none is reported, as each kubelet does.
    #[must_use]
    pub fn with_pods(self, most: Option<Quantity>) -> Self {
        Self { pods: most.map_or(i128::MAX, |most| rounded(most, NANOS_PER_UNIT)), ..self }
    }

    /// Returns what is too little, if `free` is all there is: what is free of it, and what is requested. What is not requested
    /// is not too little.
    pub fn lacks(self, free: Self) -> impl Iterator<Item = String> {
        let is_short = |requested: i128, free: i128| requested > 0 && requested > free;
        let cpu = is_short(self.cpu, free.cpu)
            .then(|| format!("cpu: {} free, the pod requests {}", Milli(free.cpu.max(0)), Milli(self.cpu)));
        let memory = is_short(self.memory, free.memory)
            .then(|| format!("memory: {} free, the pod requests {}", Bytes(free.memory.max(0)), Bytes(self.memory)));
        let pods = is_short(self.pods, free.pods).then(|| "pods: no room for one more".to_owned());
        cpu.into_iter().chain(memory).chain(pods)
    }

    /// Returns what is left.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
            pods: self.pods.saturating_sub(other.pods),
        }
    }

    /// Returns the larger amount of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory), pods: self.pods.max(other.pods) }
    }
}

fn rounded(quantity: Quantity, unit: i128) -> i128 {
    quantity.nanos().saturating_add(unit - 1).div_euclid(unit)
}

impl Add for Compute {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
            pods: self.pods.saturating_add(other.pods),
        }
    }
}

impl AddAssign for Compute {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Thousandths of a cpu: `500m` or `2`.
struct Milli(i128);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 % 1000 == 0 { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

/// Bytes, rounded down to a tenth of a unit: `1.5Gi`.
struct Bytes(i128);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("Ti", 1_i128 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
        match units.into_iter().find(|(_, unit)| self.0 >= *unit) {
            Some((name, unit)) => match self.0 % unit * 10 / unit {
                0 => write!(f, "{}{name}", self.0 / unit),
                tenths => write!(f, "{}.{tenths}{name}", self.0 / unit),
            },
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(cpu: &str, memory: &str) -> Compute {
        Compute::new(cpu.parse().unwrap(), memory.parse().unwrap())
    }

    #[test]
    fn amounts_are_rounded_up_as_in_the_scheduler() {
        assert_eq!(compute("1", "1Ki"), Compute { cpu: 1000, memory: 1024, pods: 0 });
        assert_eq!(compute("1u", "1500m"), Compute { cpu: 1, memory: 2, pods: 0 });
    }

    #[test]
    fn only_what_is_requested_can_be_too_little() {
        let lacks = |requested: Compute, free: Compute| requested.lacks(free).collect::<Vec<_>>();
        let free = compute("500m", "1536Mi").less(compute("0", "0"));
        assert_eq!(lacks(compute("500m", "1536Mi"), free), [""; 0]);
        assert_eq!(lacks(compute("0", "0"), compute("0", "0").less(compute("1", "1"))), [""; 0]);
        let [cpu, memory] = &lacks(compute("2", "2Gi"), free)[..] else { panic!() };
        assert_eq!(cpu, "cpu: 500m free, the pod requests 2");
        assert_eq!(memory, "memory: 1.5Gi free, the pod requests 2Gi");
    }
}
