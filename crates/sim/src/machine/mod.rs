//! A model of one node's CPU: groups with quotas and weights that contend for its cores.
//!
//! Time moves in slices of 10 ms, ten to a CFS period. In each slice every group runs as much as
//! its threads, its work, its quota and its weighted share of the cores allow; what one group
//! leaves flows on to the others, as the kernel's scheduler has it. Quotas are refilled once per
//! period (`group`). Work is fluid: core-milliseconds, as floating point, with the same result on
//! every machine since only the four basic operations are used.

mod group;
mod share;

pub use group::{Counters, Group};
use share::Share;

/// The length of a CFS period.
pub const PERIOD_MS: u32 = 100;
/// The length of a slice: the grain of contention.
pub const SLICE_MS: u32 = 10;

/// What one group wants to run in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Want {
    /// How many threads could run at once.
    pub threads: f64,
    /// How much work is waiting, in core-milliseconds.
    pub work_core_ms: f64,
}

/// One node's CPU.
#[derive(Clone, Debug)]
pub struct Machine {
    cores: f64,
    groups: Vec<Group>,
    slice_in_period: u32,
    shares: Vec<Share>,
}

impl Machine {
    /// A node of `cores` cores and `groups` groups without limits and of equal weight.
    #[must_use]
    pub fn new(cores: f64, groups: usize) -> Self {
        Self {
            cores,
            groups: vec![Group::default(); groups],
            slice_in_period: 0,
            shares: Vec::with_capacity(groups),
        }
    }

    /// How many cores there are.
    #[must_use]
    pub const fn cores(&self) -> f64 {
        self.cores
    }

    /// One group.
    #[must_use]
    pub fn group(&self, place: usize) -> &Group {
        &self.groups[place]
    }

    /// One group, to set its limit, burst or weight.
    pub fn group_mut(&mut self, place: usize) -> &mut Group {
        &mut self.groups[place]
    }

    /// A group could not use all it was given in the last slice.
    pub fn gave_back(&mut self, place: usize, unused_core_ms: f64) {
        if unused_core_ms > 0.0 {
            self.groups[place].gave_back(unused_core_ms);
        }
    }

    /// Runs one slice: `got` receives what each group ran, in core-milliseconds.
    ///
    /// # Panics
    /// If `wants` or `got` do not have one entry per group.
    pub fn run_slice(&mut self, wants: &[Want], got: &mut [f64]) {
        assert!(wants.len() == self.groups.len() && got.len() == self.groups.len());
        if self.slice_in_period == 0 {
            for group in &mut self.groups {
                group.period_begins();
            }
        }
        self.slice_in_period = (self.slice_in_period + 1) % (PERIOD_MS / SLICE_MS);
        let slice_ms = f64::from(SLICE_MS);
        self.shares.clear();
        for (group, want) in self.groups.iter().zip(wants) {
            // No more than one core per thread, nor more than the node has.
            let wanted = want.work_core_ms.min(want.threads.min(self.cores) * slice_ms);
            self.shares.push(Share::new(wanted.min(group.left_core_ms()), group.weight()));
        }
        share::divide(self.cores * slice_ms, &mut self.shares);
        for (place, share) in self.shares.iter().enumerate() {
            got[place] = share.got;
            self.groups[place].ran(share, &wants[place], self.cores);
        }
    }
}
