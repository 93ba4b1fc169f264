//! Which changes are worth a write.

use walras_core::units::{Millicores, Ratio};

/// What changes less than this is never worth a write.
const LEAST_CHANGE: Millicores = Millicores::new(10);
/// A price that moved by less than this is not worth a write by itself: every pod of the node would
/// be written for it. Bidders respond to a price above 0.3, which is six times as much.
const PRICE_BAND: Ratio = Ratio::from_percent(5);
/// Nor is one that moved by less than this part of what was written: a high price is a rough one.
const PRICE_BAND_RELATIVE: Ratio = Ratio::from_percent(10);

/// Whether an amount differs enough from what was written.
pub(super) fn is_worth_it(written: Millicores, desired: Millicores, band: Ratio) -> bool {
    written.abs_diff(desired) >= LEAST_CHANGE.max(written.scale_floor(band))
}

/// Whether the price does.
pub(super) fn has_moved(written: Ratio, price: Ratio) -> bool {
    let moved = written.saturating_sub(price) + price.saturating_sub(written);
    moved >= PRICE_BAND.max(written.times_floor(PRICE_BAND_RELATIVE))
}
