//! The machine's own counters: how much CPU time somebody used, and how much nobody did.
//!
//! What is used is read from the root of the control groups, which counts to the microsecond, and
//! what hypervisor and interrupts take from `/proc/stat`, which counts in hundredths of a second.
//! What is idle is the rest of what the CPUs that are online had to give: a machine whose idle time
//! is rounded to hundredths of a second would look idle or busy by chance in a tenth of one.

use std::fs;

use walras_cgroup::{CgroupPath, Group, Layout};
use walras_core::node::MachineSample;
use walras_core::units::{Millicores, Moment, Span};

use super::cpus::cpus_online;

/// What `/proc/stat` counts in, on every architecture.
const TICK_US: u64 = 10_000;
/// CPUs come and go so rarely that their number is looked up this often.
const CPUS_KNOWN_FOR: Span = Span::from_s(10);

/// Reads the counters, and keeps what adds up.
#[derive(Debug)]
pub struct Machine {
    root: Option<Group>,
    last: Option<(Moment, u64)>,
    idle_us: u64,
    busy_us: u64,
    cpus: Millicores,
    cpus_at: Option<Moment>,
}

impl Machine {
    /// The machine whose control groups are in `layout`.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        Self {
            root: Group::open(layout, &CgroupPath::ROOT).ok(),
            last: None,
            idle_us: 0,
            busy_us: 0,
            cpus: cpus_online(),
            cpus_at: None,
        }
    }

    /// The counters now; nothing where they cannot be read.
    pub fn sample(&mut self, now: Moment) -> Option<MachineSample> {
        let stat = fs::read("/proc/stat").ok()?;
        let times = CpuTimes::of(&stat)?;
        let used = self.root.as_ref().and_then(|root| root.sample(now).ok());
        // Without a root of control groups the ticks have to do.
        let used_us = used.map_or(times.ran_us, |sample| sample.usage.as_us());
        let busy_us = used_us.saturating_add(times.taken_us);
        if self.cpus_at.is_none_or(|at| now.since(at) >= CPUS_KNOWN_FOR) {
            (self.cpus, self.cpus_at) = (cpus_online(), Some(now));
        }
        if let Some((then, before_us)) = self.last.replace((now, busy_us)) {
            let had_us = now.since(then).as_us().saturating_mul(self.cpus.get()) / 1000;
            let ran_us = busy_us.saturating_sub(before_us);
            self.busy_us += ran_us;
            self.idle_us += had_us.saturating_sub(ran_us);
        }
        let (idle, busy) = (Span::from_us(self.idle_us), Span::from_us(self.busy_us));
        Some(MachineSample { at: now, idle, busy })
    }
}

/// What the first line of `/proc/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTimes {
    /// What processes ran.
    ran_us: u64,
    /// What interrupts and the hypervisor took.
    taken_us: u64,
}

impl CpuTimes {
    fn of(stat: &[u8]) -> Option<Self> {
        let line = stat.split(|byte| *byte == b'\n').next()?;
        let words = std::str::from_utf8(line).ok()?.strip_prefix("cpu ")?;
        let mut ticks = [0_u64; 8];
        let mut words = words.split_ascii_whitespace();
        for tick in &mut ticks {
            *tick = words.next()?.parse().ok()?;
        }
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] = ticks;
        let us = |ticks: [u64; 3]| {
            let sum = ticks.iter().fold(0_u64, |sum, tick| sum.saturating_add(*tick));
            sum.saturating_mul(TICK_US)
        };
        Some(Self { ran_us: us([user, nice, system]), taken_us: us([irq, softirq, steal]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_the_kernels_statistics_is_read() {
        let stat = b"cpu  100 20 3 4000 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let times = CpuTimes { ran_us: 1_230_000, taken_us: 210_000 };
        assert_eq!(CpuTimes::of(stat), Some(times));
        for damaged in ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"] {
            assert_eq!(CpuTimes::of(damaged.as_bytes()), None, "{damaged:?}");
        }
    }

    #[test]
    fn this_machine_is_idle_and_busy_for_as_long_as_it_has_cpus() {
        let layout = Layout::of_this_machine().expect("control groups");
        let mut machine = Machine::of(&layout);
        let started = std::time::Instant::now();
        let mut sample = |at: Moment| machine.sample(at).expect("counters");
        let first = sample(Moment::ORIGIN);
        assert_eq!((first.idle, first.busy), (Span::ZERO, Span::ZERO));
        let mut spun = 0_u64;
        while started.elapsed().as_millis() < 300 {
            spun = spun.wrapping_add(1);
        }
        let passed_us = u64::try_from(started.elapsed().as_micros()).unwrap();
        let last = sample(Moment::from_us(passed_us));
        let had_us = passed_us * cpus_online().get() / 1000;
        let (idle, busy) = (last.idle.as_us(), last.busy.as_us());
        assert!(busy > 0, "spun {spun} times");
        // Counters are read one after the other, so the sum is right within what that takes.
        assert!(idle + busy >= had_us && idle <= had_us, "{idle} + {busy} of {had_us}");
    }
}
