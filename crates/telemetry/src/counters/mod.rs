//! Everything that is counted on a node at one moment, and what two such moments say together.
//!
//! The sampler fills [`Counters`]; [`figures`] makes figures of two of them and of nothing else, so
//! that every rule about resets, gaps and devices that come and go is tried without a machine.
//! What comes in lists is compared one by one: a disk, an interface, a CPU or a group that was not
//! there before has no past, and one that is gone says nothing.

use walras_core::units::Moment;

use crate::histogram::Histogram;
use crate::metric::{METRICS, Metric};
use crate::parse::{CpuTimes, Disk, Interface};
use crate::rate::{count, moved, seconds_between, share};
use crate::reading::{Reading, Seen, Unavailable};

const GIGABYTE: f64 = 1e9;
const MEBIBYTE: f64 = 1_048_576.0;

/// Things of one kind that were counted, in an order that stays the same.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    seen: Seen<()>,
    items: Vec<T>,
}

/// How often one group met its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// The group's number, which no other group has.
    pub group: u64,
    /// Periods in which it did.
    pub periods: u64,
    /// Whether it was made since the last look, so that all of its periods are new.
    pub fresh: bool,
}

/// CPU time that a group used, where the CPUs themselves are shared with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCpu {
    /// Since it was made.
    pub used_us: u64,
    /// How many CPUs it could use at once.
    pub cpus: u32,
}

/// Memory in use, of how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// In use, or not available.
    pub used_bytes: u64,
    /// All there is.
    pub total_bytes: u64,
}

/// Looks into the last cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// All of them.
    pub looks: u64,
    /// Those that found nothing.
    pub misses: u64,
}

/// What a node counted until one moment.
#[derive(Clone, Debug)]
pub struct Counters {
    /// The moment, on a clock that never steps back.
    pub at: Moment,
    /// What each CPU did.
    pub cpus: Listed<CpuTimes>,
    /// In its place, where the node is a group on CPUs that it shares.
    pub group_cpu: Option<Seen<GroupCpu>>,
    /// How often groups met their quota.
    pub throttled: Listed<Throttled>,
    /// Memory.
    pub memory: Seen<MemoryUse>,
    /// What disks did.
    pub disks: Listed<Disk>,
    /// In the place of their number of requests, where the node is a group.
    pub group_operations: Option<Seen<u64>>,
    /// What interfaces did.
    pub interfaces: Listed<Interface>,
    /// How often CPUs changed tasks.
    pub switches: Seen<u64>,
    /// Time in which somebody waited for CPU, memory and disks, in microseconds.
    pub stalled_us: [Seen<u64>; 3],
    /// Data moved between memory and CPUs.
    pub memory_moved_bytes: Seen<u64>,
    /// Looks into the last cache.
    pub cache: Seen<CacheUse>,
    /// The part of the last cache in use.
    pub cache_occupied_bytes: Seen<u64>,
    /// Waits for a CPU.
    pub run_queue: Seen<Histogram>,
    /// Requests to disks.
    pub block: Seen<Histogram>,
    /// Packets that the kernel threw away.
    pub freed: Seen<u64>,
}

/// What was measured between two moments, in the order of [`Metric::ALL`]. What is known by other
/// means than counters, such as the cost, is not said.
#[must_use]
pub fn figures(older: Option<&Counters>, newer: &Counters) -> [Reading; METRICS] {
    let mut figures = [Reading::Unavailable(Unavailable::FirstLook); METRICS];
    let mut put = |metric: Metric, seen: Seen<f64>| {
        if let Some(place) = figures.get_mut(metric.place()) {
            *place = Reading::from(seen);
        }
    };
    for metric in [Metric::CostIndex, Metric::Spot, Metric::InterruptionRisk, Metric::ZoneDiversity]
    {
        put(metric, Err(Unavailable::NotSaid { what: metric.name() }));
    }
    put(Metric::MemoryUtilization, newer.memory.map(|it| share(it.used_bytes, it.total_bytes)));
    put(Metric::CacheOccupancy, newer.cache_occupied_bytes.map(|it| count(it) / MEBIBYTE));
    let pair = Pair::of(older, newer);
    put(Metric::CpuUtilization, pair.cpu());
    put(Metric::CpuThrottleRate, pair.throttled());
    put(Metric::MemoryBandwidth, pair.bandwidth());
    put(Metric::CacheMissRate, pair.cache());
    let disk = pair.disk();
    put(Metric::DiskWait, disk.map(|it| it.wait_ms));
    put(Metric::DiskOperations, pair.operations(disk));
    let net = pair.net();
    put(Metric::PacketsReceived, net.map(|it| it.received));
    put(Metric::PacketsSent, net.map(|it| it.sent));
    put(Metric::PacketDropRate, net.map(|it| it.dropped));
    let run_queue = pair.histogram("run-queue latency", |it| it.run_queue.as_ref());
    put(Metric::RunQueueMean, run_queue.map(|it| it.mean_us()));
    put(Metric::RunQueueTail, run_queue.map(|it| it.quantile_us(0.99)));
    let block = pair.histogram("block latency", |it| it.block.as_ref());
    put(Metric::BlockMean, block.map(|it| it.mean_us()));
    put(Metric::BlockTail, block.map(|it| it.quantile_us(0.99)));
    put(Metric::ContextSwitches, pair.rate("context switches", |it| it.switches));
    put(Metric::PacketsFreed, pair.rate("dropped packets", |it| it.freed));
    let [cpu, memory, io] = [0, 1, 2].map(|place| pair.stalled(place));
    put(Metric::CpuPressure, cpu);
    put(Metric::MemoryPressure, memory);
    put(Metric::IoPressure, io);
    figures
}

