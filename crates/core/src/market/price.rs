//! The published price of a node's CPU: what agents react to and everyone else may read.

use super::{Mode, Sums, Terms};
use crate::units::Ratio;

/// `((bids - capacity) / capacity) * mean weight` where bids exceed capacity, else zero. A weight
/// counts in units of the terms', so that requests as weights do not make prices in the hundreds.
///
/// It is zero, too, while the hysteresis band still calls the market uncongested: the price follows
/// the label, so that the two never tell different stories.
pub(super) fn published(terms: &Terms, sums: &Sums, mode: Mode) -> Ratio {
    if mode == Mode::Uncongested {
        return Ratio::ZERO;
    }
    let excess = sums.bid.saturating_sub(terms.capacity);
    // Both weights are thousandths and the result is millionths.
    let dividend = u128::from(excess.get()) * u128::from(sums.weight_thousandths) * 1_000_000;
    // A node without any capacity has the price of one with a single millicore.
    let divisor = u128::from(terms.capacity.get().max(1))
        * u128::from(sums.workloads.max(1))
        * u128::from(terms.weight_unit.thousandths());
    let millionths = (dividend + divisor / 2) / divisor;
    Ratio::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX))
}
