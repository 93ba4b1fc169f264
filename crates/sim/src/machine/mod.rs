//! A model of one node's CPU: groups with quotas and weights that contend for its cores.
//!
//! Time moves in slices of 10 ms, ten to a CFS period. In each slice every group runs as much as
//! its threads, its work, its quota and its weighted share of the cores allow; what one group
//! leaves flows on to the others, as the kernel's scheduler has it. Quotas are refilled once per
//! period (`group`). Work is fluid: core-milliseconds, as floating point, with the same result on
//! every machine since only the four basic operations are used.

mod cpus;
mod group;
mod nested;
mod share;

use walras_core::units::Span;

pub use cpus::CpuSet;
use group::Part;
pub use group::{Counters, Group};
use nested::Layout;
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
    /// Where groups are below others or bound to CPUs; none where all are side by side.
    layout: Option<Layout>,
    slice_in_period: u32,
    idle_core_ms: f64,
    passed_core_ms: f64,
    // Kept from slice to slice: the groups that want to run, and what each of them gets.
    awake: Vec<usize>,
    shares: Vec<Share>,
}

impl Machine {
    /// A node of `cores` cores and `groups` groups without limits and of equal weight.
    #[must_use]
    pub fn new(cores: f64, groups: usize) -> Self {
        Self {
            cores,
            groups: vec![Group::default(); groups],
            layout: None,
            slice_in_period: 0,
            idle_core_ms: 0.0,
            passed_core_ms: 0.0,
            awake: Vec::with_capacity(groups),
            shares: Vec::with_capacity(groups),
        }
    }

    /// How many groups there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no group.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many cores there are.
    #[must_use]
    pub const fn cores(&self) -> f64 {
        self.cores
    }

