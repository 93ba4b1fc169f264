//! Looks at this machine, or at the part of it that is a node, and makes snapshots.
//!
//! A [`Scope`] says which part: a set of CPUs, a control group, disks and interfaces. Two nodes on
//! one machine with scopes that do not meet do not see each other, except where a device itself is
//! shared; what cannot be told apart is [`Unavailable::NotOurs`]. A look reads files that are kept
//! open; what they mean together is [`crate::counters::figures`].

mod devices;
mod file;
mod groups;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use walras_cgroup::{CgroupPath, Group, Layout, Version};
use walras_core::parse::{cpu_pressure, memory_current, memory_limit_v1, memory_max};
use walras_core::units::Moment;

use crate::counters::{Counters, GroupCpu, MemoryUse, figures};
use crate::cpu_set::CpuSet;
use crate::ebpf::{Probes, Reason};
use crate::hardware::Hardware;
use crate::metadata::Metadata;
use crate::metric::Metric;
use crate::parse;
use crate::rate::{count, seconds_between};
use crate::reading::{Seen, Unavailable};
use crate::snapshot::{Drops, Snapshot, Source};

use self::devices::Devices;
pub(crate) use self::file::{KeptFile, text_of};
use self::groups::Groups;

/// So many reasons why packets were thrown away are told.
const REASONS_TOLD: usize = 10;

/// Which part of a machine is the node.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Its CPUs; all of them where it is not said.
    pub cpus: Option<CpuSet>,
    /// The control group that everything of it is in; the root is the whole machine.
    pub group: CgroupPath,
    /// Its disks, by their names; where it is not said, those of the machine.
    pub disks: Option<BTreeSet<String>>,
    /// Its interfaces, by their names; where it is not said, those of the machine.
    pub interfaces: Option<BTreeSet<String>>,
    /// Whether this process sees the network of a container, and not that of the node. Interfaces
    /// that are named are the node's all the same.
    pub own_network: bool,
}

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// Where control groups are; nothing where they cannot be found.
    pub layout: Option<Layout>,
}

/// A node that is looked at.
#[derive(Debug)]
pub struct Sampler {
    scope: Scope,
    roots: Roots,
    files: Files,
    disks: Devices,
    interfaces: Devices,
    groups: Option<Groups>,
    own: Option<Group>,
    hardware: Hardware,
    probes: Seen<Probes>,
    /// The last two looks; the older one is there from the second on.
    newer: Counters,
    older: Counters,
    looks: u64,
    reasons: [Vec<Reason>; 2],
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Files {
    stat: KeptFile,
    meminfo: KeptFile,
    diskstats: KeptFile,
    net_dev: KeptFile,
    pressure: [KeptFile; 3],
    group_memory: KeptFile,
    group_memory_stat: KeptFile,
    group_memory_limit: KeptFile,
    group_operations: KeptFile,
}

// === impl Roots ===

impl Roots {
    /// Those of this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            layout: Layout::of_this_machine().ok(),
        }
    }
}

// === impl Scope ===

impl Scope {
    /// Whether it is the whole machine.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.cpus.is_none() && self.group == CgroupPath::ROOT
    }

    /// Whether what is counted for each CPU can be told apart.
    fn has_cpus(&self) -> bool {
        self.cpus.is_some() || self.group == CgroupPath::ROOT
    }
}

// === impl Sampler ===

impl Sampler {
    /// Looks at what `scope` says. `probes` are our programs in the kernel, or why there
    /// are none.
    #[must_use]
    pub fn new(scope: Scope, roots: Roots, probes: Seen<Probes>) -> Self {
        let nothing = Counters::missing(Moment::ORIGIN, Unavailable::FirstLook);
        let own = roots.layout.as_ref().filter(|_| scope.group != CgroupPath::ROOT);
        Self {
            files: Files::of(&scope, &roots),
            disks: Devices::new(scope.disks.as_ref()),
            interfaces: Devices::new(scope.interfaces.as_ref()),
            groups: roots.layout.clone().map(|layout| Groups::new(layout, scope.group.clone())),
            own: own.and_then(|layout| Group::open(layout, &scope.group).ok()),
            hardware: Hardware::open(&roots.sys, scope.cpus.as_ref(), scope.is_all()),
            probes,
            older: nothing.clone(),
            newer: nothing,
            looks: 0,
            reasons: [Vec::new(), Vec::new()],
            buffer: Vec::new(),
            scope,
            roots,
        }
    }

