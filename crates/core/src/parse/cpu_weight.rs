//! The weight of a cgroup among its siblings: `cpu.weight` of the second version, `cpu.shares` of
//! the first.
//!
//! The two scales are different, so they are different types. One becomes the other in proportion
//! to the kernel's defaults, 100 and 1024, so that proportions among siblings stay what they were.
//! A value of either type is always within the range the kernel accepts.

use super::error::ParseError;
use super::field::only_value;

/// A weight on the scale of the second version, 1 to 10000; 100 is the kernel's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuWeight(u32);

/// A weight on the scale of the first version, 2 to 262144; 1024 is the kernel's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuShares(u32);

/// What a group has on either scale if nothing is set.
const DEFAULT_WEIGHT: u32 = 100;
const DEFAULT_SHARES: u32 = 1024;

/// `cpu.weight`. The kernel shows a zero for a cgroup with `cpu.idle` set; that is no weight, and
/// refused as out of range.
///
/// # Errors
///
/// Where the number is missing, none, or outside of the scale.
pub fn cpu_weight(text: &[u8]) -> Result<CpuWeight, ParseError> {
    within_u32("cpu.weight", text, CpuWeight::MIN.0, CpuWeight::MAX.0).map(CpuWeight)
}

/// `cpu.shares`.
///
/// # Errors
///
/// Where the number is missing, none, or outside of the scale.
pub fn cpu_shares(text: &[u8]) -> Result<CpuShares, ParseError> {
    within_u32("cpu.shares", text, CpuShares::MIN.0, CpuShares::MAX.0).map(CpuShares)
}

fn within_u32(
    file: &'static str,
    text: &[u8],
    lowest: u32,
    highest: u32,
) -> Result<u32, ParseError> {
    let value = only_value(file, text).number_within(u64::from(lowest), u64::from(highest))?;
    Ok(u32::try_from(value).expect("the highest accepted value is a u32"))
}

// === impl CpuWeight ===

impl CpuWeight {
    /// The smallest weight.
    pub const MIN: Self = Self(1);
    /// The largest weight.
    pub const MAX: Self = Self(10_000);

    /// `weight`, unless it is outside of the scale.
    #[must_use]
    pub const fn new(weight: u32) -> Option<Self> {
        if weight < Self::MIN.0 || weight > Self::MAX.0 { None } else { Some(Self(weight)) }
    }

    /// The weight that means the same as `shares`, rounded to the nearest and kept on the scale.
    #[must_use]
    pub fn from_shares_nearest(shares: CpuShares) -> Self {
        let nearest = (shares.0 * DEFAULT_WEIGHT + DEFAULT_SHARES / 2) / DEFAULT_SHARES;
        Self(nearest.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// The number as the kernel writes it.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

// === impl CpuShares ===

impl CpuShares {
    /// The smallest number of shares.
    pub const MIN: Self = Self(2);
    /// The largest number of shares.
    pub const MAX: Self = Self(262_144);

    /// `shares`, unless they are outside of the scale.
    #[must_use]
    pub const fn new(shares: u32) -> Option<Self> {
        if shares < Self::MIN.0 || shares > Self::MAX.0 { None } else { Some(Self(shares)) }
    }

    /// The shares that mean the same as `weight`, rounded to the nearest.
    #[must_use]
    pub fn from_weight_nearest(weight: CpuWeight) -> Self {
        let nearest = (weight.0 * DEFAULT_SHARES + DEFAULT_WEIGHT / 2) / DEFAULT_WEIGHT;
        Self(nearest.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// The number as the kernel writes it.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_shares_keep_their_proportions() {
        for (weight, shares) in [(1, 10), (39, 399), (100, 1024), (150, 1536), (10_000, 102_400)] {
            let (weight, shares) =
                (CpuWeight::new(weight).unwrap(), CpuShares::new(shares).unwrap());
            assert_eq!(CpuShares::from_weight_nearest(weight), shares);
            assert_eq!(CpuWeight::from_shares_nearest(shares), weight);
        }
        assert_eq!(CpuWeight::from_shares_nearest(CpuShares::MIN), CpuWeight::MIN);
        assert_eq!(CpuWeight::from_shares_nearest(CpuShares::MAX), CpuWeight::MAX);
    }
}