/// Two looks, or one of them.
struct Pair<'a> {
    older: Option<&'a Counters>,
    newer: &'a Counters,
    seconds: Seen<f64>,
}

/// What disks did in a time.
#[derive(Clone, Copy, Debug)]
struct DiskFigures {
    wait_ms: f64,
    per_second: f64,
}

/// What interfaces did in a time.
#[derive(Clone, Copy, Debug)]
struct NetFigures {
    received: f64,
    sent: f64,
    dropped: f64,
}

// === impl Listed ===

impl<T> Listed<T> {
    /// Nothing, for this reason.
    #[must_use]
    pub const fn missing(why: Unavailable) -> Self {
        Self { seen: Err(why), items: Vec::new() }
    }

    /// These.
    #[must_use]
    pub const fn of(items: Vec<T>) -> Self {
        Self { seen: Ok(()), items }
    }

    /// What there is.
    ///
    /// # Errors
    ///
    /// Where nothing was seen.
    pub fn items(&self) -> Seen<&[T]> {
        self.seen.map(|()| self.items.as_slice())
    }

    /// Fills it anew; the room that it has is kept.
    pub fn fill(&mut self, filled: impl FnOnce(&mut Vec<T>) -> Seen<()>) {
        self.items.clear();
        self.seen = filled(&mut self.items);
    }
}

// === impl Counters ===

impl Counters {
    /// Counters of which nothing was seen, for this reason.
    #[must_use]
    pub const fn missing(at: Moment, why: Unavailable) -> Self {
        Self {
            at,
            cpus: Listed::missing(why),
            group_cpu: None,
            throttled: Listed::missing(why),
            memory: Err(why),
            disks: Listed::missing(why),
            group_operations: None,
            interfaces: Listed::missing(why),
            switches: Err(why),
            stalled_us: [Err(why); 3],
            memory_moved_bytes: Err(why),
            cache: Err(why),
            cache_occupied_bytes: Err(why),
            run_queue: Err(why),
            block: Err(why),
            freed: Err(why),
        }
    }
}

// === impl Pair ===

impl<'a> Pair<'a> {
    fn of(older: Option<&'a Counters>, newer: &'a Counters) -> Self {
        let seconds = match older {
            Some(older) => seconds_between(older.at, newer.at),
            None => Err(Unavailable::FirstLook),
        };
        Self { older, newer, seconds }
    }

    /// The two values of something. Why there is none now matters more than that there was none
    /// before.
    fn both<T>(&self, of: impl Fn(&'a Counters) -> Seen<T>) -> Seen<(T, T)> {
        let newer = of(self.newer)?;
        // What was missing before and is there now has been looked at once.
        let older = self.older.and_then(|older| of(older).ok()).ok_or(Unavailable::FirstLook)?;
        Ok((older, newer))
    }

    fn rate(&self, what: &'static str, of: impl Fn(&'a Counters) -> Seen<u64>) -> Seen<f64> {
        let (older, newer) = self.both(of)?;
        let seconds = self.seconds?;
        Ok(count(moved(what, older, newer)?) / seconds)
    }