    /// The CPU time that nobody used so far, and that somebody did, on all cores together.
    #[must_use]
    pub fn idle_and_busy(&self) -> (Span, Span) {
        let busy_core_ms = self.passed_core_ms - self.idle_core_ms;
        (group::microseconds(self.idle_core_ms), group::microseconds(busy_core_ms))
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

    /// Makes one more group, below another, and says its place. Its siblings share by weight what
    /// their parent gets, and quotas hold at each level.
    pub fn add_child(&mut self, parent: usize) -> usize {
        self.layout_mut().add_child(parent);
        self.groups.push(Group::default());
        self.groups.len() - 1
    }

    /// Binds a group, and all below it, to some of the node's CPUs.
    ///
    /// # Panics
    /// If the group is below another, the node has other CPUs, or all sets together have more
    /// [`CpuSet::regions`] than a machine watches over.
    pub fn bind(&mut self, place: usize, cpus: CpuSet) {
        self.layout_mut().bind(place, cpus);
    }

    /// The cores on which a group can run.
    #[must_use]
    pub fn cores_of(&self, place: usize) -> f64 {
        self.layout.as_ref().map_or(self.cores, |layout| layout.cores(place))
    }

    /// A group could not use all it was given in the last slice.
    pub fn gave_back(&mut self, place: usize, unused_core_ms: f64) {
        if unused_core_ms <= 0.0 {
            return;
        }
        self.idle_core_ms += unused_core_ms;
        match &self.layout {
            None => self.groups[place].gave_back(unused_core_ms),
            Some(layout) => {
                for place in layout.with_ancestors(place) {
                    self.groups[place].gave_back(unused_core_ms);
                }
            }
        }
    }

    /// Runs one slice: `got` receives what each group ran, in core-milliseconds. What has groups
    /// below it wants nothing itself, and runs what they run.
    ///
    /// # Panics
    /// If `wants` or `got` do not have one entry per group.
    pub fn run_slice(&mut self, wants: &[Want], got: &mut [f64]) {
        assert!(wants.len() == self.groups.len() && got.len() == self.groups.len());
        let used = match &mut self.layout {
            None => self.run_side_by_side(wants, got),
            Some(layout) => layout.run(&mut self.groups, wants, got),
        };
        let pool = self.cores * f64::from(SLICE_MS);
        self.idle_core_ms += pool - used;
        self.passed_core_ms += pool;
        self.slice_in_period = (self.slice_in_period + 1) % (PERIOD_MS / SLICE_MS);
        if self.slice_in_period == 0 {
            for group in &mut self.groups {
                group.period_ended();
            }
        }
    }

    /// A slice of a machine whose groups are all alike, and what ran in it.
    fn run_side_by_side(&mut self, wants: &[Want], got: &mut [f64]) -> f64 {
        self.shares.clear();
        self.awake.clear();
        got.fill(0.0);
        for (place, (group, want)) in self.groups.iter().zip(wants).enumerate() {
            let wanted = Part::of(want, self.cores).wanted;
            // Most groups of a node sleep most of the time, and cost next to nothing then.
            if wanted > 0.0 {
                self.awake.push(place);
                self.shares.push(Share::new(wanted.min(group.left_core_ms()), group.weight()));
            }
        }
        share::divide(self.cores * f64::from(SLICE_MS), &mut self.shares);
        for (&place, share) in self.awake.iter().zip(&self.shares) {
            got[place] = share.got;
            let part = Part::of(&wants[place], self.cores);
            self.groups[place].ran(&Part { most: share.most, got: share.got, ..part });
        }
        self.shares.iter().map(|share| share.got).sum()
    }

    fn layout_mut(&mut self) -> &mut Layout {
        self.layout.get_or_insert_with(|| Layout::flat(self.cores, self.groups.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::Millicores;

    /// One core, and one group with this limit and burst buffer.
    fn limited(limit: u64, burst: u64) -> Machine {
        let mut machine = Machine::new(1.0, 1);
        machine.group_mut(0).set_limit(Some(Millicores::new(limit)), Millicores::new(burst));
        machine
    }

    /// One thread runs for so many slices, with so much to do. Says what was not done.
    fn run(machine: &mut Machine, slices: u32, work_core_ms: f64) -> f64 {
        let mut left = work_core_ms;
        let mut got = [0.0];
        for _ in 0..slices {
            machine.run_slice(&[Want { threads: 1.0, work_core_ms: left }], &mut got);
            left -= got[0];
        }
        left
    }

    /// Periods, throttled ones, and time throttled.
    fn check(machine: &Machine, nr_periods: u64, nr_throttled: u64, throttled_core_ms: f64) {
        let counters = machine.group(0).counters();
        assert_eq!((counters.nr_periods, counters.nr_throttled), (nr_periods, nr_throttled));
        assert!((counters.throttled_core_ms - throttled_core_ms).abs() < 1e-6, "{counters:?}");
    }

    #[test]
    fn one_idle_period_after_an_active_one_is_counted() {
        let mut machine = limited(200, 0);
        run(&mut machine, 10, 5.0);
        check(&machine, 1, 0, 0.0);
        run(&mut machine, 50, 0.0);
        check(&machine, 2, 0, 0.0);
    }

    #[test]
    fn little_work_is_throttled_as_long_as_much() {
        let mut machine = limited(200, 0);
        assert!(run(&mut machine, 20, 21.0) < 1e-9);
        check(&machine, 2, 1, 80.0);
    }

    #[test]
    fn another_limit_ends_throttling_and_the_period_is_not_a_throttled_one() {
        let mut machine = limited(100, 0);
        run(&mut machine, 3, 100.0);
        machine.group_mut(0).set_limit(Some(Millicores::new(800)), Millicores::ZERO);
        assert!((run(&mut machine, 7, 100.0) - 30.0).abs() < 1e-9);
        check(&machine, 1, 0, 20.0);
    }

    #[test]
    fn another_limit_between_two_periods_leaves_the_count_of_the_first_alone() {
        let mut machine = limited(100, 0);
        run(&mut machine, 10, 100.0);
        machine.group_mut(0).set_limit(Some(Millicores::new(800)), Millicores::ZERO);
        check(&machine, 1, 1, 90.0);
    }

    #[test]
    fn the_buffer_is_full_at_first_and_after_two_idle_periods() {
        let mut machine = limited(200, 200);
        assert!((run(&mut machine, 10, 100.0) - 60.0).abs() < 1e-9);
        run(&mut machine, 20, 0.0);
        assert!((run(&mut machine, 10, 100.0) - 60.0).abs() < 1e-9);
    }

    #[test]
    fn what_was_given_back_at_the_end_of_a_period_does_not_make_the_next_one_longer() {
        let mut machine = limited(200, 0);
        run(&mut machine, 9, 0.0);
        run(&mut machine, 1, 10.0);
        machine.gave_back(0, 4.0);
        assert!((run(&mut machine, 10, 100.0) - 80.0).abs() < 1e-9);
    }
}
