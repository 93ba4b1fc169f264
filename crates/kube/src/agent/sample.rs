//! A pod's counters, made from several control groups.
//!
//! The kernel throttles a container in the container's group, not in the pod's, so the pod's own
//! counters alone would show nothing. Usage is the pod group's. How much it was throttled in an
//! interval is the worst that happened to any of its groups: a request waits for the container that
//! is held back, however well the others do.
//!
//! Always: what is told never goes backwards, and a group that is new starts afresh. Where a group
//! cannot be read, the meter is not asked: it goes on from the last reading that was whole.

use std::collections::BTreeMap;

use walras_core::demand::Sample;
use walras_core::units::{Moment, Span};

/// The counters of one pod over time. Groups go by the kernel's number.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// What each group's counters said last; the pod's own among them.
    last: BTreeMap<u64, Counters>,
    total: Counters,
    stalled: Option<Span>,
}

/// A group with its counters.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The kernel's number of the group.
    pub inode: u64,
    /// What was read.
    pub sample: Sample,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    usage: Span,
    throttled: Span,
    nr_periods: u64,
    nr_throttled: u64,
}

// === impl Meter ===

impl Meter {
    /// Takes in what the pod's group and its containers' groups say, and returns what the pod as a
    /// whole has counted.
    pub fn read(&mut self, now: Moment, pod: Reading, containers: &[Reading]) -> Sample {
        let mut worst = Counters::default();
        let mut seen = BTreeMap::new();
        for reading in std::iter::once(&pod).chain(containers) {
            let counters = Counters::of(&reading.sample);
            // A group that was not there before has its whole life in its counters.
            let before = self.last.get(&reading.inode).copied().unwrap_or(counters);
            worst = worst.worse_of(counters.since(before));
            seen.insert(reading.inode, counters);
        }
        let used = match self.last.get(&pod.inode) {
            Some(before) => Counters::of(&pod.sample).since(*before).usage,
            // Where there is nothing before, what it used so far is where it starts.
            None if self.last.is_empty() => pod.sample.usage,
            None => Span::ZERO,
        };
        self.last = seen;
        let total = &mut self.total;
        total.usage = sum(total.usage, used);
        total.throttled = sum(total.throttled, worst.throttled);
        total.nr_periods = total.nr_periods.saturating_add(worst.nr_periods);
        total.nr_throttled = total.nr_throttled.saturating_add(worst.nr_throttled);
        self.stalled = pod.sample.stalled.max(self.stalled);
        Sample {
            at: now,
            usage: total.usage,
            throttled: total.throttled,
            nr_periods: total.nr_periods,
            nr_throttled: total.nr_throttled,
            stalled: self.stalled,
        }
    }
}

fn sum(one: Span, other: Span) -> Span {
    Span::from_us(one.as_us().saturating_add(other.as_us()))
}

// === impl Counters ===

impl Counters {
    const fn of(sample: &Sample) -> Self {
        Self {
            usage: sample.usage,
            throttled: sample.throttled,
            nr_periods: sample.nr_periods,
            nr_throttled: sample.nr_throttled,
        }
    }

    fn since(self, before: Self) -> Self {
        let span =
            |now: Span, before: Span| Span::from_us(now.as_us().saturating_sub(before.as_us()));
        Self {
            usage: span(self.usage, before.usage),
            throttled: span(self.throttled, before.throttled),
            nr_periods: self.nr_periods.saturating_sub(before.nr_periods),
            nr_throttled: self.nr_throttled.saturating_sub(before.nr_throttled),
        }
    }

    fn worse_of(self, other: Self) -> Self {
        Self {
            usage: self.usage.max(other.usage),
            throttled: self.throttled.max(other.throttled),
            nr_periods: self.nr_periods.max(other.nr_periods),
            nr_throttled: self.nr_throttled.max(other.nr_throttled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group: its number, usage, throttled time, periods, throttled periods.
    fn reading(inode: u64, [usage, throttled, periods, throttled_periods]: [u64; 4]) -> Reading {
        let sample = Sample {
            at: Moment::ORIGIN,
            usage: Span::from_us(usage),
            throttled: Span::from_us(throttled),
            nr_periods: periods,
            nr_throttled: throttled_periods,
            stalled: None,
        };
        Reading { inode, sample }
    }

    fn check(meter: &mut Meter, pod: [u64; 4], containers: &[(u64, [u64; 4])]) -> [u64; 4] {
        let containers: Vec<_> =
            containers.iter().map(|(inode, it)| reading(*inode, *it)).collect();
        let total = meter.read(Moment::ORIGIN, reading(1, pod), &containers);
        [total.usage.as_us(), total.throttled.as_us(), total.nr_periods, total.nr_throttled]
    }

    #[test]
    fn a_container_that_is_held_back_shows_although_the_pods_group_is_not() {
        let mut meter = Meter::default();
        let first =
            check(&mut meter, [1000, 0, 5, 0], &[(2, [900, 400, 5, 3]), (3, [100, 0, 5, 0])]);
        assert_eq!(first, [1000, 0, 0, 0], "what happened before it was watched is not news");
        let next =
            check(&mut meter, [1600, 0, 15, 0], &[(2, [1400, 700, 15, 9]), (3, [200, 50, 14, 1])]);
        assert_eq!(next, [1600, 300, 10, 6]);
    }

    #[test]
    fn a_restarted_container_starts_afresh_and_nothing_goes_backwards() {
        let mut meter = Meter::default();
        check(&mut meter, [1000, 0, 5, 0], &[(2, [900, 400, 5, 3])]);
        check(&mut meter, [2000, 0, 15, 0], &[(2, [1800, 600, 15, 6])]);
        let restarted = check(&mut meter, [2100, 0, 15, 0], &[(7, [50, 20, 1, 1])]);
        assert_eq!(restarted, [2100, 200, 10, 3]);
        let later = check(&mut meter, [2200, 0, 16, 0], &[(7, [150, 30, 3, 2])]);
        assert_eq!(later, [2200, 210, 12, 4]);
        let back = check(&mut meter, [100, 0, 2, 0], &[(7, [10, 3, 1, 0])]);
        assert_eq!(back, [2200, 210, 12, 4]);
    }

    #[test]
    fn throttled_periods_are_never_more_than_periods() {
        let mut meter = Meter::default();
        check(&mut meter, [0; 4], &[(2, [0; 4]), (3, [0; 4])]);
        let total = check(&mut meter, [10; 4], &[(2, [10, 5, 4, 4]), (3, [10, 1, 9, 1])]);
        assert!(total[3] <= total[2], "{total:?}");
    }
}
