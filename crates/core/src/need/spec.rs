//! The estimator of the allocator document: demand picks a point between min and max, and headroom
//! goes on top.
//!
//! It is at least the workload's known usage with the same headroom, so that a workload whose
//! throttling is invisible is still served. Every product is rounded down.

use super::Bounds;
use crate::units::{Millicores, Ratio};

/// Headroom of a workload without demand.
const HEADROOM_BASE: Ratio = Ratio::from_percent(10);
/// Headroom added at full demand, and in proportion below it.
const HEADROOM_AT_FULL_DEMAND: Ratio = Ratio::from_percent(15);
/// Headroom added for each recent miss.
const HEADROOM_PER_MISS: Ratio = Ratio::from_percent(5);
/// No workload gets more headroom than this.
const HEADROOM_MAX: Ratio = Ratio::from_percent(50);
/// A workload without demand that uses more than this share of its min has a broken signal.
const BROKEN_SIGNAL_USAGE: Ratio = Ratio::from_percent(90);
/// What such a workload gets, times its usage.
const BROKEN_SIGNAL_FACTOR: Ratio = Ratio::from_percent(130);

/// What the estimator looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecFacts {
    /// How urgently the workload wants more, from 0 to 1.
    pub demand: Ratio,
    /// What it uses, where that is known.
    pub usage: Option<Millicores>,
    /// How often it still showed demand after an allocation, lately.
    pub headroom_misses: u32,
}

/// `(min + (max - min) * demand) * (1 + headroom)`, at least the usage with headroom, clamped.
#[must_use]
pub fn spec(bounds: Bounds, facts: &SpecFacts) -> Millicores {
    let demand = facts.demand.at_most_one();
    let headroom = headroom(demand, facts.headroom_misses);
    let raw = bounds.min() + bounds.max().saturating_sub(bounds.min()).scale_floor(demand);
    let mut need = raw + raw.scale_floor(headroom);
    if let Some(usage) = facts.usage {
        need = need.max(usage + usage.scale_floor(headroom));
        let suspicious = usage > bounds.min().scale_floor(BROKEN_SIGNAL_USAGE);
        if demand == Ratio::ZERO && suspicious {
            need = need.max(usage.scale_floor(BROKEN_SIGNAL_FACTOR));
        }
    }
    bounds.clamp(need)
}

/// The share added on top: 10 %, up to 15 % more with demand, 5 % more per miss, at most 50 %.
#[must_use]
pub fn headroom(demand: Ratio, misses: u32) -> Ratio {
    let for_demand = HEADROOM_AT_FULL_DEMAND.times_floor(demand);
    let per_miss = HEADROOM_PER_MISS.millionths();
    let for_misses = Ratio::from_millionths(per_miss.saturating_mul(u64::from(misses)));
    (HEADROOM_BASE + for_demand + for_misses).min(HEADROOM_MAX)
}
