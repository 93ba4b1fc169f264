//! The estimator of a running node: a quantile of what the workload used in its recent seconds,
//! plus a headroom that integrates the gap between its throttled periods and a target.
//!
//! Usage cannot exceed the limit in force, so a quantile alone would never ask for more; the
//! headroom is what climbs when the workload is throttled, and what comes down when it is not.
//!
//! Memory is fixed when the workload arrives: two rings of as many slots as the window has seconds.
//! The second one is kept in order, so a quantile is a look-up.

use alloc::boxed::Box;
use alloc::vec;

use super::Bounds;
use crate::units::{Millicores, Ratio};

/// How the estimator behaves; every figure belongs to a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRule {
    /// Which quantile of the recent usages is the base.
    pub quantile: Ratio,
    /// The share of throttled periods that is fine.
    pub throttle_target: Ratio,
    /// How fast the headroom grows with the gap above the target, per second.
    pub gain: Ratio,
    /// How fast the headroom fades while nothing at all is throttled, per second; slower the closer
    /// to the target.
    pub fade: Ratio,
    /// The headroom of a new workload, in spreads.
    pub headroom_start: Ratio,
    /// The most headroom a workload can collect, in spreads.
    pub headroom_max: Ratio,
    /// The spread is at least this share of the base, so that a steady workload can grow too.
    pub spread_floor: Ratio,
}

/// The recent seconds of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Usages in millicores, oldest overwritten first.
    ring: Box<[u32]>,
    /// The same, in ascending order. Only the first `filled` slots count in either.
    ordered: Box<[u32]>,
    next: usize,
    filled: usize,
    sum: u64,
    sum_of_squares: u128,
    headroom: Ratio,
}

// === impl Window ===

impl Window {
    /// An empty window of `seconds` slots, at least one.
    #[must_use]
    pub fn new(seconds: usize, rule: &WindowRule) -> Self {
        let slots = seconds.max(1);
        Self {
            ring: vec![0; slots].into_boxed_slice(),
            ordered: vec![0; slots].into_boxed_slice(),
            next: 0,
            filled: 0,
            sum: 0,
            sum_of_squares: 0,
            headroom: rule.headroom_start.min(rule.headroom_max),
        }
    }

    /// A second has passed in which the workload used `usage` and was throttled in `period_ratio`
    /// of the periods.
    pub fn second_passed(&mut self, usage: Millicores, period_ratio: Ratio, rule: &WindowRule) {
        let usage = u32::try_from(usage.get()).unwrap_or(u32::MAX);
        let evicted = (self.filled == self.ring.len()).then(|| self.ring[self.next]);
        if let Some(evicted) = evicted {
            self.sum -= u64::from(evicted);
            self.sum_of_squares -= square(evicted);
        }
        self.sum += u64::from(usage);
        self.sum_of_squares += square(usage);
        self.reorder(evicted, usage);
        self.ring[self.next] = usage;
        self.next = (self.next + 1) % self.ring.len();
        self.filled = (self.filled + 1).min(self.ring.len());
        self.integrate(period_ratio, rule);
    }

    /// The need, once at least one second is known.
    #[must_use]
    pub fn need(&self, bounds: Bounds, rule: &WindowRule) -> Option<Millicores> {
        let base = self.quantile(rule.quantile)?;
        let spread = self.deviation().max(base.scale_floor(rule.spread_floor));
        Some(bounds.clamp(base + spread.scale_ceil(self.headroom)))
    }

    /// The usage that a share of `quantile` of the recent seconds did not exceed.
    #[must_use]
    pub fn quantile(&self, quantile: Ratio) -> Option<Millicores> {
        let last = self.filled.checked_sub(1)?;
        let filled = u64::try_from(self.filled).unwrap_or(u64::MAX);
        // The smallest value that at least `quantile` of all values do not exceed.
        let rank = Millicores::new(filled).scale_ceil(quantile.at_most_one()).get();
        let place = usize::try_from(rank.saturating_sub(1)).unwrap_or(last).min(last);
        Some(Millicores::new(u64::from(self.ordered[place])))
    }

    /// The headroom collected so far, in spreads.
    #[must_use]
    pub const fn headroom(&self) -> Ratio {
        self.headroom
    }

    /// How many seconds the window holds.
    #[must_use]
    pub fn slots(&self) -> u64 {
        u64::try_from(self.ring.len()).unwrap_or(u64::MAX)
    }

    fn integrate(&mut self, period_ratio: Ratio, rule: &WindowRule) {
        let target = rule.throttle_target;
        let grows = period_ratio.saturating_sub(target).times_floor(rule.gain);
        let fades = rule.fade.times_floor(target.saturating_sub(period_ratio).over(target));
        self.headroom = (self.headroom + grows).saturating_sub(fades).min(rule.headroom_max);
    }

    /// Replaces `evicted`, or takes a free slot, keeping the order.
    fn reorder(&mut self, evicted: Option<u32>, usage: u32) {
        let from = match evicted {
            Some(evicted) => self.ordered[..self.filled].partition_point(|&kept| kept < evicted),
            None => self.filled,
        };
        let occupied = if evicted.is_some() { self.filled } else { self.filled + 1 };
        let to = self.ordered[..self.filled].partition_point(|&kept| kept < usage);
        if to > from {
            // The evicted value stood before the new one, so everything between moves up a place.
            self.ordered.copy_within(from + 1..to, from);
            self.ordered[to - 1] = usage;
        } else {
            self.ordered.copy_within(to..from, to + 1);
            self.ordered[to] = usage;
        }
        debug_assert!(self.ordered[..occupied].is_sorted(), "a quantile is a look-up");
    }

    /// The standard deviation of the recent usages, rounded down.
    fn deviation(&self) -> Millicores {
        let count = self.filled as u128;
        let spread = count * self.sum_of_squares - u128::from(self.sum) * u128::from(self.sum);
        let variance = if count == 0 { 0 } else { spread / (count * count) };
        Millicores::new(u64::try_from(variance.isqrt()).unwrap_or(u64::MAX))
    }
}

fn square(value: u32) -> u128 {
    u128::from(value) * u128::from(value)
}
