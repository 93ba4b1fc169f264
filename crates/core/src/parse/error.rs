//! What can be wrong with text from outside, in words that name the file, the key and the value.
//!
//! Every parser of this module returns these errors; the caller logs them. A value shown
//! in an error is at most 32 characters long, whatever was read.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::quantity::Quantity;
use crate::units::Millicores;

/// Why a text could not be read as numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A required key is not in the file.
    #[error("{file}: {key} is missing")]
    Missing {
        /// The name of the file.
        file: &'static str,
        /// The key, or what the one value of the file means.
        key: &'static str,
    },
    /// A key holds something else than a number.
    #[error("{file}: {key} is not a number: {value:?}")]
    NotANumber {
        /// The name of the file.
        file: &'static str,
        /// The key, or what the one value of the file means.
        key: &'static str,
        /// What was there instead, shortened.
        value: String,
    },
    /// A key holds a number too large for 64 bits.
    #[error("{file}: {key} does not fit into 64 bits: {value:?}")]
    Overflow {
        /// The name of the file.
        file: &'static str,
        /// The key, or what the one value of the file means.
        key: &'static str,
        /// The number, shortened.
        value: String,
    },
    /// A key holds a number the kernel never writes there.
    #[error("{file}: {key} is {value}, outside of {lowest} to {highest}")]
    OutOfRange {
        /// The name of the file.
        file: &'static str,
        /// The key, or what the one value of the file means.
        key: &'static str,
        /// The number.
        value: u64,
        /// The smallest number accepted.
        lowest: u64,
        /// The largest number accepted.
        highest: u64,
    },
    /// The text goes on where it should have ended.
    #[error("{file}: unexpected text after {key}: {value:?}")]
    Malformed {
        /// The name of the file.
        file: &'static str,
        /// The last key that was expected.
        key: &'static str,
        /// The whole line, shortened.
        value: String,
    },
    /// A text is no quantity.
    #[error("the quantity {value:?} {fault}")]
    Quantity {
        /// The text, shortened.
        value: String,
        /// What is wrong with it.
        fault: QuantityFault,
    },
    /// A quantity of CPU is larger than any machine.
    #[error("{cores} cores are above the largest CPU accepted, {}", Millicores::LIMIT)]
    TooMuchCpu {
        /// The number of cores asked for.
        cores: Quantity,
    },
}

/// Why a text is no quantity. Each reads on from "the quantity such-and-such".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityFault {
    /// There is no text.
    #[error("is empty")]
    Empty,
    /// There is white space before, in or after the number.
    #[error("contains white space")]
    Space,
    /// There is a minus sign in front.
    #[error("is negative")]
    Negative,
    /// There is no digit in front of the suffix.
    #[error("has no digits")]
    NoDigits,
    /// What follows the number is neither an exponent nor a suffix.
    #[error("has an unknown suffix")]
    Suffix,
    /// The exponent has no digits, or is beyond the accepted range.
    #[error("has an exponent outside of -999 to 999")]
    Exponent,
    /// The number is larger than the bound of a quantity.
    #[error("is above the largest accepted, 9223372036854775807")]
    TooLarge,
}

/// The start of `text`, fit to be shown: at most 32 characters and three dots.
pub(super) fn excerpt(text: &[u8]) -> String {
    const SHOWN_CHARS: usize = 32;
    // A character takes at most four bytes, so this much holds all that can be shown and one more.
    let start = text.get(..4 * (SHOWN_CHARS + 1)).unwrap_or(text);
    let decoded = String::from_utf8_lossy(start);
    match decoded.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => decoded.get(..end).unwrap_or_default().to_owned() + "...",
        None => decoded.into_owned(),
    }
}