    /// Looks now. Rates are those since the look before.
    pub fn look(&mut self, now: Moment) {
        std::mem::swap(&mut self.older, &mut self.newer);
        self.newer.at = now;
        self.looks += 1;
        self.look_at_cpus();
        self.look_at_memory();
        self.look_at_disks(now);
        self.look_at_interfaces(now);
        self.look_at_groups(now);
        self.look_at_pressure();
        self.newer.memory_moved_bytes = self.hardware.memory_moved_bytes();
        self.newer.cache = self.hardware.cache();
        self.newer.cache_occupied_bytes = self.hardware.cache_occupied_bytes();
        self.look_at_probes();
    }

    /// What was counted at the last look.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.newer
    }

    /// What the last two looks say, with what `metadata` says.
    #[must_use]
    pub fn snapshot(&self, node: &str, taken_unix_ms: u64, metadata: &Metadata) -> Snapshot {
        let older = (self.looks > 1).then_some(&self.older);
        let why = Unavailable::FirstLook;
        let mut snapshot = Snapshot::empty(node, taken_unix_ms, Source::ProcStat, why);
        for (metric, reading) in Metric::ALL.into_iter().zip(figures(older, &self.newer)) {
            snapshot.set(metric, reading, self.source(metric));
        }
        metadata.put(&mut snapshot);
        snapshot.over = older.map(|older| self.newer.at.since(older.at));
        snapshot.drops = older.map(|older| self.drops(older)).unwrap_or_default();
        snapshot
    }

    fn source(&self, metric: Metric) -> Source {
        let is_group = self.scope.group != CgroupPath::ROOT;
        let or_group = |source| if is_group { Source::Cgroup } else { source };
        match metric {
            Metric::CpuUtilization => or_group(Source::ProcStat),
            Metric::CpuThrottleRate => Source::Cgroup,
            Metric::MemoryUtilization => or_group(Source::ProcMeminfo),
            Metric::MemoryBandwidth => self.hardware.bandwidth_source(),
            Metric::CacheMissRate => Source::Perf,
            Metric::CacheOccupancy => Source::Resctrl,
            Metric::DiskWait => Source::ProcDiskstats,
            Metric::DiskOperations => or_group(Source::ProcDiskstats),
            Metric::PacketsReceived | Metric::PacketsSent | Metric::PacketDropRate => {
                Source::ProcNetDev
            }
            Metric::CostIndex | Metric::Spot | Metric::InterruptionRisk => Source::Labels,
            Metric::ZoneDiversity => Source::Cluster,
            Metric::ContextSwitches if self.probes.is_err() => Source::ProcStat,
            Metric::RunQueueMean
            | Metric::RunQueueTail
            | Metric::BlockMean
            | Metric::BlockTail
            | Metric::ContextSwitches
            | Metric::PacketsFreed => Source::Ebpf,
            Metric::CpuPressure | Metric::MemoryPressure | Metric::IoPressure => {
                or_group(Source::ProcPressure)
            }
        }
    }

    fn look_at_cpus(&mut self) {
        let Self { newer, files, buffer, scope, .. } = self;
        let mut switches = Err(Unavailable::Unreadable { what: "/proc/stat" });
        newer.cpus.fill(|cpus| {
            let read = files.stat.parsed(buffer, |text| parse::stat(text, cpus));
            switches = read.map(|stat| stat.switches);
            read?;
            if let Some(wanted) = &scope.cpus {
                cpus.retain(|times| wanted.has(times.cpu));
            }
            Ok(())
        });
        newer.switches = if scope.is_all() {
            switches
        } else {
            Err(Unavailable::NotOurs { what: "/proc/stat's number of switches" })
        };
        // Whatever else runs on the node's CPUs is not the node's.
        if scope.group != CgroupPath::ROOT {
            let cpus = newer.cpus.items().map_or(0, <[_]>::len);
            let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
            let used = self.group_cpu(cpus);
            self.newer.group_cpu = Some(used);
        }
    }

    fn group_cpu(&mut self, cpus: u32) -> Seen<GroupCpu> {
        let what = "the node's control group";
        let layout = self.roots.layout.as_ref().ok_or(Unavailable::Absent { what })?;
        if self.own.is_none() {
            self.own = Group::open(layout, &self.scope.group).ok();
        }
        let own = self.own.as_ref().ok_or(Unavailable::Absent { what })?;
        match own.sample(self.newer.at) {
            Ok(sample) => Ok(GroupCpu { used_us: sample.usage.as_us(), cpus }),
            Err(_) => {
                // It may have been made anew.
                self.own = None;
                Err(Unavailable::Unreadable { what })
            }
        }
    }

    fn look_at_memory(&mut self) {
        let Self { newer, files, buffer, scope, .. } = self;
        let machine = files.meminfo.parsed(buffer, parse::memory);
        newer.memory = if scope.group == CgroupPath::ROOT {
            machine.map(|memory| MemoryUse {
                used_bytes: memory.total_bytes.saturating_sub(memory.available_bytes),
                total_bytes: memory.total_bytes,
            })
        } else {
            machine.and_then(|memory| files.group_memory_use(memory.total_bytes, buffer))
        };
    }

    fn look_at_disks(&mut self, now: Moment) {
        let Self { newer, files, buffer, scope, disks, roots, .. } = self;
        disks.look(&roots.sys.join("block"), now);
        newer.disks.fill(|found| {
            files.diskstats.parsed(buffer, |text| parse::disks(text, |name| disks.has(name), found))
        });
        if scope.group == CgroupPath::ROOT {
            return;
        }
        let ours = newer.disks.items();
        let is_ours = |device| ours.is_ok_and(|it| it.iter().any(|disk| disk.device == device));
        let is_v2 = roots.layout.as_ref().is_some_and(|it| it.version() == Version::V2);
        newer.group_operations = Some(files.group_operations.parsed(buffer, |text| {
            if is_v2 {
                parse::io_stat_operations(text, is_ours)
            } else {
                parse::blkio_operations(text, is_ours)
            }
        }));
    }

    fn look_at_interfaces(&mut self, now: Moment) {
        let Self { newer, files, buffer, interfaces, roots, scope, .. } = self;
        if scope.own_network && scope.interfaces.is_none() {
            let why = Unavailable::NotOfNode { what: "the network of this container" };
            newer.interfaces.fill(|_| Err(why));
            return;
        }
        interfaces.look(&roots.sys.join("class/net"), now);
        newer.interfaces.fill(|found| {
            files
                .net_dev
                .parsed(buffer, |text| parse::interfaces(text, |name| interfaces.has(name), found))
        });
    }

    fn look_at_groups(&mut self, now: Moment) {
        let Self { newer, groups, .. } = self;
        newer.throttled.fill(|found| match groups {
            Some(groups) => groups.look(now, found),
            None => Err(Unavailable::Absent { what: "control groups with a cpu controller" }),
        });
    }

    fn look_at_pressure(&mut self) {
        let Self { newer, files, buffer, scope, roots, .. } = self;
        let is_v1 = roots.layout.as_ref().is_none_or(|it| it.version() == Version::V1);
        if scope.group != CgroupPath::ROOT && is_v1 {
            newer.stalled_us = [Err(Unavailable::NotOurs { what: "/proc/pressure" }); 3];
            return;
        }
        for (stalled, file) in newer.stalled_us.iter_mut().zip(&mut files.pressure) {
            let total = |text: &[u8]| Some(cpu_pressure(text).ok()?.some.total.as_us());
            *stalled = file.parsed(buffer, total);
        }
    }

    fn look_at_probes(&mut self) {
        let Self { newer, probes, scope, reasons, .. } = self;
        let [older_reasons, newer_reasons] = reasons;
        std::mem::swap(older_reasons, newer_reasons);
        newer_reasons.clear();
        let probes = match probes {
            Ok(probes) => probes,
            Err(why) => {
                (newer.run_queue, newer.block, newer.freed) = (Err(*why), Err(*why), Err(*why));
                return;
            }
        };
        if scope.has_cpus() {
            let seen = probes.scheduling(scope.cpus.as_ref());
            newer.switches = seen.map(|seen| seen.switches);
            newer.run_queue = seen.map(|seen| seen.waits);
        } else {
            let why = Unavailable::NotOurs { what: "a CPU's run queue" };
            (newer.switches, newer.run_queue) = (Err(why), Err(why));
        }
        let ours = newer.disks.items();
        let is_ours = |device| ours.is_ok_and(|it| it.iter().any(|disk| disk.device == device));
        newer.block = probes.block(is_ours);
        newer.freed = probes.drops(scope.cpus.as_ref(), newer_reasons);
    }

    /// Why packets were thrown away between the last two looks.
    fn drops(&self, older: &Counters) -> Vec<Drops> {
        let (Ok(seconds), Ok(probes)) = (seconds_between(older.at, self.newer.at), &self.probes)
        else {
            return Vec::new();
        };
        let [then, now] = &self.reasons;
        let before = |reason: &Reason| {
            then.iter().find(|then| then.number == reason.number).map_or(0, |then| then.packets)
        };
        let mut drops: Vec<Drops> = now
            .iter()
            .map(|reason| (reason, reason.packets.saturating_sub(before(reason))))
            .filter(|(_, packets)| *packets > 0)
            .map(|(reason, packets)| Drops {
                reason: probes.reason_name(reason.number),
                per_second: count(packets) / seconds,
            })
            .collect();
        drops.sort_by(|one, other| {
            other.per_second.total_cmp(&one.per_second).then_with(|| one.reason.cmp(&other.reason))
        });
        drops.truncate(REASONS_TOLD);
        drops
    }
}

