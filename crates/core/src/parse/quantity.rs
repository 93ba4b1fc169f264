//! Kubernetes quantities (`500m`, `1.5`, `2Gi`, `1e3`), exactly and without floating point.
//!
//! The API client reads CPU and memory requests with [`quantity`] and writes CPU with
//! [`format_millicores`]. A quantity is a whole number of billionths; what is finer is rounded up,
//! as Kubernetes does, so that who asks for something never gets nothing. It is at most
//! [`Quantity::MAX`]: what is larger is refused, where Kubernetes caps it.
//!
//! Beyond what Kubernetes reads, an exponent may be followed by a suffix: `2e3m` is 2. As there,
//! an `E` before digits is an exponent and otherwise a suffix: `1E3` is 1000, `1E` is 10^18.

use alloc::string::{String, ToString};
use core::fmt;
use core::iter::Chain;
use core::slice::Iter;

use super::error::{ParseError, QuantityFault, excerpt};
use crate::units::{Bytes, Millicores};

/// An amount of something, exact to a billionth of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: u128,
}

/// The largest exponent accepted, in either direction. It is far beyond what can be represented
/// and bounds the work that a short text can ask for.
const MAX_EXPONENT: i64 = 999;

/// The decimal suffixes from a billionth upwards, each a thousand times the one before.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// A text taken apart: `whole.fraction * 10^exponent * 2^doublings` billionths.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
    doublings: u32,
}

/// Reads a quantity.
///
/// A number (digits with at most one dot before, among or after them, and perhaps a plus sign in
/// front), perhaps an exponent of -999 to 999, and perhaps one of the suffixes `n u m k M G T P E
/// Ki Mi Gi Ti Pi Ei`. A minus sign is refused even in front of a zero.
///
/// # Errors
///
/// Where the text is anything else, or the quantity is above [`Quantity::MAX`].
pub fn quantity(text: &[u8]) -> Result<Quantity, ParseError> {
    take_apart(text)
        .and_then(Parts::nanos_ceil)
        .map(|nanos| Quantity { nanos })
        .map_err(|fault| ParseError::Quantity { value: excerpt(text), fault })
}

/// `cpu` as Kubernetes itself writes it: 1500 is "1500m", 2000 is "2", 3000000 is "3k".
#[must_use]
pub fn format_millicores(cpu: Millicores) -> String {
    Quantity::from(cpu).to_string()
}

fn take_apart(text: &[u8]) -> Result<Parts<'_>, QuantityFault> {
    if text.is_empty() {
        return Err(QuantityFault::Empty);
    }
    if text.iter().any(u8::is_ascii_whitespace) {
        return Err(QuantityFault::Space);
    }
    if text.starts_with(b"-") {
        return Err(QuantityFault::Negative);
    }
    let (whole, rest) = split_digits(text.strip_prefix(b"+").unwrap_or(text));
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => split_digits(rest),
        None => rest.split_at(0),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(QuantityFault::NoDigits);
    }
    let (exponent, suffix) = split_exponent(rest)?;
    let (thousands, doublings) = match suffix {
        b"n" => (-3, 0),
        b"u" => (-2, 0),
        b"m" => (-1, 0),
        b"" => (0, 0),
        b"k" => (1, 0),
        b"M" => (2, 0),
        b"G" => (3, 0),
        b"T" => (4, 0),
        b"P" => (5, 0),
        b"E" => (6, 0),
        b"Ki" => (0, 10),
        b"Mi" => (0, 20),
        b"Gi" => (0, 30),
        b"Ti" => (0, 40),
        b"Pi" => (0, 50),
        b"Ei" => (0, 60),
        _ => return Err(QuantityFault::Suffix),
    };
    Ok(Parts { whole, fraction, exponent: exponent + 3 * thousands + 9, doublings })
}

