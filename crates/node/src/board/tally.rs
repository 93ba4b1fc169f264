//! Everything that is counted since the daemon started: what `/metrics` needs beside the state.

use walras_core::market::Mode;
use walras_core::node::{Loop, Outcome};
use walras_core::units::Span;
use walras_wire::state::ChangeResult;

use super::Took;

/// The upper bounds of the buckets of a [`Duration`], in microseconds.
pub const BUCKETS_US: [u64; 12] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

/// Counts since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ticks of the fast loop.
    pub fast_ticks: u64,
    /// Ticks of the slow loop: clearings.
    pub slow_ticks: u64,
    /// Changes that took effect.
    pub changes: u64,
    /// Changes that were asked for, whatever became of them.
    pub asked: u64,
    /// Changes that were not made because the daemon only watches.
    pub only_watched: u64,
    /// Changes that failed.
    pub failures: u64,
    /// Changes that could not be made at once, and were asked for instead.
    pub asked_instead: u64,
    /// Samples that could not be read.
    pub read_errors: u64,
    /// Clearings that ended uncongested, congested, overloaded.
    pub modes: [u64; 3],
    /// How long reading the counters of all workloads that were due took.
    pub sampling: Duration,
    /// How long the slow loop took to decide.
    pub clearing: Duration,
    /// How long the fast loop took to decide.
    pub reacting: Duration,
    /// How long it took to carry out what one tick decided, where there was anything to do.
    pub acting: Duration,
}

/// A histogram of lengths of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duration {
    /// How many fell into each bucket of [`BUCKETS_US`]; the last has what is longer than all.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    /// How many there were.
    pub count: u64,
    /// How long they were together.
    pub sum: Span,
}

// === impl Tally ===

impl Tally {
    pub(super) fn ticked(&mut self, outcome: &Outcome) {
        match outcome.tick {
            Loop::Fast => self.fast_ticks += 1,
            Loop::Slow => {
                self.slow_ticks += 1;
                self.modes[mode_place(outcome.mode)] += 1;
            }
        }
    }

    pub(super) fn changed(&mut self, result: &ChangeResult) {
        match result {
            ChangeResult::Done => self.changes += 1,
            ChangeResult::Asked => self.asked += 1,
            ChangeResult::OnlyWatching => self.only_watched += 1,
            ChangeResult::Failed(_) => self.failures += 1,
        }
    }

    pub(super) fn took(&mut self, tick: Loop, took: Took) {
        self.sampling.add(took.sampling);
        match tick {
            Loop::Fast => self.reacting.add(took.deciding),
            Loop::Slow => self.clearing.add(took.deciding),
        }
        if took.acting > Span::ZERO {
            self.acting.add(took.acting);
        }
    }
}

/// Where a mode is counted in [`Tally::modes`].
pub(crate) const fn mode_place(mode: Mode) -> usize {
    match mode {
        Mode::Uncongested => 0,
        Mode::Congested => 1,
        Mode::Overloaded => 2,
    }
}

// === impl Duration ===

impl Duration {
    fn add(&mut self, span: Span) {
        let us = span.as_us();
        let place = BUCKETS_US.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS_US.len());
        self.buckets[place] += 1;
        self.count += 1;
        self.sum = Span::from_us(self.sum.as_us().saturating_add(us));
    }
}