// === impl Files ===

impl Files {
    fn of(scope: &Scope, roots: &Roots) -> Self {
        let file = |name: &str, what| KeptFile::new(roots.proc.join(name), what);
        let is_v2 = roots.layout.as_ref().is_some_and(|it| it.version() == Version::V2);
        let cgroups = roots.sys.join("fs/cgroup");
        let place = |controller: &str| -> PathBuf {
            let root = match &roots.layout {
                Some(layout) if is_v2 => layout.cpu_root().to_path_buf(),
                Some(_) | None => cgroups.join(controller),
            };
            scope.group.under(&root)
        };
        let kept = |folder: &Path, name: &str, what| KeptFile::new(folder.join(name), what);
        let (memory, disk) = (place("memory"), place("blkio"));
        let is_group = scope.group != CgroupPath::ROOT;
        let pressure = |kind: &str, what| {
            if is_group && is_v2 {
                kept(&memory, &format!("{kind}.pressure"), what)
            } else {
                file(&format!("pressure/{kind}"), what)
            }
        };
        Self {
            stat: file("stat", "/proc/stat"),
            meminfo: file("meminfo", "/proc/meminfo"),
            diskstats: file("diskstats", "/proc/diskstats"),
            net_dev: file("net/dev", "/proc/net/dev"),
            pressure: [
                pressure("cpu", "pressure of cpu"),
                pressure("memory", "pressure of memory"),
                pressure("io", "pressure of io"),
            ],
            group_memory: if is_v2 {
                kept(&memory, "memory.current", "memory.current")
            } else {
                kept(&memory, "memory.usage_in_bytes", "memory.usage_in_bytes")
            },
            group_memory_stat: kept(&memory, "memory.stat", "memory.stat"),
            group_memory_limit: if is_v2 {
                kept(&memory, "memory.max", "memory.max")
            } else {
                kept(&memory, "memory.limit_in_bytes", "memory.limit_in_bytes")
            },
            group_operations: if is_v2 {
                kept(&disk, "io.stat", "io.stat")
            } else {
                let name = "blkio.throttle.io_serviced_recursive";
                kept(&disk, name, name)
            },
        }
    }

