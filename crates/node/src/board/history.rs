//! The last hour: one point every ten seconds, for each workload and for the node, in few bytes.
//!
//! The moments are kept once for all. The newest point of a workload belongs to the newest moment,
//! so a workload that came later has fewer points. What lies in the future after the clock was set
//! back is dropped, so that moments always rise.

use std::collections::VecDeque;

use walras_core::units::{Millicores, Ratio};
use walras_wire::state::History;

use super::entry::Entry;

/// The time between two points.
pub(super) const STEP_MS: u64 = 10_000;
/// An hour of them.
const POINTS: usize = 360;
/// Stands for what is not known.
const UNKNOWN: u32 = u32::MAX;

/// What was so at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) usage: Option<Millicores>,
    pub(super) need: Option<Millicores>,
    pub(super) request: Option<Millicores>,
    pub(super) limit: Option<Millicores>,
    pub(super) throttled: Option<Ratio>,
}

/// A [`Point`] in twenty bytes. Throttling is kept in millionths.
#[derive(Clone, Copy, Debug)]
struct Packed {
    usage: u32,
    need: u32,
    request: u32,
    limit: u32,
    throttled: u32,
}

/// The points of one workload, oldest first.
#[derive(Debug, Default)]
pub(super) struct Points(VecDeque<Packed>);

/// The moments, and the points of the node.
#[derive(Debug, Default)]
pub(super) struct Hour {
    at_ms: VecDeque<u64>,
    prices: VecDeque<Ratio>,
    points: Points,
}

// === impl Hour ===

impl Hour {
    /// Time passed: takes a point of everybody if the last one is old enough.
    pub(super) fn passed(&mut self, at_ms: u64, price: Ratio, entries: &mut [Entry]) {
        while self.at_ms.back().is_some_and(|last| *last > at_ms) {
            self.at_ms.pop_back();
            self.prices.pop_back();
            self.points.0.pop_back();
            for entry in &mut *entries {
                entry.points.0.pop_back();
            }
        }
        if self.at_ms.back().is_some_and(|last| at_ms - last < STEP_MS) {
            return;
        }
        let mut sum = Point::default();
        let (mut periods, mut throttled) = (0, 0);
        for entry in entries {
            let (point, signal) = entry.point();
            if let Some(signal) = signal {
                periods += signal.periods;
                throttled += signal.throttled_periods;
                sum.throttled = Some(Ratio::of(throttled, periods));
            }
            sum.usage = plus(sum.usage, point.usage);
            sum.need = plus(sum.need, point.need);
            sum.request = plus(sum.request, point.request);
            sum.limit = plus(sum.limit, point.limit);
            entry.points.push(point);
        }
        push(&mut self.at_ms, at_ms);
        push(&mut self.prices, price);
        self.points.push(sum);
    }

    /// The whole node.
    pub(super) fn of_node(&self) -> History {
        self.of_workload(&self.points)
    }

    /// One workload, beside the price there was.
    pub(super) fn of_workload(&self, points: &Points) -> History {
        let points = &points.0;
        let skipped = self.at_ms.len().saturating_sub(points.len());
        let column = |pick: fn(&Packed) -> u32| points.iter().map(|p| unpack(pick(p))).collect();
        let throttled = points.iter().map(|point| unpack(point.throttled));
        History {
            step_ms: STEP_MS,
            at_ms: self.at_ms.iter().skip(skipped).copied().collect(),
            usage_milli: column(|point| point.usage),
            need_milli: column(|point| point.need),
            request_milli: column(|point| point.request),
            limit_milli: column(|point| point.limit),
            throttled_period_ratio: throttled
                .map(|ratio| ratio.map(|ratio| Ratio::from_millionths(ratio).to_f64()))
                .collect(),
            price: self.prices.iter().skip(skipped).map(|price| Some(price.to_f64())).collect(),
        }
    }
}

// === impl Points ===

impl Points {
    fn push(&mut self, point: Point) {
        let milli = |amount: Option<Millicores>| pack(amount.map(Millicores::get));
        let packed = Packed {
            usage: milli(point.usage),
            need: milli(point.need),
            request: milli(point.request),
            limit: milli(point.limit),
            throttled: pack(point.throttled.map(Ratio::millionths)),
        };
        push(&mut self.0, packed);
    }
}

fn push<T>(column: &mut VecDeque<T>, new: T) {
    if column.capacity() < POINTS {
        column.reserve_exact(POINTS - column.len());
    }
    if column.len() == POINTS {
        column.pop_front();
    }
    column.push_back(new);
}

fn plus(sum: Option<Millicores>, more: Option<Millicores>) -> Option<Millicores> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    }
}

fn pack(value: Option<u64>) -> u32 {
    value.map_or(UNKNOWN, |value| u32::try_from(value).unwrap_or(UNKNOWN).min(UNKNOWN - 1))
}

fn unpack(value: u32) -> Option<u64> {
    (value != UNKNOWN).then_some(u64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(hundredths: u32) -> Ratio {
        Ratio::from_percent(hundredths)
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_points_in_the_future() {
        let mut hour = Hour::default();
        for (at_ms, hundredths) in [(0, 1), (10_000, 2), (19_999, 3), (20_000, 4), (30_000, 5)] {
            hour.passed(at_ms, price(hundredths), &mut []);
        }
        assert_eq!(hour.of_node().at_ms, [0, 10_000, 20_000, 30_000]);
        hour.passed(12_000, price(6), &mut []);
        assert_eq!(hour.of_node().at_ms, [0, 10_000]);
        hour.passed(21_000, price(7), &mut []);
        assert_eq!(hour.of_node().at_ms, [0, 10_000, 21_000]);
        assert_eq!(hour.of_node().price, [Some(0.01), Some(0.02), Some(0.07)]);
    }

    #[test]
    fn five_hundred_workloads_fit_into_four_megabytes() {
        assert!(size_of::<Packed>() * POINTS * 500 < 4_000_000);
    }

    #[test]
    fn what_is_not_known_stays_unknown_and_what_is_too_large_stays_known() {
        assert_eq!(unpack(pack(None)), None);
        assert_eq!(unpack(pack(Some(0))), Some(0));
        assert_eq!(unpack(pack(Some(u64::MAX))), Some(u64::from(UNKNOWN) - 1));
    }
}
