//! The published price of a node's CPU: what agents react to and everyone else may read.

use super::{Mode, Sums};
use crate::units::{Millicores, Ratio};

/// `((bids - capacity) / capacity) * mean weight` where bids exceed capacity, else zero.
///
/// It is zero, too, while the hysteresis band still calls the market uncongested: the price follows
/// the label, so that the two never tell different stories.
pub(super) fn published(capacity: Millicores, sums: &Sums, mode: Mode) -> Ratio {
    if mode == Mode::Uncongested {
        return Ratio::ZERO;
    }
    let excess = sums.bid.saturating_sub(capacity);
    // Weights are thousandths and the result is millionths, hence the factor of 1000.
    let dividend = u128::from(excess.get()) * u128::from(sums.weight_thousandths) * 1000;
    // A node without any capacity has the price of one with a single millicore.
    let divisor = u128::from(capacity.get().max(1)) * u128::from(sums.pods.max(1));
    let millionths = (dividend + divisor / 2) / divisor;
    Ratio::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX))
}
