//! The quantities every decision is made of, each its own type, so that no function takes two bare
//! numbers side by side.
//!
//! All of them are integers: the same input gives the same output on every machine. Rounding is
//! named (`_floor`, `_ceil`, `_nearest`), products are formed in 128 bits, and sums saturate. The
//! edge of the system refuses any CPU figure above [`Millicores::LIMIT`], so a saturated sum can
//! only mean "more than any machine has" and never wraps into a small one.

use core::fmt;
use core::iter::Sum;
use core::num::NonZeroU32;
use core::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

mod name;
mod resources;

pub use name::{FamilyKey, VmName, WorkloadUid};
pub use resources::{ComputeUnit, Resource, Resources};

/// CPU in thousandths of a core.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millicores(u64);

/// Memory in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

/// A point in time on the caller's clock, in microseconds since an origin the caller chose.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(u64);

/// A length of time, in microseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(u64);

/// A bargaining weight in thousandths; never zero. The neutral weight is [`Weight::ONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weight(NonZeroU32);

/// A non-negative ratio in millionths. May exceed one: a price or a throttle ratio does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ratio(u64);

// === impl Millicores ===

impl Millicores {
    /// No CPU at all.
    pub const ZERO: Self = Self(0);
    /// What stands for no limit at all: more than any node has, and what Kubernetes can be told
    /// where a limit cannot be taken away.
    pub const UNLIMITED: Self = Self(1_024_000);
    /// The largest CPU figure accepted from outside: a million cores.
    pub const LIMIT: Self = Self(1_000_000_000);

    /// `milli` thousandths of a core.
    #[must_use]
    pub const fn new(milli: u64) -> Self {
        Self(milli)
    }

    /// `cores` whole cores.
    #[must_use]
    pub const fn from_cores(cores: u32) -> Self {
        Self(cores as u64 * 1000)
    }

    /// The number of thousandths of a core.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether, as a limit, it stands for none.
    #[must_use]
    pub const fn is_unlimited(self) -> bool {
        self.0 >= Self::UNLIMITED.0
    }

    /// The sum, unless it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// What is left after `other` is taken away; nothing if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The distance between the two, whichever is larger.
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// `self * ratio`, rounded down.
    #[must_use]
    pub fn scale_floor(self, ratio: Ratio) -> Self {
        Self(mul_div_floor(self.0, ratio.0, Ratio::ONE.0))
    }

    /// `self * ratio`, rounded up.
    #[must_use]
    pub fn scale_ceil(self, ratio: Ratio) -> Self {
        Self(mul_div_ceil(self.0, ratio.0, Ratio::ONE.0))
    }

    /// `self * part / whole`, rounded down; zero where `whole` is zero.
    #[must_use]
    pub fn share_floor(self, part: Self, whole: Self) -> Self {
        Self(mul_div_floor(self.0, part.0, whole.0))
    }

    /// `self / whole` as a ratio, rounded to the nearest millionth; zero where `whole` is zero.
    #[must_use]
    pub fn ratio_of(self, whole: Self) -> Ratio {
        Ratio::of(self.0, whole.0)
    }

    /// Down to a multiple of `step`; unchanged where `step` is zero.
    #[must_use]
    pub const fn round_down_to(self, step: Self) -> Self {
        if step.0 == 0 { self } else { Self(self.0 - self.0 % step.0) }
    }

    /// Up to a multiple of `step`; unchanged where `step` is zero.
    #[must_use]
    pub const fn round_up_to(self, step: Self) -> Self {
        match self.0.checked_next_multiple_of(step.0) {
            Some(multiple) => Self(multiple),
            None => self,
        }
    }
}

impl Add for Millicores {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Millicores {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Millicores {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Millicores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&alloc::format!("{}m", self.0))
    }
}

// === impl Bytes ===

impl Bytes {
    /// No memory at all.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What is left after `other` is taken away; nothing if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self * ratio`, rounded down.
    #[must_use]
    pub fn scale_floor(self, ratio: Ratio) -> Self {
        Self(mul_div_floor(self.0, ratio.0, Ratio::ONE.0))
    }

