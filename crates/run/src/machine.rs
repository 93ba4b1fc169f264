//! What this machine has, and how much of it is in use, for admission and health.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;

use walras_core::run::Capacity;
use walras_core::units::{Bytes, Millicores};

/// Reads the machine.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// What was counted of the CPUs at the last look: busy and in all.
    last: Mutex<(u64, u64)>,
}

/// How much is in use, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct InUse {
    pub(crate) memory: f64,
    pub(crate) cpu: f64,
    pub(crate) disk: f64,
}

/// The disk that the machine's root is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) total: Bytes,
    pub(crate) used: Bytes,
}

/// How large the disk is, and how much of it is used.
pub(crate) fn disk() -> Disk {
    rustix::fs::statvfs("/").map_or_else(
        |_| Disk::default(),
        |disk| Disk {
            total: Bytes::new(disk.f_blocks.saturating_mul(disk.f_frsize)),
            used: Bytes::new(
                disk.f_blocks.saturating_sub(disk.f_bavail).saturating_mul(disk.f_frsize),
            ),
        },
    )
}

/// All of the machine's CPUs and memory.
pub(crate) fn capacity() -> Capacity {
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let cpu = Millicores::from_cores(u32::try_from(cpus).unwrap_or(u32::MAX));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = kib(&memory, "MemTotal:").unwrap_or(0);
    Capacity { cpu, memory: Bytes::new(total.saturating_mul(1024)) }
}

impl Machine {
    /// How much is in use: memory and disk now, CPUs since the last look.
    pub(crate) fn in_use(&self) -> InUse {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = match (kib(&memory, "MemTotal:"), kib(&memory, "MemAvailable:")) {
            (Some(total), Some(free)) => percent(total.saturating_sub(free), total),
            (_, _) => 0.0,
        };
        let counted = cpu_counters(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu = counted.map_or(0.0, |(busy, all)| {
            percent(busy.saturating_sub(last.0), all.saturating_sub(last.1))
        });
        *last = counted.unwrap_or_default();
        let disk = disk();
        InUse { memory, cpu, disk: percent(disk.used.get(), disk.total.get()) }
    }
}

fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Busy and all ticks of all CPUs.
fn cpu_counters(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // Of user, nice, system, idle, iowait, irq, softirq and steal, two are idle.
    let all = ticks.iter().take(8).sum::<u64>();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all.saturating_sub(idle), all))
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names() {
        assert_eq!(kib("MemTotal:  100 kB\nMemAvailable:\t25 kB\n", "MemAvailable:"), Some(25));
        assert_eq!(cpu_counters("cpu  1 2 3 10 5 1 1 1 9 9\ncpu0 1\n"), Some((9, 24)));
        assert_eq!(cpu_counters("intr 1\n"), None);
        assert!((percent(25, 50) - 50.0).abs() < f64::EPSILON);
        assert_eq!(percent(1, 0), 0.0);
        let capacity = capacity();
        assert!(capacity.cpu > Millicores::ZERO && capacity.memory > Bytes::new(1 << 20));
    }
}
