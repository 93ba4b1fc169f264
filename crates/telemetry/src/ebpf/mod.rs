//! Our programs in the kernel: loaded, asked, and gone with the value that holds them.
//!
//! They need a kernel that describes its own types (`CONFIG_DEBUG_INFO_BTF`, 5.5 or later) and the
//! right to load programs (root, or `CAP_BPF` and `CAP_PERFMON`). Without either, [`Probes::load`]
//! says which, and everything that `/proc` can tell is still told. Each program is on its own: one
//! that the kernel refuses takes no other with it. The object comes with this crate, compiled.

mod btf;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use aya::maps::{MapData, PerCpuArray, PerCpuHashMap};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};

use crate::cpu_set::CpuSet;
use crate::histogram::{BUCKETS, Histogram};
use crate::reading::{Seen, Unavailable};

/// The programs, compiled by `cargo xtask bpf`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../ebpf/telemetry.bpf.o");

/// Where the kernel describes its types.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Its enumeration of reasons.
const REASON_TYPE: &str = "skb_drop_reason";
const REASON_PREFIX: &str = "SKB_DROP_REASON_";
/// How many reasons are told apart; the last is for all others.
const REASONS: usize = 256;

/// Words of `struct histogram` in `ebpf/telemetry.bpf.c`.
const HISTOGRAM: usize = BUCKETS + 2;
/// Words of `struct scheduling`.
const SCHEDULING: usize = 1 + HISTOGRAM + 2;

/// A program: its name, and the tracepoint it is for.
const SWITCH: (&str, &str) = ("on_switch", "sched_switch");
const COMPLETE: (&str, &str) = ("on_complete", "block_rq_complete");
const DROP: (&str, &str) = ("on_drop", "kfree_skb");

/// What is wanted of the programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Whether waits for a CPU are counted for each control group as well, which costs more.
    pub per_group: bool,
}

/// Why programs could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel does not describe its types.
    #[error("the kernel does not describe its types in {KERNEL_TYPES} ({source})")]
    NoTypes {
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// This process may not load programs.
    #[error("this process may not load eBPF programs; that takes root, or CAP_BPF and CAP_PERFMON")]
    NotAllowed,
    /// The kernel refuses all of them.
    #[error("the kernel refuses eBPF programs: {source}")]
    Refused {
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Programs that count in the kernel until this value goes.
pub struct Probes {
    scheduling: Seen<PerCpuArray<MapData, [u64; SCHEDULING]>>,
    groups: Seen<PerCpuHashMap<MapData, u64, [u64; 2]>>,
    disks: Seen<PerCpuHashMap<MapData, u32, [u64; HISTOGRAM]>>,
    drops: Seen<PerCpuArray<MapData, [u64; REASONS]>>,
    reasons: BTreeMap<u32, String>,
    /// Holds the programs themselves.
    _loaded: Ebpf,
}

/// What CPUs did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// How often they changed tasks.
    pub switches: u64,
    /// How long tasks waited before they ran.
    pub waits: Histogram,
}

/// How the tasks of one control group waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupWaits {
    /// How often one of them ran.
    pub runs: u64,
    /// What they waited for that together.
    pub waited_ns: u64,
}

/// Packets thrown away for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The running kernel's number of it.
    pub number: u32,
    /// How many.
    pub packets: u64,
}

// === impl Probes ===

impl Probes {
    /// Loads the programs and lets them count.
    ///
    /// # Errors
    ///
    /// Where none of them can be loaded.
    pub fn load(options: ProbeOptions) -> Result<Self, ProbeError> {
        // To read the kernel's types takes tens of megabytes, which is too much for nothing.
        if !may_load(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
            return Err(ProbeError::NotAllowed);
        }
        let types =
            Btf::from_sys_fs().map_err(|error| ProbeError::NoTypes { source: error.into() })?;
        let per_group = u32::from(options.per_group);
        let mut loaded = EbpfLoader::new()
            .btf(Some(&types))
            .override_global("per_group", &per_group, true)
            .load(OBJECT)
            .map_err(|error| refusal(error.into()))?;
        let attached = [SWITCH, COMPLETE, DROP].map(|it| attach(&mut loaded, it, &types));
        if attached.iter().all(Result::is_err)
            && let [Err(error), ..] = attached
        {
            return Err(refusal(error));
        }
        let [switch, complete, drop] = attached.map(|it| it.map_err(|error| why_not(&*error)));
        let mut map = |name: &str| loaded.take_map(name).ok_or(UNREADABLE);
        let (scheduling, groups) = (map("scheduling"), map("groups"));
        let (disks, drops) = (map("disks"), map("drops"));
        Ok(Self {
            scheduling: switch.and(scheduling).and_then(|map| map.try_into().map_err(unreadable)),
            groups: switch.and(groups).and_then(|map| map.try_into().map_err(unreadable)),
            disks: complete.and(disks).and_then(|map| map.try_into().map_err(unreadable)),
            drops: drop.and(drops).and_then(|map| map.try_into().map_err(unreadable)),
            reasons: reasons(Path::new(KERNEL_TYPES)),
            _loaded: loaded,
        })
    }

