//! The machine's own counters: how much CPU time was used, and how much was idle.
//!
//! What is used is read from the root of the control groups, which counts to the microsecond, and
//! what hypervisor and interrupts take from `/proc/stat`, which counts in hundredths of a second.
//! The kernel adds up every interrupt of the machine to write that file, so it is read once a
//! second, and in between they are taken to go on as they did.
//! What is idle is the rest of what the CPUs that are online had to give: a machine whose idle time
//! is rounded to hundredths of a second would look idle or busy by chance in a tenth of one.

use std::fs;

use walras_cgroup::{CgroupPath, Group, Layout};
use walras_core::node::MachineSample;
use walras_core::units::{Millicores, Moment, Span};

use super::cpus::cpus_online;

/// What `/proc/stat` counts in, on every architecture.
const TICK_US: u64 = 10_000;
const SECOND_US: u64 = 1_000_000;
/// CPUs come and go so rarely that their number is looked up this often.
const CPUS_KNOWN_FOR: Span = Span::from_s(10);
/// How long what was taken is carried on without being read.
const TAKEN_KNOWN_FOR: Span = Span::from_s(1);

/// Reads the counters, and keeps what adds up.
#[derive(Debug)]
pub struct Machine {
    root: Option<Group>,
    taken: Option<Taken>,
    last: Option<(Moment, u64)>,
    idle_us: u64,
    busy_us: u64,
    cpus: Millicores,
    cpus_at: Option<Moment>,
}

/// What interrupts and the hypervisor took, and how fast that grew when it was last read.
#[derive(Clone, Copy, Debug)]
struct Taken {
    read_at: Moment,
    sum_us: u64,
    per_second_us: u64,
}

impl Machine {
    /// The machine whose control groups are in `layout`.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        Self {
            root: Group::open(layout, &CgroupPath::ROOT).ok(),
            taken: None,
            last: None,
            idle_us: 0,
            busy_us: 0,
            cpus: cpus_online(),
            cpus_at: None,
        }
    }

    /// The counters now; nothing where they cannot be read.
    pub fn sample(&mut self, now: Moment) -> Option<MachineSample> {
        let busy_us = self.busy_until(now)?;
        if self.cpus_at.is_none_or(|at| now.since(at) >= CPUS_KNOWN_FOR) {
            (self.cpus, self.cpus_at) = (cpus_online(), Some(now));
        }
        Some(self.passed(now, busy_us))
    }

    /// What was used and taken since the machine was started.
    fn busy_until(&mut self, now: Moment) -> Option<u64> {
        let used = self.root.as_ref().and_then(|root| root.sample(now).ok());
        if let (Some(used), Some(taken)) = (&used, &self.taken)
            && now.since(taken.read_at) < TAKEN_KNOWN_FOR
        {
            return Some(used.usage.as_us().saturating_add(taken.until(now)));
        }
        let times = CpuTimes::of(&fs::read("/proc/stat").ok()?)?;
        self.taken = Some(Taken::read(times.taken_us, self.taken.as_ref(), now));
        // Without a root of control groups the ticks have to do.
        let used_us = used.map_or(times.ran_us, |sample| sample.usage.as_us());
        Some(used_us.saturating_add(times.taken_us))
    }

    /// Adds what passed since the last sample.
    fn passed(&mut self, now: Moment, busy_us: u64) -> MachineSample {
        if let Some((then, before_us)) = self.last {
            // What was taken may turn out to be less than was thought; then nothing counts until
            // that is made up for.
            let ran_us = busy_us.saturating_sub(before_us);
            let had_us = now.since(then).as_us().saturating_mul(self.cpus.get()) / 1000;
            self.busy_us += ran_us;
            self.idle_us += had_us.saturating_sub(ran_us);
        }
        self.last = Some((now, self.last.map_or(busy_us, |(_, before)| before.max(busy_us))));
        let (idle, busy) = (Span::from_us(self.idle_us), Span::from_us(self.busy_us));
        MachineSample { at: now, idle, busy }
    }
}

impl Taken {
    fn read(sum_us: u64, before: Option<&Self>, now: Moment) -> Self {
        let per_second_us = before.map_or(0, |before| {
            let window_us = now.since(before.read_at).as_us().max(1);
            sum_us.saturating_sub(before.sum_us).saturating_mul(SECOND_US) / window_us
        });
        Self { read_at: now, sum_us, per_second_us }
    }

    fn until(&self, now: Moment) -> u64 {
        let elapsed_us = now.since(self.read_at).as_us();
        self.sum_us.saturating_add(self.per_second_us.saturating_mul(elapsed_us) / SECOND_US)
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
    fn what_is_taken_goes_on_until_it_is_read_again() {
        let at = |ms: u64| Moment::from_us(ms * 1000);
        let first = Taken::read(5_000, None, at(0));
        assert_eq!(first.until(at(900)), 5_000, "nothing is known of its speed yet");
        let second = Taken::read(105_000, Some(&first), at(1000));
        assert_eq!(second.until(at(1000)), 105_000);
        assert_eq!(second.until(at(1500)), 155_000);
        let third = Taken::read(105_000, Some(&second), at(2000));
        assert_eq!(third.until(at(2500)), 105_000);
    }

    #[test]
    fn a_guess_that_was_too_high_is_made_up_for() {
        let layout = Layout::of_this_machine().expect("control groups");
        let mut machine = Machine { cpus: Millicores::from_cores(1), ..Machine::of(&layout) };
        let at = |ms: u64| Moment::from_us(ms * 1000);
        let mut busy_ms =
            |ms: u64, busy_us: u64| machine.passed(at(ms), busy_us).busy.as_ms_floor();
        assert_eq!(busy_ms(0, 1_000_000), 0);
        assert_eq!(busy_ms(100, 1_080_000), 80);
        assert_eq!(busy_ms(200, 1_060_000), 80);
        assert_eq!(busy_ms(300, 1_090_000), 90);
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
