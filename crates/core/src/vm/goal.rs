//! How large a virtual machine should be, from what it tells of itself.
//!
//! The goal is the most demanding of four parts, each counted in compute units: CPU by load,
//! memory in use, memory in use with the cache that is worked with, and the working set. What the
//! guest asked for raises it, what the guest refused to give up holds it, and bounds end it.
//!
//! Always: without metrics a goal is not below what the machine has, except where its bounds are;
//! and a refusal never makes a machine larger than it is.

use alloc::vec::Vec;

use crate::units::{Bytes, ComputeUnit, Millicores, Ratio, Resource, Resources};

use super::working_set::{WorkingSet, WorkingSetRule};

/// How goals are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GoalRule {
    /// The load average that is right for one CPU.
    pub load_target: Ratio,
    /// While the loads of one and five minutes differ by less than this part of the latter, the
    /// latter counts.
    pub load_stable: Ratio,
    /// Within this part beyond that they are blended; beyond both the load of one minute counts.
    pub load_mixed: Ratio,
    /// The part of memory that should be in use.
    pub memory_target: Ratio,
    /// The part that should be in use together with the cache that is worked with.
    pub memory_total_target: Ratio,
    /// Counts as used beside what is in use: the kernel's own.
    pub memory_kernel: Bytes,
    /// The part of memory that a cache may take.
    pub cache_part: Ratio,
    /// How the working set is estimated.
    pub working_set: WorkingSetRule,
}

/// What a machine tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Metrics {
    /// The load average of one minute, in CPUs.
    pub load1: Ratio,
    /// The same of five minutes.
    pub load5: Option<Ratio>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// How much of a cache was touched within the last minute, the last two, and so on.
    pub touched: Vec<Bytes>,
}

/// Memory of a machine, as its kernel counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    /// All of it.
    pub total: Bytes,
    /// What could be had without swapping.
    pub available: Bytes,
    /// The page cache.
    pub cached: Bytes,
}

/// The least and the most a machine may have. Always `min` fits `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VmBounds {
    min: Resources,
    max: Resources,
}

/// Everything a goal depends on.
#[derive(Clone, Copy, Debug)]
pub struct GoalInput<'a> {
    /// What is counted in.
    pub unit: ComputeUnit,
    /// The least and the most.
    pub bounds: VmBounds,
    /// What the machine has.
    pub using: Resources,
    /// What it tells; nothing where that is too old or was never heard.
    pub metrics: Option<&'a Metrics>,
    /// What the guest asked for.
    pub requested: Option<Requested>,
    /// What the guest refused to give up.
    pub denied: Option<Denied>,
}

/// The guest asked for more of what is true here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requested {
    /// More CPU.
    pub cpu: bool,
    /// More memory.
    pub memory: bool,
    /// What it had when it asked.
    pub had: Resources,
}

/// The guest refused to go from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Denied {
    /// What it had.
    pub had: Resources,
    /// What it was asked to make do with.
    pub asked: Resources,
}

/// A goal, and what it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Goal {
    /// What the machine should have.
    pub amount: Resources,
    /// The same in units, before bounds and refusals.
    pub units: u64,
    /// Each part of it.
    pub parts: Parts,
    /// Which of them decided.
    pub from: GoalFrom,
    /// Whether bounds made something else of it.
    pub bounded: bool,
    /// Whether a refusal keeps it up.
    pub refused: bool,
}

/// What each part asks for, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parts {
    /// By load average.
    pub cpu: Option<u64>,
    /// By memory in use.
    pub memory: Option<u64>,
    /// By memory in use and the cache that is worked with.
    pub memory_total: Option<u64>,
    /// By the working set alone.
    pub working_set: Option<u64>,
    /// By what the guest asked for.
    pub requested: Option<u64>,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GoalFrom {
    /// The load average.
    Cpu,
    /// Memory in use.
    Memory,
    /// Memory in use and the cache that is worked with.
    MemoryTotal,
    /// The working set.
    WorkingSet,
    /// What the guest asked for.
    Requested,
    /// There are no metrics, so the machine stays as it is.
    NoMetrics,
}

// === impl GoalRule ===

impl GoalRule {
    /// The constants of the newest predecessor.
    pub const DEFAULT: Self = Self {
        load_target: Ratio::from_percent(90),
        load_stable: Ratio::ZERO,
        load_mixed: Ratio::ZERO,
        memory_target: Ratio::from_percent(75),
        memory_total_target: Ratio::from_percent(90),
        memory_kernel: Bytes::new(100 << 20),
        cache_part: Ratio::from_percent(75),
        working_set: WorkingSetRule::DEFAULT,
    };

    /// How large the machine should be.
    #[must_use]
    pub fn goal(&self, input: &GoalInput<'_>) -> Goal {
        let parts = self.parts(input);
        let (units, from) = parts.most();
        let wanted = input.unit.times(units);
        // What is not known shrinks nothing.
        let wanted = if input.metrics.is_none() { wanted.max(input.using) } else { wanted };
        let bounded = input.bounds.clamp(wanted);
        let kept = input.denied.map_or(Resources::ZERO, |denied| denied.floor(input.unit));
        let amount = bounded.max(kept);
        let (is_bounded, refused) = (bounded != wanted, amount != bounded);
        Goal { amount, units, parts, from, bounded: is_bounded, refused }
    }