    /// The same, for who can do without: says in one line of the log why there is nothing.
    ///
    /// # Errors
    ///
    /// As [`Probes::load`].
    pub fn load_or_tell(options: ProbeOptions) -> Seen<Self> {
        Self::load(options).inspect(Self::tell_missing).map_err(|error| {
            tracing::warn!(
                "run-queue latency, block latency and reasons of dropped packets are not measured, \
                 and /proc has to do for the rest: {error}"
            );
            match error {
                ProbeError::NoTypes { .. } => Unavailable::Absent { what: "types for eBPF (BTF)" },
                ProbeError::NotAllowed => Unavailable::NotAllowed { what: EBPF },
                ProbeError::Refused { .. } => Unavailable::Absent { what: "eBPF that takes ours" },
            }
        })
    }

    /// Kernels may take some of the programs: says in one line of the log which they refused.
    fn tell_missing(&self) {
        let missing = [
            self.scheduling.as_ref().err().map(|why| format!("run-queue latency ({why})")),
            self.disks.as_ref().err().map(|why| format!("block latency ({why})")),
            self.drops.as_ref().err().map(|why| format!("reasons of dropped packets ({why})")),
        ];
        let missing = missing.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if !missing.is_empty() {
            tracing::warn!("not measured by eBPF: {missing}; the rest is");
        }
    }

    /// What `cpus` did, or all.
    ///
    /// # Errors
    ///
    /// Where the kernel refused the program, or does not tell.
    pub fn scheduling(&self, cpus: Option<&CpuSet>) -> Seen<Scheduling> {
        let map = self.scheduling.as_ref().map_err(|why| *why)?;
        let values = map.get(&0, 0).map_err(unreadable)?;
        let mut sum = Scheduling::default();
        for words in of_cpus(&values, cpus) {
            let [switches, waits @ ..] = words;
            sum.switches = sum.switches.wrapping_add(*switches);
            sum.waits.add(&histogram(waits));
        }
        Ok(sum)
    }

    /// How the tasks of a group waited, which is known by the number of its folder. Of groups in it
    /// nothing is in here.
    ///
    /// # Errors
    ///
    /// As [`Probes::scheduling`].
    pub fn group(&self, number: u64) -> Seen<GroupWaits> {
        let map = self.groups.as_ref().map_err(|why| *why)?;
        let mut sum = GroupWaits::default();
        match map.get(&number, 0) {
            Ok(values) => {
                for [runs, waited_ns] in values.iter() {
                    sum.runs = sum.runs.wrapping_add(*runs);
                    sum.waited_ns = sum.waited_ns.wrapping_add(*waited_ns);
                }
                Ok(sum)
            }
            // None of its tasks has run yet.
            Err(aya::maps::MapError::KeyNotFound) => Ok(sum),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// What requests to disks took, on those disks that are wanted by their numbers.
    ///
    /// # Errors
    ///
    /// As [`Probes::scheduling`].
    pub fn block(&self, wanted: impl Fn((u32, u32)) -> bool) -> Seen<Histogram> {
        let map = self.disks.as_ref().map_err(|why| *why)?;
        let mut sum = Histogram::default();
        for entry in map.iter() {
            let (disk, values) = entry.map_err(unreadable)?;
            if wanted((disk >> 20, disk & 0xF_FFFF)) {
                values.iter().for_each(|words| sum.add(&histogram(words)));
            }
        }
        Ok(sum)
    }

    /// How many packets were thrown away on `cpus`, or on all; and why, in the order of reasons.
    ///
    /// # Errors
    ///
    /// As [`Probes::scheduling`].
    pub fn drops(&self, cpus: Option<&CpuSet>, reasons: &mut Vec<Reason>) -> Seen<u64> {
        let map = self.drops.as_ref().map_err(|why| *why)?;
        let values = map.get(&0, 0).map_err(unreadable)?;
        let mut sums = [0_u64; REASONS];
        for words in of_cpus(&values, cpus) {
            sums.iter_mut().zip(words).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        }
        let numbered = (0_u32..).zip(sums).filter(|(_, packets)| *packets > 0);
        reasons.extend(numbered.map(|(number, packets)| Reason { number, packets }));
        Ok(sums.iter().fold(0, |sum, packets| sum.wrapping_add(*packets)))
    }

    /// The kernel's name of a reason; its number where it has none.
    #[must_use]
    pub fn reason_name(&self, number: u32) -> String {
        match self.reasons.get(&number) {
            Some(name) => name.strip_prefix(REASON_PREFIX).unwrap_or(name).to_ascii_lowercase(),
            None => format!("reason_{number}"),
        }
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").field("reasons", &self.reasons.len()).finish_non_exhaustive()
    }
}

const EBPF: &str = "eBPF programs";
const UNREADABLE: Unavailable = Unavailable::Unreadable { what: "a map of our eBPF programs" };

fn unreadable(_: aya::maps::MapError) -> Unavailable {
    UNREADABLE
}

/// Loads one program and attaches it.
fn attach(
    loaded: &mut Ebpf,
    (program, tracepoint): (&str, &str),
    types: &Btf,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let program = loaded.program_mut(program).ok_or("the object has no such program")?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, types)?;
    program.attach()?;
    Ok(())
}

/// The values of the CPUs that are wanted. They come in the order of the CPUs' numbers.
fn of_cpus<'a, T: aya::Pod>(
    values: &'a aya::maps::PerCpuValues<T>,
    cpus: Option<&'a CpuSet>,
) -> impl Iterator<Item = &'a T> {
    let wanted = move |cpu: u32| cpus.is_none_or(|cpus| cpus.has(cpu));
    (0..).zip(values.iter()).filter(move |(cpu, _)| wanted(*cpu)).map(|(_, value)| value)
}

