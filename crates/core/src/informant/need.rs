//! What a guest is short of, from one look to the next.
//!
//! A look costs a few small files and comes every 100 ms. Memory is short at once, CPU only where
//! it is in several looks in a row: a task that waits for a moment is no reason to grow.

use alloc::collections::VecDeque;

use crate::units::{Bytes, Millicores, Moment, Ratio, Resources};

use super::Settings;

/// One look at a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How many CPUs are online.
    pub cpus: u32,
    /// How many tasks run or want to, beside the one that looks.
    pub runnable: u32,
    /// For how long, since the guest started, some task waited for a CPU; nothing where the kernel
    /// does not count it.
    pub cpu_stalled_us: Option<u64>,
    /// The same of memory.
    pub memory_stalled_us: Option<u64>,
    /// For how long all CPUs together were idle, since the guest started.
    pub idle_us: Option<u64>,
    /// Memory.
    pub memory: Option<MemoryUse>,
    /// How often the group of workloads was held back at its limit of memory.
    pub held_back: Option<u64>,
}

/// Memory of a guest, as its kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// All of it.
    pub total: Bytes,
    /// What could be had without swapping.
    pub available: Bytes,
}

/// What more is needed of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// CPU.
    pub cpu: bool,
    /// Memory.
    pub memory: bool,
}

/// What is remembered of looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    last: Option<(Look, Moment)>,
    /// In how many looks in a row CPU was short.
    cpu_short: u32,
    needs: Needs,
    /// What was in use, the newest last, and how much there was then.
    pub(super) used: VecDeque<MemoryUse>,
    /// How many tasks wanted to run, the newest last.
    runnable: VecDeque<u32>,
}

// === impl Looks ===

impl Looks {
    pub(super) fn add(
        &mut self,
        look: Look,
        granted: Option<Resources>,
        now: Moment,
        settings: &Settings,
    ) {
        // Before the guest was stopped for a while, or moved, another time was.
        let last = self.last.filter(|(_, at)| now.since(*at) <= settings.look_valid);
        if last.is_none() {
            self.used.clear();
            self.runnable.clear();
            self.cpu_short = 0;
        }
        let since = Since { last, look: &look, now };
        let cpu = is_cpu_short(&since, granted.map(|granted| granted.cpu), settings);
        self.cpu_short = if cpu { self.cpu_short.saturating_add(1) } else { 0 };
        self.needs = Needs {
            cpu: self.cpu_short >= settings.cpu_looks,
            memory: is_memory_short(&since, settings),
        };
        self.runnable.push_back(look.runnable);
        if self.runnable.len() > settings.cpu_busy_looks {
            self.runnable.pop_front();
        }
        if let Some(memory) = look.memory {
            self.used.push_back(memory);
            if self.used.len() > settings.memory_looks {
                self.used.pop_front();
            }
        }
        self.last = Some((look, now));
    }

    pub(super) const fn needs(&self) -> Needs {
        self.needs
    }

    /// How many tasks wanted to run all of the time: the fewest of the last looks.
    pub(super) fn busy(&self) -> u32 {
        self.runnable.iter().copied().min().unwrap_or(0)
    }

    /// Whether the last look is recent enough to say anything.
    pub(super) fn is_fresh(&self, now: Moment, settings: &Settings) -> bool {
        self.last.is_some_and(|(_, at)| now.since(at) <= settings.look_valid)
    }
}

/// A look, and the one before.
struct Since<'a> {
    last: Option<(Look, Moment)>,
    look: &'a Look,
    now: Moment,
}

fn is_cpu_short(since: &Since<'_>, granted: Option<Millicores>, settings: &Settings) -> bool {
    let look = since.look;
    if look.runnable > look.cpus {
        return true;
    }
    let stalled = since.part(|look| look.cpu_stalled_us);
    if stalled.is_some_and(|part| part >= settings.cpu_stall) {
        return true;
    }
    // Who has a part of a CPU sees no queue: it stands still now and then, all at once.
    let has_a_part = granted.is_some_and(|cpu| cpu < Millicores::from_cores(look.cpus));
    let idle = since.part(|look| look.idle_us);
    has_a_part && look.runnable > 0 && idle.is_some_and(|part| part <= settings.cpu_idle)
}

fn is_memory_short(since: &Since<'_>, settings: &Settings) -> bool {
    let full = since
        .look
        .memory
        .is_some_and(|memory| memory.used() > memory.total.scale_floor(settings.memory_full));
    let stalled = since.part(|look| look.memory_stalled_us);
    let held_back = since.last.and_then(|(last, _)| last.held_back);
    let held_back = held_back.zip(since.look.held_back).is_some_and(|(then, now)| now > then);
    full || held_back || stalled.is_some_and(|part| part >= settings.memory_stall)
}

impl Since<'_> {
    /// How much of the time since the last look a counter of microseconds grew by. A counter that
    /// went back says nothing.
    fn part(&self, counter: impl Fn(&Look) -> Option<u64>) -> Option<Ratio> {
        let (last, at) = self.last.as_ref()?;
        let grew = counter(self.look)?.checked_sub(counter(last)?)?;
        let passed = self.now.since(*at).as_us();
        (passed > 0).then(|| Ratio::of(grew, passed))
    }
}

// === impl MemoryUse ===

impl MemoryUse {
    /// What is in use and cannot be had back without swapping.
    #[must_use]
    pub const fn used(&self) -> Bytes {
        self.total.saturating_sub(self.available)
    }
}

// === impl Needs ===

impl Needs {
    /// Whether it is anything.
    #[must_use]
    pub const fn any(self) -> bool {
        self.cpu || self.memory
    }
}
