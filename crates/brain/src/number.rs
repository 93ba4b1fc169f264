//! Conversions between kinds of numbers, each with the reason why it may lose something.

/// The nearest number that 32 bits hold. Models are stored and computed in 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "rounding to 32 bits is what is asked for")]
pub(crate) const fn narrow(value: f64) -> f32 {
    value as f32
}

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
pub(crate) const fn count(value: usize) -> f64 {
    value as f64
}