/// A histogram as the kernel side has it: count, sum, buckets. What follows is something else.
fn histogram(words: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    if let [count, sum_ns, buckets @ ..] = words {
        (histogram.count, histogram.sum_ns) = (*count, *sum_ns);
        for (place, bucket) in histogram.buckets.iter_mut().zip(buckets) {
            *place = *bucket;
        }
    }
    histogram
}

/// The names of reasons, as far as the kernel tells them.
fn reasons(types: &Path) -> BTreeMap<u32, String> {
    let types = std::fs::read(types).unwrap_or_default();
    btf::names(&types, REASON_TYPE).unwrap_or_default()
}

/// Whether a process with this status may load programs that look at tracepoints.
fn may_load(status: &str) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = (1 << 38) | (1 << 39);
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok());
    // A kernel that does not say is asked by trying.
    held.is_none_or(|held| held & SYS_ADMIN != 0 || held & PERFMON_AND_BPF == PERFMON_AND_BPF)
}

fn refusal(source: Box<dyn Error + Send + Sync>) -> ProbeError {
    if is_permission(&*source) { ProbeError::NotAllowed } else { ProbeError::Refused { source } }
}

fn why_not(error: &(dyn Error + 'static)) -> Unavailable {
    if is_permission(error) {
        Unavailable::NotAllowed { what: EBPF }
    } else {
        Unavailable::Absent { what: "tracepoint as we know it" }
    }
}

/// Whether somewhere behind an error the kernel said that this is not allowed.
fn is_permission(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::PermissionDenied
        {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counted_is_read_as_it_is_written() {
        let mut words = [0; SCHEDULING];
        words[0] = 9;
        (words[1], words[2], words[3 + 7], words[SCHEDULING - 2]) = (2, 14, 2, 4711);
        let mut expected = Histogram::default();
        expected.note(7);
        expected.note(7);
        let [_, waits @ ..] = &words;
        assert_eq!(histogram(waits), expected);
        assert_eq!(histogram(&[]), Histogram::default());
    }

    #[test]
    fn who_may_not_load_programs_does_not_try() {
        let may = |held: &str| may_load(&format!("Name:\tx\nCapEff:\t{held}\nSeccomp:\t2\n"));
        assert!(may("000001ffffffffff") && may("0000000000200000") && may("000000c000000000"));
        assert!(!may("0000000000000000") && !may("0000008000000000"));
        assert!(may_load(""), "a kernel that does not say is asked");
    }

    #[test]
    fn a_refusal_is_told_by_what_is_behind_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        let of = |errno| refusal(Outer(io::Error::from_raw_os_error(errno)).into());
        assert!(matches!(of(1), ProbeError::NotAllowed));
        assert!(matches!(of(22), ProbeError::Refused { .. }));
        assert_eq!(
            why_not(&io::Error::from_raw_os_error(13)),
            Unavailable::NotAllowed { what: EBPF }
        );
    }

    #[test]
    fn without_the_kernels_names_reasons_are_numbers() {
        assert_eq!(reasons(Path::new("/nowhere")), BTreeMap::new());
    }
}