    fn histogram(
        &self,
        what: &'static str,
        of: impl Fn(&'a Counters) -> Result<&'a Histogram, &'a Unavailable>,
    ) -> Seen<Histogram> {
        let (older, newer) = self.both(|it| of(it).map_err(|why| *why))?;
        self.seconds?;
        newer.since(older, what)
    }

    fn cpu(&self) -> Seen<f64> {
        if let Some(used) = self.newer.group_cpu {
            return self.group_cpu(used?);
        }
        let (older, newer) = self.both(|it| it.cpus.items())?;
        self.seconds?;
        let (mut busy, mut total) = (0_u64, 0_u64);
        for now in newer {
            let Some(then) = older.iter().find(|then| then.cpu == now.cpu) else { continue };
            // The kernel takes back idle time now and then, so a total may be smaller by a tick.
            busy = busy.saturating_add(now.busy.saturating_sub(then.busy));
            total = total.saturating_add(now.total.saturating_sub(then.total));
        }
        if total == 0 { Err(Unavailable::NoTime) } else { Ok(share(busy, total).min(1.0)) }
    }

    fn group_cpu(&self, newer: GroupCpu) -> Seen<f64> {
        let older = self.older.and_then(|older| older.group_cpu?.ok());
        let older = older.ok_or(Unavailable::FirstLook)?;
        let used = moved("the group's CPU time", older.used_us, newer.used_us)?;
        let had = self.seconds? * f64::from(newer.cpus.max(1)) * 1e6;
        Ok((count(used) / had).min(1.0))
    }

    fn throttled(&self) -> Seen<f64> {
        let (older, newer) = self.both(|it| it.throttled.items())?;
        let seconds = self.seconds?;
        let mut periods = 0_u64;
        for now in newer {
            // Both are in the order of their numbers.
            let then = older.binary_search_by_key(&now.group, |then| then.group).ok();
            let then = then.and_then(|place| older.get(place)).map(|then| then.periods);
            let before = if now.fresh { then.or(Some(0)) } else { then };
            let Some(before) = before else { continue };
            periods = periods.saturating_add(moved("a group", before, now.periods)?);
        }
        Ok(count(periods) / seconds)
    }

    fn bandwidth(&self) -> Seen<f64> {
        let bytes = self.rate("memory bandwidth", |it| it.memory_moved_bytes)?;
        Ok(bytes / GIGABYTE)
    }

    fn cache(&self) -> Seen<f64> {
        let (older, newer) = self.both(|it| it.cache)?;
        self.seconds?;
        let looks = moved("cache references", older.looks, newer.looks)?;
        let misses = moved("cache misses", older.misses, newer.misses)?;
        Ok(share(misses, looks).min(1.0))
    }

    fn disk(&self) -> Seen<DiskFigures> {
        let (older, newer) = self.both(|it| it.disks.items())?;
        let seconds = self.seconds?;
        let (mut operations, mut time_ms) = (0_u64, 0_u64);
        for now in newer {
            let Some(then) = older.iter().find(|then| then.device == now.device) else { continue };
            let done = moved("a disk", then.operations, now.operations)?;
            operations = operations.saturating_add(done);
            time_ms = time_ms.saturating_add(moved("a disk", then.time_ms, now.time_ms)?);
        }
        let per_second = count(operations) / seconds;
        Ok(DiskFigures { wait_ms: share(time_ms, operations), per_second })
    }

    fn operations(&self, disk: Seen<DiskFigures>) -> Seen<f64> {
        match self.newer.group_operations {
            None => disk.map(|it| it.per_second),
            Some(Err(why)) => Err(why),
            Some(Ok(newer)) => {
                let older = self.older.and_then(|older| older.group_operations?.ok());
                let done = moved("the group", older.ok_or(Unavailable::FirstLook)?, newer)?;
                Ok(count(done) / self.seconds?)
            }
        }
    }

    fn net(&self) -> Seen<NetFigures> {
        let (older, newer) = self.both(|it| it.interfaces.items())?;
        let seconds = self.seconds?;
        let (mut received, mut sent, mut dropped) = (0_u64, 0_u64, 0_u64);
        for now in newer {
            let Some(then) = older.iter().find(|then| then.name == now.name) else { continue };
            let moved = |then, now| moved("an interface", then, now);
            received = received.saturating_add(moved(then.received, now.received)?);
            sent = sent.saturating_add(moved(then.sent, now.sent)?);
            dropped = dropped.saturating_add(moved(then.dropped, now.dropped)?);
        }
        let all = received.saturating_add(sent).saturating_add(dropped);
        Ok(NetFigures {
            received: count(received) / seconds,
            sent: count(sent) / seconds,
            dropped: share(dropped, all),
        })
    }

    fn stalled(&self, place: usize) -> Seen<f64> {
        let why = Unavailable::Absent { what: "pressure" };
        let us =
            self.rate("pressure", |it| it.stalled_us.get(place).copied().unwrap_or(Err(why)))?;
        Ok((us / 1e6).min(1.0))
    }
}

#[cfg(test)]
mod tests;