    /// With the largest unit that leaves no rest.
    #[must_use]
    pub fn in_words(self) -> alloc::string::String {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(bits, _)| self.0 > 0 && self.0.trailing_zeros() >= *bits) {
            Some((bits, unit)) => alloc::format!("{} {unit}", self.0 >> bits),
            None => alloc::format!("{} B", self.0),
        }
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

// === impl Moment ===

impl Moment {
    /// The origin of the caller's clock.
    pub const ORIGIN: Self = Self(0);

    /// `ms` milliseconds after the origin; the end of time where that does not fit.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1000))
    }

    /// `us` microseconds after the origin.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us)
    }

    /// Whole milliseconds since the origin, rounded down.
    #[must_use]
    pub const fn as_ms_floor(self) -> u64 {
        self.0 / 1000
    }

    /// The time from `earlier` to `self`; zero if `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Moment {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

// === impl Span ===

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1000))
    }

    /// `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us)
    }

    /// `s` seconds.
    #[must_use]
    pub const fn from_s(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }

    /// The number of microseconds.
    #[must_use]
    pub const fn as_us(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_ms_floor(self) -> u64 {
        self.0 / 1000
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.as_ms_floor();
        match (ms / 1000, ms % 1000) {
            (0, ms) => write!(f, "{ms} ms"),
            (s, 0) => write!(f, "{s} s"),
            (s, ms) => write!(f, "{s}.{:03} s", ms),
        }
    }
}

// === impl Weight ===

impl Weight {
    /// The neutral weight.
    pub const ONE: Self = Self(NonZeroU32::new(1000).unwrap());
    /// The largest weight accepted from outside, in thousandths: a million times the neutral one.
    pub const LIMIT_THOUSANDTHS: u32 = 1_000_000_000;

    /// `thousandths` of the neutral weight, unless that is zero or above the limit.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths > Self::LIMIT_THOUSANDTHS {
            return None;
        }
        match NonZeroU32::new(thousandths) {
            Some(weight) => Some(Self(weight)),
            None => None,
        }
    }

    /// The number of thousandths of the neutral weight.
    #[must_use]
    pub const fn thousandths(self) -> u32 {
        self.0.get()
    }

    /// `self * ratio`, rounded to the nearest thousandth and kept within the accepted range.
    #[must_use]
    pub fn scale_nearest(self, ratio: Ratio) -> Self {
        let scaled = mul_div_nearest(u64::from(self.0.get()), ratio.0, Ratio::ONE.0);
        let kept = u32::try_from(scaled).unwrap_or(u32::MAX).clamp(1, Self::LIMIT_THOUSANDTHS);
        Self(NonZeroU32::new(kept).expect("clamped to at least one"))
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_thousandths(f, u64::from(self.0.get()))
    }
}

// === impl Ratio ===

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The whole.
    pub const ONE: Self = Self(1_000_000);
    /// More than anything that is compared with it.
    pub const MAX: Self = Self(u64::MAX);

    /// `millionths` of one.
    #[must_use]
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// `percent` hundredths of one.
    #[must_use]
    pub const fn from_percent(percent: u32) -> Self {
        Self(percent as u64 * 10_000)
    }

    /// `part / whole`, rounded to the nearest millionth; zero where `whole` is zero.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Self {
        Self(mul_div_nearest(part, Self::ONE.0, whole))
    }

    /// The number of millionths.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// At most one.
    #[must_use]
    pub const fn at_most_one(self) -> Self {
        if self.0 > Self::ONE.0 { Self::ONE } else { self }
    }

    /// What is missing to one; zero where nothing is.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(Self::ONE.0.saturating_sub(self.0))
    }

    /// The product, rounded down to a millionth.
    #[must_use]
    pub fn times_floor(self, other: Self) -> Self {
        Self(mul_div_floor(self.0, other.0, Self::ONE.0))
    }

    /// The quotient, rounded to the nearest millionth; zero where `other` is zero.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        Self::of(self.0, other.0)
    }

    /// The difference; zero where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The nearest number a program outside can hold. For display and learning only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a display value; exact up to 2^53 millionths")]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add for Ratio {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_thousandths(f, self.0.saturating_add(500) / 1000)
    }
}