    /// What the group uses and cannot give back at once, of its limit or of the machine.
    fn group_memory_use(&mut self, machine_bytes: u64, buffer: &mut Vec<u8>) -> Seen<MemoryUse> {
        let used = self.group_memory.parsed(buffer, |text| memory_current(text).ok())?.get();
        let idle = self.group_memory_stat.parsed(buffer, inactive_file)?;
        let limit = self.group_memory_limit.parsed(buffer, |text| {
            // Either version's words for "no limit".
            memory_limit_v1(text).or_else(|_| memory_max(text)).ok()
        })?;
        let total_bytes = limit.map_or(machine_bytes, |limit| limit.get().min(machine_bytes));
        Ok(MemoryUse { used_bytes: used.saturating_sub(idle), total_bytes })
    }
}

/// The cached parts of files that the kernel would give up first, of the group and all below it.
fn inactive_file(text: &[u8]) -> Option<u64> {
    let find = |key: &[u8]| {
        parse::lines(text).find_map(|line| {
            let mut words = parse::words(line);
            (words.next()? == key).then(|| parse::number(words.next()?)).flatten()
        })
    };
    // The first version tells the group alone under the plain name.
    find(b"total_inactive_file").or_else(|| find(b"inactive_file"))
}

#[cfg(test)]
mod tests;
