//! From two samples of a workload's counters to what the workload did in between: usage,
//! throttling, waiting.
//!
//! Each loop keeps its own previous sample, so that one never shortens the other's window. A
//! counter that went backwards means the cgroup was made anew: a fresh start, never a negative
//! number. A window too short to mean anything is left to grow: the caller keeps its old sample.

use crate::units::{Millicores, Moment, Ratio, Span};

/// Throttling at this share of usage, or waiting for this share of the time, is full demand.
pub const FULL_DEMAND: Ratio = Ratio::from_percent(10);

/// Less usage than this in a window says nothing about throttling.
pub const USAGE_FLOOR: Span = Span::from_ms(1);

/// A shorter window than this is noise.
pub const WINDOW_FLOOR: Span = Span::from_ms(50);

/// A workload's counters at one moment, as the kernel gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When they were read.
    pub at: Moment,
    /// CPU time used so far.
    pub usage: Span,
    /// Time spent throttled by the quota so far, summed over CPUs.
    pub throttled: Span,
    /// Periods in which the quota was in force and the workload wanted to run.
    pub nr_periods: u64,
    /// Those of them in which it was throttled.
    pub nr_throttled: u64,
    /// Time in which some task waited for a CPU (PSI), where the kernel tells.
    pub stalled: Option<Span>,
}

/// What a workload did between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// The time between the samples.
    pub window: Span,
    /// CPU used, on average.
    pub usage: Millicores,
    /// Throttled time over used time; may exceed one.
    pub throttle_ratio: Ratio,
    /// Throttled periods over periods; zero where there were none.
    pub period_ratio: Ratio,
    /// Periods in the window.
    pub periods: u64,
    /// Throttled periods in the window.
    pub throttled_periods: u64,
    /// Share of the window in which some task waited for a CPU and the workload's own quota was not
    /// the cause; zero where the kernel does not tell.
    pub stall_ratio: Ratio,
    /// How urgently the workload wants more, from 0 to 1.
    pub demand: Ratio,
}

/// What two samples say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The workload's behaviour in the window.
    Window(Signal),
    /// A counter went backwards: start afresh from the newer sample.
    Reset,
    /// The window is too short: keep the older sample and wait.
    TooShort,
    /// The newer sample is not newer.
    OutOfOrder,
}

/// Compares an older sample with a newer one.
#[must_use]
pub fn read(older: &Sample, newer: &Sample) -> Reading {
    if newer.at <= older.at {
        return Reading::OutOfOrder;
    }
    let Some(delta) = Delta::between(older, newer) else {
        return Reading::Reset;
    };
    if delta.window < WINDOW_FLOOR {
        return Reading::TooShort;
    }
    Reading::Window(delta.signal())
}

/// The difference of two samples, none of it negative.
struct Delta {
    window: Span,
    usage: u64,
    throttled: u64,
    periods: u64,
    throttled_periods: u64,
    stalled: u64,
}

// === impl Delta ===

impl Delta {
    fn between(older: &Sample, newer: &Sample) -> Option<Self> {
        let stalled = match (older.stalled, newer.stalled) {
            (Some(before), Some(after)) => after.as_us().checked_sub(before.as_us())?,
            // The file came or went between the two: no window to speak of.
            (None, _) | (_, None) => 0,
        };
        Some(Self {
            window: newer.at.since(older.at),
            usage: newer.usage.as_us().checked_sub(older.usage.as_us())?,
            throttled: newer.throttled.as_us().checked_sub(older.throttled.as_us())?,
            periods: newer.nr_periods.checked_sub(older.nr_periods)?,
            throttled_periods: newer.nr_throttled.checked_sub(older.nr_throttled)?,
            stalled,
        })
    }

    fn signal(&self) -> Signal {
        let window_us = self.window.as_us();
        let usage = Millicores::LIMIT.min(Millicores::new(
            // One core for the whole window is 1000m.
            Ratio::of(self.usage, window_us).millionths() / 1000,
        ));
        let idle = self.usage < USAGE_FLOOR.as_us();
        let throttle_ratio = if idle { Ratio::ZERO } else { Ratio::of(self.throttled, self.usage) };
        let throttled_periods = self.throttled_periods.min(self.periods);
        let stall_ratio = self.stall_ratio();
        // Throttling is the better witness. Where no quota was in force there is none to see, and
        // waiting for a CPU is all that can be known.
        let urgency = if self.periods > 0 { throttle_ratio } else { stall_ratio };
        Signal {
            window: self.window,
            usage,
            throttle_ratio,
            period_ratio: Ratio::of(throttled_periods, self.periods),
            periods: self.periods,
            throttled_periods,
            stall_ratio,
            demand: if idle { Ratio::ZERO } else { urgency.over(FULL_DEMAND).at_most_one() },
        }
    }

    /// A throttled workload waits, too, but for its own quota and not for its neighbours.
    fn stall_ratio(&self) -> Ratio {
        let by_others = self.stalled.saturating_sub(self.throttled);
        Ratio::of(by_others, self.window.as_us()).at_most_one()
    }
}
