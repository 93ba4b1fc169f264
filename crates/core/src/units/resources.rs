//! CPU and memory side by side, as virtual machines are sized, and the unit both are counted in.
//!
//! The two resources are always handled apart: an operation on [`Resources`] does the same to each
//! and never lets one stand for the other.

use core::fmt;
use core::iter::Sum;
use core::ops::Add;

use super::{Bytes, Millicores, Ratio};

/// An amount of CPU and an amount of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// CPU.
    pub cpu: Millicores,
    /// Memory.
    pub memory: Bytes,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
}

/// What virtual machines are sized in: an amount of each resource, neither of them zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputeUnit(Resources);

// === impl Resources ===

impl Resources {
    /// Nothing of either.
    pub const ZERO: Self = Self { cpu: Millicores::ZERO, memory: Bytes::ZERO };

    /// So much of each.
    #[must_use]
    pub const fn new(cpu: Millicores, memory: Bytes) -> Self {
        Self { cpu, memory }
    }

    /// How much there is of one of them, as a number.
    #[must_use]
    pub const fn get(self, resource: Resource) -> u64 {
        match resource {
            Resource::Cpu => self.cpu.get(),
            Resource::Memory => self.memory.get(),
        }
    }

    /// The same with another amount of one of them.
    #[must_use]
    pub const fn with(self, resource: Resource, amount: u64) -> Self {
        match resource {
            Resource::Cpu => Self { cpu: Millicores::new(amount), ..self },
            Resource::Memory => Self { memory: Bytes::new(amount), ..self },
        }
    }

    /// What `amount` says of each resource.
    #[must_use]
    pub fn of(mut amount: impl FnMut(Resource) -> u64) -> Self {
        Self::new(Millicores::new(amount(Resource::Cpu)), Bytes::new(amount(Resource::Memory)))
    }

    /// Whether neither is more than in `other`.
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        self.cpu <= other.cpu && self.memory <= other.memory
    }

    /// Whether there is nothing of one of them.
    #[must_use]
    pub fn lacks_one(self) -> bool {
        self.cpu == Millicores::ZERO || self.memory == Bytes::ZERO
    }

    /// The smaller of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self::new(self.cpu.min(other.cpu), self.memory.min(other.memory))
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self::new(self.cpu.max(other.cpu), self.memory.max(other.memory))
    }

    /// What is left of each after `other` is taken away; nothing where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self::new(self.cpu.saturating_sub(other.cpu), self.memory.saturating_sub(other.memory))
    }

    /// Each times its own ratio, rounded down.
    #[must_use]
    pub fn scale_floor(self, cpu: Ratio, memory: Ratio) -> Self {
        Self::new(self.cpu.scale_floor(cpu), self.memory.scale_floor(memory))
    }
}

impl Add for Resources {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.cpu + other.cpu, self.memory + other.memory)
    }
}

impl Sum for Resources {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.cpu, self.memory.in_words())
    }
}

// === impl Resource ===

impl Resource {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

// === impl ComputeUnit ===

impl ComputeUnit {
    /// A unit of so much, unless one of them is zero.
    #[must_use]
    pub fn new(one: Resources) -> Option<Self> {
        (!one.lacks_one()).then_some(Self(one))
    }

    /// What one unit is.
    #[must_use]
    pub const fn one(self) -> Resources {
        self.0
    }

    /// So many units.
    #[must_use]
    pub fn times(self, units: u64) -> Resources {
        Resources::of(|resource| self.0.get(resource).saturating_mul(units))
    }

    /// How many whole units there are in `amount` of one resource.
    #[must_use]
    pub const fn count_floor(self, amount: Resources, resource: Resource) -> u64 {
        amount.get(resource) / self.0.get(resource)
    }

    /// How many units it takes to have `amount` of one resource.
    #[must_use]
    pub const fn count_ceil(self, amount: Resources, resource: Resource) -> u64 {
        amount.get(resource).div_ceil(self.0.get(resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn both(cpu: u64, gib: u64) -> Resources {
        Resources::new(Millicores::new(cpu), Bytes::new(gib << 30))
    }

    #[test]
    fn neither_resource_stands_for_the_other() {
        assert!(both(1, 2).fits(both(1, 2)));
        assert!(!both(2, 1).fits(both(1, 9)) && !both(1, 9).fits(both(2, 1)));
        assert_eq!(both(5, 1).max(both(3, 4)), both(5, 4));
        assert_eq!(both(5, 1).min(both(3, 4)), both(3, 1));
        assert_eq!(both(5, 1).saturating_sub(both(3, 4)), both(2, 0));
        assert!(both(0, 1).lacks_one() && both(1, 0).lacks_one() && !both(1, 1).lacks_one());
    }

    #[test]
    fn units_are_counted_per_resource() {
        assert_eq!(ComputeUnit::new(both(0, 1)), None);
        let unit = ComputeUnit::new(both(250, 1)).unwrap();
        assert_eq!(unit.times(3), both(750, 3));
        assert_eq!(unit.count_floor(both(700, 3), Resource::Cpu), 2);
        assert_eq!(unit.count_ceil(both(700, 3), Resource::Cpu), 3);
        assert_eq!(unit.count_floor(both(700, 3), Resource::Memory), 3);
        assert_eq!(unit.times(u64::MAX).cpu.get(), u64::MAX);
    }

    #[test]
    fn memory_is_told_in_the_largest_unit_that_is_exact() {
        assert_eq!(both(250, 1).to_string(), "250m and 1 GiB");
        let odd = Resources::new(Millicores::new(1), Bytes::new(1536 << 20));
        assert_eq!(odd.to_string(), "1m and 1536 MiB");
        assert_eq!(Resources::ZERO.to_string(), "0m and 0 B");
    }
}