/// The exponent at the start of `text`, zero where there is none, and the rest.
fn split_exponent(text: &[u8]) -> Result<(i64, &[u8]), QuantityFault> {
    let Some(signed) = text.strip_prefix(b"e").or_else(|| text.strip_prefix(b"E")) else {
        return Ok((0, text));
    };
    let (sign, unsigned) = match signed {
        [b'-', unsigned @ ..] => (-1, unsigned),
        [b'+', unsigned @ ..] => (1, unsigned),
        unsigned => (1, unsigned),
    };
    let (digits, rest) = split_digits(unsigned);
    if digits.is_empty() {
        // A sign makes it an exponent without digits; otherwise it is a suffix, known or not.
        let has_sign = signed.len() > unsigned.len();
        return if has_sign { Err(QuantityFault::Exponent) } else { Ok((0, text)) };
    }
    let size = digits.iter().fold(0_i64, |size, &digit| {
        // It stops growing where it is too large anyway, so that it cannot overflow.
        (size * 10 + i64::from(digit.wrapping_sub(b'0'))).min(MAX_EXPONENT + 1)
    });
    if size > MAX_EXPONENT { Err(QuantityFault::Exponent) } else { Ok((sign * size, rest)) }
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn split_zeros(digits: &[u8]) -> (&[u8], &[u8]) {
    digits.split_at(digits.iter().position(|&digit| digit != b'0').unwrap_or(digits.len()))
}

// === impl Quantity ===

impl Quantity {
    /// The largest quantity accepted, 2^63 - 1, which is also where Kubernetes stops counting
    /// memory. Every quantity therefore fits into [`Bytes`].
    pub const MAX: Self = Self { nanos: ((1 << 63) - 1) * Self::NANOS_PER_UNIT };

    const NANOS_PER_UNIT: u128 = 1_000_000_000;
    const NANOS_PER_MILLI: u128 = 1_000_000;

    /// The number of billionths.
    #[must_use]
    pub const fn nanos(self) -> u128 {
        self.nanos
    }

    /// As CPU, rounded up to a thousandth of a core.
    ///
    /// # Errors
    ///
    /// Where it is above [`Millicores::LIMIT`].
    pub fn millicores_ceil(self) -> Result<Millicores, ParseError> {
        let milli = u64::try_from(self.nanos.div_ceil(Self::NANOS_PER_MILLI)).ok();
        milli
            .map(Millicores::new)
            .filter(|&cpu| cpu <= Millicores::LIMIT)
            .ok_or(ParseError::TooMuchCpu { cores: self })
    }

    /// As CPU; nothing where it is no whole number of thousandths of a core, or above
    /// [`Millicores::LIMIT`].
    #[must_use]
    pub fn millicores_exact(self) -> Option<Millicores> {
        let is_exact = self.nanos.is_multiple_of(Self::NANOS_PER_MILLI);
        is_exact.then(|| self.millicores_ceil().ok()).flatten()
    }

    /// As memory, rounded up to a byte.
    #[must_use]
    pub fn bytes_ceil(self) -> Bytes {
        // A quantity is at most 2^63 - 1, so the sum fits.
        Bytes::new(self.units_floor() + u64::from(!self.nanos.is_multiple_of(Self::NANOS_PER_UNIT)))
    }

    /// As memory; nothing where it is no whole number of bytes.
    #[must_use]
    pub fn bytes_exact(self) -> Option<Bytes> {
        self.nanos.is_multiple_of(Self::NANOS_PER_UNIT).then(|| self.bytes_ceil())
    }

    fn units_floor(self) -> u64 {
        u64::try_from(self.nanos / Self::NANOS_PER_UNIT).expect("a quantity is below 2^63")
    }
}

impl From<Millicores> for Quantity {
    fn from(cpu: Millicores) -> Self {
        // 2^64 thousandths are below the largest quantity.
        Self { nanos: u128::from(cpu.get()) * Self::NANOS_PER_MILLI }
    }
}

/// The canonical text: no fraction, and the largest decimal suffix that allows it.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.pad("0");
        }
        let mut count = self.nanos;
        let mut suffixes = DECIMAL_SUFFIXES.iter();
        let mut suffix = suffixes.next();
        while count.is_multiple_of(1000)
            && let Some(larger) = suffixes.next()
        {
            count /= 1000;
            suffix = Some(larger);
        }
        f.pad(&alloc::format!("{count}{}", suffix.copied().unwrap_or_default()))
    }
}

// === impl Parts ===

impl Parts<'_> {
    /// The value, rounded up to a whole number.
    fn nanos_ceil(self) -> Result<u128, QuantityFault> {
        // More places in front of the point than this, and the first digit alone is too large.
        const MOST_PLACES: i64 = 28;
        // More zeros behind the point than this, and no suffix lifts the value above a billionth.
        const MOST_ZEROS: i64 = 20;
        let (_, whole) = split_zeros(self.whole);
        // Zeros behind the point matter only where nothing is in front of it.
        let (zeros, fraction) =
            if whole.is_empty() { split_zeros(self.fraction) } else { self.fraction.split_at(0) };
        if whole.is_empty() && fraction.is_empty() {
            return Ok(0);
        }
        let places = (place_count(whole) - place_count(zeros)).saturating_add(self.exponent);
        if places > MOST_PLACES {
            return Err(QuantityFault::TooLarge);
        }
        if places < -MOST_ZEROS {
            return Ok(1);
        }
        let mut digits = whole.iter().chain(fraction);
        let mut integer = 0_u128;
        for _ in 0..places {
            integer = integer * 10 + digits.next().map_or(0, |&digit| u128::from(value_of(digit)));
        }
        let rest = self.rest_ceil(digits, -places);
        integer
            .checked_mul(1 << self.doublings)
            .and_then(|nanos| nanos.checked_add(u128::from(rest)))
            .filter(|&nanos| nanos <= Quantity::MAX.nanos)
            .ok_or(QuantityFault::TooLarge)
    }

    /// What `zeros` zeros and then `digits` are worth behind the point, after the doublings.
    ///
    /// It goes from the last digit to the first, `sum = (digit * 2^doublings + sum) / 10`, rounded
    /// up each time. Rounding an addend up first changes nothing where the other addend is whole,
    /// so the result is the exact value rounded up once. The sum never exceeds 2^doublings.
    fn rest_ceil(&self, digits: Chain<Iter<'_, u8>, Iter<'_, u8>>, zeros: i64) -> u64 {
        let behind = digits.rev().fold(0_u64, |sum, &digit| {
            ((u64::from(value_of(digit)) << self.doublings) + sum).div_ceil(10)
        });
        (0..zeros).fold(behind, |sum, _| sum.div_ceil(10))
    }
}

fn place_count(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).expect("a slice is shorter than 2^63")
}

fn value_of(digit: u8) -> u8 {
    digit.wrapping_sub(b'0')
}
