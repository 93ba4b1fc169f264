//! Counters of the hardware: what moves through memory, and what the last cache does.
//!
//! Few virtual machines show any of them. Memory bandwidth and the occupancy of the cache come from
//! resctrl where it is mounted; bandwidth else from the memory controllers, and misses from the
//! CPUs, by perf events. What there is was found out once, when a sampler was made.

mod event;
mod perf;
mod resctrl;
mod syscall;

use std::path::Path;

use crate::counters::CacheUse;
use crate::cpu_set::CpuSet;
use crate::reading::{Seen, Unavailable};
use crate::snapshot::Source;

use self::perf::{CacheEvents, MemoryEvents};
use self::resctrl::Resctrl;

/// The counters that this machine has.
#[derive(Debug)]
pub(crate) struct Hardware {
    resctrl: Seen<Resctrl>,
    memory: Seen<MemoryEvents>,
    cache: Seen<CacheEvents>,
}

// === impl Hardware ===

impl Hardware {
    /// What there is for `cpus`, or for all where it is not said. Memory controllers serve all CPUs
    /// of a package, so they count only for a node that `is_all` of its machine.
    pub(crate) fn open(sys: &Path, cpus: Option<&CpuSet>, is_all: bool) -> Self {
        let resctrl = Resctrl::open(sys, cpus);
        let counts = resctrl.as_ref().is_ok_and(Resctrl::counts_bandwidth);
        let memory = if counts {
            // It is not needed, and every open event costs something.
            Err(Unavailable::NotSaid { what: "a second source of bandwidth" })
        } else if is_all {
            MemoryEvents::open(sys)
        } else {
            Err(Unavailable::NotOurs { what: "the memory controllers' counters" })
        };
        // A group on shared CPUs would count its neighbours.
        let cache = if is_all || cpus.is_some() {
            CacheEvents::open(sys, cpus)
        } else {
            Err(Unavailable::NotOurs { what: "the CPUs' cache counters" })
        };
        Self { resctrl, memory, cache }
    }

    /// Where bandwidth comes from.
    pub(crate) fn bandwidth_source(&self) -> Source {
        if self.memory.is_ok() { Source::PerfUncore } else { Source::Resctrl }
    }

    /// Data moved between memory and CPUs.
    pub(crate) fn memory_moved_bytes(&mut self) -> Seen<u64> {
        match (&mut self.memory, &mut self.resctrl) {
            (Ok(memory), _) => memory.moved_bytes(),
            (Err(_), Ok(resctrl)) => resctrl.memory_moved_bytes(),
            (Err(why), Err(_)) => Err(*why),
        }
    }

    /// Looks into the last cache.
    pub(crate) fn cache(&mut self) -> Seen<CacheUse> {
        self.cache.as_mut().map_err(|why| *why)?.read()
    }

    /// The part of the last cache in use.
    pub(crate) fn cache_occupied_bytes(&mut self) -> Seen<u64> {
        self.resctrl.as_mut().map_err(|why| *why)?.cache_occupied_bytes()
    }
}