    /// The load average that counts.
    #[must_use]
    pub fn load(&self, metrics: &Metrics) -> Ratio {
        let load1 = metrics.load1;
        let Some(load5) = metrics.load5 else {
            return load1;
        };
        let apart = load1.saturating_sub(load5).max(load5.saturating_sub(load1));
        let stable = self.load_stable.times_floor(load5);
        let mixed = self.load_mixed.times_floor(load5);
        if apart <= stable {
            return load5;
        }
        if apart >= stable + mixed {
            return load1;
        }
        let weight = apart.saturating_sub(stable).over(mixed);
        weight.times_floor(load1) + weight.complement().times_floor(load5)
    }

    fn parts(&self, input: &GoalInput<'_>) -> Parts {
        let unit = input.unit;
        let requested = input.requested.and_then(|requested| requested.units(unit));
        let Some(metrics) = input.metrics else {
            return Parts { requested, ..Parts::default() };
        };
        let memory = |amount: Bytes, part: Ratio| {
            let amount = Resources::new(Millicores::ZERO, over_nearest(amount, part));
            unit.count_ceil(amount, Resource::Memory)
        };
        let used = metrics
            .memory
            .map(|memory| memory.total.saturating_sub(memory.available) + self.memory_kernel);
        let working_set = self.working_set.estimate(&metrics.touched);
        let total = |WorkingSet { size, .. }: WorkingSet| {
            let cached = metrics.memory?.cached.min(size);
            Some(memory(cached + used?, self.memory_total_target))
        };
        Parts {
            cpu: Some(self.cpu_units_nearest(metrics, unit)),
            memory: used.map(|used| memory(used, self.memory_target)),
            memory_total: working_set.and_then(total),
            working_set: working_set.map(|found| memory(found.projected, self.cache_part)),
            requested,
        }
    }

    /// Load over the target, over the CPUs of a unit.
    fn cpu_units_nearest(&self, metrics: &Metrics, unit: ComputeUnit) -> u64 {
        let cpus = self.load(metrics).over(self.load_target);
        let one = Ratio::of(unit.one().cpu.get(), 1000);
        cpus.over(one).millionths().saturating_add(500_000) / 1_000_000
    }
}

/// `amount / part`, rounded to the nearest byte; the same where `part` is zero.
fn over_nearest(amount: Bytes, part: Ratio) -> Bytes {
    let (wide, part) = (u128::from(amount.get()), u128::from(part.millionths()));
    if part == 0 {
        return amount;
    }
    let nearest = (wide * u128::from(Ratio::ONE.millionths()) + part / 2) / part;
    Bytes::new(u64::try_from(nearest).unwrap_or(u64::MAX))
}

// === impl Parts ===

impl Parts {
    /// The most demanding part, and what it asks for.
    fn most(&self) -> (u64, GoalFrom) {
        let Self { cpu, memory, memory_total, working_set, requested } = *self;
        let parts = [
            (cpu, GoalFrom::Cpu),
            (memory, GoalFrom::Memory),
            (memory_total, GoalFrom::MemoryTotal),
            (working_set, GoalFrom::WorkingSet),
            (requested, GoalFrom::Requested),
        ];
        let mut most = (0, GoalFrom::NoMetrics);
        for (units, from) in parts {
            if let Some(units) = units
                && (units > most.0 || most.1 == GoalFrom::NoMetrics)
            {
                most = (units, from);
            }
        }
        most
    }
}

// === impl Requested, Denied ===

impl Requested {
    /// One unit more than it had of whatever it asked for.
    fn units(&self, unit: ComputeUnit) -> Option<u64> {
        let asked = |resource: &Resource| match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        };
        let asked = Resource::ALL.into_iter().filter(asked);
        asked.map(|resource| unit.count_floor(self.had, resource) + 1).max()
    }
}

impl Denied {
    /// One unit more than what was refused, of what would have shrunk; never more than there was.
    fn floor(&self, unit: ComputeUnit) -> Resources {
        Resources::of(|resource| {
            if self.asked.get(resource) >= self.had.get(resource) {
                return 0;
            }
            let units = unit.count_floor(self.asked, resource) + 1;
            self.had.get(resource).min(unit.times(units).get(resource))
        })
    }
}

// === impl VmBounds ===

impl VmBounds {
    /// Bounds from `min` to `max`. A max below the min is raised to it.
    #[must_use]
    pub fn new(min: Resources, max: Resources) -> Self {
        Self { min, max: max.max(min) }
    }

    /// The least.
    #[must_use]
    pub const fn min(&self) -> Resources {
        self.min
    }

    /// The most.
    #[must_use]
    pub const fn max(&self) -> Resources {
        self.max
    }

    /// `amount`, brought within the bounds.
    #[must_use]
    pub fn clamp(&self, amount: Resources) -> Resources {
        amount.max(self.min).min(self.max)
    }
}

// === impl GoalFrom ===

impl GoalFrom {
    /// Its name in messages.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::MemoryTotal => "memory_total",
            Self::WorkingSet => "working_set",
            Self::Requested => "requested",
            Self::NoMetrics => "no_metrics",
        }
    }

    /// Every one there is.
    pub const ALL: [Self; 6] = [
        Self::Cpu,
        Self::Memory,
        Self::MemoryTotal,
        Self::WorkingSet,
        Self::Requested,
        Self::NoMetrics,
    ];
}