// === Arithmetic shared by the units ===

/// `a * b / c`, rounded down; zero where `c` is zero, the largest value where it does not fit.
fn mul_div_floor(a: u64, b: u64, c: u64) -> u64 {
    wide_div(u128::from(a) * u128::from(b), c)
}

/// `a * b / c`, rounded up; zero where `c` is zero, the largest value where it does not fit.
fn mul_div_ceil(a: u64, b: u64, c: u64) -> u64 {
    wide_div(u128::from(a) * u128::from(b) + u128::from(c.saturating_sub(1)), c)
}

/// `a * b / c`, rounded to the nearest, halves up; as above at the edges.
fn mul_div_nearest(a: u64, b: u64, c: u64) -> u64 {
    wide_div(u128::from(a) * u128::from(b) + u128::from(c / 2), c)
}

fn wide_div(dividend: u128, divisor: u64) -> u64 {
    match (u64::try_from(dividend), divisor) {
        (_, 0) => 0,
        // The common case by far, and many times cheaper than a 128-bit division.
        (Ok(dividend), divisor) => dividend / divisor,
        (Err(_), divisor) => u64::try_from(dividend / u128::from(divisor)).unwrap_or(u64::MAX),
    }
}

fn write_thousandths(f: &mut fmt::Formatter<'_>, thousandths: u64) -> fmt::Result {
    let (whole, mut rest) = (thousandths / 1000, thousandths % 1000);
    if rest == 0 {
        return write!(f, "{whole}");
    }
    let mut digits = 3;
    while rest % 10 == 0 {
        rest /= 10;
        digits -= 1;
    }
    write!(f, "{whole}.{rest:0digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn rounding_goes_where_its_name_says() {
        let three = Millicores::new(3);
        let half = Ratio::from_percent(50);
        assert_eq!(three.scale_floor(half), Millicores::new(1));
        assert_eq!(three.scale_ceil(half), Millicores::new(2));
        assert_eq!(Millicores::new(994).round_down_to(Millicores::new(10)).get(), 990);
        assert_eq!(Millicores::new(991).round_up_to(Millicores::new(10)).get(), 1000);
        assert_eq!(Millicores::new(7).round_up_to(Millicores::ZERO).get(), 7);
        assert_eq!(Ratio::of(1, 3).millionths(), 333_333);
        assert_eq!(Ratio::of(2, 3).millionths(), 666_667);
    }

    #[test]
    fn a_zero_whole_gives_zero_and_a_huge_product_saturates() {
        assert_eq!(Millicores::new(5).ratio_of(Millicores::ZERO), Ratio::ZERO);
        assert_eq!(Millicores::new(u64::MAX).scale_floor(Ratio::from_percent(200)).get(), u64::MAX);
        assert_eq!((Millicores::new(u64::MAX) + Millicores::new(1)).get(), u64::MAX);
        assert_eq!(Millicores::new(u64::MAX).checked_add(Millicores::new(1)), None);
        assert_eq!(Moment::from_ms(1).since(Moment::from_ms(2)), Span::ZERO);
        assert_eq!(Moment::from_ms(u64::MAX) + Span::from_s(1), Moment::from_us(u64::MAX));
    }

    #[test]
    fn a_weight_is_never_zero() {
        assert_eq!(Weight::from_thousandths(0), None);
        assert_eq!(Weight::from_thousandths(u32::MAX), None);
        assert_eq!(Weight::ONE.scale_nearest(Ratio::ZERO).thousandths(), 1);
        assert_eq!(Weight::ONE.scale_nearest(Ratio::from_percent(120)).thousandths(), 1200);
    }

    #[test]
    fn units_print_as_people_write_them() {
        assert_eq!(Millicores::new(250).to_string(), "250m");
        assert_eq!(Weight::ONE.to_string(), "1");
        assert_eq!(Weight::from_thousandths(1250).unwrap().to_string(), "1.25");
        assert_eq!(Ratio::from_millionths(66_667).to_string(), "0.067");
        assert_eq!(Span::from_ms(200).to_string(), "200 ms");
        assert_eq!(Span::from_s(15).to_string(), "15 s");
    }
}
